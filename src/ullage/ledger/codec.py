"""From a Ledger, as the API has it, to a Book, as decisions need it, and back to the status that is written.

Pure: the time is an argument. What a person reads in a ledger (conditions, columns) is made here too, from the book alone, so
that every writer says the same.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ullage.errors import Terminal
from ullage.kube.objects import Conditions, find_condition, set_condition
from ullage.ledger.accounts import limits_on, passed
from ullage.ledger.amounts import Cell, Takings, Wanted, parse_amount, parse_limits, spell
from ullage.ledger.api import Count, Demand, Fullest, Ledger, LedgerStatus
from ullage.ledger.book import Book, Epochs, Observed
from ullage.ledger.demand import without_met
from ullage.ledger.keys import cluster_of
from ullage.ledger.limiting.noticing import noticed as with_noticed
from ullage.ledger.packing import in_flight, pending, sums, waiters
from ullage.ledger.packing.in_flight import InFlight
from ullage.ledger.packing.strings import PackedError
from ullage.ledger.packing.sums import Sums
from ullage.ledger.readiness import still_restored, waiting
from ullage.ledger.refusals import over_text
from ullage.quantity import Quantity
from ullage.times import micro_timestamp, timestamp

READY = "Ready"
WITHIN_LIMITS = "WithinLimits"
NOT_COUNTED = "NotCounted"  # the reason while there are sums of a kind that no process charges
COUNTED = "Counted"  # the reason why a ledger is not Ready: all is counted, and what was admitted before may still arrive
SHOWN = 10  # accounts that the summary spells out: the API server walks through each of its lines
_LISTED = 5  # limits, or objects, that a condition spells out; the rest is counted
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LedgerError(Terminal):
    """A ledger whose fields cannot be read. Says which ledger has them."""


def book_of(ledger: Ledger, *, now: datetime) -> Book:
    """The book that a ledger stands for. Limits that nobody has noticed before are noticed now."""
    status, name = ledger.status, ledger.metadata.name
    attempts, counted = pending.decode(status.pending, ledger=name), _sums(ledger)
    limits_in_flight = in_flight.decode(status.limits_in_flight, ledger=name)
    try:
        book = Book.of(
            limits=parse_limits(ledger.spec.limits, field="spec.limits"),
            observed={
                kind: Observed(one.view, datetime.fromisoformat(one.time), counted.counted[kind])
                for kind, one in status.observed.items()
            },
            pending=attempts,
            last=_milliseconds(status.last_booking),
            limited=counted.limited,
            since=_moment(status.since),
            exact_from=status.exact_from,
            epochs=Epochs(last=status.epoch, begun=status.epochs, restored=frozenset(status.restored)),
            grants=parse_limits(ledger.spec.grants, field="spec.grants"),
            demand=_demand(status),
            in_flight=limits_in_flight.attempts,
            reached=limits_in_flight.reached,
        )
        noticed = without_met(with_noticed(book, now, forget=False))
        return replace(noticed, waiting=waiters.decode(status.waiting, ledger=name)) if status.waiting else noticed
    except (ValueError, TypeError) as error:  # TypeError: a time without a zone, compared with one that has it
        raise LedgerError(f"ledger {name}: {error}") from error


def _demand(status: LedgerStatus) -> dict[Cell, Wanted]:
    return {
        Cell(account, resource): Wanted(
            parse_amount(one.limit, field=f"status.demand.{account}.{resource}.limit"),
            datetime.fromisoformat(one.since),
            datetime.fromisoformat(one.asked),
        )
        for account, resources in status.demand.items()
        for resource, one in resources.items()
    }


def _written_demand(book: Book) -> dict[str, dict[str, Demand]]:
    made: dict[str, dict[str, Demand]] = {}
    for cell, one in sorted(book.demand.items()):
        said = Demand(limit=str(one.limit), since=timestamp(one.since), asked=timestamp(one.asked))
        made.setdefault(cell.account, {})[cell.resource] = said
    return made


def _sums(ledger: Ledger) -> Sums:
    """The sums, one for each position that they belong to. What was counted once is not taken for nothing: another version
    may have written it in a field that is not read here."""
    found = sums.decode(ledger.status.sums, ledger=ledger.metadata.name)
    for missing in sorted(ledger.status.observed.keys() ^ found.counted.keys()):
        what = "sums" if missing in ledger.status.observed else "position"
        raise PackedError(ledger.metadata.name, "status.sums", f"{missing} was counted, and has no {what}")
    return found


def newly_limited(ledger: Ledger, known: Book) -> bool:
    """Whether a book, when it was read, noticed a first limit that the ledger's status does not have yet."""
    return known.since != _moment(ledger.status.since)


