"""Counts that begin anew: of an API that was restored from a backup, and of a ledger that an operator has emptied.

Positions of a watch never go back, and views of an older one are never folded. A backup that is restored undoes that: what
was counted is of a history that has not been. So a new epoch begins for its sources. What was counted and reserved stays; it is
counted anew by those alone who have listed everything since they saw the new epoch. Somebody who was held up has not, whatever
the position of his view, and where he writes without looking, the API server refuses that for its version.

How it is noticed: by the source's own server, asked after a count was seen, that has not got as far as that count; and, of the
API that has the ledgers, by a ledger that is older than one that was seen or written. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass
from dataclasses import replace as replaced
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ullage.ledger.api import Ledger
from ullage.ledger.book import NOT_YET, Book, Epochs, Observed
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.keys import cluster_of
from ullage.ledger.limiting.noticing import since_after, unknown_positions
from ullage.ledger.packing import in_flight
from ullage.ledger.packing.strings import PackedError

UNSEEN: Final = 0  # the position of a count that nobody has made yet in its epoch: every other is newer
_ALL: Final = frozenset({"all kinds"})  # said to be waited for, until somebody counts who knows which they are


# --- restored from a backup ------------------------------------------------------------------------------------------


def is_behind(latest: int, counted: Observed) -> bool:
    """Whether a server is not as far as it was when something was counted. `latest` is what it said when it was asked after
    that count had been seen: a view may be behind, the server itself cannot."""
    return latest < counted.view


def with_restored(book: Book, sources: Collection[str], now: datetime, *, above: int = 0) -> Book:
    """The book in a new epoch for these sources. It is exact again once they were counted after the request timeout."""
    return begun_anew(book, sources, now, above=above, restored=book.epochs.restored | frozenset(sources))


def with_lost_bookings(book: Book, sources: Collection[str], now: datetime, *, above: int = 0) -> Book:
    """The book of a ledger that was restored itself: what was booked since is lost. So no source is exact, though only those
    of our own API (`sources`) are to be listed anew. `above` is the epoch that was seen before."""
    return replaced(with_restored(book, sources, now, above=above), exact_from=unknown_positions(book))


def begun_anew(
    book: Book, sources: Collection[str], now: datetime, *, above: int = 0, restored: frozenset[str] = frozenset()
) -> Book:
    epoch = max(book.epochs.last, above) + 1
    return replaced(
        book,
        observed={
            name: Observed(UNSEEN, one.time, one.sums) if name in sources else one for name, one in book.observed.items()
        },
        since=since_after(book, now),
        exact_from={
            name: NOT_YET if name in sources else position
            for name, position in book.exact_from.items()
            if name not in sources or cluster_of(name)
        },
        epochs=Epochs(last=epoch, begun={**book.epochs.begun, **dict.fromkeys(sources, epoch)}, restored=restored),
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """What one process has seen of a ledger last, or written there. None of it goes back while the API lives one life; the
    version alone may have been passed again by an API that was restored."""

    uid: str
    version: int
    change: int
    epoch: int
    last_booking: str

    @classmethod
    def of(cls, ledger: Ledger) -> Memory:
        meta, status = ledger.metadata, ledger.status
        return cls(meta.uid, int(meta.resource_version), ledger.spec.change, status.epoch, status.last_booking)


def went_back(ledger: Ledger, memory: Memory | None) -> bool:
    """Whether a ledger, as the API itself has it, is older than one that was seen: the API was restored from a backup. Not so
    where somebody has noticed already, or where it was deleted and made anew."""
    if memory is None:
        return False
    now = Memory.of(ledger)
    if now.version < memory.version:
        return now.epoch <= memory.epoch
    if now.uid != memory.uid or now.epoch > memory.epoch:
        return False
    return now.change < memory.change or now.epoch < memory.epoch or now.last_booking < memory.last_booking


# --- rebuilt ---------------------------------------------------------------------------------------------------------


def emptied(book: Book, sources: Set[str], now: datetime) -> Book:
    """A book that knows nothing but its limits, those in flight too: everything is counted anew, and exact again after the
    request timeout. How far objects with limits have to be seen is forgotten: a backup of another API may have brought it."""
    limited = frozenset(cell.account for cell in book.limits)
    anew = begun_anew(book, sources, now)
    return Book.of(
        limits=book.carried,
        in_flight=book.in_flight,
        last=book.last,
        limited=limited,
        since=anew.since,
        exact_from=unknown_positions(book),
        epochs=anew.epochs,
        grants=book.grants,
    )


def _readable_limits(ledger: Ledger) -> str:
    """The limits in flight, where they can be read: they hold on. Where they cannot, only a rebuild gets on."""
    try:
        in_flight.decode(ledger.status.limits_in_flight, ledger=ledger.metadata.name)
    except PackedError:
        return ""
    return ledger.status.limits_in_flight


def rebuilt(ledger: Ledger, *, now: datetime) -> Ledger:
    """The ledger to be written, which starts over: empty, with its limits, to be counted anew by whoever folds next. It reads
    as little as it can of what it throws away, since that may be what is broken. It is not Ready: requests that are on their
    way are in no count and in no attempt."""
    counted = frozenset(ledger.status.observed)
    kept = _readable_limits(ledger)
    readable = replace(
        ledger, status=replace(ledger.status, pending="", waiting="", sums="", observed={}, limits_in_flight=kept)
    )
    book = emptied(book_of(readable, now=now), counted, now)
    return replace(ledger, status=status_of(book, ledger, sources=counted or _ALL, now=now))
