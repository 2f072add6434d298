"""Bringing a book up to date with what was seen: sums become the observed ones, attempts that are settled go.

Pure, like `book.py`. Whoever writes a ledger folds in the same write, source by source, each with its own view of it. The
rules are named functions, each a line or two; together they decide that no attempt goes while it may still commit, and that
none stays for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from ullage.ledger.amounts import NOTHING, Takings, total
from ullage.ledger.book import NO_UID, Attempt, AttemptId, Book, Epochs, Observed, Slot, cost, grown_in
from ullage.ledger.keys import cluster_of, kind_of, source_of


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as a view has it. `takes` is what it takes from the accounts of the ledger that is folded."""

    uid: str
    version: int
    takes: Takings


class View(Protocol):
    """What one process has seen of one source, for one ledger. All of it belongs to one position: nothing may change while a
    fold runs. Only a view that is synced may be folded; one of a kind that is not served is empty and synced."""

    @property
    def position(self) -> int:
        """The watch position: every change up to it is in, and none after."""

    @property
    def epoch(self) -> int:
        """Of the epochs of this source, in this ledger, the last that was seen before everything was listed."""

    @property
    def sums(self) -> Takings:
        """What all objects of the source take from this ledger."""

    def get(self, key: str) -> Seen | None:
        """The object under a ledger key, whether or not it takes anything."""

    def gone(self, uid: str) -> bool:
        """Whether an object with this uid was there and was seen to go. It may be forgotten after the expiry of attempts."""


@dataclass(frozen=True, slots=True)
class Live:
    """What the API server itself said about a key, in a read that began after the attempt had expired."""

    uid: str = ""  # empty: there is no such object
    version: int = 0


LiveReads = Mapping[AttemptId, Live]


def fold(book: Book, view: View, *, kind: str, now: datetime, live: LiveReads | None = None) -> Book:
    """The book with one source counted as the view has it; the very same book if the view is older than the one it has, or of
    another epoch.

    `kind` is the source (`keys.source_of`). `now` is the moment at which the view was known to be complete: the time when
    the server was last heard, not later. `live` holds the reads for attempts that `expired` named.
    """
    if is_older(view, book.observed.get(kind)) or is_of_another_epoch(view, book.epochs.begun.get(kind, 0)):
        return book
    sums = view.sums
    old = book.observed.get(kind)
    observed = {**book.observed, kind: Observed(view.position, now, sums)}
    used = book.used + sums - (old.sums if old else NOTHING)
    found = {
        key: _folded(key, slot, view=view, live=live or {}) for key, slot in book.pending.items() if source_of(key) == kind
    }
    return replace(_with_slots(book, found), observed=observed, used=used)


def without_lost(book: Book, live: LiveReads) -> Book:
    """The book without the attempts that came to nothing or are in its sums already, by reads that began after they had
    expired; the very same book if it has none of them.

    Unlike a fold this needs no view: the watch of an idle kind lags behind others by up to a minute, and the room would stay
    reserved for as long. What is counted under the key stays as it is, since the sums do.
    """
    left: dict[str, Slot | None] = {}
    for one, found in live.items():
        slot = left.get(one.key, book.pending.get(one.key))
        if slot is not None and is_same(one, slot.attempts.get(one.uid)) and is_lost(one.uid, found, reached(book, one.key)):
            kept = {uid: attempt for uid, attempt in slot.attempts.items() if uid != one.uid}
            left[one.key] = Slot(kept, slot.counted) if kept else None
    return _with_slots(book, left) if left else book


def reached(book: Book, key: str) -> int:
    """The position up to which the sums of the book hold everything that has such a key."""
    observed = book.observed.get(source_of(key))
    return observed.view if observed else -1


def clusters_in(book: Book) -> frozenset[str]:
    """The other clusters that a book has anything of."""
    sources = {*book.observed, *book.exact_from, *(source_of(key) for key in book.pending)}
    return frozenset(cluster for source in sources if (cluster := cluster_of(source)))


