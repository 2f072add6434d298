"""The two hooks for Namespaces. One writes the shares that follow from the annotations, in the same request, and puts back what
others write in their place; the other refuses annotations that are wrong, and shares that what runs does not fit into, and has
the ledger hold first and lower shares before the request is answered.

A Namespace hook that is away must not be in anybody's way: only requests come here that change one of these annotations, or
the label, of a namespace that has or had something of it. All else passes, whether anybody answers or not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ullage.headroom.accounts import MAINTENANCE, VMS
from ullage.headroom.namespaces import GUARDED, HEADROOM_LABEL, INPUTS, NOT_OURS, Marks, marks_for, with_marks
from ullage.headroom.shares import (
    DIVIDED,
    MAINTENANCE_QUOTA,
    RESOURCE_QUOTA,
    Reading,
    Resource,
    ShareFault,
    Shares,
    read_shares,
)
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.errors import Cause
from ullage.kube.identities import is_own
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_true
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.kube.slices import Wiring
from ullage.ledger.amounts import NOTHING, Cell, Takings, spell
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.charging.registry import registry_of
from ullage.ledger.codec import READY, book_of
from ullage.ledger.keys import ledger_name
from ullage.quantity import Quantity

WATCHES: Final = (LEDGERS,)  # read one by one, too
Used = Callable[[str], Awaitable["Usage"]]
Hold = Callable[[Review], Awaitable[Decision | None]]  # has the limits of a request hold from its answer on


@dataclass(frozen=True, slots=True)
class Usage:
    """What is taken of a namespace's accounts, and what of that was admitted and is not there yet."""

    taken: Takings = NOTHING
    reserved: Takings = NOTHING


# --- rules -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShareFacts:
    """A change of the shares of a namespace, and what is used there."""

    namespace: str
    new: Shares
    old: Shares
    usage: Usage
    unlimited: frozenset[str] = frozenset()  # resources that the quota does not limit any more, while their percentages stay


def stranded(facts: ShareFacts) -> list[str]:
    """What would not fit any more: every resource, with its numbers. A share that does not shrink strands nobody, also where
    too much is used already: whoever makes room step by step may."""
    return [*_vms(facts), *_migrations(facts)]


def _vms(facts: ShareFacts) -> Iterator[str]:
    for resource in DIVIDED:
        new, old = facts.new.get(resource.name), facts.old.get(resource.name)
        if new is None or (old is not None and new.vms >= old.vms):
            continue
        taken, reserved = _amounts(facts.usage, Cell(VMS, resource.name))
        limit = resource.quantity(new.vms)
        if taken > limit:
            kept = f"of the quota of {_spell(resource, new.whole)}, {_spell(resource, new.maintenance)} would be kept"
            yield (
                f"what runs in namespace {facts.namespace} takes {_taken(resource, taken, reserved)} of {resource.name}, and"
                f" {spell(resource.name, limit, down=True)} would be left for it, {spell(resource.name, taken - limit)} too"
                f" little ({kept} for maintenance): stop VMs first"
            )


def _migrations(facts: ShareFacts) -> Iterator[str]:
    """Where nothing is kept any more, VMs that start may take what a migration under way still needs."""
    for resource in DIVIDED:
        new, old = facts.new.get(resource.name), facts.old.get(resource.name)
        if resource.name in facts.unlimited:
            continue  # nothing else is limited either: no VM that starts takes what a migration needs
        if (new is None and old is None) or (new is not None and old is not None and new.maintenance >= old.maintenance):
            continue
        taken, reserved = _amounts(facts.usage, Cell(MAINTENANCE, resource.name))
        limit = resource.quantity(new.maintenance if new is not None else 0)
        if taken > limit:
            left = f"{spell(resource.name, limit, down=True)} would be kept for them" if limit.nanos else "none would be kept"
            yield (
                f"migrations that are under way in namespace {facts.namespace} hold {_taken(resource, taken, reserved)} of"
                f" {resource.name}, and {left}: wait until they have ended, or delete them"
            )


def _amounts(usage: Usage, cell: Cell) -> tuple[Quantity, Quantity]:
    return usage.taken[cell], usage.reserved[cell]


def _taken(resource: Resource, taken: Quantity, reserved: Quantity) -> str:
    pending = f" ({spell(resource.name, reserved)} of it reserved)" if reserved.nanos else ""
    return f"{spell(resource.name, taken)}{pending}"


def _spell(resource: Resource, units: int) -> str:
    return spell(resource.name, resource.quantity(units), down=True)


def behind(new: Meta, marks: Marks) -> ShareFault | None:
    """What another webhook has changed after ours."""
    annotations = ((key, wanted, new.annotations.get(key), "annotations") for key, wanted in marks.annotations.items())
    label = (HEADROOM_LABEL, marks.label, new.labels.get(HEADROOM_LABEL), "labels")
    for key, wanted, found, where in (*annotations, label):
        if found != wanted:
            said = f"it is {found or 'missing'}, and Ullage had written {wanted or 'none'}: another webhook changes it"
            return ShareFault(key, f"{said}; only Ullage may", where)
    return None


# --- the hooks -------------------------------------------------------------------------------------------------------


