"""A ledger that starts over: empty, with its limits, to be counted anew by whoever folds next. For operators.

It reads as little as it can of what it throws away, since that may be what is broken.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ullage.ledger.api import Ledger
from ullage.ledger.book import emptied
from ullage.ledger.codec import book_of, status_of

_ALL: Final = frozenset({"all kinds"})  # said to be waited for, until somebody counts who knows which they are


def rebuilt(ledger: Ledger, *, now: datetime) -> Ledger:
    """The ledger to be written. It is not Ready: requests that are on their way are in no count and in no attempt."""
    readable = replace(ledger, status=replace(ledger.status, pending="", sums="", observed={}))
    book = emptied(book_of(readable, now=now), now)
    sources = frozenset(ledger.status.observed) or _ALL
    return replace(ledger, status=status_of(book, ledger, sources=sources, now=now))
