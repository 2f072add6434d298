"""What is decided, apart from how it is asked: everything seen is folded into a book, then charge after charge is booked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from ullage.ledger.book import MOST_ATTEMPTS, MOST_GROWN, Book, Charge, Crowd, Refusal, book
from ullage.ledger.demand import may_be_granted, wanted_by, with_demand, with_waiters, without_waiters
from ullage.ledger.fold import LiveReads, fold, without_lost
from ullage.ledger.limiting.in_flight import LimitChange, LimitViews, uncounted, with_change, with_seen
from ullage.ledger.service.sources import Source


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer. `unlimited` where there is no ledger at all; `existing` is the key of a create that does not fit, where an
    object has its name already."""

    refusal: Refusal | None = None
    unlimited: bool = False
    existing: str = ""
    more: Literal["", "asked", "possible"] = ""  # of a refusal: more was asked for, or would be, but for a dry run
    waits: bool = False  # of a refusal: it is written down for whoever may make room

    @property
    def allowed(self) -> bool:
        return self.refusal is None


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Why nobody can say how much of a limit is left: these sources were not counted yet."""

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


Said = Verdict | Postponed
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
) -> Book:
    """A book with everything folded that this process has seen, under the limits that it has seen. Views that are incomplete
    are left out."""
    known = without_lost(known, live)
    for name, source in sources.items():
        source.see(ledger, known.epochs.begun.get(name, 0))
        if source.usable(ledger):
            known = fold(known, source.of(ledger), kind=name, now=source.complete_at(), live=live)
    return with_seen(known, limits, now, live=live)


def uncounted_in(ledger: str, sources: Mapping[str, Source]) -> list[str]:
    """The keys of objects in a ledger that cannot be counted."""
    return [key for name in sorted(sources) for key in sources[name].uncounted(ledger)]


def decide(
    known: Book,
    charges: Sequence[Question],
    now: datetime,
    *,
    room: int = MOST_ATTEMPTS,
    needed: Set[str] = frozenset(),
) -> tuple[Book, list[Said]]:
    """Each charge, or limit, after the other; the very same book where nothing was booked. `room` is for so many attempts
    more, of growth that has happened and of others: a book may be too large before it holds as many as it may. `needed` are
    the sources without which nobody can say how much of a limit is left."""
    most, most_grown = known.held - known.grown + room, known.grown + room
    said: list[Said] = []
    for charge in charges:
        if isinstance(charge, LimitChange):
            limited = with_change(known, charge, now)
            said.append(Postponed(ManyLimits(len(known.in_flight))) if limited is None else ALLOWED)
            known = known if limited is None else limited
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