def status_of(
    book: Book,
    ledger: Ledger,
    *,
    sources: Set[str],
    now: datetime,
    uncounted: Sequence[str] = (),
    uncharged: Set[str] | None = None,
) -> LedgerStatus:
    """What is written back. `sources` are all that a book of this ledger must have counted to be exact (`keys.source_of`);
    Counts of sources that are not among them are kept as they are.
    `uncounted` are the keys of objects in this ledger that cannot be counted. `uncharged` are the sources that the book has
    something of and that no process charges; None: that is not known here, and what the ledger says of them stays."""
    status = ledger.status
    ready = _readiness(book, sources=sources, now=now, uncounted=uncounted)
    if not uncounted and (said := _not_counted(book, status.conditions, sources=sources, uncharged=uncharged)):
        ready = False, NOT_COUNTED, said
    return LedgerStatus(
        change=ledger.spec.change,
        observed_generation=ledger.metadata.generation,
        observed={kind: Count(view=one.view, time=timestamp(one.time)) for kind, one in sorted(book.observed.items())},
        sums=sums.encode(Sums({kind: one.sums for kind, one in book.observed.items()}, book.limited)),
        pending=pending.encode(book.pending),
        limits_in_flight=in_flight.encode(InFlight(book.in_flight, book.reached)),
        last_booking=micro_timestamp(_EPOCH + timedelta(milliseconds=book.last)) if book.last else "",
        since=micro_timestamp(book.since) if book.since else "",
        exact_from=dict(sorted(book.exact_from.items())),
        epoch=book.epochs.last,
        epochs=dict(sorted(book.epochs.begun.items())),
        restored=still_restored(book),
        demand=_written_demand(book),
        waiting=waiters.encode(book.waiting),
        fullest=fullest(book),
        summary=summary(book, ledger.metadata.name),
        conditions=_conditions(
            book,
            status.conditions,
            ready=ready,
            now=now,
            generation=ledger.metadata.generation,
        ),
    )


def is_counted(ledger: Ledger) -> bool:
    """Whether everything was counted once under the limits of now: more may be on its way, but less is not there."""
    found = find_condition(ledger.status.conditions, READY)
    return (
        found is not None
        and found.observed_generation == ledger.metadata.generation
        and (found.status == "True" or found.reason == COUNTED)
    )


def says_more(old: LedgerStatus, new: LedgerStatus) -> bool:
    """Whether a fold is worth a write of its own: whether anything differs but the positions and times of the counts. One
    that drops no attempt and finds the same sums would only record that nothing had changed."""
    return _without_views(old) != _without_views(new)


def _without_views(status: LedgerStatus) -> tuple[object, ...]:
    rest = (status.since, status.exact_from, status.conditions, status.fullest, status.summary, status.demand, status.waiting)
    return status.sums, status.change, status.pending, status.limits_in_flight, status.epoch, status.restored, *rest


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _milliseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1) if text else 0


# --- for people ------------------------------------------------------------------------------------------------------


def _readiness(book: Book, *, sources: Set[str], now: datetime, uncounted: Sequence[str]) -> tuple[bool, str, str]:
    """Status, reason and message of `Ready`."""
    if uncounted:
        return (
            False,
            "Uncountable",
            f"these cannot be counted, nor their kind with them: {_named(uncounted)}",
        )
    since = timestamp(book.since or now)
    if again := still_restored(book):
        return (
            False,
            "Restored",
            f"restored from a backup: the API server of {', '.join(again)}, which was noticed at {since}. What was counted and"
            " reserved stays until everything there is listed anew; it is exact once all requests have ended that began before",
        )
    if left := waiting(book, sources):
        counted = sources <= book.observed.keys()
        return False, COUNTED if counted else "Counting", _counting(book, left, sources=sources, since=since)
    return True, "Exact", "everything is counted"


