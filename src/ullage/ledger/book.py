"""The book of one ledger: what was counted, what may still come, and whether one thing more fits.

Pure: no clock, no chance, no outside world. A `Book` is a value; `book` gives a new one or a refusal, `fold` (in `fold.py`)
brings one up to date with what was seen. The safety of all limits rests on the small named rules in these two modules, and
each of them stands for an interleaving that overshoots without it (`tests/unit/ledger/test_weakened.py`).

The promise: `used + reserved` is never less than what really is taken, or will be once everything that was admitted and is
still on its way arrives. So a request that is admitted only where that sum is within the limit cannot push anything past it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from ullage.ledger.amounts import (
    NOTHING,
    Cell,
    LimitAttempt,
    LimitId,
    Limits,
    Takings,
    Waiter,
    Wanted,
    in_force,
    limit_on,
    refuse_negative,
    total,
)
from ullage.quantity import Quantity

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

MOST_ATTEMPTS: Final = 2000
"""That one ledger holds. A busy tenant has a few hundred at a time; thousands mean that nobody folds, or that something else
refuses what is admitted here. All of them are in every write: 2,000 make an object of 70 to 150 KiB. With the longest names
that there can be, and thousands of accounts, fewer are taken on: etcd refuses what has 1.5 MiB (`service/writes.py`)."""

MOST_GROWN: Final = 500
"""Of growth that has happened already, besides those: nothing that a tenant asks for may keep it waiting, and what our own
controllers write, thirty thousand new stamps perhaps, may not make the object too large. They are told to try again."""


# --- what a book is made of ------------------------------------------------------------------------------------------

NO_UID: Final = ""  # of the attempt that several creates of one name share


NOT_YET: Final = -1
"""In the place of a position: the source has to be counted, and nobody knows from where on that is exact."""


class AttemptId(NamedTuple):
    """One booking. `booked` is part of it: whoever books again for the same object may commit later, and is waited for anew."""

    key: str
    uid: str
    booked: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an object would take if the request that was admitted for it commits."""

    takes: Takings
    booked: int  # milliseconds since 1970; no two bookings of a ledger have the same, whoever made them
    on_version: int | None  # of the old object, for an update; None for a create
    grown: bool = False  # growth that had happened: held in places of its own


@dataclass(frozen=True, slots=True)
class Slot:
    """All that may still become of one key, by uid; and what the observed sums already hold under it.

    Creates of one name are one attempt, without a uid: only what is there after the last of them has ended settles it.
    """

    attempts: Mapping[str, Attempt]
    counted: Takings


_EMPTY: Final = Slot({}, NOTHING)


