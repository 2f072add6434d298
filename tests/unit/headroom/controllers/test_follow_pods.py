"""An instance whose pod takes something else than was worked out: it is charged what the pod takes, and a condition says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.headroom.builders import TEAM, UID, Json, instance, machine, made, migration
from tests.unit.headroom.controllers.machine_scene import ComputeScene
from tests.unit.headroom.controllers.test_follow import simulated
from ullage.headroom.controllers.follow_rules import FOLLOWS, followed
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.stamps import COST, STAMP
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.pricing import PricingChoice

WORKED_OUT = {"cpu": "1015m", "memory": "1521714944"}
MORE, LESS = {"cpu": "1215m", "memory": "1585714944"}, {"cpu": "1", "memory": "1394Mi"}


def vms(takes: Json) -> str:
    return json.dumps({"compute/vms": takes}, separators=(",", ":"))


def cost(takes: Json) -> str:
    return json.dumps(takes, separators=(",", ":"))


def pod(limits: Json, *, worked_out: Json | None = WORKED_OUT, name: str = "launcher", free: bool = True) -> Json:
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "db", "uid": "i", "controller": True}
    marks = {**({STAMP: "{}"} if free else {}), **({COST: cost(worked_out)} if worked_out else {})}
    meta = {"name": name, "namespace": TEAM, "uid": name, "ownerReferences": [owner], "annotations": marks}
    containers = [{"name": "compute", "resources": {"limits": limits}}]
    return {"metadata": meta, "spec": {"containers": containers}, "status": {"phase": "Running"}}


def runs(scene: ComputeScene, takes: Json, *, charged: Json = WORKED_OUT, **of_pod: Any) -> None:
    """A VM that runs, charged by the formula, in a pod with these limits."""
    scene.choice = PricingChoice(version="v1.6.0")
    status: Json = {"strategy": "Always", "printable": "Running", "created": True}
    scene.put(VIRTUAL_MACHINES, machine(**status, uid=UID, annotations={STAMP: vms(charged), COST: cost(charged)}))
    body = instance(uid="i", annotations={STAMP: "{}", COST: cost(charged)})
    body["status"] |= {"nodeName": "a", "activePods": {"launcher": "a"}, "conditions": [{"type": "Ready", "status": "True"}]}
    scene.put(INSTANCES, body)
    scene.put(WATCHED_PODS, pod(takes, **of_pod))


@pytest.mark.parametrize("takes", [MORE, LESS], ids=["more", "less"])
def test_the_charge_follows_the_pod(takes: Json) -> None:
    @simulated
    async def run(scene: ComputeScene) -> None:
        runs(scene, takes)
        async with scene.running():
            await scene.until(lambda: FOLLOWS in scene.conditions())
            await scene.quiet()
        assert scene.stamp(VIRTUAL_MACHINES) == vms(takes)
        assert scene.marks(INSTANCES, "db")[COST] == cost(takes)
        assert scene.conditions()["Ready"] == "", "what KubeVirt says stays"
        assert scene.conditions()[FOLLOWS] == (
            f"Pod launcher takes cpu {takes['cpu']}, memory {takes['memory']}, and cpu 1015m, memory 1521714944 was worked out:"
            " the VM is charged what the pod takes"
        )
        assert scene.api.patches(INSTANCES) == 2, "the stamp, the condition, and no more"

    run()


@simulated
async def test_a_pod_that_takes_what_was_worked_out_has_no_condition_and_costs_no_write(scene: ComputeScene) -> None:
    runs(scene, WORKED_OUT)
    async with scene.running():
        await scene.quiet()
    assert FOLLOWS not in scene.conditions()
    assert scene.api.patches(INSTANCES) == scene.api.patches(VIRTUAL_MACHINES) == 0


@simulated
async def test_the_condition_goes_with_the_pod_that_it_was_about(scene: ComputeScene) -> None:
    runs(scene, MORE)
    async with scene.running():
        await scene.until(lambda: FOLLOWS in scene.conditions())
        scene.put(WATCHED_PODS, pod(MORE, worked_out=MORE, name="target"))
        moved = {"nodeName": "b", "activePods": {"launcher": "a", "target": "b"}}
        scene.api.edit(INSTANCES, "db", TEAM, merge={"status": moved})
        await scene.until(lambda: FOLLOWS not in scene.conditions())
    assert scene.stamp(VIRTUAL_MACHINES) == vms(MORE)


@simulated
async def test_a_migration_takes_no_less_than_the_pod_that_runs(scene: ComputeScene) -> None:
    runs(scene, MORE)
    scene.put(MIGRATIONS, migration(phase="Pending"))
    async with scene.running():
        await scene.until(lambda: scene.stamp(MIGRATIONS, "move") == vms(MORE).replace("/vms", "/maintenance"))


@simulated
async def test_by_the_formula_of_the_design_no_charge_follows_a_pod(scene: ComputeScene) -> None:
    runs(scene, MORE)
    scene.choice = PricingChoice(version="seed")
    async with scene.running():
        await scene.quiet()
    assert scene.stamp(VIRTUAL_MACHINES) == vms(WORKED_OUT)


@pytest.mark.parametrize(
    ("free", "status"),
    [
        pytest.param(False, {"activePods": {"launcher": "a"}}, id="a pod that nobody marked"),
        pytest.param(True, {"activePods": {"launcher": None}}, id="a pod that KubeVirt does not name"),
        pytest.param(True, {"nodeName": "b"}, id="a pod on another node"),
    ],
)
def test_a_pod_that_is_not_the_instance_s_changes_nothing(free: bool, status: Json) -> None:
    @simulated
    async def run(scene: ComputeScene) -> None:
        runs(scene, LESS, free=free)
        scene.api.edit(INSTANCES, "db", TEAM, merge={"status": status})
        async with scene.running():
            await scene.quiet()
        assert scene.stamp(VIRTUAL_MACHINES) == vms(WORKED_OUT)

    run()


@pytest.mark.parametrize(
    ("charged", "worked_out", "limits", "costs"),
    [
        pytest.param(WORKED_OUT, WORKED_OUT, LESS, LESS, id="a smaller pod"),
        pytest.param(
            {"cpu": "4015m", "memory": "4Gi"}, WORKED_OUT, LESS, {"cpu": "4015m", "memory": "4Gi"}, id="about to get more CPUs"
        ),
        pytest.param(WORKED_OUT, None, LESS, WORKED_OUT, id="a smaller pod from before anybody stamped it"),
        pytest.param(WORKED_OUT, None, MORE, MORE, id="a larger one"),
        pytest.param(
            WORKED_OUT, WORKED_OUT, {"cpu": "1015m"}, WORKED_OUT, id="without a limit on memory it may use what was worked out"
        ),
    ],
)
def test_what_an_instance_is_charged(charged: Json, worked_out: Json | None, limits: Json, costs: Json) -> None:
    found = followed(Amounts.parse(charged), made(WATCHED_PODS, pod(limits, worked_out=worked_out)))
    assert found == Amounts.parse(costs)
