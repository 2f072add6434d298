"""The answers of engines as values: a volume's state, its snapshots, and how far a purge or a clone is.

Replicas speak of files, `volume-snap-NAME.img` and `volume-head-NNN.img`; everybody else speaks of snapshots and of
`volume-head`. This module turns the one into the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ullage.engines.chain import HEAD, MAX_NAME, Entry, PurgeProgress, entry_of_file
from ullage.engines.client.errors import Reason, error
from ullage.engines.protocol import controller_pb2, replica_pb2, syncagent_pb2
from ullage.errors import Uncertain


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeState:
    """A volume, as its controller has it."""

    name: str
    size: int  # bytes
    frontend: str
    frontend_up: bool
    expanding: bool
    expansion_error: str  # of the last attempt
    max_count: int  # snapshots
    max_size: int  # bytes of all snapshots; 0: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """Where a replica is, and what the controller thinks of it: RW, WO or ERR."""

    address: str
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """A replica: everything in one moment."""

    size: int  # bytes of the volume
    state: str
    rebuilding: bool
    chain: tuple[str, ...]  # from the head down to the root, without what is marked as removed
    entries: Mapping[str, Entry]
    count_usage: int  # snapshots that count for the limit
    size_usage: int  # bytes, likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneProgress:
    """How far one replica is with a clone, or how the last one ended."""

    cloning: bool
    progress: int  # percent
    state: str
    error: str
    snapshot: str


def checked_name(name: str) -> str:
    """A snapshot's name becomes part of a file's, and an engine does not look at it."""
    size = len(name.encode(errors="replace"))
    if "/" in name or not name.isprintable() or not 0 < size <= MAX_NAME or name == HEAD:
        raise error(
            Reason.BAD_REQUEST,
            f"snapshot {name!r}: 1 to {MAX_NAME} bytes are allowed, printable and without '/', and not {HEAD}",
        )
    return name


def layer(file: str) -> str:
    """The snapshot's name, or `volume-head`, in the name of a file; of an empty one, nothing."""
    found = entry_of_file(file) if file else ""
    if found is None:
        raise Uncertain(f"{file!r} is no name of a snapshot's file: volume-snap-NAME.img")
    return found


def volume_state(given: controller_pb2.Volume) -> VolumeState:
    return VolumeState(
        name=given.name,
        size=given.size,
        frontend=given.frontend,
        frontend_up=given.frontendState == "up",
        expanding=given.isExpanding,
        expansion_error=given.last_expansion_error,
        max_count=given.snapshot_max_count,
        max_size=given.snapshot_max_size,
    )


def replica_info(given: controller_pb2.ControllerReplica) -> ReplicaInfo:
    return ReplicaInfo(address=given.address.address, mode=controller_pb2.ReplicaMode.Name(given.mode))


def replica_state(given: replica_pb2.Replica) -> ReplicaState:
    disks = [disk for name, disk in given.disks.items() if not given.backing_file or name != given.backing_file]
    return ReplicaState(
        size=_bytes(given.size),
        state=given.state,
        rebuilding=given.rebuilding,
        chain=tuple(layer(file) for file in given.chain if not given.backing_file or file != given.backing_file),
        entries={one.name: one for one in map(_entry, disks)},
        count_usage=given.snapshot_count_usage,
        size_usage=given.snapshot_size_usage,
    )


def purge_status(given: syncagent_pb2.SnapshotPurgeStatusResponse) -> PurgeProgress:
    return PurgeProgress(purging=given.is_purging, progress=given.progress, state=given.state, error=given.error)


def clone_status(given: syncagent_pb2.SnapshotCloneStatusResponse) -> CloneProgress:
    return CloneProgress(
        cloning=given.is_cloning,
        progress=given.progress,
        state=given.state,
        error=given.error,
        snapshot=given.snapshot_name,
    )


def _entry(disk: replica_pb2.DiskInfo) -> Entry:
    return Entry(
        name=layer(disk.name),
        parent=layer(disk.parent),
        children=frozenset(map(layer, disk.children)),
        removed=disk.removed,
        user_created=disk.user_created,
        created=disk.created,
        size=_bytes(disk.size),
        labels=dict(disk.labels),
    )


def _bytes(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Uncertain(f"size {text!r}: a number of bytes was expected") from None
