"""What Longhorn's objects, and the API's refusals, mean for whoever asked for a snapshot or a volume. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from msgspec import UNSET

from ullage.engines.api import Snapshot, Volume
from ullage.engines.chain import Limits
from ullage.engines.client import errors
from ullage.engines.handles import SnapshotHandle
from ullage.engines.model import FAILED, blocked_before, is_parent_of_head
from ullage.errors import Impossible, NotNow, UllageError, Uncertain
from ullage.kube.errors import ApiError, BadRequest, Invalid, Unavailable, Undecodable
from ullage.kube.objects import find_condition, is_deleting
from ullage.ledger.amounts import spell
from ullage.quantity import Quantity
from ullage.snapshots.backends.base import BackendSnapshot, Restoration
from ullage.times import read_time

COMPLETED: Final = "completed"
FAILED_CLONE: Final = "failed"

# --- snapshots -------------------------------------------------------------------------------------------------------


def backend_snapshot_of(snapshot: Snapshot) -> BackendSnapshot | None:
    """None before the cut is made, and from the moment on at which it is being deleted: nothing can stop that any more."""
    status, name = snapshot.status, snapshot.metadata.name
    if is_deleting(snapshot.metadata) or not status.creation_time:
        return None
    return BackendSnapshot(
        handle=str(SnapshotHandle(snapshot.spec.volume, name)),
        volume=snapshot.spec.volume,
        cut=_moment(status.creation_time, name),
        ready=status.ready_to_use is True,
        restore_size=(status.restore_size or None) if status.restore_size is not UNSET else None,
    )


def failure_of(snapshot: Snapshot, limits: Limits) -> UllageError | None:
    """Why it was not taken and is not tried again, in the engine's words; None where that is not so. An engine that has
    something else to do may take another later. `limits` are its volume's."""
    found = find_condition(snapshot.status.conditions, FAILED)
    if found is None or found.status != "True":
        return None
    if found.reason in errors.LIMITS:
        return Impossible(f"{_beyond(found.reason, snapshot.spec.volume, limits)}; {_NEXT}", reason=found.reason)
    message = f"{_named(snapshot)} was not taken: {without_paths(snapshot.status.error or found.message)}"
    return NotNow(message) if _passes(found.reason) else Impossible(message)


def _beyond(reason: str, volume: str, limits: Limits) -> str:
    if reason == errors.Reason.COUNT_LIMIT:
        return f"volume {volume} has as many snapshots as it may have: {limits.max_count} (snapshotMaxCount)"
    allowed = spell("storage", Quantity.of(limits.max_size))
    return (
        f"the snapshots of volume {volume} and this one would take more than the {allowed} that are allowed (snapshotMaxSize)"
    )


_NEXT: Final = "delete some of them first"


def without_paths(said: str) -> str:
    """An engine's words for tenants: where on the host its sockets and files are is not theirs to know."""
    return _FILE.sub("", _ADDRESS.sub("", said))


_ADDRESS: Final = re.compile(r" ?(?:unix|tcp)://.*?(?=: | is |, |$)")
_FILE: Final = re.compile(r" ?\(/[^)]*\)|(?:(?<=\s)|^)/\S+")


def is_removed(snapshot: Snapshot) -> bool:
    """Whether a deleted snapshot is gone as far as anybody can do something about it.

    The engine has marked it, and cannot merge it away before others have come or gone: the parent of the head waits for the
    next snapshot, which may never be taken. Nothing can be made from it any more; the room that it takes is its volume's.
    """
    status = snapshot.status
    blocked = is_parent_of_head(status.children) or len(status.children or ()) > 1  # Longhorn itself tells no more than this
    return is_deleting(snapshot.metadata) and (blocked_before(status) is not None or (status.mark_removed and blocked))


def waits_for(snapshot: Snapshot) -> str:
    """What a snapshot that is not there yet, or not gone yet, waits for, as far as somebody said so."""
    return without_paths(snapshot.status.error) or "nothing has been said about it yet"


def _passes(reason: str) -> bool:
    try:
        known = errors.Reason(reason)
    except ValueError:
        return True
    return known is errors.Reason.UNKNOWN or isinstance(errors.error(known, ""), NotNow)


def _moment(created: str, name: str) -> datetime:
    found = read_time(created)
    if found is None:
        raise Uncertain(f"snapshot {name}: status.creationTime {created!r} is no time, so its cut is not known")
    return found


def _named(snapshot: Snapshot) -> str:
    return f"snapshot {snapshot.metadata.name} of volume {snapshot.spec.volume}"


# --- volumes ---------------------------------------------------------------------------------------------------------


def refuse_source(snapshot: Snapshot | None, restoration: Restoration) -> None:
    """Raises where no volume can be made from a snapshot, or none of this size."""
    if snapshot is None or is_deleting(snapshot.metadata):
        raise Impossible(f"snapshot {restoration.snapshot} does not exist, or is being deleted")
    status = snapshot.status
    if status.ready_to_use is not True:
        raise NotNow(f"{_named(snapshot)} is not ready: {waits_for(snapshot)}")
    needed = status.restore_size if status.restore_size is not UNSET else 0
    if restoration.size < needed:
        raise Impossible(f"volume {restoration.name}: {restoration.size} bytes are asked for, {needed} are needed at least")


def refuse_other(volume: Volume, source: SnapshotHandle) -> None:
    """Raises where the volume that has the name is not, or no longer, the one that is made from this snapshot."""
    name, made_from = volume.metadata.name, volume.spec.data_source
    if made_from != str(source):
        raise Impossible(f"volume {name} is there already, made from {made_from or 'no snapshot'} and not from {source}")
    if is_deleting(volume.metadata):
        raise NotNow(f"volume {name} is being deleted; another can be made when it is gone")


def clone_state(volume: Volume) -> tuple[str, str]:
    """And what is said about it."""
    found = volume.status.clone_status
    if found is None:
        return "", "nothing has been said about it yet"
    return found.state, without_paths(found.message) or f"its data is being copied (cloneStatus.state {found.state or 'empty'})"


def replicas(given: str | None, source: Volume | None) -> int:
    """How many copies of the data: as the StorageClass says, else as many as the snapshot's volume has."""
    if given is None:
        return source.spec.number_of_replicas if source is not None else 0
    if not given.isascii() or not given.isdigit() or not 0 < int(given) <= 20:
        raise Impossible(f"parameters.numberOfReplicas {given or '(empty)'}: a number from 1 to 20 is allowed")
    return int(given)


# --- the API ---------------------------------------------------------------------------------------------------------


def read_error(problem: ApiError, *, what: str) -> Uncertain:
    """A read that was refused tells nothing about what is there."""
    return Uncertain(f"{what} cannot be read: {problem}")


def write_error(problem: ApiError, *, what: str) -> UllageError:
    """What is known after a create or delete that did not succeed. A missing right or kind can be put right without an edit
    of what was asked for; a limit that is reached is told at once."""
    message = f"{what}: {problem}"
    limit = next((cause for cause in problem.causes if cause.reason in errors.LIMITS), None)
    if limit is not None:  # the webhook's own hint is for administrators
        return Impossible(f"{limit.message}; {_NEXT}", reason=limit.reason)
    if isinstance(problem, Invalid | BadRequest | Undecodable):
        return Impossible(message)
    return Uncertain(message) if isinstance(problem, Unavailable) and problem.sent else NotNow(message)