@dataclass(frozen=True, slots=True)
class Observed:
    """What the objects of one source took together at one position of its watch, and when that was written down."""

    view: int
    time: datetime
    sums: Takings


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """How often counts have begun anew (`anew.py`), because what had been seen of a source was undone."""

    last: int = 0
    begun: Mapping[str, int] = field(default_factory=dict)  # by source: the one that its count is of; where it is not the first
    restored: frozenset[str] = frozenset()  # sources that were found to be restored from a backup, until they are exact again


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The state of one ledger. Make one with `Book.of`; the last four follow from the rest.

    `limits` are those in force: the lowest of what the ledger's spec says (`carried`), of what the objects say that this
    process sees (`shown`, which is never written), and of what requests on their way may set (`in_flight`).
    """

    limits: Limits
    carried: Limits
    shown: Limits
    in_flight: Mapping[LimitId, LimitAttempt]
    reached: Mapping[str, int]  # by source: the version up to which its objects must be seen by a process that decides
    observed: Mapping[str, Observed]  # by source
    pending: Mapping[str, Slot]  # by key
    last: int  # the stamp of the latest booking ever, in milliseconds since 1970
    limited: frozenset[str]  # the accounts whose limit has been noticed
    since: datetime | None  # when the latest of them was; None for a ledger that nobody has written yet
    exact_from: Mapping[str, int]  # by source: the position from which a count is exact, where that is known
    epochs: Epochs
    grants: Limits  # of limits that are grants, the whole that each is part of
    demand: Mapping[Cell, Wanted]
    waiting: Mapping[str, Waiter] = field(default_factory=dict)  # by key: those for whom room may be made
    used: Takings = field(compare=False, repr=False)
    reserved: Takings = field(compare=False, repr=False)
    held: int = field(compare=False, repr=False)  # attempts
    grown: int = field(compare=False, repr=False)  # attempts among them that are growth which had happened

    @classmethod
    def of(
        cls,
        *,
        limits: Limits,
        observed: Mapping[str, Observed] | None = None,
        pending: Mapping[str, Slot] | None = None,
        last: int = 0,
        limited: frozenset[str] = frozenset(),
        since: datetime | None = None,
        exact_from: Mapping[str, int] | None = None,
        epochs: Epochs | None = None,
        grants: Limits | None = None,
        demand: Mapping[Cell, Wanted] | None = None,
        in_flight: Mapping[LimitId, LimitAttempt] | None = None,
        reached: Mapping[str, int] | None = None,
    ) -> Book:
        """`limits` are those that are carried into the ledger."""
        observed, pending, in_flight = observed or {}, pending or {}, in_flight or {}
        refuse_negative(limits)
        return cls(
            limits=in_force(limits, {}, in_flight),
            carried=limits,
            shown={},
            in_flight=in_flight,
            reached=reached or {},
            observed=observed,
            pending=pending,
            last=last,
            limited=limited,
            since=since,
            exact_from=exact_from or {},
            epochs=epochs or Epochs(),
            grants=grants or {},
            demand=demand or {},
            used=total(one.sums for one in observed.values()),
            reserved=total(cost(slot) for slot in pending.values()),
            held=sum(len(slot.attempts) for slot in pending.values()),
            grown=sum(grown_in(slot) for slot in pending.values()),
        )

    def attempts(self) -> list[AttemptId]:
        """Everything that is still on its way, limits too."""
        pending = [AttemptId(key, uid, one.booked) for key, slot in self.pending.items() for uid, one in slot.attempts.items()]
        return [*pending, *(AttemptId(one.key, one.uid, attempt.booked) for one, attempt in self.in_flight.items())]


# --- asking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one admission request would do to this ledger: `old` and `now` are what its object takes from the accounts here."""

    key: str
    uid: str
    on_version: int | None = None  # resourceVersion of the old object; None for a create
    now: Takings
    old: Takings = NOTHING  # nothing for a create
    dry_run: bool = False  # decide, book nothing
    past_limit: bool = False  # growth that has happened already, told by our own identity: booked whatever the limit
    alone: bool = False  # of a create: not booked while another of its name is under way, or an object is shown that has it
    gone: str = ""  # the uid of an object of that name which a cache may still show, and which the API has no more
    waits: bool = False  # where it does not fit, it is written down as waiting: whoever may make room is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """One limit that would be passed. All of them numbers of one resource of one account."""

    account: str
    resource: str
    asked: Quantity
    used: Quantity
    reserved: Quantity  # for others that were admitted and are not counted yet
    limit: Quantity
    until: datetime | None = None  # when the last of what is reserved expires, at the latest; None: that is not said

    @property
    def over(self) -> Quantity:
        return self.used + self.reserved + self.asked - self.limit


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a charge does not fit: every limit that it would pass, in order."""

    over: tuple[Over, ...]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Why a charge that would fit is not booked now: so many attempts are held that one more makes the ledger too large."""

    held: int
    since: datetime  # when the earliest of them was booked, by the clock of whoever did


def book(
    book: Book, charge: Charge, now: datetime, *, most: int = MOST_ATTEMPTS, most_grown: int = MOST_GROWN
) -> tuple[Book, Refusal | Crowd | None]:
    """Books a charge, if it fits. Refused, dry run and nothing to book: the very same book comes back.

    Booked first and tested then: a retry of a key that is booked already costs nothing more, at the limit too.
    """
    if not grows(charge):
        return book, None
    tried = _entered(book, charge, stamp=stamp_for(book, now))
    if not charge.past_limit and (over := exceeded(tried, charge)):
        return book, Refusal(over)
    if is_crowded(book, tried, most=most, most_grown=most_grown):
        return book, crowd(book, grown=charge.past_limit)
    return (book if charge.dry_run else tried), None


def grows(charge: Charge) -> bool:
    """Whether anything more is taken. A create is always booked, unless it takes nothing: the name may seem to exist, and
    its turn comes after that object is gone. What shrinks or stays can never be the cause of an overshoot."""
    return not charge.now <= charge.old


