"""Everything about one snapshot, for a person who wonders what it is, or what is wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.cli.common.events import event_table
from ullage.cli.common.text import NONE, age, ago, aligned, moment, plain, size
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.progress import NEXT_STEPS, PASSING
from ullage.cli.snapshot.taking import requested
from ullage.cli.snapshot.text import problem, source
from ullage.kube.builtin import core
from ullage.kube.builtin.events import Event
from ullage.kube.errors import Forbidden
from ullage.policies.sharing.model import SHARED_FROM
from ullage.snapshots.metrics import state_of
from ullage.snapshots.model import SHARED_BY, VOLUME_LABEL, Record
from ullage.times import read_time

_WIDTH: Final = 12
Line = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDetails:
    """A snapshot and what belongs to it."""

    found: Found
    record: Record | Forbidden | None = None
    claims: Sequence[core.PersistentVolumeClaim] = ()  # that were filled from it, or are to be
    events: Sequence[Event] = ()


def described(known: SnapshotDetails, *, now: datetime) -> str:
    lines = (*_head(known.found), *_times(known.found, now), *_record(known), *_trouble(known.found))
    parts = ["\n".join(f"{f'{name}:' if name else '':<{_WIDTH}}{text}" for name, text in lines)]
    if conditions := getattr(known.found.obj.status, "conditions", ()):
        rows = [("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")]
        rows += [
            (one.type, one.status, age(one.last_transition_time, now), one.reason or NONE, plain(one.message))
            for one in conditions
        ]
        parts.append(aligned(rows))
    if known.claims:
        parts.append(aligned([("RESTORED TO", "PHASE", "SIZE", "AGE"), *(_claim(one, now) for one in known.claims)]))
    parts.append(event_table(known.events, now))
    return "\n\n".join(parts)


def _head(found: Found) -> Iterable[Line]:
    snapshot, kind = found.snapshot, found.dialect.snapshots
    yield "Name", snapshot.meta.name
    yield "Namespace", snapshot.meta.namespace
    yield "Dialect", f"{found.dialect.name} ({kind.name})"
    yield "State", state_of(snapshot)
    volume = snapshot.meta.labels.get(VOLUME_LABEL)
    yield "Claim", source(snapshot) + (f" (volume {volume})" if volume else "")
    if shared_from := snapshot.meta.annotations.get(SHARED_FROM):
        yield "Given by", f"{plain(shared_from)} (namespace/snapshot)"
    yield "Class", snapshot.class_name or "(none named)"


def _times(found: Found, now: datetime) -> Iterable[Line]:
    snapshot = found.snapshot
    cut, began = snapshot.state.cut, read_time(snapshot.meta.creation_timestamp)
    yield "Requested", f"{moment(began)} ({age(snapshot.meta.creation_timestamp, now)} ago)"
    if cut is None:
        yield "Cut", "not yet"
    else:
        after = f", {ago(cut - began)} after the request" if began and cut >= began else ""
        yield "Cut", f"{moment(cut)}{after}"
    yield "Ready", "yes" if snapshot.state.ready else "no"
    known = snapshot.state.restore_size
    yield "Size", NONE if known is None else f"{size(known)} ({known} bytes) is the least for a volume made from it"
    if snapshot.meta.deletion_timestamp is not None:
        yield "Deleting", f"since {age(snapshot.meta.deletion_timestamp, now)}; held by {', '.join(snapshot.meta.finalizers)}"


def _record(known: SnapshotDetails) -> Iterable[Line]:
    record, name = known.record, known.found.snapshot.state.record or known.found.snapshot.imported_record
    yield "Record", name or "(none yet)"
    if isinstance(record, Forbidden):
        yield "", f"(you may not read {known.found.dialect.records.name}: driver and handle are not shown)"
    elif record is None and name:
        yield "", "(it does not exist)"
    elif record is not None:
        yield "Driver", record.driver
        yield "Handle", plain(record.handle) or "(none yet)"
        shared = SHARED_BY in record.meta.annotations
        goes = "the data goes with the last snapshot that stands for it" if shared else "the data goes with it"
        yield "Policy", f"Delete: {goes}" if record.policy == "Delete" else "Retain: the data outlives it"


def _trouble(found: Found) -> Iterable[Line]:
    state = found.snapshot.state
    if state.problem is not None:
        yield "Error", problem(state.problem)
        step = NEXT_STEPS.get(state.problem.reason, "")
        if step or state.problem.reason in PASSING:
            yield "What to do", step or "nothing: it is tried again"
    if state.waiting is not None:
        yield "Waits for", plain(state.waiting.message)


def _claim(claim: core.PersistentVolumeClaim, now: datetime) -> tuple[str, ...]:
    meta = claim.metadata
    return meta.name, claim.status.phase or NONE, size(requested(claim)), age(meta.creation_timestamp, now)