def without_clusters(book: Book, removed: Set[str]) -> Book:
    """The book without anything of clusters that were removed on purpose: neither sums nor attempts; the very same book if it
    has nothing of them.

    Somebody who was held up may write it back, and it is dropped again with the next answer: too much is counted meanwhile,
    never too little. `removed` holds for this book alone. It is the answer to a question that was asked after the book had been
    read; the cluster may be there again since, and then this book is not the latest any more.
    """
    if not any(is_removed(cluster, removed) for cluster in clusters_in(book)):
        return book
    dropped = {key: None for key in book.pending if is_removed(cluster_of(source_of(key)), removed)}
    left = {source: one for source, one in book.observed.items() if not is_removed(cluster_of(source), removed)}
    gone = total(one.sums for source, one in book.observed.items() if source not in left)
    exact = {source: at for source, at in book.exact_from.items() if not is_removed(cluster_of(source), removed)}
    return replace(_with_slots(book, dropped), observed=left, used=book.used - gone, exact_from=exact)


def left_over(book: Book, kinds: Set[str]) -> frozenset[str]:
    """The sources that a book has something of, counts, bookings or limits on their way, and that are of other kinds."""
    keys = (*book.pending, *(one.key for one in book.in_flight))
    sources = {*book.observed, *book.exact_from, *book.reached, *map(source_of, keys)}
    return frozenset(source for source in sources if kind_of(source) not in kinds)


def without_sources(book: Book, gone: Set[str]) -> Book:
    """The book without anything of sources that no process charges any more: neither sums, nor attempts, nor limits on their
    way; the very same book where there are none. A new epoch begins for each: a process that charges one of them again counts
    it from a list that is newer than this."""
    if not gone:
        return book
    dropped = {key: None for key in book.pending if source_of(key) in gone}
    less = total(one.sums for source, one in book.observed.items() if source in gone)
    epoch = book.epochs.last + 1
    epochs = Epochs(
        last=epoch, begun={**book.epochs.begun, **dict.fromkeys(gone, epoch)}, restored=book.epochs.restored - frozenset(gone)
    )
    return replace(
        _with_slots(book, dropped),
        observed={source: one for source, one in book.observed.items() if source not in gone},
        used=book.used - less,
        exact_from={source: at for source, at in book.exact_from.items() if source not in gone},
        epochs=epochs,
        in_flight={one: attempt for one, attempt in book.in_flight.items() if source_of(one.key) not in gone},
        reached={source: version for source, version in book.reached.items() if source not in gone},
    )


def _with_slots(book: Book, slots: Mapping[str, Slot | None]) -> Book:
    """The book with other slots under some of its keys, or with none."""
    pending, reserved, held, grown = dict(book.pending), book.reserved, book.held, book.grown
    for key, after in slots.items():
        before = pending.pop(key)
        reserved, held, grown = reserved - cost(before), held - len(before.attempts), grown - grown_in(before)
        if after is not None:
            pending[key] = after
            reserved, held, grown = reserved + cost(after), held + len(after.attempts), grown + grown_in(after)
    return replace(book, pending=pending, reserved=reserved, held=held, grown=grown)


def _folded(key: str, slot: Slot, *, view: View, live: LiveReads) -> Slot | None:
    """Each attempt goes or stays alone: of two creates of one name the first may be made, seen and deleted, and then the
    second, still on its way, commits."""
    seen = view.get(key)
    kept = {
        uid: attempt
        for uid, attempt in slot.attempts.items()
        if not is_settled(uid, attempt, seen=seen, view=view, live=live.get(AttemptId(key, uid, attempt.booked)))
    }
    return Slot(kept, counted_in(seen)) if kept else None


# --- the rules of folding --------------------------------------------------------------------------------------------


