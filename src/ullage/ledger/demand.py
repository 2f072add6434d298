"""What is asked for beyond the limits, written into the ledger for somebody to see who may do something about it. Pure.

Limits that are grants are parts of something larger that somebody else gives away, and may give more of. Where such a limit is
in the way, how much would do is written down, and whoever asked may wait for it. Only that is written: a demand promises
nothing, is never more than the whole, and says as much for many as for one.

Room may also be made below a limit, by a slice that may take older things away. So whoever waits for that is written down
under the key of its object, with what it would take: many tries of one name are one, and nothing is taken away that nobody
asks for. The entry goes in the very write that books the object, or when nobody has asked for some seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from ullage.ledger.amounts import Cell, Takings, Waiter, Wanted, total
from ullage.ledger.book import Book, Charge, Refusal
from ullage.quantity import Quantity

MOST_WAITERS: Final = 100  # in one ledger: whoever comes after them gets a place when one of these has gone
RENEW: Final = 5_000  # milliseconds after which one who still asks is written down anew
STALE: Final = 30_000  # milliseconds after which one who does not ask gives up its place to another, where there is no other
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# --- grants ----------------------------------------------------------------------------------------------------------


def may_be_granted(book: Book, refusal: Refusal) -> bool:
    """Whether more may come: every limit that is in the way is a grant, and the whole that it is part of would do. Where an
    ordinary limit is in the way too, nothing would help."""
    cells = {Cell(one.account, one.resource): one.used + one.reserved + one.asked for one in refusal.over}
    return all(cell in book.grants and needed <= book.grants[cell] for cell, needed in cells.items())


def wanted_by(book: Book, charges: Iterable[Charge]) -> dict[Cell, Quantity]:
    """The limits with which all of these would fit. Tries of one name are one: only one of them can come of it."""
    most: dict[str, Takings] = {}
    for charge in charges:
        more = charge.now.beyond(charge.old)
        most[charge.key] = most[charge.key] | more if charge.key in most else more
    asked = total(most.values())
    return {cell: book.used[cell] + book.reserved[cell] + asked[cell] for cell in asked}


def with_demand(book: Book, wanted: Mapping[Cell, Quantity], now: datetime, *, renewed: bool = False) -> Book:
    """The book that says what is wanted, of grants alone; the very same book where it says as much already. `renewed`: what it
    says is still asked for."""
    demand = dict(book.demand)
    for cell, needed in wanted.items():
        limit = book.limits.get(cell)
        if limit is None or cell not in book.grants or needed <= limit:
            continue
        most, standing = min(needed, book.grants[cell]), demand.get(cell)
        if standing is None:
            demand[cell] = Wanted(most, now, now)
        elif most > standing.limit or renewed:
            demand[cell] = Wanted(max(most, standing.limit), standing.since, now)
    return replace(book, demand=demand) if demand != book.demand else book


def without_met(book: Book) -> Book:
    """The book without demands that are met, or that nobody can meet any more; the very same book where there are none."""
    met = [cell for cell, one in book.demand.items() if cell not in book.grants or is_met(book, cell, one)]
    return without_demand(book, met)


def is_met(book: Book, cell: Cell, wanted: Wanted) -> bool:
    limit = book.limits.get(cell)
    return limit is None or limit >= wanted.limit


def without_demand(book: Book, cells: Collection[Cell]) -> Book:
    """The book without some demands: nobody has asked for a while."""
    left = {cell: one for cell, one in book.demand.items() if cell not in cells}
    return replace(book, demand=left) if len(left) < len(book.demand) else book


# --- room that is made -----------------------------------------------------------------------------------------------


def with_waiters(book: Book, charges: Iterable[Charge], now: datetime) -> Book:
    """The book that has these among those who wait; the very same book where it says as much already."""
    moment, waiting = milliseconds(now), dict(book.waiting)
    for charge in charges:
        takes, known = charge.now.beyond(charge.old), waiting.get(charge.key)
        if known is None and not _has_place(waiting, moment):
            continue
        if known is None or known.takes != takes or not 0 <= moment - known.asked <= RENEW:
            waiting[charge.key] = Waiter(takes, moment if known is None else known.since, moment)
    return replace(book, waiting=waiting) if waiting != book.waiting else book


def _has_place(waiting: dict[str, Waiter], moment: int) -> bool:
    """Makes one where there is none: of those who have not asked for longest."""
    if len(waiting) < MOST_WAITERS:
        return True
    oldest = min(waiting, key=lambda key: (waiting[key].asked, key))
    if moment - waiting[oldest].asked <= STALE:
        return False
    del waiting[oldest]
    return True


def without_waiters(book: Book, keys: Collection[str]) -> Book:
    """The book without some who waited: they got what they asked for, or do not ask any more."""
    left = {key: one for key, one in book.waiting.items() if key not in keys}
    return replace(book, waiting=left) if len(left) < len(book.waiting) else book


def milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
