"""How schedules read, in tables and whole. Pure: the time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UnsetType

from ullage.cli.common.events import event_table
from ullage.cli.common.listing import Table
from ullage.cli.common.text import NONE, age, aligned, plain, size
from ullage.errors import BadInput
from ullage.kube.builtin.events import Event
from ullage.policies.schedules.api import SCHEDULES, ScheduleSelector, SnapshotSchedule
from ullage.policies.schedules.model import group_of
from ullage.policies.schedules.retention import read_size
from ullage.selectors import LabelSelector
from ullage.snapshots.model import Snapshot

_WIDTH: Final = 13
_SHOWN: Final = 20  # snapshots in a description
Line = tuple[str, str]


def layout(*, wide: bool = False, namespaces: bool = False) -> Table[SnapshotSchedule]:
    head = ("SCHEDULE", "NEXT", "LAST", "KEPT", "SUSPEND", "AGE")
    more = ("ZONE", "FAILED", "ERROR") if wide else ()

    def cells(one: SnapshotSchedule, now: datetime) -> tuple[str, ...]:
        status = one.status
        last = f"{age(status.last_run, now)} ago" if status.last_run else NONE
        row = (
            one.spec.schedule,
            status.next_run or NONE,
            last,
            NONE if isinstance(status.kept, UnsetType) else str(status.kept),
            "yes" if one.spec.suspend else "no",
            age(one.metadata.creation_timestamp, now),
        )
        extra = (one.spec.time_zone, str(status.failed), error_of(one) or NONE) if wide else ()
        where = (one.metadata.namespace,) if namespaces else ()
        return (*where, one.metadata.name, *map(plain, row), *extra)

    return Table(
        head=(*(("NAMESPACE",) if namespaces else ()), "NAME", *head, *more),
        cells=cells,
        name=lambda one: f"{SCHEDULES.kind.lower()}.{SCHEDULES.group}/{one.metadata.name}",
        uid=lambda one: one.metadata.uid,
        body=body,
        state="NEXT",
        ages=("AGE", "LAST"),
    )


def body(one: SnapshotSchedule) -> dict[str, object]:
    return {"apiVersion": SCHEDULES.api_version, "kind": SCHEDULES.kind, **msgspec.to_builtins(one)}


def error_of(one: SnapshotSchedule) -> str:
    error = one.status.last_error
    return "" if isinstance(error, UnsetType) else plain(error.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDetails:
    """A schedule and what belongs to it."""

    schedule: SnapshotSchedule
    claims: int  # that it selects now
    snapshots: Sequence[Snapshot] = ()  # of its group, the newest first
    events: Sequence[Event] = ()


def described(known: ScheduleDetails, *, now: datetime) -> str:
    lines = (*_head(known), *_times(known.schedule, now), *_retention(known.schedule), *_counts(known.schedule))
    parts = ["\n".join(f"{f'{name}:' if name else '':<{_WIDTH}}{text}" for name, text in lines)]
    if known.schedule.status.conditions:
        rows = [("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")]
        rows += [
            (one.type, one.status, age(one.last_transition_time, now), one.reason or NONE, plain(one.message))
            for one in known.schedule.status.conditions
        ]
        parts.append(aligned(rows))
    if known.snapshots:
        shown = [(one.meta.name, one.claim, _state(one), age(one.meta.creation_timestamp, now)) for one in known.snapshots]
        parts.append(aligned([("SNAPSHOT", "CLAIM", "STATE", "AGE"), *shown[:_SHOWN]]))
        if len(shown) > _SHOWN:
            parts.append(f"{len(shown) - _SHOWN} more are not shown.")
    parts.append(event_table(known.events, now))
    return "\n\n".join(parts)


def _state(snapshot: Snapshot) -> str:
    if snapshot.meta.deletion_timestamp is not None:
        return "deleting"
    if snapshot.state.ready:
        return "ready"
    return "error" if snapshot.state.problem is not None else "creating"


def _head(known: ScheduleDetails) -> Iterable[Line]:
    schedule = known.schedule
    spec = schedule.spec
    yield "Name", schedule.metadata.name
    yield "Namespace", schedule.metadata.namespace
    yield "Schedule", f"{spec.schedule} ({spec.time_zone})"
    yield "Claims", f"{selector_text(spec.claim_selector)}: {known.claims} now"
    yield "Dialect", spec.dialect
    yield "Class", spec.snapshot_class_name or "(the default)"
    yield "Group", group_of(schedule)


def selector_text(selector: ScheduleSelector) -> str:
    return str(LabelSelector.of(msgspec.to_builtins(selector))) or "all of the namespace"


def _times(schedule: SnapshotSchedule, now: datetime) -> Iterable[Line]:
    status, run = schedule.status, schedule.status.run
    yield "Next run", "suspended" if schedule.spec.suspend else status.next_run or "none"
    yield "Last run", f"{status.last_run} ({age(status.last_run, now)} ago)" if status.last_run else "none yet"
    if not isinstance(run, UnsetType):
        yield "Running", f"for {run.scheduled_time}: {run.made} made, {run.failed} failed so far"


def _retention(schedule: SnapshotSchedule) -> Iterable[Line]:
    found = schedule.spec.retention
    kept = [
        f"{found.count} of each claim" if not isinstance(found.count, UnsetType) else "",
        f"{found.age} old at most" if not isinstance(found.age, UnsetType) else "",
        f"{_bytes(found.total_size)} together" if not isinstance(found.total_size, UnsetType) else "",
    ]
    yield "Keeps", ", ".join(one for one in kept if one) or "everything"


def _bytes(given: str) -> str:
    """With its unit: a bare number is bytes."""
    try:
        return size(read_size(given))
    except BadInput:
        return plain(given)


def _counts(schedule: SnapshotSchedule) -> Iterable[Line]:
    status = schedule.status
    kept = "unknown" if isinstance(status.kept, UnsetType) else str(status.kept)
    yield "Snapshots", f"{kept} good, {status.broken} failed; {status.made} made in all, {status.failed} could not be"
    if error := error_of(schedule):
        yield "Last error", error
