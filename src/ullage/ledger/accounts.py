"""Looking at a book: what still fits on an account, and which limits are passed. Pure."""

from __future__ import annotations

from ullage.ledger.amounts import Amounts
from ullage.ledger.book import Book, Over
from ullage.quantity import ZERO


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
        for cell, limit in sorted(book.limits.items())
        if book.used[cell] + book.reserved[cell] > limit
    )
