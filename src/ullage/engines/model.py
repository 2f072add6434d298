"""What a Snapshot belongs to, and what its status says: pure functions of what is seen.

`steps.py` decides with these what is to be done next.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from msgspec.structs import replace

from ullage.engines.api import (
    FINALIZER,
    GROUP,
    HEAD,
    RUNNING,
    VOLUME_LABEL,
    VOLUMES,
    Engine,
    Snapshot,
    SnapshotInfo,
    SnapshotStatus,
    Volume,
    to_bytes,
)
from ullage.kube.kinds import Meta, OwnerReference
from ullage.kube.objects import (
    Condition,
    drop_condition,
    find_condition,
    is_deleting,
    is_true,
    owner_reference,
    set_condition,
    with_finalizer,
)

LOST: Final = "lost track of the corresponding snapshot info inside volume engine"
FAILED: Final = "Failed"
LOGICALLY_REMOVED: Final = "LogicallyRemoved"

Blocked = Literal["ParentOfHead", "NotMerged"]

# --- whose it is -----------------------------------------------------------------------------------------------------


def volume_reference(meta: Meta) -> OwnerReference | None:
    """The owner that is a Volume. Its uid tells a volume from a later one of the same name."""
    return next((one for one in meta.owner_references if one.kind == "Volume" and _group(one.api_version) == GROUP), None)


def belongs_to(snapshot: Snapshot, volume: Volume) -> bool:
    """Whether it is a snapshot of this very volume. One that nobody has stamped yet goes by the volume's name."""
    reference = volume_reference(snapshot.metadata)
    if reference is None:
        return snapshot.spec.volume == volume.metadata.name
    return reference.uid == volume.metadata.uid


def stamped(meta: Meta, volume: Volume) -> Meta:
    """The metadata with finalizer, label and owner: what holds a snapshot, finds it, and ties it to this very volume."""
    new = with_finalizer(meta, FINALIZER)
    if meta.labels.get(VOLUME_LABEL) != volume.metadata.name:
        new = replace(new, labels={**meta.labels, VOLUME_LABEL: volume.metadata.name})
    wanted = owner_reference(VOLUMES, volume.metadata)
    if volume_reference(meta) != wanted:
        others = tuple(one for one in meta.owner_references if one != volume_reference(meta))
        new = replace(new, owner_references=(*others, wanted))
    return new


def is_untouched(snapshot: Snapshot) -> bool:
    """Whether nothing has ever come of it."""
    return not snapshot.status.requested_time and not snapshot.status.creation_time


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


# --- what the engine says --------------------------------------------------------------------------------------------


def entry_of(engine: Engine | None, name: str) -> SnapshotInfo | None:
    """What the engine was last seen to have under this name."""
    return (engine.status.snapshots or {}).get(name) if engine is not None else None


def is_running(engine: Engine | None) -> bool:
    return engine is not None and engine.status.current_state == RUNNING


def is_parent_of_head(children: Mapping[str, bool] | None) -> bool:
    """Whether what is being written now is all that was taken after it: such a snapshot can be marked, and no more."""
    return bool(children) and set(children or ()) == {HEAD}


# --- statuses --------------------------------------------------------------------------------------------------------


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


def has_failed(status: SnapshotStatus) -> bool:
    return is_true(status.conditions, FAILED)


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


def blocked_before(status: SnapshotStatus) -> Condition | None:
    found = find_condition(status.conditions, LOGICALLY_REMOVED)
    return found if found is not None and found.status == "True" else None
