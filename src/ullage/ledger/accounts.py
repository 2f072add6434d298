"""Looking at a book: its accounts as values, what still fits on one, and which limits are passed. Pure.

Whoever shows accounts (a command, an API, metrics, a page) shows these, so that all of them say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ullage.ledger.amounts import Amounts, Cell, Limits, is_for_each, limit_on
from ullage.ledger.book import Book, Over, cost
from ullage.quantity import ZERO, Quantity
from ullage.times import timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One resource of one account, as it stands. `limit` is None where there is none."""

    name: str
    resource: str
    used: Quantity
    reserved: Quantity
    limit: Quantity | None
    since: datetime | None  # of the earliest booking that has room reserved here; None where nothing is reserved
    by_kind: Mapping[str, Quantity]  # what is used, by source (`keys.source_of`): kinds that use none are left out

    @classmethod
    def empty(cls, cell: Cell) -> Account:
        """An account that nobody has limited or used."""
        return cls(name=cell.account, resource=cell.resource, used=ZERO, reserved=ZERO, limit=None, since=None, by_kind={})

    @property
    def free(self) -> Quantity | None:
        """What still fits: less than nothing where the limit is passed, None where there is no limit."""
        return None if self.limit is None else self.limit - self.used - self.reserved

    def written(self) -> dict[str, object]:
        """For programs: exact quantities. What does not apply is left out."""
        found: dict[str, object] = {"account": self.name, "resource": self.resource}
        found |= {"used": str(self.used), "reserved": str(self.reserved)}
        if self.limit is not None:
            found |= {"limit": str(self.limit), "free": str(self.free)}
        if self.since is not None:
            found["since"] = timestamp(self.since)
        return {**found, "byKind": {kind: str(quantity) for kind, quantity in self.by_kind.items()}}


def accounts(book: Book) -> tuple[Account, ...]:
    """Everything that is limited, used or reserved, in order."""
    since = _reserved_since(book)
    return tuple(
        Account(
            name=cell.account,
            resource=cell.resource,
            used=book.used[cell],
            reserved=book.reserved[cell],
            limit=limit_on(book.limits, cell),
            since=since.get(cell),
            by_kind={kind: one.sums[cell] for kind, one in sorted(book.observed.items()) if one.sums[cell].nanos},
        )
        for cell in sorted({*book.limits, *book.used, *book.reserved})
    )


def _reserved_since(book: Book) -> dict[Cell, datetime]:
    earliest: dict[Cell, int] = {}
    for slot in book.pending.values():
        for cell in cost(slot):
            booked = min(one.booked for one in slot.attempts.values() if one.takes[cell].nanos)
            earliest[cell] = min(booked, earliest.get(cell, booked))
    return {cell: _EPOCH + timedelta(milliseconds=booked) for cell, booked in earliest.items()}


def available(book: Book, account: str) -> Amounts:
    """What still fits, of the resources that have a limit on this account (all others are without end).

    A resource whose limit is used up is not among the amounts, and reads as zero.
    """
    free = (
        (cell.resource, limit - book.used[cell] - book.reserved[cell])
        for cell, limit in book.limits.items()
        if cell.account == account
    )
    return Amounts({resource: quantity for resource, quantity in free if quantity.nanos > 0})


def passed(book: Book) -> tuple[Over, ...]:
    """The limits that present use has passed: a limit set below it, or growth that had happened before it was known."""
    return tuple(
        Over(**cell._asdict(), asked=ZERO, used=book.used[cell], reserved=book.reserved[cell], limit=limit)
        for cell, limit in sorted(limits_on(book).items())
        if book.used[cell] + book.reserved[cell] > limit
    )


def limits_on(book: Book) -> Limits:
    """The limits, by the cells that they are on: one on each account of a sort is on those that use something."""
    if not any(is_for_each(cell) for cell in book.limits):
        return book.limits
    own = {cell: limit for cell, limit in book.limits.items() if not is_for_each(cell)}
    taken = {*book.used, *book.reserved} - own.keys()
    return own | {cell: limit for cell in taken if (limit := limit_on(book.limits, cell)) is not None}
