"""What is decided, apart from how it is asked: everything seen is folded into a book, then charge after charge is booked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from ullage.ledger.amounts import Cell
from ullage.ledger.book import MOST_ATTEMPTS, MOST_GROWN, Book, Charge, Crowd, Refusal, book, cost
from ullage.ledger.demand import may_be_granted, milliseconds, wanted_by, with_demand, with_waiters, without_waiters
from ullage.ledger.fold import LiveReads, fold, may_be_counted, without_lost
from ullage.ledger.keys import cluster_of, source_of
from ullage.ledger.limiting.in_flight import LimitChange, LimitViews, uncounted, with_change, with_seen
from ullage.ledger.service.sources import Source


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer. `unlimited` where there is no ledger at all; `existing` is the key of a create where an object has its name
    already: nothing is booked then."""

    refusal: Refusal | None = None
    unlimited: bool = False
    existing: str = ""
    more: Literal["", "asked", "possible"] = ""  # of a refusal: more was asked for, or would be, but for a dry run
    waits: bool = False  # of a refusal: it is written down for whoever may make room

    @property
    def allowed(self) -> bool:
        return self.refusal is None and not self.existing


@dataclass(frozen=True, slots=True)
class Contested:
    """No answer yet: what became of another create of the name has to be looked up first. Nothing is booked."""

    @property
    def allowed(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Why the rest of a limit is not known: these sources were not counted yet."""

    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ManyLimits:
    """Why a limit is not booked now: so many requests for limits are on their way."""

    held: int


@dataclass(frozen=True, slots=True)
class Postponed:
    """No answer yet, to be asked for again. A type of its own, so that nobody takes it for one."""

    why: Crowd | Uncounted | ManyLimits

    @property
    def allowed(self) -> bool:
        return False


YOUNG: Final = 1000  # milliseconds after its booking for which a create is waited for by others of its name
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Said = Verdict | Postponed | Contested
Question = Charge | LimitChange

ALLOWED: Final = Verdict()
UNLIMITED: Final = Verdict(unlimited=True)


def folded_from(
    known: Book,
    ledger: str,
    *,
    sources: Mapping[str, Source],
    live: LiveReads,
    limits: LimitViews,
    now: datetime,
    shows_all: Callable[[str], bool],
) -> Book:
    """A book with everything folded that this process has seen, under the limits that it has seen. Views that are incomplete
    are left out. `shows_all` says of a source that was never counted whether it may be (`first_counts.py`)."""
    known = without_lost(known, live)
    for name, source in sources.items():
        source.see(ledger, known.epochs.begun.get(name, 0))
        if source.usable(ledger) and may_be_counted(known, name, shows_all):
            known = fold(known, source.of(ledger), kind=name, now=source.complete_at(), live=live)
    return with_seen(known, limits, now, live=live)


def uncounted_in(ledger: str, sources: Mapping[str, Source]) -> list[str]:
    """The keys of objects in a ledger that cannot be counted."""
    return [key for name in sorted(sources) for key in sources[name].uncounted(ledger)]


def contested(known: Book, charge: Charge, now: datetime, *, shown: str) -> bool:
    """Whether a create has to be told first what became of another of its name: one that was booked a moment ago, or an object
    that a cache shows under this uid. If both were booked, and one of them is made and deleted, the room of the other would be
    held until it expires. What the clocks of several machines say only decides how long a request waits."""
    if not charge.alone or charge.on_version is not None:
        return False
    if shown not in ("", charge.uid, charge.gone):
        return True
    slot, moment = known.pending.get(charge.key), milliseconds(now)
    others = (one for uid, one in (slot.attempts if slot else {}).items() if uid != charge.uid and one.on_version is None)
    return any(abs(moment - one.booked) < YOUNG for one in others)


def reserved_until(known: Book, cell: Cell, expiry: Callable[[str], float]) -> datetime | None:
    """When the last attempt expires for which something is reserved in an account; None where there is none."""
    moments = (
        max(one.booked for one in slot.attempts.values()) + int(1000 * expiry(cluster_of(source_of(key))))
        for key, slot in known.pending.items()
        if cost(slot)[cell].nanos
    )
    latest = max(moments, default=None)
    return None if latest is None else _EPOCH + timedelta(milliseconds=latest)


def decide(
    known: Book,
    charges: Sequence[Question],
    now: datetime,
    *,
    room: int = MOST_ATTEMPTS,
    needed: Set[str] = frozenset(),
    shown: Callable[[str], str] = lambda key: "",
) -> tuple[Book, list[Said]]:
    """Each charge, or limit, after the other; the very same book where nothing was booked. `room` is for so many attempts
    more, of growth that has happened and of others: a book may be too large before it holds as many as it may. `needed` are
    the sources without which the rest of a limit is not known. `shown` gives the uid of the object that a cache has
    under a key."""
    most, most_grown = known.held - known.grown + room, known.grown + room
    said: list[Said] = []
    for charge in charges:
        if isinstance(charge, LimitChange):
            limited = with_change(known, charge, now)
            said.append(Postponed(ManyLimits(len(known.in_flight))) if limited is None else ALLOWED)
            known = known if limited is None else limited
            continue
        if charge.alone and contested(known, charge, now, shown=shown(charge.key)):
            said.append(Contested())
            continue
        missing = uncounted(known, charge, needed)
        booked, refusal = book(known, charge, now, most=min(most, MOST_ATTEMPTS), most_grown=min(most_grown, MOST_GROWN))
        known = known if missing else booked
        if isinstance(refusal, Crowd):
            said.append(Postponed(refusal))
        elif missing and refusal is None:
            said.append(Postponed(Uncounted(missing)))
        elif refusal is None and not charge.dry_run:
            known = without_waiters(known, (charge.key,)) if known.waiting else known
            said.append(ALLOWED)
        else:
            said.append(Verdict(refusal) if refusal else ALLOWED)
    return known, said


def with_ends(known: Book, verdicts: Sequence[Said], expiry: Callable[[str], float]) -> list[Said]:
    """Refusals that say until when what is reserved is held at the latest. Once for each account, however many are refused."""
    ends: dict[Cell, datetime | None] = {}

    def end(cell: Cell) -> datetime | None:
        if cell not in ends:
            ends[cell] = reserved_until(known, cell, expiry)
        return ends[cell]

    return [
        replace(one, refusal=Refusal(tuple(replace(over, until=end(Cell(over.account, over.resource))) for over in refused)))
        if isinstance(one, Verdict) and one.refusal is not None and (refused := one.refusal.over)
        else one
        for one in verdicts
    ]


def with_wanted(
    known: Book,
    charges: Sequence[Question],
    verdicts: Sequence[Said],
    now: datetime,
    *,
    others: Sequence[Charge] = (),
    renewed: bool,
) -> tuple[Book, list[Said]]:
    """The book that says what would do for those who are refused for want of a grant, and who waits for room that others make,
    and verdicts that say so too; the very same book where it says as much already. A dry run asks for nothing. `others` were
    refused before, and wait."""
    said, wanting, waiting = list(verdicts), [], []
    for place, (charge, one) in enumerate(zip(charges, verdicts, strict=True)):
        if isinstance(charge, LimitChange) or not isinstance(one, Verdict) or one.refusal is None:
            continue
        if charge.waits and not charge.dry_run:
            said[place] = replace(one, waits=True)
            waiting.append(charge)
        if not may_be_granted(known, one.refusal):
            continue
        said[place] = replace(one, more="possible" if charge.dry_run else "asked")
        if not charge.dry_run:
            wanting.append(charge)
    known = with_waiters(known, waiting, now) if waiting else known
    if not wanting:
        return known, said
    return with_demand(known, wanted_by(known, [*others, *wanting]), now, renewed=renewed), said
