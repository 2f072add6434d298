"""What a storage system has to be able to do for its volumes to have snapshots.

Every call may be repeated, by this process or by the next one after a crash: what was done already is found and given back.
Names come from the API object's uid, so the same name always means the same snapshot. A backend holds no state of its own
that matters: whatever it needs to know is in its arguments, or in the storage system.

The error (`ullage.errors`) says what is known, and so what may follow:

    Uncertain     it may have happened: ask again under the same name before anything else is concluded
    NotNow        nothing was made; it may work later
    Impossible    nothing was made; only an edit (of the object, the class, the setting) can help
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from ullage.engines.holds import Hold
from ullage.errors import NotNow, Uncertain

Parameters = Mapping[str, str]
Topology = Mapping[str, str]  # a place, in the terms of a driver: `topology.kubernetes.io/zone: a`


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a storage system must be told to trust us. It never shows its values: not in logs, not in errors."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)


NO_SECRETS = Secrets()


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeHandle:
    """A PersistentVolume, as far as a backend is concerned."""

    handle: str  # how the storage system knows it: a CSI volume handle, a path
    node: str = ""  # the only node that it can be reached from; empty: any


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A snapshot to be taken."""

    name: str  # 128 bytes at most; letters, digits and dashes
    volume: VolumeHandle
    parameters: Parameters = field(default_factory=dict)  # handed on untouched
    secrets: Secrets = NO_SECRETS
    owner: str = ""  # the namespace that asks: systems that can do little at a time share it between these
    hold: Hold | None = None  # for whom it is taken, and stays: for systems that would delete it with its volume


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSnapshot:
    """A snapshot, as the storage system has it."""

    handle: str
    volume: str  # the handle of the volume that it was taken of
    cut: datetime  # the moment whose data it has, aware and in UTC; from here on the application may write again
    ready: bool  # whether a volume can be made from it: it is uploaded, or whatever the system does after the cut
    restore_size: int | None = None  # the bytes that a volume made from it needs at least; None: the system does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """A volume to be made from a snapshot."""

    name: str  # of the new volume: `pvc-<uid of the claim>`
    snapshot: str  # the snapshot's handle
    size: int  # bytes
    parameters: Parameters = field(default_factory=dict)  # of the StorageClass
    secrets: Secrets = NO_SECRETS
    filesystem: str = ""  # empty: the system's own choice
    block: bool = False  # a raw device, not a file system
    access_modes: tuple[str, ...] = ("ReadWriteOnce",)
    owner: str = ""  # the namespace that asks
    node: str = ""  # the node that it is to be used on; empty: not known yet
    topologies: tuple[Topology, ...] = ()  # it must be reachable from one of these; empty: from wherever


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A volume that was made from a snapshot."""

    handle: str
    size: int  # bytes
    source: Mapping[str, Any]  # for the PersistentVolume's spec: `{"csi": {…}}`, `{"hostPath": {…}}`
    node: str = ""  # the only node that it can be reached from; empty: any
    topologies: tuple[Topology, ...] = ()  # it can be reached from each of these; empty: from wherever


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCreation:
    """Snapshots of several volumes, to be taken in one call."""

    name: str  # 128 bytes at most; letters, digits and dashes
    volumes: tuple[str, ...]  # handles
    parameters: Parameters = field(default_factory=dict)  # handed on untouched
    secrets: Secrets = NO_SECRETS


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendGroup:
    """A group snapshot, as the storage system has it."""

    handle: str
    cut: datetime
    ready: bool  # whether volumes can be made from all members
    members: tuple[BackendSnapshot, ...]


class InProgress(Uncertain):
    """It is being made, and takes its time. The text says how far it is; ask again under the same name."""


class TakesTooLong(NotNow):
    """What was asked is too much work to be done in one go. It may be less one day: ask again, and seldom."""


class Held(NotNow):
    """A volume stays, since somebody's snapshots are in it. It may go when they have."""


class Backend(Protocol):
    """One storage system. All calls are bounded in time, may run at the same time, and can be cancelled at any moment."""

    @property
    def driver(self) -> str:
        """The name that StorageClasses, VolumeSnapshotClasses and PersistentVolumes know it by."""

    @property
    def node(self) -> str:
        """The only node whose volumes and snapshots it knows; empty: all of them."""

    async def create(self, creation: Creation) -> BackendSnapshot:
        """Takes a snapshot, or gives back the one that has this name. Returns when the cut is made; it may not be ready then.

        A snapshot with this name of another volume is Impossible; Uncertain where the system does not tell whose it is.
        """

    async def undo(self, creation: Creation) -> None:
        """Sees to it that nothing is left of a creation whose outcome is not known. Uncertain: try again."""

    async def delete(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        """Deletes a snapshot. One that is not there is deleted already."""

    async def find(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> BackendSnapshot | None:
        """What the storage system says of a snapshot; None where it has none with this handle."""

    def list(self, volume: str = "", *, secrets: Secrets = NO_SECRETS) -> AsyncIterator[BackendSnapshot]:
        """All snapshots, or those of one volume (its handle). Impossible where the system cannot tell."""

    async def restore(self, restoration: Restoration) -> Restored:
        """Makes a volume with the snapshot's data, or gives back the one that has this name."""

    async def discard(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        """Deletes a volume that `restore` made. One that is not there is deleted already. Held: it has snapshots that
        somebody keeps, and would take them along."""

    async def size(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> int | None:
        """The bytes that a snapshot really takes; None where the system does not tell."""

    async def estimate(self, volume: VolumeHandle, *, owner: str = "") -> int | None:
        """The bytes that a snapshot of the volume would take at most, if it were taken now; None where nothing is known, and
        its capacity is the only bound. `owner` is the namespace that asks. InProgress: it takes its time, ask again."""


class GroupBackend(Protocol):
    """A storage system that may be able to cut several volumes in one call. Calls are as those of `Backend` are."""

    @property
    def driver(self) -> str:
        """The name that classes and PersistentVolumes know it by."""

    async def knows_groups(self) -> bool:
        """Whether it can. Where it cannot, each volume is cut for itself."""

    async def create_group(self, creation: GroupCreation) -> BackendGroup:
        """Cuts all volumes, or none, or gives back the group that has this name. Returns when the cut is made."""

    async def undo_group(self, creation: GroupCreation) -> None:
        """Sees to it that nothing is left of a creation whose outcome is not known. Uncertain: try again."""

    async def delete_group(self, handle: str, members: Sequence[str], *, secrets: Secrets = NO_SECRETS) -> None:
        """Deletes a group snapshot and its members. One that is not there is deleted already."""

    async def find_group(self, handle: str, members: Sequence[str], *, secrets: Secrets = NO_SECRETS) -> BackendGroup | None:
        """What the storage system says of a group snapshot; None where it has none with this handle."""
