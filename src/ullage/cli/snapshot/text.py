"""How snapshots read in a terminal, a pipe and a spreadsheet. Pure: the time is an argument.

Messages were written by drivers and by other people: control characters in them never reach the terminal.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from ullage.cli.common.listing import Table
from ullage.cli.common.text import NONE, age, moment, plain, size
from ullage.cli.snapshot.found import Found
from ullage.kube.objects import Json
from ullage.snapshots.metrics import state_of
from ullage.snapshots.model import Problem, Snapshot
from ullage.times import timestamp

COLUMNS: Final = ("NAME", "CLAIM", "STATE", "SIZE", "CUT", "AGE")
WIDE: Final = ("RECORD", "CLASS", "READY", "ERROR")
CSV: Final = (
    *("namespace", "name", "dialect", "claim", "state", "ready", "restoreSizeBytes", "cut", "requested"),
    *("class", "record", "error"),
)

# --- lists -----------------------------------------------------------------------------------------------------------


def in_order(found: Sequence[Found]) -> list[Found]:
    """By namespace, by claim, and the oldest first: the history of each volume reads downwards."""

    def key(one: Found) -> tuple[str, ...]:
        snapshot = one.snapshot
        return snapshot.meta.namespace, snapshot.claim, snapshot.meta.creation_timestamp, snapshot.meta.name, one.dialect.name

    return sorted(found, key=key)


def layout(*, wide: bool = False, namespaces: bool = False, dialects: bool = False) -> Table[Found]:
    """`dialects`: both APIs are served, so a name alone does not tell which snapshot it is."""

    def cells(one: Found, now: datetime) -> tuple[str, ...]:
        snapshot = one.snapshot
        state = snapshot.state
        found: tuple[str, ...] = (
            *_if(namespaces, snapshot.meta.namespace),
            snapshot.meta.name,
            *_if(dialects, one.dialect.name),
            source(snapshot),
            state_of(snapshot),
            size(state.restore_size),
            moment(state.cut),
            age(snapshot.meta.creation_timestamp, now),
        )
        if wide:
            ready = "yes" if state.ready else "no"
            found += (state.record or NONE, snapshot.class_name or NONE, ready, problem(state.problem) or NONE)
        return found

    head = (*_if(namespaces, "NAMESPACE"), *COLUMNS[:1], *_if(dialects, "DIALECT"), *COLUMNS[1:], *(WIDE if wide else ()))
    return Table(
        head=head, cells=cells, name=lambda one: one.shown, uid=lambda one: one.obj.metadata.uid, body=as_json, state="STATE"
    )


def comma_separated(found: Sequence[Found]) -> str:
    """For programs: amounts are whole bytes, times are RFC 3339, and what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV)
    for one in found:
        snapshot = one.snapshot
        meta, state = snapshot.meta, snapshot.state
        writer.writerow(
            (
                *(meta.namespace, meta.name, one.dialect.name, snapshot.claim, state_of(snapshot)),
                "true" if state.ready else "false",
                "" if state.restore_size is None else state.restore_size,
                timestamp(state.cut) if state.cut else "",
                *(meta.creation_timestamp, snapshot.class_name or "", state.record, problem(state.problem)),
            )
        )
    return out.getvalue().rstrip("\n")


def as_json(found: Found) -> Json:
    kind = found.dialect.snapshots
    return {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.to_builtins(found.obj)}


# --- words -----------------------------------------------------------------------------------------------------------


def source(snapshot: Snapshot) -> str:
    return snapshot.claim or ("(imported)" if snapshot.imported_record else NONE)


def problem(found: Problem | None) -> str:
    if found is None:
        return ""
    return plain(f"{found.reason}: {found.message}" if found.reason else found.message)


def _if(wanted: bool, cell: str) -> tuple[str, ...]:
    return (cell,) if wanted else ()
