"""The one step that is next for a record, and what a driver's answer to it means. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final

from ullage.engines.handles import DRIVER as LONGHORN
from ullage.errors import Retryable, Terminal, Uncertain
from ullage.kube.objects import is_deleting
from ullage.ledger.charging.raising import NoRoom
from ullage.ledger.charging.stamps import ESTIMATED_BY, STAMP
from ullage.snapshots.backends.base import Parameters
from ullage.snapshots.binding import misbound, refers_to
from ullage.snapshots.class_parameters import PARAMETERS, parameters_stamp
from ullage.snapshots.gate import CutRefused, Gate
from ullage.snapshots.model import (
    ASK_AGAIN,
    CREATING,
    CUT,
    DRIVER_ERROR,
    DRIVER_RETRYING,
    ESTIMATE,
    MARKS,
    MAY_BE,
    NO_ROOM,
    NOT_ASKED,
    PROGRESS,
    SIZE,
    Problem,
    Record,
    Snapshot,
)
from ullage.snapshots.volume_queue import QueuePosition, may_proceed

BEING_DELETED: Final = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
POLL: Final = (0.5, 10.0)  # seconds between two looks at an upload: first and longest


class Step(Enum):
    """The one thing to do next."""

    REST = auto()  # nothing, until something changes
    HOLD = auto()  # put the finalizer on a record that was made by hand
    MEASURE = auto()  # write down what it would take, and wait for the word
    AWAIT = auto()  # the volume is busy: look again in a moment
    MARK = auto()  # have it paid for, write down that the driver is about to be asked, then CREATE
    CREATE = auto()  # ask for the snapshot, or how far it is
    FIND = auto()  # ask about a snapshot that was there already
    DELETE = auto()  # delete the driver's snapshot, then RELEASE
    UNDO = auto()  # see to it that nothing is left of a creation whose outcome is not known, then RELEASE
    ABANDON = auto()  # the same for a record that stands and whose snapshot is gone; then the mark goes, and nothing else
    RELEASE = auto()  # take the finalizer off
    SETTLE = auto()  # take the marks off that have served
    WEIGH = auto()  # ask how much it takes, which could not be told when it was taken


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """What is seen of a record. `snapshot` is the one that its reference names, if there is one under that name."""

    record: Record
    held: bool  # it has our finalizer
    snapshot: Snapshot | None = None
    first: QueuePosition | None = None  # at the head of the queue of its volume
    gate: Gate | None = None  # where it waits for a word before it is cut
    shared: bool = False  # another record, of either API, names the same snapshot of the driver and is to stay


@dataclass(frozen=True, slots=True)
class Decision:
    step: Step
    problem: Problem | None = None  # to be shown on the record


def plan_record(facts: RecordFacts) -> Decision:
    return _going(facts) if is_deleting(facts.record.meta) else _standing(facts)


def _going(facts: RecordFacts) -> Decision:
    """Only a record that no snapshot is bound to goes. A snapshot that is missing deletes nothing by itself."""
    record, snapshot = facts.record, facts.snapshot
    if not facts.held:
        return Decision(Step.REST)
    if snapshot is not None and refers_to(record, snapshot) and not is_deleting(snapshot.meta):
        who = f"{record.ref.namespace}/{record.ref.name}"
        return Decision(Step.REST, Problem("InUse", f"snapshot {who} is bound to it; delete that first"))
    if record.policy == "Retain" or facts.shared:
        return Decision(Step.RELEASE)
    if record.handle:
        return Decision(Step.DELETE)
    return Decision(Step.UNDO if record.begun or _mark_may_be_lost(record) else Step.RELEASE)


def _mark_may_be_lost(record: Record) -> bool:
    """The GA snapshot-controller says on a record that its snapshot goes, and writes all annotations anew as it has seen them:
    a mark that was written a moment before is gone then."""
    return BEING_DELETED in record.meta.annotations


def _standing(facts: RecordFacts) -> Decision:
    record, snapshot = facts.record, facts.snapshot
    if not facts.held:
        return Decision(Step.HOLD)
    if record.handle and record.marked:
        return Decision(Step.SETTLE)
    if record.state.ready and record.meta.annotations.get(SIZE) == ASK_AGAIN:
        return Decision(Step.WEIGH)
    if record.state.ready or record.lost:
        return Decision(Step.REST)  # to ask for a lost one would be to take another, of other data
    if record.imported or (record.handle and record.cut_in_group):
        return Decision(Step.FIND)
    if record.handle:
        return Decision(Step.CREATE)
    if snapshot is None and CREATING in record.meta.annotations and record.policy == "Delete":
        return Decision(Step.ABANDON)  # somebody else let the snapshot go: what was begun would hold up the volume's queue
    if snapshot is None or is_deleting(snapshot.meta):
        return Decision(Step.REST)  # nobody waits for it any more: what was begun is undone when the record goes
    if problem := misbound(record, snapshot):
        return Decision(Step.REST, problem)
    gate = facts.gate
    if not may_proceed(record, facts.first, called=gate is not None and gate.group):
        return Decision(Step.AWAIT if gate is not None and gate.group else Step.REST)
    if gate is not None and not gate.open:
        return Decision(Step.MEASURE)
    return Decision(Step.CREATE if record.begun else Step.MARK)


# --- what an answer means ---------------------------------------------------------------------------------------------


def mark_after(record: Record, error: Retryable | Terminal, *, asked: bool) -> str | None:
    """The mark that a record has after a failure. It goes where the driver says that nothing was made, unless an earlier call
    may have had its effect: no later answer says that it had none."""
    mark = record.meta.annotations.get(CREATING)
    if isinstance(error, NoRoom) and not record.handle:
        return None  # the driver was not asked, or what was begun is undone
    if not asked or mark is None or record.handle or record.meta.deletion_timestamp is not None:
        return mark
    if isinstance(error, Uncertain):
        return MAY_BE
    return mark if mark == MAY_BE else None


def notes_after(record: Record, mark: str | None, *, given_up: bool) -> dict[str, str | None]:
    """The annotations that change after a failure. An estimate has served with the try that it was made for: the next one is
    measured, and booked, anew."""
    before = record.meta.annotations
    changes = {CREATING: mark} if mark != before.get(CREATING) else {}
    return {**changes, **({ESTIMATE: None} if given_up and ESTIMATE in before else {})}


def settled(record: Record, parameters: Parameters | None, size: str | None) -> dict[str, str | None]:
    """The annotations that change once the driver has the snapshot: marks go, the class's parameters are written down, and how
    much it takes. An import was taken with whatever it was."""
    changes: dict[str, str | None] = {mark: None for mark in (*MARKS, ESTIMATE, PROGRESS) if mark in record.meta.annotations}
    had = record.meta.annotations.get(SIZE)
    if had != size and (size is not None or had == ASK_AGAIN):
        changes[SIZE] = size
    stamp = parameters_stamp(parameters) if parameters and not record.imported else None
    if stamp is not None and PARAMETERS not in record.meta.annotations:
        changes[PARAMETERS] = stamp
    return changes


def size_so_far(record: Record) -> str | None:
    """What a record says of its size, after a process has died that may have known: if nothing, it is asked for again."""
    had = record.meta.annotations.get(SIZE)
    return ASK_AGAIN if had is None and record.state.ready and record.driver != LONGHORN else had


def problem_of(error: Retryable | Terminal, *, asked: bool) -> Problem:
    """A final answer may have a reason of its own, such as a limit that is reached."""
    if isinstance(error, NoRoom):
        return Problem(NO_ROOM, str(error))
    if isinstance(error, CutRefused):
        return Problem(error.reason, str(error))
    if not asked:
        return Problem(NOT_ASKED, str(error))
    if not isinstance(error, Terminal):
        return Problem(DRIVER_RETRYING, str(error))
    return Problem(str(getattr(error, "reason", "")) or DRIVER_ERROR, str(error))


def poll_after(cut: datetime, now: datetime) -> float:
    """Seconds until an upload is looked at again: a fifth of the time that it has taken so far."""
    taken = (now - cut).total_seconds()
    return max(POLL[0], min(POLL[1], taken / 5))


# --- what an edit may mend --------------------------------------------------------------------------------------------


# What we write ourselves while one is tried: no edit.
_OURS: Final = frozenset({CREATING, PROGRESS, ESTIMATE, SIZE, STAMP, ESTIMATED_BY, CUT})


def edited_snapshot(snapshot: Snapshot) -> tuple[object, ...]:
    """What of a snapshot people write. Any of it may be meant to mend a refusal, if only as a request to try again."""
    meta = snapshot.meta
    annotations = sorted((key, value) for key, value in meta.annotations.items() if key not in _OURS)
    return meta.uid, snapshot.class_name, tuple(sorted(meta.labels.items())), tuple(annotations)


def edited_record(record: Record) -> tuple[object, ...]:
    """The same of a record, without what every try writes."""
    annotations = sorted((key, value) for key, value in record.meta.annotations.items() if key not in _OURS)
    return record.meta.generation, record.class_name, tuple(annotations)