def _not_counted(book: Book, conditions: Conditions, *, sources: Set[str], uncharged: Set[str] | None) -> str:
    """What is said of sources that no process charges; empty where there are none."""
    if uncharged is None:
        before = find_condition(conditions, READY)
        kept = before is not None and before.reason == NOT_COUNTED and book.observed.keys() - sources
        return before.message if before is not None and kept else ""
    if not uncharged:
        return ""
    sums = (f"{source} ({_spelled(book.observed[source].sums)})" for source in sorted(uncharged & book.observed.keys()))
    rest = sorted(uncharged - book.observed.keys())
    return (
        f"counted before, and charged by no process now: {', '.join((*sums, *rest))}. It stays in the sums until no process has"
        " charged it for the time in which bookings expire, and everything that may pay in its place was counted"
    )


def _spelled(sums: Takings) -> str:
    by_resource: dict[str, Quantity] = {}
    for cell, amount in sums.cells.items():
        by_resource[cell.resource] = max(amount, by_resource.get(cell.resource, amount))
    said = (f"{spell(resource, amount)} {resource}" for resource, amount in sorted(by_resource.items()))
    return ", ".join(said) or "nothing"


def _counting(book: Book, left: Sequence[str], *, sources: Set[str], since: str) -> str:
    ended = f"to be counted after all requests have ended that began before {since}: {', '.join(left)}"
    if missing := sorted(source for source in sources - book.observed.keys() if not cluster_of(source)):
        return f"not counted once yet, so growth of what has a limit is told to try again: {', '.join(missing)}; {ended}"
    return f"new requests are held to what is set, and what was admitted before may still arrive; {ended}"


def _named(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else ""
    return f"{', '.join(keys[:_LISTED])}{more}"


def _conditions(
    book: Book, conditions: Conditions, *, ready: tuple[bool, str, str], now: datetime, generation: int
) -> Conditions:
    status, reason, message = ready
    conditions = set_condition(conditions, READY, status=status, reason=reason, message=message, generation=generation, now=now)
    over = passed(book)
    said = "; ".join(over_text(one) for one in over[:_LISTED])
    more = f"; and {len(over) - _LISTED} more" if len(over) > _LISTED else ""
    return set_condition(
        conditions,
        WITHIN_LIMITS,
        status=not over,
        reason="LimitPassed" if over else "WithinLimits",
        message=f"{said}{more}" if over else "nothing is past its limit",
        generation=generation,
        now=now,
    )


def fullest(book: Book) -> Fullest:
    """The limit that is closest to being reached, or furthest past it; of equal ones the first by name."""
    limits = limits_on(book)
    if not limits:
        return Fullest()
    cell = max(sorted(limits), key=lambda one: _share(book, one, limits[one]))
    used, reserved, limit = book.used[cell], book.reserved[cell], limits[cell]
    return Fullest(
        account=cell.account,
        resource=cell.resource,
        used=spell(cell.resource, used),
        limit=spell(cell.resource, limit, down=True),
        percent=f"{_percent((used + reserved).nanos, limit.nanos)}%" if limit.nanos else "",
        reserved=spell(cell.resource, reserved),
    )


def summary(book: Book, ledger: str) -> tuple[str, ...]:
    """The accounts that are closest to their limits, then those without a limit that use the most: a line for each, and one
    that says what is left out."""
    limits = limits_on(book)
    limited = sorted(limits, key=lambda cell: (-_share(book, cell, limits[cell]), cell))
    rest = sorted({*book.used, *book.reserved} - limits.keys(), key=lambda cell: (-_taken(book, cell), cell))
    found = [*limited, *rest]
    more = [f"and {len(found) - SHOWN} more: see `ullage ledger describe {ledger}`"] if len(found) > SHOWN else []
    return *(_line(book, cell, limits.get(cell)) for cell in found[:SHOWN]), *more


def _line(book: Book, cell: Cell, limit: Quantity | None) -> str:
    """`snapshots/vm/db storage: used 60Gi, reserved 0, limit 80Gi`."""
    name = cell.resource
    allowed = "no limit" if limit is None else f"limit {spell(name, limit, down=True)}"
    return f"{cell.account} {name}: used {spell(name, book.used[cell])}, reserved {spell(name, book.reserved[cell])}, {allowed}"


def _taken(book: Book, cell: Cell) -> int:
    return (book.used[cell] + book.reserved[cell]).nanos


def _share(book: Book, cell: Cell, limit: Quantity) -> float:
    taken = _taken(book, cell)
    return taken / limit.nanos if limit.nanos else float("inf") if taken else 0.0


def _percent(taken: int, limit: int) -> int:
    """100 means full to the last byte, and anything more is 101 at least."""
    return taken * 100 // limit if taken <= limit else -(-taken * 100 // limit)
