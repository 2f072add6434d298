"""What the controller does next about a Snapshot: one step, decided from what it sees now. Pure.

No step depends on what was done before: any may be the last that a process does, and the next process goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final

from ullage.engines import model
from ullage.engines.api import FINALIZER, Snapshot, SnapshotStatus
from ullage.engines.chain import HEAD, Entry, PurgeProgress
from ullage.engines.controllers.snapshot import statuses
from ullage.engines.model import SnapshotFacts
from ullage.engines.tickets import ticket_of
from ullage.errors import Retryable, Terminal
from ullage.kube.objects import is_deleting
from ullage.ledger.charging.booking import NO_ROOM
from ullage.ledger.charging.raising import NoRoom


class Step(Enum):
    """The one thing to do next."""

    REST = auto()  # nothing, until something changes
    STAMP = auto()  # finalizer, label and owner, where no webhook put them
    WAIT = auto()  # for the volume to be attached
    INTEND = auto()  # write down that the engine is about to be asked, then CREATE
    CREATE = auto()  # have the engine take it, unless it has it
    REMOVE = auto()  # ask the engine how far its removal is, and go on with that
    RELEASE = auto()  # take the finalizer off


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    step: Step
    status: SnapshotStatus | None = None  # to be shown; None: as it is
    ticket: bool = False  # whether it needs the volume attached, and so may hold a ticket


REST: Final = Decision(step=Step.REST)
RELEASE: Final = Decision(step=Step.RELEASE)


def is_untouched(snapshot: Snapshot) -> bool:
    """Whether nothing has ever come of it."""
    return not snapshot.status.requested_time and not snapshot.status.creation_time


def plan(facts: SnapshotFacts, *, now: datetime) -> Decision:
    return _going(facts, now) if is_deleting(facts.snapshot.metadata) else _standing(facts)


def needs_attachment(facts: SnapshotFacts, *, now: datetime) -> bool:
    """Whether the snapshot needs its volume attached, and so may hold a ticket."""
    return plan(facts, now=now).ticket


# --- while it stands -------------------------------------------------------------------------------------------------


def _standing(facts: SnapshotFacts) -> Decision:
    snapshot, volume, engine = facts.snapshot, facts.volume, facts.engine
    status = snapshot.status
    if volume is None:
        gone = f"volume {snapshot.spec.volume or '(none named)'} does not exist, or is not the one that this was taken of"
        return Decision(step=Step.REST, status=statuses.troubled(status, gone))
    if is_deleting(volume.metadata):
        return REST  # it goes with its volume
    if is_untouched(snapshot) and model.stamped(snapshot.metadata, volume) is not snapshot.metadata:
        return Decision(step=Step.STAMP)
    entry = model.entry_of(engine, snapshot.metadata.name)
    if entry is not None and engine is not None:
        return Decision(step=Step.REST, status=statuses.mirrored(snapshot, entry, engine))
    if not snapshot.spec.create_snapshot or status.creation_time:
        seen = engine is not None and bool(engine.status.snapshots)
        return Decision(step=Step.REST, status=statuses.lost(status) if seen else None)
    if model.has_failed(status):
        return REST
    if facts.migrating:
        return Decision(step=Step.WAIT, status=statuses.troubled(status, _MIGRATING))
    if not model.is_running(engine):
        return Decision(step=Step.WAIT, status=statuses.troubled(status, _detached(facts, "taken")), ticket=True)
    step = Step.CREATE if status.requested_time else Step.INTEND
    return Decision(step=step, ticket=_holds(facts))


# --- while it goes ---------------------------------------------------------------------------------------------------


def _going(facts: SnapshotFacts, now: datetime) -> Decision:
    """Once a volume is going nothing of it is merged any more: its snapshots just go."""
    snapshot, volume, engine = facts.snapshot, facts.volume, facts.engine
    if FINALIZER not in snapshot.metadata.finalizers:
        return REST
    if volume is None or is_deleting(volume.metadata):
        return RELEASE
    entry = model.entry_of(engine, snapshot.metadata.name)
    if entry is None and snapshot.spec.create_snapshot and is_untouched(snapshot):
        return RELEASE  # the engine has never been asked for it
    if facts.migrating:
        return Decision(step=Step.WAIT, status=statuses.troubled(snapshot.status, _MIGRATING))
    if entry is not None and engine is not None and entry.removed and (blocked := _blocked(snapshot, entry.children)):
        status = statuses.mirrored(snapshot, entry, engine)
        return Decision(step=Step.REST, status=statuses.logically_removed(snapshot, status, blocked, now=now))
    if not model.is_running(engine):
        return Decision(step=Step.WAIT, status=statuses.troubled(snapshot.status, _detached(facts, "removed")), ticket=True)
    return Decision(step=Step.REMOVE, ticket=_holds(facts))


def _blocked(snapshot: Snapshot, children: Mapping[str, bool] | None) -> statuses.Blocked | None:
    """Why a marked snapshot cannot be merged away as things are. That the engine kept one is known from the last time: it
    stands until its children change."""
    if model.is_parent_of_head(children):
        return "ParentOfHead"
    said = model.blocked_before(snapshot.status)
    if said is not None and said.reason == "NotMerged" and set(children or ()) == set(snapshot.status.children or ()):
        return "NotMerged"
    return None


class Removal(Enum):
    """How far the removal of a marked snapshot is, as the engine says right now."""

    GONE = auto()
    PURGE = auto()
    PURGING = auto()
    QUEUED = auto()  # too many others on the node are at it
    PARENT_OF_HEAD = auto()
    NOT_MERGED = auto()  # a purge went by and left it


def removal(entry: Entry | None, purges: Mapping[str, PurgeProgress], *, purged_with: frozenset[str] | None) -> Removal:
    """`purged_with`: the children that it had when we last had the engine purge for its sake; None: we have not yet."""
    if entry is None:
        return Removal.GONE
    if entry.children == {HEAD}:
        return Removal.PARENT_OF_HEAD
    if any(one.purging for one in purges.values()):
        return Removal.PURGING
    return Removal.NOT_MERGED if purged_with == entry.children else Removal.PURGE


def reason_of(error: Retryable | Terminal) -> str:
    """The word for what went wrong."""
    return NO_ROOM if isinstance(error, NoRoom) else str(getattr(error, "reason", "")) or "EngineError"


# --- in words --------------------------------------------------------------------------------------------------------

_MIGRATING: Final = "the volume migrates and has two engines: waiting for it to have one"


def _detached(facts: SnapshotFacts, done: str) -> str:
    name = facts.engine.metadata.name if facts.engine is not None else "(none yet)"
    volume = facts.snapshot.spec.volume
    return f"cannot be {done} now: engine {name} of volume {volume} is not running; waiting for the volume to be attached"


def _holds(facts: SnapshotFacts) -> bool:
    """Where the volume was attached for its sake it keeps the ticket until it is done."""
    return facts.volume is not None and ticket_of(facts.volume, facts.snapshot) is not None
