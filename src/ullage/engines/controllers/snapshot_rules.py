"""What the controller does next about a Snapshot: one step, decided from what it sees now. Pure.

No step depends on what was done before: any may be the last that a process does, and the next process goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final, Literal

from msgspec.structs import replace

from ullage.engines import model
from ullage.engines.api import FINALIZER, Engine, Snapshot, SnapshotInfo, SnapshotStatus, to_bytes
from ullage.engines.chain import HEAD, Entry, PurgeProgress
from ullage.engines.model import FAILED, LOGICALLY_REMOVED, SnapshotFacts
from ullage.engines.tickets import ticket_of
from ullage.errors import Retryable, Terminal
from ullage.kube.objects import drop_condition, is_deleting, set_condition
from ullage.ledger.charging.booking import NO_ROOM
from ullage.ledger.charging.raising import NoRoom

# The statuses that the controller writes on Snapshots: each a new value, from the old one and what the engine says.


LOST: Final = "lost track of the corresponding snapshot info inside volume engine"

Blocked = Literal["ParentOfHead", "NotMerged"]


def mirrored(snapshot: Snapshot, entry: SnapshotInfo, engine: Engine) -> SnapshotStatus:
    """What the engine has under its name. Whatever was wrong before is not any more."""
    ready = not entry.removed and not is_deleting(snapshot.metadata)
    old = snapshot.status
    return replace(
        old,
        parent=entry.parent,
        children=entry.children or None,
        mark_removed=entry.removed,
        user_created=entry.usercreated,
        requested_time=old.requested_time or entry.created,
        creation_time=entry.created,
        size=to_bytes(entry.size),
        labels=entry.labels or None,
        error="" if ready or not is_deleting(snapshot.metadata) else old.error,
        restore_size=to_bytes(engine.spec.volume_size),
        ready_to_use=ready,
        conditions=drop_condition(drop_condition(old.conditions, FAILED), LOGICALLY_REMOVED),
    )


def troubled(status: SnapshotStatus, error: str) -> SnapshotStatus:
    """Not to be used now, and why."""
    return replace(status, ready_to_use=False, error=error)


def queued(status: SnapshotStatus, *, node: str, purges: int) -> SnapshotStatus:
    """Others of its node are merged away first."""
    where = f"node {node}" if node else "this node"
    many = "1 volume" if purges == 1 else f"{purges} volumes"
    verb = "is" if purges == 1 else "are"
    text = f"waiting to be merged away: {many} of {where} {verb} purging, and that many may at the same time"
    return replace(status, error=text)


def lost(status: SnapshotStatus) -> SnapshotStatus:
    return troubled(status, LOST)


def failed(snapshot: Snapshot, problem: str, *, reason: str, now: datetime) -> SnapshotStatus:
    """It was not taken and is not tried again. What the engine may have been asked for stays written down."""
    status = troubled(snapshot.status, problem)
    message = f"{problem}; it is not tried again: delete it and create another"
    said = set_condition(
        status.conditions,
        FAILED,
        status=True,
        reason=reason,
        message=message,
        generation=snapshot.metadata.generation,
        now=now,
    )
    return replace(status, conditions=said)


def logically_removed(snapshot: Snapshot, status: SnapshotStatus, blocked: Blocked, *, now: datetime) -> SnapshotStatus:
    """Deleted as far as anybody can: it takes room until the engine can merge it away, and counts for no limit."""
    said = set_condition(
        snapshot.status.conditions,
        LOGICALLY_REMOVED,
        status=True,
        reason=blocked,
        message=_BLOCKED[blocked],
        generation=snapshot.metadata.generation,
        now=now,
    )
    return replace(status, ready_to_use=False, error="", conditions=drop_condition(said, FAILED))


_BLOCKED: Final[Mapping[Blocked, str]] = {
    "ParentOfHead": "the volume writes on top of it, so it is only marked; it goes after the next snapshot, or with the volume",
    "NotMerged": "the engine has kept it, since several snapshots build on it; it goes when all but one of them are gone",
}


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
        return Decision(step=Step.REST, status=troubled(status, gone))
    if is_deleting(volume.metadata):
        return REST  # it goes with its volume
    if is_untouched(snapshot) and model.stamped(snapshot.metadata, volume) is not snapshot.metadata:
        return Decision(step=Step.STAMP)
    entry = model.entry_of(engine, snapshot.metadata.name)
    if entry is not None and engine is not None:
        return Decision(step=Step.REST, status=mirrored(snapshot, entry, engine))
    if not snapshot.spec.create_snapshot or status.creation_time:
        seen = engine is not None and bool(engine.status.snapshots)
        return Decision(step=Step.REST, status=lost(status) if seen else None)
    if model.has_failed(status):
        return REST
    if facts.migrating:
        return Decision(step=Step.WAIT, status=troubled(status, _MIGRATING))
    if not model.is_running(engine):
        return Decision(step=Step.WAIT, status=troubled(status, _detached(facts, "taken")), ticket=True)
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
        return Decision(step=Step.WAIT, status=troubled(snapshot.status, _MIGRATING))
    if entry is not None and engine is not None and entry.removed and (blocked := _blocked(snapshot, entry.children)):
        status = mirrored(snapshot, entry, engine)
        return Decision(step=Step.REST, status=logically_removed(snapshot, status, blocked, now=now))
    if not model.is_running(engine):
        return Decision(step=Step.WAIT, status=troubled(snapshot.status, _detached(facts, "removed")), ticket=True)
    return Decision(step=Step.REMOVE, ticket=_holds(facts))


def _blocked(snapshot: Snapshot, children: Mapping[str, bool] | None) -> Blocked | None:
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
