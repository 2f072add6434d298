"""The statuses that the controller writes on Snapshots: each a new value, from the old one and what the engine says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from msgspec.structs import replace

from ullage.engines.api import Engine, Snapshot, SnapshotInfo, SnapshotStatus, to_bytes
from ullage.engines.model import FAILED, LOGICALLY_REMOVED
from ullage.kube.objects import drop_condition, is_deleting, set_condition

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
