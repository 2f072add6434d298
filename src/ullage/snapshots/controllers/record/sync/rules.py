"""What is to be asked of a driver about a record, next: one step, worked out from what is seen. Pure, like `rules.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from ullage.kube.objects import is_deleting
from ullage.snapshots.controllers.snapshot.bind.rules import misbound, refers_to
from ullage.snapshots.model import Problem, Record, Snapshot
from ullage.snapshots.volume_queue import QueuePosition, may_proceed


class Step(Enum):
    """The one thing to do next."""

    REST = auto()  # nothing, until something changes
    HOLD = auto()  # put the finalizer on a record that was made by hand
    MARK = auto()  # write down that the driver is about to be asked, then CREATE
    CREATE = auto()  # ask for the snapshot, or how far it is
    FIND = auto()  # ask about a snapshot that was there already
    DELETE = auto()  # delete the driver's snapshot, then RELEASE
    UNDO = auto()  # see to it that nothing is left of a creation whose outcome is not known, then RELEASE
    RELEASE = auto()  # take the finalizer off


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """What is seen of a record. `snapshot` is the one that its reference names, if there is one under that name."""

    record: Record
    held: bool  # it has our finalizer
    snapshot: Snapshot | None = None
    first: QueuePosition | None = None  # who is at the head of the queue of its volume
    shared: bool = False  # another record, of either API, names the same snapshot of the driver and is to stay


@dataclass(frozen=True, slots=True)
class Decision:
    step: Step
    problem: Problem | None = None  # to be shown on the record


def plan_record(facts: RecordFacts) -> Decision:
    return _going(facts) if is_deleting(facts.record.meta) else _standing(facts)


def _going(facts: RecordFacts) -> Decision:
    """Only what nobody is bound to goes. A snapshot that is missing never sets this off: somebody asked for the deletion."""
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
    return Decision(Step.UNDO if record.begun else Step.RELEASE)


def _standing(facts: RecordFacts) -> Decision:
    record, snapshot = facts.record, facts.snapshot
    if not facts.held:
        return Decision(Step.HOLD)
    if record.state.ready:
        return Decision(Step.REST)
    if record.imported:
        return Decision(Step.FIND)
    if record.handle:
        return Decision(Step.CREATE)
    if snapshot is None or is_deleting(snapshot.meta):
        return Decision(Step.REST)  # nobody waits for it any more: what was begun is undone when the record goes
    if problem := misbound(record, snapshot):
        return Decision(Step.REST, problem)
    if not may_proceed(record, facts.first):
        return Decision(Step.REST)
    return Decision(Step.CREATE if record.begun else Step.MARK)
