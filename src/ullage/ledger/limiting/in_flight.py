"""Limits whose requests are on their way: from the moment that the API has answered such a request, they hold.

A limit is set on an object: a Namespace, a quota, a SnapshotLimit. The hook that admits it books the first and the lower limits
as an attempt before it answers, so no controller has to carry anything for a limit to hold. Processes that decide see those
objects in their caches as well, and the lowest limit of all holds: what an object says that is seen, what may become of it, and
what controllers have carried into the ledger.

An attempt goes when its object was seen newer than the version that it changes: then the request is in, or cannot commit
without a new admission. The ledger says which version was seen, and a process whose cache is older than that decides about no
growth: it would know the limit neither from the attempt nor from the object. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from ullage.ledger.amounts import LimitAttempt, LimitId, Limits, limit_on, lowest, refuse_negative
from ullage.ledger.book import AttemptId, Book, Charge, grows, stamp_for
from ullage.ledger.fold import Live, LiveReads
from ullage.ledger.keys import source_of
from ullage.ledger.limiting.noticing import noticed

MOST_IN_FLIGHT: Final = 100
"""Requests for limits that one ledger holds: each is in every write of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """A request that sets limits: `now` are those of the object that is written, `old` those of the object as it was."""

    key: str
    uid: str
    on_version: int | None = None  # None: a create
    now: Limits
    old: Limits


@dataclass(frozen=True, slots=True)
class SeenLimits:
    """An object that sets limits, as a cache has it."""

    uid: str
    version: int
    limits: Limits


class LimitView(Protocol):
    """The objects of one kind that set limits, as one process sees them, for one ledger. Nothing may change while it is
    used."""

    @property
    def position(self) -> int:
        """The watch position: every change up to it is in."""

    @property
    def limits(self) -> Limits:
        """The lowest limits of all objects of the ledger."""

    def get(self, key: str) -> SeenLimits | None:
        """The object under a key."""

    def gone(self, uid: str) -> bool:
        """Whether an object with this uid was there and was seen to go."""


LimitViews = Mapping[str, LimitView]


# --- setting ---------------------------------------------------------------------------------------------------------


def lowered(change: LimitChange) -> Limits:
    """The first and the lower limits of a change. A limit that is raised or taken away refuses nothing, so it is not booked."""
    return {
        cell: limit for cell, limit in change.now.items() if (before := limit_on(change.old, cell)) is None or limit < before
    }


def with_change(book: Book, change: LimitChange, now: datetime, *, most: int = MOST_IN_FLIGHT) -> Book | None:
    """The book under the limits that a change may set; None where it holds as many as it may. A change that is admitted again,
    on the same version, is one attempt with the lowest limits, and is waited for anew."""
    limits = lowered(change)
    if not limits:
        return book
    refuse_negative(limits)
    one = LimitId(change.key, change.uid, change.on_version)
    before = book.in_flight.get(one)
    if before is None and len(book.in_flight) >= most:
        return None
    stamp = stamp_for(book, now)
    in_flight = {**book.in_flight, one: merged_limits(before, limits, stamp)}
    return noticed(replace(book, last=stamp), now, in_flight=in_flight)


def merged_limits(before: LimitAttempt | None, limits: Limits, stamp: int) -> LimitAttempt:
    return LimitAttempt(lowest((limits, before.limits)) if before is not None else limits, stamp)


# --- seeing ----------------------------------------------------------------------------------------------------------


def with_seen(book: Book, views: LimitViews, now: datetime, *, live: LiveReads | None = None) -> Book:
    """The book under the limits that a process sees, without the attempts that are settled by what it sees."""
    left: dict[LimitId, LimitAttempt] = {}
    reached = dict(book.reached)
    for one, attempt in book.in_flight.items():
        source = source_of(one.key)
        found = (live or {}).get(AttemptId(one.key, one.uid, attempt.booked))
        settled_at = settled(one, view=views.get(source), live=found)
        if settled_at is None:
            left[one] = attempt
        else:
            reached[source] = max(reached.get(source, 0), settled_at)
    shown = lowest(view.limits for view in views.values())
    if len(left) < len(book.in_flight):
        book = replace(book, reached={source: version for source, version in reached.items() if version})
    return noticed(book, now, shown=shown, in_flight=left)


def settled(one: LimitId, *, view: LimitView | None, live: Live | None) -> int | None:
    """The version from which on the object itself says what came of an attempt; 0 where nothing came of it. None: the attempt
    may still commit. That a cache does not show an object says nothing. A live read began after the expiry of the attempt."""
    if live is not None:
        return live.version if live.uid == one.uid else 0
    if view is None:
        return None
    if view.gone(one.uid):
        return 0
    seen = view.get(one.key)
    return seen.version if seen is not None and is_newer(one, seen) else None


def is_newer(one: LimitId, seen: SeenLimits) -> bool:
    """The change is in, or cannot commit without a new admission."""
    return seen.uid == one.uid and (one.on_version is None or seen.version > one.on_version)


# --- deciding --------------------------------------------------------------------------------------------------------


def unseen(book: Book, views: LimitViews) -> tuple[str, ...]:
    """The sources of limits of which this process has not seen what the ledger relies on. It decides about no growth."""
    return tuple(sorted(name for name, version in book.reached.items() if name not in views or views[name].position < version))


def uncounted(book: Book, charge: Charge, needed: Set[str]) -> tuple[str, ...]:
    """The sources that were not counted yet, where a charge takes more from an account that has a limit: how much of the limit
    is left is not known. Growth that has happened waits for nothing."""
    if charge.past_limit or not grows(charge) or needed <= book.observed.keys():
        return ()
    more = charge.now.beyond(charge.old)
    if all(limit_on(book.limits, cell) is None for cell in more):
        return ()
    return tuple(sorted(needed - book.observed.keys()))