def is_older(view: View, observed: Observed | None) -> bool:
    """A replica or leader that was stalled folds nothing: its lease is no fence, the position is."""
    return observed is not None and view.position < observed.view


def may_be_counted(book: Book, kind: str, shows_all: Callable[[str], bool]) -> bool:
    """The first count of a source is of a view that shows all that was there when the ledger was: what was made before is in no
    booking. Whatever is made later is, so that a later view may be behind."""
    return kind in book.observed or shows_all(kind)


def is_removed(cluster: str, removed: Set[str]) -> bool:
    """Only what somebody has removed on purpose. Whoever is not followed, or cannot be reached, has what it had."""
    return cluster in removed


def is_of_another_epoch(view: View, epoch: int) -> bool:
    """What was listed before a new epoch was seen may be of a history that a backup has undone: its position says nothing."""
    return view.epoch != epoch


def is_settled(uid: str, attempt: Attempt, *, seen: Seen | None, view: View, live: Live | None) -> bool:
    """Whether the attempt is in, or can never be. Amounts say nothing: an older view may show the object before it shrank. Of
    creates that share an attempt one may be seen, or seen to go, while the next is on its way: those wait for their expiry."""
    return (
        is_in(uid, attempt, seen)
        or (uid != NO_UID and view.gone(uid))
        or (live is not None and is_lost(uid, live, view.position))
    )


def is_in(uid: str, attempt: Attempt, seen: Seen | None) -> bool:
    """The object is there and the attempt was its creation; or it is newer than the version that the update was for, so the
    update is in, or cannot commit without a new admission."""
    if seen is None or seen.uid != uid:
        return False
    return attempt.on_version is None or seen.version > attempt.on_version


def is_lost(uid: str, live: Live, position: int) -> bool:
    """Past expiry nothing commits any more. What came of the attempt is either nothing, or is in the sums of this position."""
    return is_absent(uid, live) or live.version <= position


def is_absent(uid: str, live: Live) -> bool:
    """Past expiry the object is not there: it was never made, or it is gone. Nothing can make it now, and no uid comes back,
    so it takes nothing, whatever any view shows. An object of that name with another uid has its own attempt, or was counted.
    Of creates that share an attempt any may have made what is there.
    """
    return live.uid != uid if uid != NO_UID else not live.uid


def is_same(one: AttemptId, attempt: Attempt | None) -> bool:
    """Whether a read was about this very booking. What was merged into it since is waited for anew; that leans on nothing,
    where the uid alone would lean on nobody ever making one object by two requests."""
    return attempt is not None and attempt.booked == one.booked


def counted_in(seen: Seen | None) -> Takings:
    """What the sums hold under the key, whatever the uid of the object is."""
    return seen.takes if seen else NOTHING


# --- expiry ----------------------------------------------------------------------------------------------------------


Since = Callable[[str], float]
"""By cluster: the moment since which its API server has answered without a break, on the clock of this process."""


def still_seen(
    book: Book, first_seen: Mapping[AttemptId, float], now: float, *, answers_since: Since
) -> dict[AttemptId, float]:
    """When each attempt of the book was first seen, on the clock of this process; what is no longer there is forgotten.

    First sights begin anew where the API server was silent since: a write that was under way then is stored when it goes on,
    however long that takes.
    """
    seen = ((one, first_seen.get(one, now)) for one in book.attempts())
    return {one: max(first, answers_since(cluster_of(source_of(one.key)))) for one, first in seen}


def expired(book: Book, first_seen: Mapping[AttemptId, float], now: float, expiry: Callable[[str], float]) -> list[AttemptId]:
    """The attempts that a live read can settle. Seconds are those of one monotonic clock, from the first sight of the
    attempt, so it does not matter what time it is elsewhere. Attempts that were never seen have not expired. `expiry` is by
    cluster."""
    return [
        one for one in book.attempts() if one in first_seen and now - first_seen[one] > expiry(cluster_of(source_of(one.key)))
    ]