def _entered(book: Book, charge: Charge, *, stamp: int) -> Book:
    slot = book.pending.get(charge.key, _EMPTY)
    before = joined(slot, charge)
    uid = charge.uid if before.keys() <= {charge.uid} else NO_UID
    others = {other: attempt for other, attempt in slot.attempts.items() if other not in before}
    counted = counted_at_create(slot) if charge.on_version is None else counted_at_update(slot, charge)
    entered = Slot({**others, uid: merged(tuple(before.values()), charge, stamp)}, counted)
    return replace(
        book,
        pending={**book.pending, charge.key: entered},
        reserved=book.reserved + cost(entered) - cost(slot),
        held=book.held + len(entered.attempts) - len(slot.attempts),
        grown=book.grown + grown_in(entered) - grown_in(slot),
        last=stamp,
    )


def stamp_for(book: Book, now: datetime) -> int:
    """The time, but always later than the last: a stamp names one booking, even where clocks differ."""
    return max((now - _EPOCH) // _MILLISECOND, book.last + 1)


# --- the rules of booking --------------------------------------------------------------------------------------------


def cost(slot: Slot) -> Takings:
    """Only one object can exist under a key, so the largest attempt is the most that can come; what is counted has come."""
    largest = NOTHING
    for attempt in slot.attempts.values():
        largest = largest | attempt.takes
    return largest.beyond(slot.counted)


def joined(slot: Slot, charge: Charge) -> Mapping[str, Attempt]:
    """The attempts that a charge becomes one with, by uid: that of its own object; or, for a create, every other create of the
    name. Each try of a client has a uid of its own: whoever tries a name that exists again and again would fill the ledger."""
    if charge.uid in slot.attempts:
        return {charge.uid: slot.attempts[charge.uid]}
    if charge.on_version is not None:
        return {}
    return {uid: attempt for uid, attempt in slot.attempts.items() if attempt.on_version is None}


def merged(before: Sequence[Attempt], charge: Charge, stamp: int) -> Attempt:
    """An attempt with one more request. Any of them may commit, so it takes the largest amounts.

    The version is the newest one, and a create that an update merged into is an update: to have seen the object made, or
    changed from an older version, says nothing about the update that is still on its way.
    """
    takes = charge.now
    for one in before:
        takes = takes | one.takes
    versions = [version for version in (charge.on_version, *(one.on_version for one in before)) if version is not None]
    grown = all(one.grown for one in before) if before else charge.past_limit
    return Attempt(takes, stamp, max(versions, default=None), grown)


def counted_at_create(slot: Slot) -> Takings:
    """Nothing: what was counted under the key may have been guessed from a stale copy of an object that is gone."""
    return NOTHING


def counted_at_update(slot: Slot, charge: Charge) -> Takings:
    """What the old object takes, if that is less: the API server runs admission on a stale copy first, then on a fresh one."""
    return slot.counted & charge.old if slot.attempts else charge.old


def exceeded(book: Book, charge: Charge) -> tuple[Over, ...]:
    """Every limit that is passed, among the resources of which this charge takes more than before. The narrower account first,
    which is the one with the longer path: whoever has read that knows more."""
    found = []
    for cell, asked in sorted(
        charge.now.beyond(charge.old).cells.items(), key=lambda item: (-item[0].account.count("/"), item[0])
    ):
        limit, used, reserved = limit_on(book.limits, cell), book.used[cell], book.reserved[cell]
        if limit is not None and used + reserved > limit:
            # The booking is in: what is reserved for others is the rest.
            found.append(Over(**cell._asdict(), asked=asked, used=used, reserved=reserved - asked, limit=limit))
    return tuple(found)


def is_crowded(book: Book, tried: Book, *, most: int, most_grown: int) -> bool:
    """Whether an attempt would come on top of as many of its sort as may be. What merges into one that is there makes nothing
    larger. Growth that has happened waits for no others: to refuse it would only hide it."""
    others, before = tried.held - tried.grown, book.held - book.grown
    return others > max(before, most) or tried.grown > max(book.grown, most_grown)


def grown_in(slot: Slot) -> int:
    return sum(attempt.grown for attempt in slot.attempts.values())


def crowd(book: Book, *, grown: bool) -> Crowd:
    """How many attempts of a sort there are, and since when."""
    booked = [one.booked for slot in book.pending.values() for one in slot.attempts.values() if one.grown == grown]
    return Crowd(len(booked), _EPOCH + min(booked, default=book.last) * _MILLISECOND)
