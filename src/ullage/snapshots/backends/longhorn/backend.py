"""`base.Backend` through Longhorn's own objects: whoever looks after those does the work, and is waited for a while.

The API is all that is talked to; an engine is asked for nothing but the size of its head. A Snapshot has the name that we are
given, so whether one was asked for is seen by its name, and nothing has to be asked for twice to be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from msgspec import UNSET

from ullage.engines import api, model
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, RUNNING, VOLUME_LABEL, VOLUMES, Snapshot
from ullage.engines.client.errors import Reason
from ullage.engines.handles import BACKUP_PREFIX, DRIVER, FORM, NAMESPACE, SnapshotHandle, aligned
from ullage.engines.holds import Hold, annotations_of, change, holds_of, listed
from ullage.errors import Impossible, NotNow, UllageError, Uncertain
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Write
from ullage.names import is_subdomain
from ullage.selectors import value_faults
from ullage.snapshots.backends.base import (
    NO_SECRETS,
    BackendSnapshot,
    Creation,
    Held,
    Restoration,
    Restored,
    Secrets,
    VolumeHandle,
)
from ullage.snapshots.backends.longhorn import status

# Handles of Longhorn's snapshots, as its CSI driver writes them: `snap://VOLUME/SNAPSHOT`. They come from users too, in
# VolumeSnapshotContents that were written by hand: both names are checked before they become parts of a path. Handles
# that begin with `bs://` stand for backups, which lie elsewhere and are not snapshots of a volume.


_ALLOWED: Final = f"{FORM} is allowed"


def parsed(text: str) -> SnapshotHandle:
    if text.startswith(BACKUP_PREFIX):
        raise Impossible(f"snapshot handle {text}: it stands for a backup, and those are Longhorn's own; {_ALLOWED}")
    found = SnapshotHandle.parse(text)
    if found is None or not is_subdomain(found.volume) or not is_subdomain(found.snapshot):
        raise Impossible(f"snapshot handle {text or '(empty)'}: {_ALLOWED}")
    return found


def volume_name(handle: str) -> str:
    """The Volume that a PersistentVolume's handle means: its name."""
    if not is_subdomain(handle) or value_faults(handle):
        raise Impossible(f"volume handle {handle or '(empty)'}: the name of a Volume in {NAMESPACE} is allowed")
    return handle


T = TypeVar("T", bound=Object)


class HeadSize(Protocol):
    """Asks a volume's engine."""

    async def __call__(self, volume: str, *, volume_size: int = 0) -> int:
        """The bytes that the next snapshot would take right now. NotNow with the reason DETACHED: nobody serves it."""


READS: Final = api.KINDS
WRITES: Final = (Write(ENGINE_SNAPSHOTS, ("create", "delete")), Write(VOLUMES, ("create", "delete")))

_PAUSES: Final = (0.05, 1.0)  # seconds between two looks: first and longest
_TYPE: Final = "type"  # the parameter of a VolumeSnapshotClass that Longhorn knows
_REPLICAS: Final = "numberOfReplicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds that a call waits for what it asked for. After that it is not known; the next call goes on from there."""

    taking: float = 20.0  # with the time that a detached volume takes to be attached
    removing: float = 20.0
    cloning: float = 60.0


