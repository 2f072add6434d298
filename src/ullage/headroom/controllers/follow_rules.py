"""What a machine, its instance and the migrations of that are to be stamped with, and in which order. Pure.

The machine pays, for the dearer of its template and of what runs: an edit of the template changes nothing of what runs. Where
it does not count, the instance pays for itself. What moves from one to the other is booked twice for a moment, and never not
at all: first whatever rises, then whatever falls. A process may end after any write, and the next one's plan goes on from
there.

Where the pod of an instance takes something else than was worked out, the instance is charged what the pod takes, and a
condition of the instance says both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ullage.headroom.accounts import MAINTENANCE, VMS, amounts_in, stamp_for
from ullage.headroom.cost import read_cost, write_cost
from ullage.headroom.counting import counts, is_finished
from ullage.headroom.pods import launcher_takes
from ullage.kube.builtin.watched_pods import WatchedPod
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import Conditions, drop_condition, find_condition, set_condition
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.ledger.charging.stamps import COST, FREE, STAMP, BadStamp, Stamp, stamp_of
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration

FOLLOWS: Final = "CostFollowsPod"  # a condition of an instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that has one name. Costs are those of the objects beside them, and are there where the objects are."""

    machine: VirtualMachine | None = None
    machine_cost: Amounts = Amounts()  # noqa: RUF009  a value
    instance: VirtualMachineInstance | None = None
    instance_cost: Amounts = Amounts()  # noqa: RUF009
    owner: str = ""  # the uid of the machine that controls the instance; empty: none does
    migrations: tuple[VirtualMachineInstanceMigration, ...] = ()
    pods: tuple[WatchedPod, ...] = ()  # that the instance runs in; none where charges do not follow them

    @property
    def charged(self) -> Amounts:
        """What the instance costs, by its pods where they differ."""
        found = self.instance_cost
        for pod in self.pods:
            found = followed(found, pod)
        return found

    @property
    def is_of_template(self) -> bool:
        """Whether what runs was worked out to cost what the template costs now: the pods say what that really takes."""
        return bool(self.pods) and all(worked_out(pod) == self.machine_cost for pod in self.pods)


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
        stamp = FREE if paid else stamp_for(VMS, facts.charged)
        yield Change(INSTANCES, instance.metadata, stamp, {COST: write_cost(facts.charged)})
    for migration in facts.migrations:
        yield from _migration(migration, facts.charged if instance is not None else None)


def _migration(migration: VirtualMachineInstanceMigration, cost: Amounts | None) -> Iterator[Change]:
    """It keeps what it was admitted with. Of nothing (None) it moves nothing, as far as is known yet."""
    had = stamp_in(migration.metadata)
    if is_finished(migration) or (had is not None and had.cells):
        return
    yield Change(MIGRATIONS, migration.metadata, FREE if cost is None else stamp_for(MAINTENANCE, cost))


def _machine(facts: Facts, machine: VirtualMachine, *, runs: bool) -> Change:
    also = {COST: write_cost(facts.machine_cost)}
    if runs:
        pays = facts.charged if facts.is_of_template else facts.machine_cost | facts.charged
        return Change(VIRTUAL_MACHINES, machine.metadata, stamp_for(VMS, pays), also)
    had = stamp_in(machine.metadata)
    if had is None or not counts(machine):
        return Change(VIRTUAL_MACHINES, machine.metadata, stamp_for(VMS, facts.machine_cost), also)
    # It restarts: its next instance may be on its way, and was told that the machine pays.
    return Change(VIRTUAL_MACHINES, machine.metadata, stamp_for(VMS, facts.machine_cost | amounts_in(had, VMS)), also)


def worked_out(pod: WatchedPod) -> Amounts | None:
    """What its instance cost when the pod was made: KubeVirt copies annotations of an instance to its pods. None: that was
    before anybody stamped it."""
    try:
        return read_cost(pod.metadata)
    except BadStamp:
        return None


def followed(cost: Amounts, pod: WatchedPod) -> Amounts:
    """The cost of an instance that runs in a pod. It falls only from what was worked out for this very pod: one that is about
    to get more keeps what it was admitted with, until KubeVirt has made a larger pod."""
    takes = launcher_takes(pod.spec, cost)
    return takes if worked_out(pod) == cost else cost | takes


def told(facts: Facts, *, now: datetime) -> Conditions | None:
    """The conditions that the instance ought to have; None: it has them."""
    if facts.instance is None:
        return None
    conditions = facts.instance.status.conditions
    has, message = find_condition(conditions, FOLLOWS), _difference(facts)
    if message is None or (has is not None and (has.status, has.message) == ("True", message)):
        return None
    if not message:
        return drop_condition(conditions, FOLLOWS) if has is not None else None
    generation = facts.instance.metadata.generation
    return set_condition(conditions, FOLLOWS, status=True, reason="PodDiffers", message=message, generation=generation, now=now)


def _difference(facts: Facts) -> str | None:
    """Empty: what was worked out is what the pods take. None: what was worked out is not known any more."""
    for pod in facts.pods:
        had = worked_out(pod)
        expected = facts.instance_cost if had is None else had
        takes = launcher_takes(pod.spec, expected)
        if takes != expected:
            return (
                f"Pod {pod.metadata.name} takes {_spelled(takes)}, and {_spelled(expected)} was worked out:"
                " the VM is charged what the pod takes"
            )
        if had is None:
            return None
    return "" if facts.pods else None


def _spelled(amounts: Amounts) -> str:
    return ", ".join(f"{name} {value}" for name, value in amounts.written().items())


def stamp_in(meta: Meta) -> Stamp | None:
    """None: there is none, or it cannot be read."""
    try:
        return stamp_of(meta)
    except (BadStamp, BadAmount):
        return None