class NamespaceHooks:
    """Answers admission requests for Namespaces."""

    def __init__(self, used: Used, hold: Hold) -> None:
        self._used = used
        self._hold = hold

    async def mutate(self, review: Review) -> Decision:
        asked = _Asked.of(review)
        if asked.reading.faults and asked.changed:
            return _invalid(asked.reading.faults)
        new = review.object_json()
        changed = with_marks(new, asked.marks)
        return Decision.allow() if changed == new else review.change(new, changed)

    async def validate(self, review: Review) -> Decision:
        asked = _Asked.of(review)
        if asked.reading.faults and asked.changed:
            return _invalid(asked.reading.faults)
        if (fault := behind(asked.new, asked.marks)) is not None:
            return _invalid((fault,))
        old = read_shares(asked.old.annotations).shares if asked.old is not None else {}
        warnings = asked.warnings(old)
        if asked.reading.faults:
            return Decision.allow(warnings=warnings)
        if not asked.own and asked.old is not None and asked.reading.shares != old:
            namespace, unlimited = asked.new.name, frozenset(asked.reading.idle)
            usage = await self._used(namespace)
            facts = ShareFacts(namespace, new=asked.reading.shares, old=old, usage=usage, unlimited=unlimited)
            if said := stranded(facts):
                return Decision.refuse(f"{'; '.join(said)}. Next: ullage usage -n {namespace}")
        return await self._hold(review) or Decision.allow(warnings=warnings)

    def hooks(self) -> tuple[Hook, Hook]:
        # Of a Namespace the API server lets annotations be changed through its subresources, too.
        targets = (Target.of(NAMESPACES, "CREATE", "UPDATE", subresources=("", "status", "finalize")),)
        return (
            Hook(
                name="headroom-namespace-shares",
                phase="mutate",
                targets=targets,
                answer=self.mutate,
                only_if=ONLY_IF,
                side_effects="None",
                reinvoke=True,
            ),
            Hook(
                name="headroom-namespace",
                phase="validate",
                targets=targets,
                answer=self.validate,
                only_if=ONLY_IF,
            ),
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request, read."""

    new: Meta
    old: Meta | None
    own: bool
    reading: Reading
    marks: Marks

    @classmethod
    def of(cls, review: Review) -> _Asked:
        old = review.old(NAMESPACES)
        new, before, own = review.object(NAMESPACES).metadata, old.metadata if old is not None else None, is_own(review)
        reading = read_shares(new.annotations)
        return cls(new, before, own, reading, marks_for(reading, new, before, own=own))

    @property
    def changed(self) -> bool:
        """What was wrong before there was anybody to say so is in nobody's way who changes something else."""
        old = self.old
        return old is None or any(self.new.annotations.get(key) != old.annotations.get(key) for key in INPUTS)

    def warnings(self, before: Shares) -> tuple[str, ...]:
        """What its author may not know: percentages that keep nothing back, and shares that went with their quota."""
        if self.own or not self.changed:
            return ()
        idle = tuple(map(str, self.reading.idle.values()))
        gone = sorted(name for name in self.reading.idle if name in before)
        if not gone:
            return idle
        return (*idle, f"the shares of {' and '.join(gone)} go with the quota, and what is booked stays booked")


def _invalid(faults: tuple[ShareFault, ...]) -> Decision:
    causes = (Cause(one.field, "FieldValueInvalid", one.problem) for one in faults)
    return Decision.invalid("; ".join(map(str, faults)), *causes)


# --- which requests come here ----------------------------------------------------------------------------------------


def _value(of: str, where: str) -> str:
    return f"(has({of}.metadata.{where}) && mark in {of}.metadata.{where} ? {of}.metadata.{where}[mark] : '')"


def _has(of: str) -> str:
    """Whether it has anything of ours. A quota alone is Rancher's business."""
    annotations = f"{[MAINTENANCE_QUOTA, *GUARDED]!r}.exists(mark, {_value(of, 'annotations')} != '')"
    return f"{annotations} || {[HEADROOM_LABEL]!r}.exists(mark, {_value(of, 'labels')} != '')"


def _differ(marks: list[str], where: str) -> str:
    return f"{marks!r}.exists(mark, {_value('object', where)} != {_value('oldObject', where)})"


_CHANGES: Final = (
    f"{_differ([RESOURCE_QUOTA, MAINTENANCE_QUOTA, *GUARDED], 'annotations')} || {_differ([HEADROOM_LABEL], 'labels')}"
)
ONLY_IF: Final[Mapping[str, str]] = {
    "ours": f"!has(object.metadata.name) || !(object.metadata.name in {list(NOT_OURS)!r})",  # a name may yet be generated
    "stays": "!has(object.metadata.deletionTimestamp)",
    "has-shares": f"{_has('object')} || (oldObject != null && ({_has('oldObject')}))",
    "shares-change": f"oldObject == null || {_CHANGES}",
}


# --- composition -----------------------------------------------------------------------------------------------------


def make_hooks(wiring: Wiring) -> tuple[Hook, Hook]:
    registry = registry_of(wiring)

    async def used(namespace: str) -> Usage:
        """As the ledger says now, and not as it was when its last change came by. What is in one that is not exact yet, and
        before there is one, may be less than what stands on the objects: then the larger of both holds."""
        name = ledger_name(namespace)
        ledger = await wiring.client.find(LEDGERS, name, LEDGER_NAMESPACE)
        if ledger is None:
            return Usage(registry.counted(name))
        book = book_of(ledger, now=wiring.clock.now())
        taken = book.used + book.reserved
        exact = is_true(ledger.status.conditions, READY)
        return Usage(taken if exact else taken | registry.counted(name), book.reserved)

    return NamespaceHooks(used, registry.limiting(NAMESPACES).hold).hooks()
