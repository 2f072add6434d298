"""VirtualMachineInstances: the machine pays if it counts, and otherwise they pay themselves; whoever makes them."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.headroom.builders import ONE, ONE_COST, Json, domain, instance, machine, stamped
from tests.unit.headroom.scene import COLLECTOR, INSTANCES, KUBEVIRT, OURS, PERSON, VIRTUAL_MACHINES, Scene, merged, simulated
from ullage.ledger.charging.stamps import COST, STAMP

COSTS = {"cpu": "1", "memory": "1222Mi"}
TWO = {"cpu": "2", "memory": "2560Mi"}
NONE = {"cpu": "0", "memory": "0"}
PAYS = {"takes": {"compute/vms": COSTS}, "cost": COSTS}
COVERED = {"takes": {}, "cost": COSTS}
RUNS = machine(strategy="Always", uid="u-1", annotations=stamped())


async def settle() -> None:
    """The caches have heard."""
    await asyncio.sleep(5)


@pytest.mark.parametrize(
    ("vm", "body", "marks"),
    [
        pytest.param(RUNS, instance(owner="u-1", phase=""), COVERED, id="its machine counts, and pays"),
        pytest.param(None, instance(owner="", phase=""), PAYS, id="nobody controls it"),
        pytest.param(None, instance(owner="u-1", phase=""), PAYS, id="an owner that is not there"),
        pytest.param(RUNS, instance(owner="u-2", phase=""), PAYS, id="a forged owner: the name of a machine, and not its uid"),
        pytest.param(
            RUNS, instance("other", owner="u-1", owner_name="db", phase=""), PAYS, id="a second instance of one machine"
        ),
        pytest.param(
            machine(strategy="Halted", uid="u-1", annotations=stamped()),
            instance(owner="u-1", phase=""),
            PAYS,
            id="its machine is halted: nothing was booked for it",
        ),
        pytest.param(
            machine(strategy="Always", uid="u-1"), instance(owner="u-1", phase=""), PAYS, id="its machine has no stamp yet"
        ),
        pytest.param(
            machine(strategy="Always", uid="u-1", annotations=stamped('{"compute/vms":{"cpu":"1","memory":"1000Mi"}}')),
            instance(owner="u-1", phase=""),
            {"takes": {"compute/vms": {"cpu": "0", "memory": "222Mi"}}, "cost": COSTS},
            id="its machine pays less than it costs: it pays the rest",
        ),
        pytest.param(
            RUNS,
            merged(instance(owner="u-1", phase=""), {"metadata": {"annotations": {STAMP: "{}", COST: '{"cpu":"1m"}'}}}),
            COVERED,
            id="what its maker wrote on it is overwritten",
        ),
        pytest.param(
            None,
            merged(instance(owner="", phase=""), {"metadata": {"annotations": {STAMP: "{}", COST: "{}"}}}),
            PAYS,
            id="and where it pays, too",
        ),
    ],
)
@pytest.mark.parametrize("user", [pytest.param(PERSON, id="a person"), pytest.param(KUBEVIRT, id="KubeVirt")])
@simulated
async def test_who_pays_for_a_new_instance(scene: Scene, user: str, vm: Json | None, body: Json, marks: Json) -> None:
    async with scene.served():
        if vm is not None:
            scene.store(VIRTUAL_MACHINES, merged(vm, {}))
        assert (await scene.submit(INSTANCES, body, user=user)).allowed
        assert scene.marks(INSTANCES, body["metadata"]["name"]) == marks


@pytest.mark.parametrize("user", [pytest.param(PERSON, id="a person"), pytest.param(KUBEVIRT, id="KubeVirt")])
@simulated
async def test_one_that_pays_itself_and_does_not_fit_is_not_made_by_anybody(scene: Scene, user: str) -> None:
    scene.limits(vms=NONE)
    async with scene.served():
        refused = await scene.submit(INSTANCES, instance(owner="", phase=""), user=user)
    assert (refused.code, refused.message.partition(":")[0]) == (403, "VM available resources are insufficient")
    assert "cpu: asked 1 core, used 0, pending 0, share 0; memory: asked 1.2Gi" in refused.message


@simulated
async def test_a_machine_and_its_instance_are_counted_once(scene: Scene) -> None:
    scene.limits(vms={"cpu": "1", "memory": "1222Mi"})
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        assert (await scene.submit(INSTANCES, instance(owner=scene.uid("db"), phase=""), user=KUBEVIRT)).allowed
        await settle()
        assert scene.counted() == {"compute/vms": COSTS}


# --- while it runs ---------------------------------------------------------------------------------------------------


def grown(cpu: str) -> Json:
    return {"domain": domain(cpu=cpu)}


@simulated
async def test_hot_plugged_cpus_are_growth_and_are_the_machine_s_where_that_pays_for_them(scene: Scene) -> None:
    scene.limits(vms={"cpu": "3"})
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        assert (await scene.submit(INSTANCES, instance(owner=scene.uid("db"), phase=""), user=KUBEVIRT)).allowed
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec={"template": {"spec": grown("2")}})).allowed
        assert (await scene.change(INSTANCES, "db", user=KUBEVIRT, spec=grown("2"))).allowed
        assert scene.marks(INSTANCES, "db") == {"takes": {}, "cost": {"cpu": "2", "memory": "1230Mi"}}
        await settle()
        assert scene.counted()["compute/vms"]["cpu"] == "2"


@pytest.mark.parametrize("user", [pytest.param(PERSON, id="a person"), pytest.param(KUBEVIRT, id="KubeVirt")])
@simulated
async def test_growth_of_an_instance_alone_is_its_own_and_has_to_fit(scene: Scene, user: str) -> None:
    scene.limits(vms={"cpu": "2"})
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        assert (await scene.submit(INSTANCES, instance(owner=scene.uid("db"), phase=""), user=KUBEVIRT)).allowed
        assert not (await scene.change(INSTANCES, "db", user=user, spec=grown("3"))).allowed
        assert (await scene.change(INSTANCES, "db", user=user, spec=grown("2"))).allowed
        assert scene.marks(INSTANCES, "db")["takes"] == {"compute/vms": {"cpu": "1", "memory": "8Mi"}}


@simulated
async def test_that_an_instance_has_become_smaller_kubevirt_alone_can_say(scene: Scene) -> None:
    async with scene.served():
        scene.store(INSTANCES, instance(owner="", annotations=stamped(ONE, cost=ONE_COST)))
        smaller = {"domain": domain(memory="512Mi", guest="400Mi")}
        assert (await scene.change(INSTANCES, "db", spec=smaller)).allowed
        assert scene.marks(INSTANCES, "db") == PAYS
        scene.store(INSTANCES, instance(owner="", annotations=stamped(ONE, cost=ONE_COST)))
        assert (await scene.change(INSTANCES, "db", user=KUBEVIRT, spec=smaller)).allowed
        assert scene.marks(INSTANCES, "db")["cost"] == {"cpu": "1", "memory": "709Mi"}


@pytest.mark.parametrize("parts", [{STAMP: "{}"}, {STAMP: None}, {COST: '{"cpu":"1m"}'}, {COST: None}])
@simulated
async def test_a_person_does_not_change_what_an_instance_takes(scene: Scene, parts: Json) -> None:
    async with scene.served():
        scene.store(INSTANCES, instance(owner="", annotations=stamped(ONE, cost=ONE_COST)))
        assert (await scene.change(INSTANCES, "db", metadata={"annotations": parts})).allowed
        assert scene.marks(INSTANCES, "db") == PAYS


@simulated
async def test_we_move_the_payment_ourselves_past_the_limit(scene: Scene) -> None:
    scene.limits(vms=NONE)
    async with scene.served():
        scene.store(VIRTUAL_MACHINES, merged(RUNS, {}))
        scene.store(INSTANCES, instance(owner="u-1", annotations=stamped("{}", cost=ONE_COST)))
        assert (await scene.change(INSTANCES, "db", user=OURS, metadata={"annotations": {STAMP: ONE}})).allowed
        assert scene.marks(INSTANCES, "db") == PAYS
        bad = await scene.change(INSTANCES, "db", user=OURS, metadata={"annotations": {STAMP: "nonsense"}})
        assert (bad.code, bad.causes[0].field) == (422, f"metadata.annotations[{STAMP}]")


# --- owners ----------------------------------------------------------------------------------------------------------


def owned(uid: str, name: str = "db") -> Json:
    return {"ownerReferences": instance(owner=uid, owner_name=name)["metadata"]["ownerReferences"]}


@simulated
async def test_an_instance_that_loses_its_machine_pays_itself(scene: Scene) -> None:
    """Its machine is deleted alone, `--cascade=orphan`: the garbage collector takes the reference off."""
    scene.limits(vms={"cpu": "1"})
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        assert (await scene.submit(INSTANCES, instance(owner=scene.uid("db"), phase=""), user=KUBEVIRT)).allowed
        alone: Json = {"ownerReferences": []}
        assert not (await scene.change(INSTANCES, "db", metadata=alone)).allowed, "a person has to have room for it"
        assert (await scene.change(INSTANCES, "db", user=COLLECTOR, metadata=alone)).allowed, "a deletion always passes"
        scene.remove(VIRTUAL_MACHINES, "db")
        await settle()
        assert scene.counted() == {"compute/vms": COSTS}
        assert not (await scene.submit(VIRTUAL_MACHINES, machine("next", strategy="Always"))).allowed


@simulated
async def test_an_instance_is_not_hung_on_another_machine_to_run_for_nothing(scene: Scene) -> None:
    scene.limits(vms={"cpu": "2"})
    async with scene.served():
        for name in ("db", "web"):
            assert (await scene.submit(VIRTUAL_MACHINES, machine(name, strategy="Always"))).allowed
        assert (await scene.submit(INSTANCES, instance(owner=scene.uid("db"), phase=""), user=KUBEVIRT)).allowed
        for forged in (owned(scene.uid("web"), "web"), owned(scene.uid("web")), owned("nobody")):
            decided = await scene.change(INSTANCES, "db", metadata=forged)
            assert not decided.allowed, forged


@simulated
async def test_an_instance_that_was_left_is_paid_by_the_machine_that_takes_it_on(scene: Scene) -> None:
    async with scene.served():
        scene.store(INSTANCES, instance(owner="", annotations=stamped(ONE, cost=ONE_COST)))
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        assert (await scene.change(INSTANCES, "db", user=KUBEVIRT, metadata=owned(scene.uid("db")))).allowed
        assert scene.marks(INSTANCES, "db") == COVERED


# --- its end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("apart", [pytest.param(True, id="apart"), pytest.param(False, id="with the rest of it")])
@simulated
async def test_that_an_instance_has_ended_kubevirt_alone_can_say(scene: Scene, phase: str, apart: bool) -> None:
    subresource = "status" if apart else ""
    async with scene.served():
        body = scene.store(INSTANCES, instance(owner="", annotations=stamped(ONE, cost=ONE_COST)))
        ended = merged(body, {"status": {"phase": phase}})
        refused = await scene.submit(INSTANCES, ended, subresource=subresource, apart=apart)
        assert (refused.code, refused.message) == (
            403,
            f"status.phase {phase}: only KubeVirt says how VirtualMachineInstance team/db has ended."
            " Next: kubectl delete vmi db -n team",
        )
        assert (await scene.submit(INSTANCES, ended, user=KUBEVIRT, subresource=subresource, apart=apart)).allowed


@simulated
async def test_one_that_has_ended_takes_nothing(scene: Scene) -> None:
    async with scene.served():
        scene.store(INSTANCES, instance(owner="", annotations=stamped(ONE, cost=ONE_COST)))
        assert (await scene.change(INSTANCES, "db", user=KUBEVIRT, status={"phase": "Failed"})).allowed
        await settle()
        assert scene.counted() == {}
