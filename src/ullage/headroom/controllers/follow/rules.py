"""What a machine, its instance and the migrations of that are to be stamped with, and in which order. Pure.

The machine pays, for the dearer of its template and of what runs: an edit of the template changes nothing of what runs. Where
it does not count, the instance pays for itself. What moves from one to the other is booked twice for a moment, and never not
at all: first whatever rises, then whatever falls. A process may end after any write, and the next one's plan goes on from
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage.headroom.accounts import MAINTENANCE, VMS, amounts_in, stamp_for
from ullage.headroom.cost import write_cost
from ullage.headroom.counting import counts, is_finished
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.ledger.charging.stamps import COST, FREE, STAMP, BadStamp, Stamp, stamp_of
from ullage.vms.api.machines import INSTANCES, MACHINES, VirtualMachine, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that has one name. Costs are those of the objects beside them, and are there where the objects are."""

    machine: VirtualMachine | None = None
    machine_cost: Amounts = Amounts()  # noqa: RUF009  a value
    instance: VirtualMachineInstance | None = None
    instance_cost: Amounts = Amounts()  # noqa: RUF009
    owner: str = ""  # the uid of the machine that controls the instance; empty: none does
    migrations: tuple[VirtualMachineInstanceMigration, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What an object is to be stamped with; `also` are the annotations that change with it."""

    kind: Kind[Any]
    meta: Meta
    stamp: Stamp
    also: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_needed(self) -> bool:
        wanted = {STAMP: str(self.stamp), **self.also}
        return any(self.meta.annotations.get(key) != value for key, value in wanted.items())

    @property
    def rises(self) -> bool:
        """Whether anything is taken that was not before, as far as anybody can tell."""
        had = stamp_in(self.meta)
        return had is None or not self.stamp.takes <= had.takes


@dataclass(frozen=True, slots=True)
class Plan:
    """`lowers` are written when all `raises` have been."""

    raises: tuple[Change, ...] = ()
    lowers: tuple[Change, ...] = ()


def plan(facts: Facts) -> Plan:
    changes = [one for one in _wanted(facts) if one.is_needed]
    return Plan(tuple(one for one in changes if one.rises), tuple(one for one in changes if not one.rises))


def _wanted(facts: Facts) -> Iterator[Change]:
    machine, instance = facts.machine, facts.instance
    if instance is not None and is_finished(instance):
        instance = None  # it takes nothing, whatever stands on it
    runs = instance is not None and machine is not None and facts.owner == machine.metadata.uid
    if machine is not None:
        yield _machine(facts, machine, runs=runs)
    if instance is not None:
        paid = runs and machine is not None and counts(machine)
        stamp = FREE if paid else stamp_for(VMS, facts.instance_cost)
        yield Change(INSTANCES, instance.metadata, stamp, {COST: write_cost(facts.instance_cost)})
    for migration in facts.migrations:
        yield from _migration(migration, facts.instance_cost if instance is not None else None)


def _migration(migration: VirtualMachineInstanceMigration, cost: Amounts | None) -> Iterator[Change]:
    """It keeps what it was admitted with. Of nothing (None) it moves nothing, as far as is known yet."""
    had = stamp_in(migration.metadata)
    if is_finished(migration) or (had is not None and had.cells):
        return
    yield Change(MIGRATIONS, migration.metadata, FREE if cost is None else stamp_for(MAINTENANCE, cost))


def _machine(facts: Facts, machine: VirtualMachine, *, runs: bool) -> Change:
    also = {COST: write_cost(facts.machine_cost)}
    if runs:
        return Change(MACHINES, machine.metadata, stamp_for(VMS, facts.machine_cost | facts.instance_cost), also)
    had = stamp_in(machine.metadata)
    if had is None or not counts(machine):
        return Change(MACHINES, machine.metadata, stamp_for(VMS, facts.machine_cost), also)
    # It restarts: its next instance may be on its way, and was told that the machine pays.
    return Change(MACHINES, machine.metadata, stamp_for(VMS, facts.machine_cost | amounts_in(had, VMS)), also)


def stamp_in(meta: Meta) -> Stamp | None:
    """None: there is none, or it cannot be read."""
    try:
        return stamp_of(meta)
    except (BadStamp, BadAmount):
        return None
