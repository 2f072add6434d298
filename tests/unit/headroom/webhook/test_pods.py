"""Pods: which are marked as paid for, what is booked of the others, and what a tenant tries in order not to pay."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.headroom.builders import TEAM
from tests.unit.headroom.scene import KUBEVIRT, OURS, PERSON, Scene, simulated
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.review import Hook, Review
from ullage.ledger.charging.stamps import STAMP

Json = dict[str, Any]
OWNER = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "db", "uid": "u", "controller": True}
ROOM = {"cpu": "2", "memory": "4Gi"}
MARKED: Json = {"annotations": {STAMP: "{}"}, "ownerReferences": [OWNER]}


def pod(name: str = "web", *, cpu: str = "1", **meta: Any) -> Json:
    resources = {"limits": {"cpu": cpu, "memory": "1Gi"}, "requests": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": TEAM, **meta},
        "spec": {"containers": [{"name": "one", "image": "x", "resources": resources}]},
    }


@simulated
async def test_pods_share_the_room_of_vms_and_leave_the_reserve_alone(scene: Scene) -> None:
    scene.limits(vms=ROOM, maintenance=ROOM)
    async with scene.served():
        assert (await scene.submit(WATCHED_PODS, pod(cpu="2"))).allowed
        refused = await scene.submit(WATCHED_PODS, pod("second"))
    assert refused.code == 403
    assert refused.message == (
        "VM available resources are insufficient: cpu: asked 1 core, used 2 cores, pending 0, share 2 cores. Next: ullage usage"
        " -n team, then ullage vm stop NAME -n team, or have the quota raised"
    )


@pytest.mark.parametrize(
    ("user", "meta", "free"),
    [
        pytest.param(KUBEVIRT, {"ownerReferences": [OWNER]}, True, id="KubeVirt's, for an instance"),
        pytest.param(KUBEVIRT, {}, False, id="KubeVirt's, for nobody"),
        pytest.param(PERSON, {"ownerReferences": [OWNER]}, False, id="a tenant's, who says that it is for an instance"),
        pytest.param(PERSON, MARKED, False, id="a tenant's, who forges the mark too"),
        pytest.param(PERSON, {"annotations": {STAMP: "{}"}}, False, id="a tenant's, who forges the mark alone"),
        pytest.param(OURS, {"ownerReferences": [OWNER]}, False, id="our own"),
    ],
)
@simulated
async def test_who_makes_pods_that_are_free(scene: Scene, user: str, meta: Json, free: bool) -> None:
    scene.limits(vms={"cpu": "0", "memory": "0"})
    async with scene.served():
        decided = await scene.submit(WATCHED_PODS, pod(**meta), user=user)
    assert decided.allowed is free
    if free:
        assert scene.marks(WATCHED_PODS, "web") == {"takes": {}}


@simulated
async def test_a_forged_mark_is_taken_off(scene: Scene) -> None:
    async with scene.served():
        assert (await scene.submit(WATCHED_PODS, pod(annotations={STAMP: "{}", "mine": "1"}))).allowed
    assert scene.body(WATCHED_PODS, "web")["metadata"]["annotations"] == {"mine": "1"}


@simulated
async def test_another_webhook_behind_ours_cannot_mark_it(scene: Scene) -> None:
    async with scene.served():
        refused = await scene.submit(WATCHED_PODS, pod(), behind={STAMP: "{}"})
    assert refused.code == 429
    assert refused.message.startswith("metadata.annotations[ullage.io/takes]: it is {}, and Ullage had stamped none")


@pytest.mark.parametrize("subresource", ["", "status"])
@simulated
async def test_nobody_marks_a_pod_later(scene: Scene, subresource: str) -> None:
    scene.store(WATCHED_PODS, pod(ownerReferences=[OWNER]))
    async with scene.served():
        body = pod(ownerReferences=[OWNER], annotations={STAMP: "{}"})
        assert (await scene.submit(WATCHED_PODS, body, subresource=subresource, apart=False)).allowed
    assert STAMP not in scene.body(WATCHED_PODS, "web")["metadata"].get("annotations", {})


@simulated
async def test_we_mark_those_that_were_there_before_us(scene: Scene) -> None:
    scene.limits(vms={"cpu": "0", "memory": "0"})
    scene.store(WATCHED_PODS, pod(ownerReferences=[OWNER]))
    async with scene.served():
        assert (await scene.submit(WATCHED_PODS, pod(**MARKED), user=OURS, apart=False)).allowed
    assert scene.marks(WATCHED_PODS, "web") == {"takes": {}}


@pytest.mark.parametrize(
    ("room", "allowed"), [pytest.param("1", True, id="where there is room"), pytest.param("0", False, id="where there is none")]
)
@simulated
async def test_one_that_is_taken_from_its_instance_has_to_fit(scene: Scene, room: str, allowed: bool) -> None:
    """Nobody would end it with the VM any more: it would run for nothing."""
    scene.limits(vms={"cpu": room, "memory": "4Gi"})
    scene.store(WATCHED_PODS, pod(**MARKED))
    async with scene.served():
        assert (await scene.submit(WATCHED_PODS, pod(annotations={STAMP: "{}"}), apart=False)).allowed is allowed


@pytest.mark.parametrize(
    ("user", "meta", "allowed", "text"),
    [
        pytest.param(PERSON, {}, False, "VM available resources are insufficient: cpu: asked 2 cores", id="growth has to fit"),
        pytest.param(
            PERSON,
            MARKED,
            False,
            "Pod team/web runs VirtualMachineInstance db, which pays for it: its resources are those of the VM."
            " Next: kubectl edit vm db -n team",
            id="one that is paid for does not grow",
        ),
        pytest.param(KUBEVIRT, MARKED, True, "", id="unless KubeVirt says so"),
    ],
)
@simulated
async def test_a_pod_that_is_resized(scene: Scene, user: str, meta: Json, allowed: bool, text: str) -> None:
    scene.limits(vms={"cpu": "2", "memory": "4Gi"})
    scene.store(WATCHED_PODS, pod(**meta))
    async with scene.served():
        decided = await scene.submit(WATCHED_PODS, pod(cpu="3", **meta), user=user, subresource="resize", apart=False)
    assert decided.allowed is allowed
    assert decided.message.startswith(text)


@simulated
async def test_a_pod_that_is_resized_pays_its_growth_alone(scene: Scene) -> None:
    scene.limits(vms={"cpu": "2", "memory": "1Gi"})
    scene.store(WATCHED_PODS, pod())
    async with scene.served():
        assert (await scene.submit(WATCHED_PODS, pod(cpu="2"), subresource="resize", apart=False)).allowed


async def ask(hook: Hook, review: Review) -> int:
    return (await hook.answer(review)).code


@simulated
async def test_the_hooks_that_book_are_for_namespaces_with_a_share_alone(scene: Scene) -> None:
    async with scene.served():
        named = {hook.name: hook for hook in scene.hooks if any("pods" in one.resources for one in hook.targets)}
    assert {name: dict(hook.namespace_labels) for name, hook in named.items()} == {
        "headroom-pod-mark": {},
        "headroom-pod-guard": {},
        "headroom-pod": {"ullage.io/headroom": "on"},
    }
    assert {hook.not_in for hook in named.values()} == {("kube-system", "ullage-system")}
