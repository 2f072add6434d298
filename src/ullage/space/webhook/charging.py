"""The two hooks of a kind that takes snapshot space. One stamps what is new and puts back what others write on the marks of
ours; the other books it, or refuses with every number.

Edits that leave the marks alone are not asked about: whoever takes off a finalizer does not need us.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from ullage.kube.identities import is_own
from ullage.kube.kinds import Kind, Object
from ullage.kube.review import Decision, Hook, Review, Target
from ullage.ledger.amounts import BadAmount
from ullage.ledger.charging.registry import Charged, Relief
from ullage.ledger.charging.stamps import (
    AT_MOST,
    CHARGED_NAMESPACE,
    ESTIMATED_BY,
    PLAN,
    STAMP,
    BadStamp,
    Marks,
    Stamp,
    guard_fault,
    guarded,
    stamp_of,
)
from ullage.ledger.charging.waiting import WAITS
from ullage.snapshots.model import CUT
from ullage.space.accounts import NAMESPACE_CELL, TooManyMachines, bytes_of, quantity, vm_cell

T = TypeVar("T", bound=Object)

GUARDED: Final = (STAMP, CHARGED_NAMESPACE, PLAN, CUT, ESTIMATED_BY, AT_MOST, WAITS)


class Terms(Protocol):
    """What a slice knows of a kind."""

    async def fresh(self, review: Review) -> Marks:
        """The marks of a new object; what is not among them, it is not to have."""

    async def happened(self, review: Review) -> bool:
        """Whether what the object takes is taken already, so that a limit cannot be in the way. It is believed of the
        trusted."""

    def trusts(self, review: Review) -> bool: ...

    async def shares(self, review: Review, amount: int) -> Mapping[str, int]:
        """What each virtual machine would pay now for an object that is there, and that takes so many bytes. Raises
        TooManyMachines."""

    def next_step(self, review: Review) -> str: ...


class ChargingHooks(Generic[T]):
    def __init__(
        self,
        kind: Kind[T],
        charged: Charged[T],
        terms: Terms,
        *,
        relieve: Relief | None = None,
        check: Callable[[Review], Awaitable[Decision | None]] | None = None,
        prepare: Callable[[Review], Awaitable[None]] | None = None,
    ) -> None:
        """`relieve` may have room made for what does not fit; `check` may refuse what is new before it is booked; `prepare`
        comes after all refusals but that of the ledger."""
        self._kind = kind
        self._charged = charged
        self._terms = terms
        self._relieve = relieve
        self._check = check
        self._prepare = prepare

    async def mutate(self, review: Review) -> Decision:
        try:
            widened = await self._widened(review) if review.operation == "UPDATE" and is_own(review) else None
            if widened is not None:
                return review.change({"metadata": {}}, {"metadata": {"annotations": {STAMP: str(widened)}}})
            return guarded(review, self._kind, await self._marks(review))
        except TooManyMachines as error:
            return Decision.refuse(str(error))

    async def validate(self, review: Review) -> Decision:
        try:
            marks = dict.fromkeys(GUARDED) if is_own(review) else await self._marks(review)
        except TooManyMachines as error:
            return Decision.refuse(str(error))
        fault = guard_fault(review, self._kind, marks)
        if fault is None and self._check is not None and review.operation == "CREATE":
            fault = await self._check(review)
        if fault is not None:
            return fault
        if review.operation == "CREATE" and review.dry_run and is_own(review):
            return Decision.allow()  # whether others would admit it if there were room (`policies/counts/webhook/trial.py`)
        if self._prepare is not None and review.operation == "CREATE":
            await self._prepare(review)
        trusts = self._terms.trusts
        past_limit = trusts(review) and await self._terms.happened(review)
        next_step = self._terms.next_step(review)
        return await self._charged.decide(
            review, next_step=next_step, past_limit=past_limit, trusted=trusts, relieve=self._relieve
        )

    async def _widened(self, review: Review) -> Stamp | None:
        """What is raised before the cut is paid by all who share the claim at that moment: more may than when it was asked
        for. None: as it is."""
        new, old = review.object(self._kind).metadata, review.old(self._kind)
        if old is None or new.annotations.get(STAMP) == old.metadata.annotations.get(STAMP):
            return None
        try:
            stamp = stamp_of(new)
        except (BadStamp, BadAmount):
            return None  # the other hook says so
        if NAMESPACE_CELL not in stamp.cells or await self._terms.happened(review):
            return None
        shares = await self._terms.shares(review, bytes_of(stamp))
        missing = {vm_cell(vm): quantity(share) for vm, share in shares.items() if vm_cell(vm) not in stamp.cells}
        return Stamp({**stamp.cells, **missing}) if missing else None

    async def _marks(self, review: Review) -> Marks:
        none: Mapping[str, str | None] = dict.fromkeys(GUARDED)
        if review.operation == "CREATE":
            return {**none, **await self._terms.fresh(review)}
        return none

    def hooks(self, name: str, *, only_in: tuple[str, ...] = ()) -> tuple[Hook, Hook]:
        targets = (Target.of(self._kind, "CREATE", "UPDATE"),)
        return (
            Hook(
                name=f"{name}-stamp",
                phase="mutate",
                targets=targets,
                answer=self.mutate,
                only_in=only_in,
                only_if=MARKED,
                side_effects="None",
                reinvoke=True,
            ),
            Hook(
                name=f"{name}-charge", phase="validate", targets=targets, answer=self.validate, only_in=only_in, only_if=MARKED
            ),
        )


def _mark(of: str) -> str:
    return f"(has({of}.metadata.annotations) && mark in {of}.metadata.annotations ? {of}.metadata.annotations[mark] : '')"


_DIFFER: Final = f"{list(GUARDED)!r}.exists(mark, {_mark('object')} != {_mark('oldObject')})"
MARKED: Final = {"marks-differ": f"request.operation == 'CREATE' || {_DIFFER}"}