class LonghornBackend:
    def __init__(
        self, client: Client, *, timeouts: Timeouts | None = None, holds: bool = False, head: HeadSize | None = None
    ) -> None:
        """`holds`: who looks after Longhorn's objects knows what a hold is, so snapshots are taken with one. `head` asks a
        volume's engine itself, where that is ours to ask: its Engine shows growth with a delay."""
        self._client = client
        self._head = head
        self._holds = holds
        self._timeouts = timeouts or Timeouts()

    @property
    def driver(self) -> str:
        return DRIVER

    @property
    def node(self) -> str:
        return ""

    # --- taking ---

    async def create(self, creation: Creation) -> BackendSnapshot:
        _check(creation)
        found = await self._find(ENGINE_SNAPSHOTS, creation.name)
        if found is None:
            await self._ask_for(creation)
        for pause in _pauses(self._timeouts.taking):
            found = await self._find(ENGINE_SNAPSHOTS, creation.name)
            if found is not None and (snapshot := await self._taken(creation, found)) is not None:
                return snapshot
            await asyncio.sleep(pause)
        said = status.waits_for(found) if found is not None else "it is not there any more"
        waited = f"{self._timeouts.taking:g} s"
        raise Uncertain(f"snapshot {creation.name} of volume {creation.volume.handle} is not taken after {waited}: {said}")

    async def _ask_for(self, creation: Creation) -> None:
        name = creation.volume.handle
        volume = await self._find(VOLUMES, name)
        if volume is None or is_deleting(volume.metadata):
            state = "does not exist" if volume is None else "is being deleted"
            raise Impossible(f"volume {name} {state}, in namespace {NAMESPACE}")
        held = (creation.hold,) if creation.hold is not None and self._holds else ()
        await self._hold(volume, held)
        labels, annotations = {VOLUME_LABEL: name}, annotations_of(held)
        meta = Meta(name=creation.name, namespace=NAMESPACE, labels=labels, annotations=annotations)
        spec = api.SnapshotSpec(volume=name, create_snapshot=True)
        await self._create(ENGINE_SNAPSHOTS, Snapshot(metadata=meta, spec=spec))

    async def _hold(self, volume: api.Volume, held: tuple[Hold, ...]) -> None:
        """Before there is a snapshot in it: once that is taken, nothing else keeps the volume's claim."""
        wanted, meta = change(volume.metadata, put=held), volume.metadata
        if wanted is None:
            return
        try:
            written = await self._client.patch(VOLUMES, meta.name, meta.namespace, merge=wanted, uid=meta.uid)
        except ApiError as problem:
            raise status.write_error(problem, what=f"volume {meta.name} could not be held") from problem
        if is_deleting(written.metadata):
            raise Impossible(f"volume {meta.name} is being deleted, in namespace {NAMESPACE}")

    async def _taken(self, creation: Creation, found: Snapshot) -> BackendSnapshot | None:
        """None while it is not known yet."""
        name, volume = creation.name, creation.volume.handle
        if found.spec.volume != volume:
            raise Impossible(f"snapshot {name} is there already, of volume {found.spec.volume} and not of {volume}")
        if is_deleting(found.metadata):
            raise NotNow(f"snapshot {name} of volume {volume} is being deleted; another can be taken when it is gone")
        failure = await self._failure(found)
        if failure is not None:
            await self._remove(found)  # so that the next try is one
            raise failure
        return status.backend_snapshot_of(found)

    async def _failure(self, snapshot: Snapshot) -> UllageError | None:
        if not model.has_failed(snapshot.status):
            return None
        volume = await self._find(VOLUMES, snapshot.spec.volume)
        return status.failure_of(snapshot, model.wanted_limits(volume or api.Volume()))

    # --- removing ---

    async def undo(self, creation: Creation) -> None:
        if not is_subdomain(creation.name):
            return  # it was never asked for
        found = await self._find(ENGINE_SNAPSHOTS, creation.name)
        if found is not None and found.spec.volume == creation.volume.handle:
            await self._remove(found)

    async def delete(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        found = await self._of(parsed(handle))
        if found is not None:
            await self._remove(found)

    async def _remove(self, snapshot: Snapshot) -> None:
        await self._delete(ENGINE_SNAPSHOTS, snapshot)
        last = snapshot
        for pause in _pauses(self._timeouts.removing):
            found = await self._find(ENGINE_SNAPSHOTS, snapshot.metadata.name)
            if found is None or found.metadata.uid != snapshot.metadata.uid or status.is_removed(found):
                return
            last = found
            await asyncio.sleep(pause)
        said, waited = status.waits_for(last), f"{self._timeouts.removing:g} s"
        raise Uncertain(f"snapshot {last.metadata.name} of volume {last.spec.volume} is not removed after {waited}: {said}")

    # --- looking ---

    async def find(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> BackendSnapshot | None:
        found = await self._of(parsed(handle))
        return status.backend_snapshot_of(found) if found is not None else None

    async def list(self, volume: str = "", *, secrets: Secrets = NO_SECRETS) -> AsyncIterator[BackendSnapshot]:
        labels = f"{VOLUME_LABEL}={volume_name(volume)}" if volume else ""
        try:
            found = await self._client.list(ENGINE_SNAPSHOTS, NAMESPACE, labels=labels)
        except ApiError as problem:
            raise status.read_error(problem, what="snapshots of Longhorn") from problem
        for one in found.items:
            snapshot = status.backend_snapshot_of(one) if not volume or one.spec.volume == volume else None
            if snapshot is not None:
                yield snapshot

    async def size(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> int | None:
        found = await self._of(parsed(handle))
        return None if found is None or found.status.size is UNSET else found.status.size

    async def estimate(self, volume: VolumeHandle, *, owner: str = "") -> int | None:
        """What is being written now becomes the snapshot: its engine is asked, where that can be reached. A detached volume
        has what its engine said last; one that migrates has two engines, and the active one counts. What a volume was made
        with has no object before it is attached, so nobody pays for it: that counts here, too."""
        name = volume_name(volume.handle)
        if self._head is not None:
            whole = await self._find(VOLUMES, name)
            try:
                return await self._head(name, volume_size=api.to_bytes(whole.spec.size) if whole is not None else 0)
            except NotNow as problem:
                if problem.reason != Reason.DETACHED:
                    raise
        label = f"{VOLUME_LABEL}={name}"
        try:
            found = await self._client.list(ENGINES, NAMESPACE, labels=label)
            engine = model.active_engine(one for one in found.items if one.spec.volume_name == name)
            head = model.head_size(engine) if engine is not None else None
            if engine is None or head is None or engine.status.current_state == RUNNING:
                return head
            below = model.kept_below(engine)
            paid = {one.metadata.name for one in (await self._client.list(ENGINE_SNAPSHOTS, NAMESPACE, labels=label)).items}
        except ApiError as problem:
            raise status.read_error(problem, what=f"the engine of volume {name}") from problem
        return head + sum(size for entry, size in below.items() if entry not in paid)

    async def _of(self, handle: SnapshotHandle) -> Snapshot | None:
        """A snapshot of another volume is not the one that is meant."""
        found = await self._find(ENGINE_SNAPSHOTS, handle.snapshot)
        return found if found is not None and found.spec.volume == handle.volume else None

    # --- restoring ---

    async def restore(self, restoration: Restoration) -> Restored:
        source, name = parsed(restoration.snapshot), volume_name(restoration.name)
        found = await self._find(VOLUMES, name)
        if found is None:
            await self._clone(source, restoration)
        said = "it is not there any more"
        for pause in _pauses(self._timeouts.cloning):
            found = await self._find(VOLUMES, name)
            if found is not None:
                status.refuse_other(found, source)
                state, said = status.clone_state(found)
                if state == status.COMPLETED:
                    return _restored(found, restoration)
                if state == status.FAILED_CLONE:
                    await self._discard(found)
                    raise NotNow(f"volume {name} got no data from {source}, and was deleted again: {said}")
            await asyncio.sleep(pause)
        raise Uncertain(f"volume {name} has not the data of {source} after {self._timeouts.cloning:g} s: {said}")

    async def _clone(self, source: SnapshotHandle, restoration: Restoration) -> None:
        status.refuse_source(await self._of(source), restoration)
        copies = status.replicas(restoration.parameters.get(_REPLICAS), await self._find(VOLUMES, source.volume))
        spec = api.VolumeSpec(
            size=str(aligned(restoration.size)), number_of_replicas=copies, frontend="blockdev", data_source=str(source)
        )
        meta = Meta(name=restoration.name, namespace=NAMESPACE)
        await self._create(VOLUMES, api.Volume(metadata=meta, spec=spec))

    async def discard(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        found = await self._find(VOLUMES, volume_name(handle))
        if found is None:
            return
        if not found.spec.data_source:
            raise Impossible(f"volume {handle} was not made from a snapshot: it is not ours to delete")
        await self._discard(found)

    async def _discard(self, volume: api.Volume) -> None:
        meta = volume.metadata
        if holds := holds_of(meta):
            raise Held(f"volume {meta.name} stays: it has the data of {listed(holds)}")
        await self._delete(VOLUMES, volume)
        for pause in _pauses(self._timeouts.removing):
            found = await self._find(VOLUMES, meta.name)
            if found is None or found.metadata.uid != meta.uid:
                return
            await asyncio.sleep(pause)
        raise Uncertain(f"volume {meta.name} is not gone after {self._timeouts.removing:g} s")

    # --- the API ---

    async def _find(self, kind: Kind[T], name: str) -> T | None:
        try:
            return await self._client.find(kind, name, NAMESPACE)
        except ApiError as problem:
            raise status.read_error(problem, what=f"{kind.kind} {name}") from problem

    async def _create(self, kind: Kind[T], obj: T) -> None:
        """Where somebody was quicker, it is looked at next what was made."""
        try:
            await self._client.create(kind, obj)
        except AlreadyExists:
            return
        except ApiError as problem:
            raise status.write_error(problem, what=f"{kind.kind} {obj.metadata.name} was not made") from problem

    async def _delete(self, kind: Kind[Any], obj: Object) -> None:
        meta = obj.metadata
        if is_deleting(meta):
            return
        try:
            await self._client.delete(kind, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):  # it is gone; by now another may have its name
            return
        except ApiError as problem:
            raise Uncertain(f"{kind.kind} {meta.name} was not deleted: {problem}") from problem


def _check(creation: Creation) -> None:
    """Refuses what can never be, before anything is asked for."""
    if not is_subdomain(creation.name):
        raise Impossible(f"snapshot name {creation.name}: lower case letters, digits and dashes are allowed")
    volume_name(creation.volume.handle)
    kind = creation.parameters.get(_TYPE, "snap")
    if kind != "snap":
        raise Impossible(f"parameters.{_TYPE} {kind or '(empty)'}: snap is allowed; backups and images are Longhorn's own")


def _restored(volume: api.Volume, restoration: Restoration) -> Restored:
    name = volume.metadata.name
    source: dict[str, Any] = {"driver": DRIVER, "volumeHandle": name}
    if restoration.filesystem and not restoration.block:
        source["fsType"] = restoration.filesystem
    if restoration.parameters:
        source["volumeAttributes"] = dict(restoration.parameters)
    return Restored(handle=name, size=api.to_bytes(volume.spec.size) or restoration.size, source={"csi": source})


def _pauses(seconds: float) -> Iterator[float]:
    """Growing ones, that make up the time together."""
    pause, longest = _PAUSES
    while seconds > 0:
        yield min(pause, seconds)
        seconds -= pause
        pause = min(2 * pause, longest)
