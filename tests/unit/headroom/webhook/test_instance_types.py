"""VirtualMachines with an instance type or a preference: what KubeVirt would run counts; what cannot be read starts nothing."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from tests.unit.headroom.builders import TEAM, Json, instance, machine
from tests.unit.headroom.scene import INSTANCES, KUBEVIRT, VIRTUAL_MACHINES, Scene, merged, simulated
from ullage.headroom.settings import Settings
from ullage.kube.builtin.apps import CONTROLLER_REVISIONS
from ullage.kube.kinds import Kind
from ullage.kube.review import Decision
from ullage.quantity import Quantity
from ullage.vms.api.instance_types import (
    CLUSTER_INSTANCE_TYPES,
    CLUSTER_PREFERENCES,
    GROUP,
    INSTANCE_TYPES,
    PREFERENCES,
)
from ullage.vms.pricing import PricingChoice

SHARE = {"cpu": "2", "memory": "4Gi"}
EMPTY: Json = {"devices": {}}


def kind_of(cpus: int, memory: str, **more: Any) -> Json:
    return {"cpu": {"guest": cpus, **more}, "memory": {"guest": memory}}


SMALL, HUGE = kind_of(1, "2Gi"), kind_of(8, "32Gi")


def put(scene: Scene, kind: Kind[Any], name: str, spec: Json) -> None:
    place = {"namespace": TEAM} if kind.namespaced else {}
    scene.store(kind, {"metadata": {"name": name, **place}, "spec": spec})


def revision(scene: Scene, name: str, of: str, data: Any) -> None:
    labels = {f"{GROUP}/object-name": of}
    scene.store(CONTROLLER_REVISIONS, {"metadata": {"name": name, "namespace": TEAM, "labels": labels}, "data": data})


def copy_of(kind: Kind[Any], spec: Json) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"creationTimestamp": None}, "spec": spec}


def typed(
    vm: str = "db", *, strategy: str = "Always", matcher: Json | None = None, preference: Json | None = None, **status: Any
) -> Json:
    """A VM whose CPU and memory come from an instance type."""
    spec = {"instancetype": matcher or {"name": "u1"}, **({"preference": preference} if preference else {})}
    return merged(machine(vm, strategy=strategy, template=EMPTY), {"spec": spec, "status": status})


def held(revision_name: str, *, name: str = "u1", kind: str = "") -> Json:
    """What KubeVirt says of the copy that it took."""
    return {"name": name, "kind": kind, "controllerRevisionRef": {"name": revision_name}}


def cost(scene: Scene, vm: str = "db") -> Json:
    found: Json = scene.marks(VIRTUAL_MACHINES, vm)["cost"]
    return found


@simulated
async def test_a_vm_whose_instance_type_is_larger_than_the_share_is_refused_with_the_numbers(scene: Scene) -> None:
    scene.limits(vms=SHARE)
    put(scene, CLUSTER_INSTANCE_TYPES, "u1.2xlarge", HUGE)
    put(scene, CLUSTER_INSTANCE_TYPES, "u1", SMALL)
    async with scene.served():
        decided = await scene.submit(VIRTUAL_MACHINES, typed(matcher={"name": "u1.2xlarge"}))
        assert (await scene.submit(VIRTUAL_MACHINES, typed())).allowed
    assert (decided.code, decided.reason) == (403, "Forbidden")
    assert decided.message.startswith("VM available resources are insufficient: cpu: asked 8 cores")
    assert "share 2 cores; memory: asked 32" in decided.message
    assert "share 4Gi" in decided.message


NAMESPACED = {"name": "u1", "kind": "VirtualMachineInstancetype"}


@pytest.mark.parametrize(
    ("matcher", "status", "cpus"),
    [
        pytest.param({"name": "u1"}, {}, 1, id="the cluster's where no kind is said"),
        pytest.param({"name": "u1", "kind": "VirtualMachineClusterInstancetype"}, {}, 1, id="the cluster's"),
        pytest.param({"name": "u1", "kind": "virtualmachineclusterinstancetypes"}, {}, 1, id="the cluster's, in the plural"),
        pytest.param(NAMESPACED, {}, 2, id="the namespace's"),
        pytest.param({"name": "u1", "kind": "virtualmachineinstancetype"}, {}, 2, id="the namespace's, in small letters"),
        pytest.param({"name": "u1", "revisionName": "four"}, {}, 4, id="the revision that the VM names"),
        pytest.param({"name": "u1"}, {"instancetypeRef": held("four")}, 4, id="the revision that KubeVirt took"),
        pytest.param(
            {"name": "u1", "revisionName": "eight"}, {"instancetypeRef": held("four")}, 8, id="the VM's own revision before it"
        ),
        pytest.param(NAMESPACED, {"instancetypeRef": held("four")}, 2, id="no revision of another kind"),
        pytest.param({"name": "u2"}, {"instancetypeRef": held("four")}, 3, id="no revision of another name"),
        pytest.param(
            {"name": "u2"}, {"instancetypeRef": held("four", name="u2")}, 3, id="no revision that is labelled otherwise"
        ),
        pytest.param({"name": "u1"}, {"instancetypeRef": held("gone")}, 1, id="no revision that is gone"),
        pytest.param({"name": "u1", "revisionName": "old"}, {}, 5, id="a revision of KubeVirt v0.5x"),
    ],
)
@simulated
async def test_what_kubevirt_would_run_is_what_counts(scene: Scene, matcher: Json, status: Json, cpus: int) -> None:
    put(scene, CLUSTER_INSTANCE_TYPES, "u1", kind_of(1, "1Gi"))
    put(scene, INSTANCE_TYPES, "u1", kind_of(2, "1Gi"))
    put(scene, CLUSTER_INSTANCE_TYPES, "u2", kind_of(3, "1Gi"))
    revision(scene, "four", "u1", copy_of(CLUSTER_INSTANCE_TYPES, kind_of(4, "1Gi")))
    revision(scene, "eight", "u1", copy_of(INSTANCE_TYPES, kind_of(8, "1Gi")))
    old = base64.b64encode(msgspec.json.encode(kind_of(5, "1Gi"))).decode()
    revision(scene, "old", "u1", {"apiVersion": "instancetype.kubevirt.io/v1alpha1", "spec": old})
    async with scene.served():
        scene.store(VIRTUAL_MACHINES, merged(machine(strategy="Halted"), {"status": status}))
        assert (await scene.submit(VIRTUAL_MACHINES, merged(typed(matcher=matcher), {"status": status}))).allowed
    assert cost(scene)["cpu"] == str(cpus)


@simulated
async def test_a_preference_counts_with_its_devices_and_in_its_namespace_or_the_cluster(scene: Scene) -> None:
    scene.settings = Settings(pricing=PricingChoice(version="v1.6"))
    put(scene, CLUSTER_INSTANCE_TYPES, "u1", kind_of(4, "1Gi"))
    put(scene, CLUSTER_PREFERENCES, "plain", {"devices": {"preferredAutoattachGraphicsDevice": False}})
    put(scene, PREFERENCES, "tpm", {"devices": {"preferredTPM": {}}, "cpu": {"preferredCPUTopology": "cores"}})
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, typed("none"))).allowed
        assert (await scene.submit(VIRTUAL_MACHINES, typed("plain", preference={"name": "plain"}))).allowed
        tpm = {"name": "tpm", "kind": "VirtualMachinePreference"}
        assert (await scene.submit(VIRTUAL_MACHINES, typed("tpm", preference=tpm))).allowed
        assert not (await scene.submit(VIRTUAL_MACHINES, typed("other", preference={"name": "tpm"}))).allowed, "of the cluster"
    memory = [Quantity.parse(cost(scene, name)["memory"]).value() for name in ("plain", "none", "tpm")]
    assert memory[0] < memory[1] < memory[2]
    assert {cost(scene, name)["cpu"] for name in ("none", "plain", "tpm")} == {"4015m"}


# --- changes after the VM was admitted -------------------------------------------------------------------------------


@simulated
async def test_another_instance_type_is_another_cost_whoever_writes_it_and_starts_only_where_it_fits(scene: Scene) -> None:
    scene.limits(vms=SHARE)
    put(scene, CLUSTER_INSTANCE_TYPES, "u1", SMALL)
    put(scene, CLUSTER_INSTANCE_TYPES, "u8", HUGE)
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, typed())).allowed
        for user in ("jane", KUBEVIRT):
            refused = await scene.change(VIRTUAL_MACHINES, "db", spec={"instancetype": {"name": "u8"}}, user=user)
            assert refused.code == 403
            assert "asked 7 cores" in refused.message
        assert (
            await scene.change(VIRTUAL_MACHINES, "db", spec={"runStrategy": "Halted", "instancetype": {"name": "u8"}})
        ).allowed
        assert cost(scene)["cpu"] == "8"
        assert not (await scene.change(VIRTUAL_MACHINES, "db", spec={"runStrategy": "Always"})).allowed


@simulated
async def test_an_instance_type_that_grows_before_kubevirt_took_a_copy_is_paid_by_the_instance_or_refused(scene: Scene) -> None:
    scene.limits(vms=SHARE)
    put(scene, INSTANCE_TYPES, "u1", SMALL)
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, typed(matcher=NAMESPACED))).allowed
        put(scene, INSTANCE_TYPES, "u1", HUGE)
        given = {"cpu": {"sockets": 8}, "memory": {"guest": "32Gi"}}
        decided = await scene.submit(INSTANCES, instance(owner=scene.uid("db"), given=given, phase=""), user=KUBEVIRT)
    assert decided.code == 403
    assert "asked 7 cores" in decided.message


@simulated
async def test_an_instance_type_that_grows_after_kubevirt_took_a_copy_changes_nothing(scene: Scene) -> None:
    scene.limits(vms=SHARE)
    put(scene, INSTANCE_TYPES, "u1", SMALL)
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, typed(matcher=NAMESPACED))).allowed
        before = cost(scene)
        revision(scene, "first", "u1", copy_of(INSTANCE_TYPES, SMALL))
        taken = held("first", kind="VirtualMachineInstancetype")
        assert (await scene.change(VIRTUAL_MACHINES, "db", status={"instancetypeRef": taken}, user=KUBEVIRT)).allowed
        put(scene, INSTANCE_TYPES, "u1", HUGE)
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec={"template": {"spec": {"hostname": "other"}}})).allowed
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec={"runStrategy": "Halted"})).allowed
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec={"runStrategy": "Always"})).allowed
    assert cost(scene) == before


@simulated
async def test_while_a_namespace_is_over_its_quota_a_vm_may_only_get_a_smaller_instance_type(scene: Scene) -> None:
    put(scene, CLUSTER_INSTANCE_TYPES, "u1", SMALL)
    put(scene, CLUSTER_INSTANCE_TYPES, "u4", kind_of(4, "8Gi"))
    put(scene, CLUSTER_INSTANCE_TYPES, "u8", HUGE)
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, typed(matcher={"name": "u4"}))).allowed
        scene.exceeds()
        await scene.seen()
        larger = await scene.change(VIRTUAL_MACHINES, "db", spec={"instancetype": {"name": "u8"}})
        assert larger.code == 403
        assert "exceeds its quota" in larger.message
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec={"instancetype": {"name": "u1"}})).allowed


# --- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matcher", "said"),
    [
        pytest.param(
            {"name": "u9"},
            "spec.instancetype VirtualMachineClusterInstancetype u9: it does not exist. Next: kubectl get"
            " virtualmachineclusterinstancetypes",
            id="the cluster's",
        ),
        pytest.param(
            {"name": "u9", "kind": "VirtualMachineInstancetype"},
            "spec.instancetype VirtualMachineInstancetype u9: it does not exist. Next: kubectl get virtualmachineinstancetypes"
            " -n team",
            id="the namespace's",
        ),
        pytest.param(
            {"name": "u1", "revisionName": "gone"},
            "spec.instancetype.revisionName gone: there is no such ControllerRevision in namespace team. Next: kubectl get"
            " controllerrevisions -n team",
            id="a revision",
        ),
    ],
)
@simulated
async def test_a_vm_that_names_what_is_not_there_starts_nowhere_and_may_be_made_halted(
    scene: Scene, matcher: Json, said: str
) -> None:
    async with scene.served():
        for strategy in ("Always", "Manual", "RerunOnFailure", "Once"):
            decided = await scene.submit(VIRTUAL_MACHINES, typed(strategy=strategy, matcher=matcher))
            assert (decided.code, decided.message) == (422, said)
        made = await scene.submit(VIRTUAL_MACHINES, typed(strategy="Halted", matcher=matcher))
        assert made.allowed
        assert scene.warned == [f"{said}. Until then the VM cannot be started"]
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec={"runStrategy": "Always"})).message == said
        assert (await scene.change(VIRTUAL_MACHINES, "db", metadata={"labels": {"a": "b"}})).allowed


@pytest.mark.parametrize(
    ("matcher", "data", "said"),
    [
        pytest.param({"name": "u1", "kind": "Flavor"}, {}, "VirtualMachineInstancetype or", id="a kind that is not known"),
        pytest.param(
            {"name": "u1", "revisionName": "odd"}, copy_of(PREFERENCES, {}), "has a VirtualMachinePreference", id="kind"
        ),
        pytest.param({"name": "u1", "revisionName": "odd"}, {}, "has no spec", id="a revision of nothing"),
        pytest.param({"name": "u1", "revisionName": "odd"}, {"spec": "%"}, "cannot be read", id="a revision of noise"),
        pytest.param(
            {"name": "u1", "revisionName": "odd"},
            copy_of(INSTANCE_TYPES, {"cpu": {"guest": "many"}}),
            "cannot be read",
            id="a revision with CPUs that are no number",
        ),
        pytest.param(
            {"name": "u1", "revisionName": "odd"},
            copy_of(INSTANCE_TYPES, {"cpu": {"guest": 1}}),
            "memory.guest",
            id="no memory",
        ),
    ],
)
@simulated
async def test_what_cannot_be_read_is_refused_by_its_field(scene: Scene, matcher: Json, data: Json, said: str) -> None:
    put(scene, CLUSTER_INSTANCE_TYPES, "u1", SMALL)
    revision(scene, "odd", "u1", data)
    async with scene.served():
        decided = await scene.submit(VIRTUAL_MACHINES, typed(strategy="Halted", matcher=matcher))
    assert decided.code == 422
    assert said in decided.message
    assert decided.causes[0].field.startswith("spec.instancetype")


@simulated
async def test_a_name_that_kubevirt_infers_from_a_volume_is_waited_for(scene: Scene) -> None:
    """KubeVirt's own webhook writes the name behind ours, and ours is asked again then."""
    put(scene, CLUSTER_INSTANCE_TYPES, "u1", SMALL)
    asked = typed(matcher={"inferFromVolume": "root"})
    async with scene.served():
        for hook in scene.hooks:
            if hook.name == "headroom-machine-stamp":
                assert await hook.answer(scene.review(VIRTUAL_MACHINES, asked)) == Decision.allow()
        decided = await scene.submit(VIRTUAL_MACHINES, asked)
        assert decided.message == (
            "spec.instancetype.inferFromVolume root: KubeVirt has not put the name that it infers in its place."
            " Next: set spec.instancetype.name"
        )
        assert (await scene.submit(VIRTUAL_MACHINES, typed(matcher={"name": "u1"}))).allowed
