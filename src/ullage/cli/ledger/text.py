"""How ledgers read in a terminal. Pure: the time is an argument."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from ullage.cli.common.listing import Table
from ullage.cli.common.text import age, ago, aligned, free
from ullage.kube.objects import Json, find_condition
from ullage.ledger.accounts import accounts
from ullage.ledger.amounts import Takings, spell
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.book import Book
from ullage.ledger.codec import READY, WITHIN_LIMITS, book_of
from ullage.ledger.limits import unreached

COLUMNS: Final = ("NAME", "USED", "LIMIT", "%", "RESERVED", "READY", "AGE")
WIDE: Final = ("ACCOUNT", "RESOURCE", "WITHIN")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def as_json(ledger: Ledger) -> Json:
    head = {"apiVersion": LEDGERS.api_version, "kind": LEDGERS.kind}
    return {**head, **msgspec.to_builtins(ledger)}


def layout(*, wide: bool = False) -> Table[Ledger]:
    def cells(ledger: Ledger, now: datetime) -> tuple[str, ...]:
        full = ledger.status.fullest
        ready = find_condition(ledger.status.conditions, READY)
        within = find_condition(ledger.status.conditions, WITHIN_LIMITS)
        since = age(ledger.metadata.creation_timestamp, now)
        found = (full.used, full.limit, full.percent, full.reserved, ready.status if ready else "", since)
        more = (full.account, full.resource, within.status if within else "") if wide else ()
        return ledger.metadata.name, *(cell or "-" for cell in (*found, *more))

    return Table(
        head=(*COLUMNS, *(WIDE if wide else ())),
        cells=cells,
        name=lambda one: f"{LEDGERS.kind.lower()}.{LEDGERS.group}/{one.metadata.name}",
        uid=lambda one: one.metadata.uid,
        body=as_json,
        state="READY",
    )


def described(ledger: Ledger, *, now: datetime) -> str:
    """Everything about one ledger. Raises where it cannot be read; the error says how to mend it."""
    book = book_of(ledger, now=now)
    parts = [f"Name:     {ledger.metadata.name}", *_conditions(ledger), *_change(ledger), "", _accounts(book, now=now)]
    for kind, one in sorted(book.observed.items()):
        parts += ["", f"Counted:  {kind}, at {one.view}, {ago(now - one.time)} ago", *_takings(one.sums)]
    waiting = pending(ledger, now=now)
    parts += ["", f"Pending:  {len(waiting)}" if waiting else "Pending:  none"]
    if waiting:
        names = ("KEY", "UID", "REQUEST", "TAKES", "COUNTED", "BOOKED")
        parts.append(aligned([names, *(tuple(str(one[name.lower()]) for name in names) for one in waiting)]))
    return "\n".join(parts)


def account_list(ledger: Ledger, *, now: datetime) -> list[Json]:
    """The accounts, in order, with exact quantities."""
    return [one.written() for one in accounts(book_of(ledger, now=now))]


def pending(ledger: Ledger, *, now: datetime) -> list[Json]:
    """The attempts, oldest first."""
    found = []
    for key, slot in book_of(ledger, now=now).pending.items():
        for uid, one in slot.attempts.items():
            request = "create" if one.on_version is None else f"update of version {one.on_version}"
            request = request if uid else "several creates"
            booked = _EPOCH + timedelta(milliseconds=one.booked)
            found.append(
                {
                    "key": key,
                    "uid": uid,
                    "request": request,
                    "takes": _short(one.takes),
                    "counted": _short(slot.counted),
                    "booked": f"{ago(now - booked)} ago",
                    "time": booked.isoformat(timespec="milliseconds"),
                }
            )
    return sorted(found, key=lambda one: (one["time"], one["key"]))


def _conditions(ledger: Ledger) -> list[str]:
    lines = []
    for name in (READY, WITHIN_LIMITS):
        found = find_condition(ledger.status.conditions, name)
        said = f"{found.status} ({found.reason}: {found.message})" if found else "Unknown (nobody has counted yet)"
        lines.append(f"{name + ':':<9} {said}")
    return lines


def _change(ledger: Ledger) -> list[str]:
    number = ledger.spec.change
    return [f"Change:   {number}, {unreached(ledger, number) or 'reached'}"] if number else []


def _accounts(book: Book, *, now: datetime) -> str:
    rows = [("ACCOUNT", "RESOURCE", "USED", "RESERVED", "LIMIT", "FREE", "SINCE")]
    for one in accounts(book):
        allowed = "no limit" if one.limit is None else spell(one.resource, one.limit, down=True)
        since = f"{ago(now - one.since)} ago" if one.since else "-"
        used, reserved = spell(one.resource, one.used), spell(one.resource, one.reserved)
        rows.append((one.name, one.resource, used, reserved, allowed, free(one.resource, one.free), since))
    return aligned(rows) if len(rows) > 1 else "No limits, and nothing is used."


def _takings(takings: Takings) -> list[str]:
    return [f"          {line}" for line in _short(takings).split(", ")] if takings else ["          nothing"]


def _short(takings: Takings) -> str:
    return (
        ", ".join(f"{cell.account} {cell.resource}: {spell(cell.resource, takings[cell])}" for cell in sorted(takings))
        or "nothing"
    )
