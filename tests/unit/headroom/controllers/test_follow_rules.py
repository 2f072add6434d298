"""Who pays for what runs, and in which order that moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import pytest

from tests.unit.headroom.builders import UID
from tests.unit.headroom.controllers.follow_objects import BIG, COSTS, SMALL, instance, machine, migration
from ullage.headroom.accounts import MAINTENANCE, VMS, stamp_for
from ullage.headroom.charges import instance_takes, machine_owner, machine_takes
from ullage.headroom.controllers.follow_rules import Change, Facts, Plan, plan
from ullage.headroom.cost import write_cost
from ullage.kube.kinds import Object
from ullage.ledger.amounts import NOTHING, Amounts, Takings
from ullage.ledger.charging.stamps import COST, FREE, STAMP, Stamp, stamp_of

VM, VMI, VMIM = "VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceMigration"


def paid(amounts: Amounts) -> Stamp:
    return stamp_for(VMS, amounts)


def written(changes: tuple[Change, ...]) -> dict[str, str]:
    return {one.kind.kind: str(one.stamp) for one in changes}


def facts(*objects: Any) -> Facts:
    """What each costs is what its template says, as the builders have it."""
    found = {type(one).__name__: one for one in objects}
    made, runs = found.get(VM), found.get(VMI)
    owner = machine_owner(runs.metadata) if runs else None
    return Facts(
        owner=owner.uid if owner else "",
        machine=made,
        machine_cost=COSTS[made.metadata.labels["size"]] if made else Amounts(),
        instance=runs,
        instance_cost=COSTS[runs.metadata.labels["size"]] if runs else Amounts(),
        migrations=tuple(one for one in objects if type(one).__name__ == VMIM),
    )


@pytest.mark.parametrize(
    ("objects", "raises", "lowers"),
    [
        pytest.param((machine("small", stamp=paid(SMALL)),), {}, {}, id="a stopped machine that has its stamp is left alone"),
        pytest.param((machine("small"),), {VM: paid(SMALL)}, {}, id="one from before is stamped, stopped as it is"),
        pytest.param(
            (machine("small", stamp=paid(BIG)),), {}, {VM: paid(SMALL)}, id="what has run is gone: the template is left"
        ),
        pytest.param(
            (machine("small", runs=True, stamp=paid(BIG)),),
            {},
            {},
            id="what restarts keeps its stamp until the next one is there",
        ),
        pytest.param(
            (machine("big", runs=True, stamp=paid(SMALL)),), {VM: paid(BIG)}, {}, id="a stamp below the template rises"
        ),
        pytest.param(
            (machine("small", runs=True, stamp=paid(BIG)), instance("small", stamp=FREE)),
            {},
            {VM: paid(SMALL)},
            id="what runs was replaced by something smaller",
        ),
        pytest.param(
            (machine("small", runs=True, stamp=paid(SMALL)), instance("big", stamp=FREE)),
            {VM: paid(BIG)},
            {},
            id="what runs is dearer than the machine is stamped for",
        ),
        pytest.param(
            (machine("small", runs=True, stamp=paid(SMALL)), instance("small", stamp=paid(SMALL))),
            {},
            {VMI: FREE},
            id="an instance whose machine pays is freed",
        ),
        pytest.param(
            (machine("small", runs=True, stamp=paid(SMALL)), instance("big", stamp=paid(BIG))),
            {VM: paid(BIG)},
            {VMI: FREE},
            id="the machine rises first, then the instance is freed",
        ),
        pytest.param(
            (machine("small", runs=True), instance("big")),
            {VM: paid(BIG), VMI: FREE},
            {},
            id="both are from before",
        ),
        pytest.param(
            (machine("small", stamp=paid(SMALL)), instance("small", stamp=FREE)),
            {VMI: paid(SMALL)},
            {},
            id="the machine says that it is stopped, and something runs",
        ),
        pytest.param((instance("small", owner="gone", stamp=FREE),), {VMI: paid(SMALL)}, {}, id="its machine is gone"),
        pytest.param(
            (machine("small", runs=True, stamp=paid(SMALL)), instance("small", owner="other", stamp=FREE)),
            {VMI: paid(SMALL)},
            {},
            id="its machine is another one of that name",
        ),
        pytest.param(
            (machine("small", runs=True, stamp=paid(SMALL)), instance("big", owner="", stamp=paid(BIG))),
            {},
            {},
            id="an instance that a person made pays for itself",
        ),
        pytest.param(
            (machine("small", runs=True, stamp=paid(SMALL)), instance("big", phase="Succeeded")),
            {},
            {},
            id="what has come to its end needs no stamp",
        ),
        pytest.param(
            (instance("small", owner="", stamp=paid(SMALL)), migration()),
            {VMIM: stamp_for(MAINTENANCE, SMALL)},
            {},
            id="a migration from before",
        ),
        pytest.param(
            (instance("small", owner="", stamp=paid(SMALL)), migration(stamp=FREE)),
            {VMIM: stamp_for(MAINTENANCE, SMALL)},
            {},
            id="a migration whose instance was not there when it was asked for",
        ),
        pytest.param(
            (instance("big", owner="", stamp=paid(BIG)), migration(stamp=stamp_for(MAINTENANCE, SMALL))),
            {},
            {},
            id="a migration keeps what it was admitted with",
        ),
        pytest.param(
            (instance("small", owner="", stamp=paid(SMALL)), migration(phase="Failed")),
            {},
            {},
            id="a migration that is over stays as it is",
        ),
        pytest.param((migration(),), {VMIM: FREE}, {}, id="a migration of nothing takes nothing"),
        pytest.param((migration(stamp=FREE),), {}, {}, id="and is told so once"),
    ],
)
def test_what_is_written(objects: tuple[Any, ...], raises: dict[str, Stamp], lowers: dict[str, Stamp]) -> None:
    found = plan(facts(*objects))
    assert written(found.raises) == {kind: str(stamp) for kind, stamp in raises.items()}
    assert written(found.lowers) == {kind: str(stamp) for kind, stamp in lowers.items()}


def test_the_cost_is_written_with_the_stamp() -> None:
    found = plan(facts(machine("small", runs=True), instance("big")))
    assert {one.kind.kind: one.also for one in found.raises} == {VM: {COST: write_cost(SMALL)}, VMI: {COST: write_cost(BIG)}}


def test_a_stamp_that_cannot_be_read_is_written_anew() -> None:
    spoilt = machine("small", runs=True, stamp="lots")
    assert written(plan(facts(spoilt)).raises) == {VM: str(paid(SMALL))}


# --- random walks ----------------------------------------------------------------------------------------------------


@dataclass
class World:
    """One machine as KubeVirt moves it, and its stamps as the hooks and the follower write them."""

    machine: Any
    instance: Any = None
    template: str = "small"

    def facts(self) -> Facts:
        return facts(*(one for one in (self.machine, self.instance) if one is not None))

    def booked(self) -> Takings:
        return machine_takes(self.machine) + (instance_takes(self.instance) if self.instance is not None else NOTHING)

    def truth(self) -> Takings:
        """What runs costs what it costs."""
        return paid(COSTS[self.instance.metadata.labels["size"]]).takes if self.instance is not None else NOTHING

    def own(self, owner: str) -> None:
        """What stood on the instance stays there."""
        meta = self.instance.metadata
        self.instance = instance(meta.labels["size"], owner=owner, stamp=stamp_of(meta), uid=meta.uid)

    def write(self, change: Change) -> None:
        marks = {STAMP: str(change.stamp), **change.also}
        if change.kind.kind == VM:
            self.machine = annotated(self.machine, marks)
        else:
            self.instance = annotated(self.instance, marks)


def annotated(obj: Object, marks: dict[str, str]) -> Any:
    meta = msgspec.structs.replace(obj.metadata, annotations={**obj.metadata.annotations, **marks})
    return msgspec.structs.replace(obj, metadata=meta)


def steps(found: Plan) -> Iterator[Change]:
    yield from found.raises
    yield from found.lowers


@pytest.mark.parametrize("seed", range(60))
def test_at_no_moment_less_is_booked_than_runs_wherever_the_follower_is_cut_off(seed: int) -> None:
    """An edit of the template is stamped by the hook, as is an instance that is made: the machine covers it then."""
    random = Random(seed)
    world = World(machine("small", stamp=paid(SMALL)))
    for number in range(120):
        stamp, size = stamp_of(world.machine.metadata), world.template
        match random.choice(("start", "stop", "restart", "resize", "orphan", "adopt", "follow", "follow", "cut off")):
            case "start" if world.instance is None:
                world.machine = machine(size, runs=True, stamp=stamp)
                world.instance = instance(size, stamp=FREE, uid=f"i-{number}")
            case "stop":
                world.instance = None
                world.machine = machine(size, stamp=stamp)
            case "restart":
                world.instance = None
            case "resize":
                world.template = random.choice(("small", "big"))
                had = COSTS[world.instance.metadata.labels["size"]] if world.instance is not None else Amounts()
                counted = machine_takes(world.machine) != NOTHING
                world.machine = machine(world.template, runs=counted, stamp=paid(COSTS[world.template] | had))
            case "orphan" if world.instance is not None:
                world.own("")
            case "adopt" if world.instance is not None:
                world.own(UID)
            case "follow":
                for change in steps(plan(world.facts())):
                    world.write(change)
                    assert world.truth() <= world.booked()
                assert not list(steps(plan(world.facts()))), "it writes in a circle"
            case "cut off":
                for change in list(steps(plan(world.facts())))[: random.randrange(3)]:
                    world.write(change)
        assert world.truth() <= world.booked()
