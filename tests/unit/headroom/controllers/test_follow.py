"""Stamps that are kept true: of what was there before, of what has changed, and whoever dies or interferes meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.unit.headroom.builders import ONE, ONE_COST, TEAM, UID, instance, machine, migration, stamped
from tests.unit.headroom.controllers.follow_objects import DOMAINS, SMALL
from tests.unit.headroom.controllers.machine_scene import ComputeScene
from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.snapshots.memory_api import Fuse
from ullage.headroom.accounts import MAINTENANCE, stamp_for
from ullage.kube.errors import TooManyRequests
from ullage.ledger.charging.stamps import COST, FREE, STAMP
from ullage.vms.api.instance_types import CLUSTER_INSTANCE_TYPES
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS

TWO = '{"compute/vms":{"cpu":"2","memory":"3282Mi"}}'  # what a big one costs
RUNS: dict[str, Any] = {"strategy": "Always", "printable": "Running", "created": True, "uid": UID}
MOVES = str(stamp_for(MAINTENANCE, SMALL))


def simulated(test: Callable[[ComputeScene], Awaitable[None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def wrapped() -> None:
        async def run() -> None:
            await test(ComputeScene())

        in_virtual_time(run())

    del wrapped.__wrapped__  # else pytest looks for a fixture called scene
    return wrapped


@simulated
async def test_what_was_there_before_is_stamped(scene: ComputeScene) -> None:
    scene.put(VIRTUAL_MACHINES, machine(**RUNS))
    scene.put(VIRTUAL_MACHINES, machine("idle", printable="Stopped"))
    scene.put(INSTANCES, instance())
    scene.put(INSTANCES, instance("lone", owner=""))
    scene.put(MIGRATIONS, migration(phase="Running"))
    scene.put(MIGRATIONS, migration("old", phase="Succeeded"))
    async with scene.running():
        await scene.until(lambda: scene.stamp(MIGRATIONS, "move") == MOVES)
        await scene.until(lambda: scene.stamp(INSTANCES) == str(FREE) and scene.stamp(INSTANCES, "lone") == ONE)
        await scene.until(lambda: (scene.stamp(VIRTUAL_MACHINES), scene.stamp(VIRTUAL_MACHINES, "idle")) == (ONE, ONE))
        await scene.quiet()
    assert scene.marks(INSTANCES, "db")[COST] == scene.marks(VIRTUAL_MACHINES, "idle")[COST] == ONE_COST
    assert scene.stamp(MIGRATIONS, "old") is None


@simulated
async def test_a_machine_from_before_is_stamped_with_what_its_instance_type_says(scene: ComputeScene) -> None:
    typed = machine("typed", printable="Stopped", template={"devices": {}})
    typed["spec"]["instancetype"] = {"name": "u1"}
    kind = {"metadata": {"name": "u1"}, "spec": {"cpu": {"guest": 3}, "memory": {"guest": "924Mi"}}}
    scene.put(CLUSTER_INSTANCE_TYPES, kind)
    scene.put(VIRTUAL_MACHINES, typed)
    async with scene.running():
        await scene.until(lambda: '"cpu":"3"' in (scene.stamp(VIRTUAL_MACHINES, "typed") or ""))


@simulated
async def test_what_is_as_it_ought_to_be_costs_no_call(scene: ComputeScene) -> None:
    """Of thirty thousand machines hardly any has changed since the last leader."""
    for number in range(1000):
        scene.put(
            VIRTUAL_MACHINES, machine(f"vm-{number}", **{**RUNS, "uid": f"u-{number}"}, annotations=stamped(cost=ONE_COST))
        )
        scene.put(INSTANCES, instance(f"vm-{number}", owner=f"u-{number}", annotations=stamped(str(FREE), cost=ONE_COST)))
    async with scene.running():
        await scene.quiet()
        for number in range(1000):  # KubeVirt says how they do
            merge = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            scene.api.edit(VIRTUAL_MACHINES, f"vm-{number}", TEAM, merge=merge)
        await scene.quiet()
    assert scene.api.calls == []


@simulated
async def test_each_of_many_from_before_is_written_once(scene: ComputeScene) -> None:
    for number in range(1000):
        scene.put(VIRTUAL_MACHINES, machine(f"vm-{number}", printable="Stopped", uid=f"u-{number}"))
    async with scene.running():
        await scene.until(lambda: all(scene.stamp(VIRTUAL_MACHINES, f"vm-{number}") == ONE for number in range(1000)))
        await scene.quiet()
    assert scene.api.patches(VIRTUAL_MACHINES) == 1000


@simulated
async def test_a_full_ledger_is_asked_again_later_and_all_are_stamped_in_the_end(scene: ComputeScene) -> None:
    full = True

    def refuse(what: str) -> None:
        if full and what.startswith("patch"):
            raise TooManyRequests("500 requests have room reserved and are not counted yet", code=429)

    scene.api.refuse = refuse
    for number in range(50):
        scene.put(VIRTUAL_MACHINES, machine(f"vm-{number}", printable="Stopped", uid=f"u-{number}"))
    async with scene.running():
        await scene.quiet(60)
        tried = scene.api.patches(VIRTUAL_MACHINES)
        full = False
        await scene.until(
            lambda: all(scene.stamp(VIRTUAL_MACHINES, f"vm-{number}") == ONE for number in range(50)), seconds=300
        )
    assert tried < 50 * 20, "it is not asked as fast as it can answer"


@simulated
async def test_a_smaller_instance_after_a_restart_lowers_the_stamp(scene: ComputeScene) -> None:
    scene.put(VIRTUAL_MACHINES, machine(**RUNS, annotations=stamped(TWO, cost=ONE_COST)))
    scene.put(INSTANCES, instance(annotations=stamped(str(FREE), cost='{"cpu":"2","memory":"3282Mi"}'), uid="first"))
    async with scene.running():
        await scene.quiet()
        scene.api.remove(INSTANCES, "db", TEAM)
        await scene.quiet()
        assert scene.stamp(VIRTUAL_MACHINES) == TWO, "the next instance may be on its way"
        scene.put(INSTANCES, instance(annotations=stamped(str(FREE), cost=ONE_COST), uid="second"))
        await scene.until(lambda: scene.stamp(VIRTUAL_MACHINES) == ONE)
        await scene.quiet()
    assert scene.api.patches(VIRTUAL_MACHINES) == 1


@simulated
async def test_a_machine_that_is_stopped_is_stamped_with_its_template(scene: ComputeScene) -> None:
    scene.put(VIRTUAL_MACHINES, machine(**RUNS, annotations=stamped(TWO, cost=ONE_COST)))
    async with scene.running():
        await scene.quiet()
        stopped = {"spec": {"runStrategy": "Halted"}, "status": {"printableStatus": "Stopped", "created": None}}
        scene.api.edit(VIRTUAL_MACHINES, "db", TEAM, merge=stopped)
        await scene.until(lambda: scene.stamp(VIRTUAL_MACHINES) == ONE)


@simulated
async def test_an_instance_that_is_adopted_is_paid_by_its_machine_which_rises_first(scene: ComputeScene) -> None:
    big = '{"cpu":"2","memory":"3282Mi"}'
    scene.put(VIRTUAL_MACHINES, machine(**RUNS, annotations=stamped(ONE, cost=ONE_COST)))
    scene.put(INSTANCES, instance(annotations=stamped(TWO, cost=big), given=DOMAINS["big"]))
    async with scene.running():
        await scene.until(lambda: (scene.stamp(VIRTUAL_MACHINES), scene.stamp(INSTANCES)) == (TWO, str(FREE)))
    order = [call for call in scene.api.calls if call.startswith("patch")]
    assert order == ["patch virtualmachines db", "patch virtualmachineinstances db"]


@simulated
async def test_nothing_falls_while_what_rises_is_refused(scene: ComputeScene) -> None:
    def refuse(what: str) -> None:
        if what == "patch virtualmachines.kubevirt.io db":
            raise TooManyRequests("later", code=429)

    scene.api.refuse = refuse
    scene.put(VIRTUAL_MACHINES, machine(**RUNS, annotations=stamped(ONE, cost=ONE_COST)))
    scene.put(INSTANCES, instance(annotations=stamped(TWO, cost='{"cpu":"2","memory":"3282Mi"}')))
    async with scene.running():
        await scene.quiet(30)
        assert scene.stamp(INSTANCES) == TWO
        scene.api.refuse = lambda what: None
        await scene.until(lambda: scene.stamp(INSTANCES) == str(FREE))


@simulated
async def test_what_somebody_takes_off_each_time_is_written_later_and_later(scene: ComputeScene) -> None:
    scene.put(VIRTUAL_MACHINES, machine(**RUNS))
    async with scene.running():
        for _ in range(6000):
            await scene.quiet(0.01)
            if scene.stamp(VIRTUAL_MACHINES) is not None:
                scene.api.edit(VIRTUAL_MACHINES, "db", TEAM, merge={"metadata": {"annotations": {STAMP: None, COST: None}}})
    assert scene.api.patches(VIRTUAL_MACHINES) < 12


def all_done(scene: ComputeScene) -> bool:
    wanted = (TWO, str(FREE), MOVES.replace('"1"', '"2"').replace("1222Mi", "3282Mi"))
    return (scene.stamp(VIRTUAL_MACHINES), scene.stamp(INSTANCES), scene.stamp(MIGRATIONS, "move")) == wanted


@pytest.mark.parametrize("moment", range(1, 8))
def test_it_may_die_before_and_after_every_write(moment: int) -> None:
    async def run() -> None:
        scene = ComputeScene()
        scene.api.fuse = Fuse(blows_at=moment)
        scene.put(VIRTUAL_MACHINES, machine(**RUNS))
        scene.put(INSTANCES, instance(given=DOMAINS["big"]))
        scene.put(MIGRATIONS, migration(phase="Running"))
        await scene.live(lambda: all_done(scene))
        assert scene.api.fuse.log == list(dict.fromkeys(scene.api.fuse.log)) or moment % 2, (
            "what is written is not written again"
        )

    in_virtual_time(run())


@simulated
async def test_what_costs_nothing_that_can_be_read_keeps_nobody_else_waiting(scene: ComputeScene) -> None:
    odd = {"resources": {"limits": {"memory": "lots"}}}
    scene.put(VIRTUAL_MACHINES, machine("odd", printable="Stopped", template=odd))
    scene.put(VIRTUAL_MACHINES, machine("idle", printable="Stopped"))
    async with scene.running():
        await scene.until(lambda: scene.stamp(VIRTUAL_MACHINES, "idle") == ONE)
        scene.api.edit(
            VIRTUAL_MACHINES,
            "odd",
            TEAM,
            merge=msgspec.to_builtins({"spec": {"template": {"spec": {"domain": DOMAINS["small"]}}}}),
        )
        await scene.until(lambda: scene.stamp(VIRTUAL_MACHINES, "odd") == ONE, seconds=120)
