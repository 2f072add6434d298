"""Snapshots of volumes that a CSI driver serves.

The driver keeps what it makes under the names that we give, so a call that got no answer is simply made again. It does not
tell the name when it lists what it has: to undo a creation of unknown outcome, the snapshot is asked for once more, which
gives its id, and deleted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ullage.errors import Impossible, NotNow, Uncertain
from ullage.snapshots.backends.base import NO_SECRETS, BackendSnapshot, Creation, Restoration, Restored, Secrets, VolumeHandle

from . import csi_pb2 as csi
from .channel import CONNECT_SECONDS, Channel
from .client import TIMEOUT_SECONDS, CsiClient, Driver
from .errors import Refused, made_again

_Mode = csi.VolumeCapability.AccessMode
_MODES: Final = {
    "ReadWriteOnce": _Mode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": _Mode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": _Mode.MULTI_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_WRITER,
}
# What drivers want instead that can tell one writer on a node from several.
_FINER_MODES: Final = {
    **_MODES,
    "ReadWriteOnce": _Mode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_SINGLE_WRITER,
}


class CsiBackend:
    """`base.Backend` over one driver's socket."""

    def __init__(self, client: CsiClient, *, driver: str) -> None:
        self._client = client
        self._name = driver

    @classmethod
    def at(cls, path: Path, *, driver: str) -> Self:
        """The backend for a driver whose name is known. Nothing is asked yet, and the driver may come later."""
        return cls(CsiClient(Channel(path), name=driver, timeout=TIMEOUT_SECONDS), driver=driver)

    @classmethod
    async def open(
        cls, path: Path, *, driver: str = "", timeout: float = TIMEOUT_SECONDS, connect_timeout: float = CONNECT_SECONDS
    ) -> Self:
        """The backend for the driver at a socket. With a name nothing is asked yet, and the driver may come later; without
        one it has to be there, to say its own."""
        client = CsiClient(Channel(path, connect_timeout=connect_timeout), name=driver, timeout=timeout)
        try:
            return cls(client, driver=driver or (await client.driver()).name)
        except BaseException:
            await client.close()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.close()

    @property
    def driver(self) -> str:
        return self._name

    @property
    def node(self) -> str:
        return ""

    async def create(self, creation: Creation) -> BackendSnapshot:
        return self._backend_snapshot(await self._created(creation), of=creation.volume.handle)

    async def undo(self, creation: Creation) -> None:
        made = await made_again(self._created(creation), creation.name)
        if made is not None:
            await self.delete(made.snapshot_id, secrets=creation.secrets)

    async def delete(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        try:
            await self._client.delete_snapshot(handle, secrets=secrets)
        except Refused as problem:
            if problem.code != "NOT_FOUND":  # some drivers say this where the interface asks for success
                raise

    async def find(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> BackendSnapshot | None:
        try:
            async for one in self._client.list_snapshots(handle=handle, secrets=secrets):
                if one.snapshot_id == handle:
                    return self._backend_snapshot(one)
        except Refused as problem:
            if problem.code != "NOT_FOUND":  # again where others give an empty list
                raise
        return None

    async def list(self, volume: str = "", *, secrets: Secrets = NO_SECRETS) -> AsyncIterator[BackendSnapshot]:
        try:
            async for one in self._client.list_snapshots(volume=volume, secrets=secrets):
                if not volume or one.source_volume_id == volume:
                    yield self._backend_snapshot(one)
        except Refused as problem:
            if not volume or problem.code != "NOT_FOUND":
                raise

    async def restore(self, restoration: Restoration) -> Restored:
        driver = await self._client.needs("CREATE_DELETE_VOLUME", "CREATE_DELETE_SNAPSHOT")
        filesystem = restoration.filesystem
        request = csi.CreateVolumeRequest(
            name=restoration.name,
            capacity_range=csi.CapacityRange(required_bytes=restoration.size),
            volume_capabilities=_capabilities(restoration, filesystem, driver),
            parameters=restoration.parameters,
            secrets=restoration.secrets.values,
            volume_content_source=_from_snapshot(restoration.snapshot),
            accessibility_requirements=_requirements(restoration, driver),
        )
        made = await self._client.create_volume(request)
        await self._refuse_unfit(made, restoration)
        source: dict[str, Any] = {"driver": self._name, "volumeHandle": made.volume_id}
        if filesystem and not restoration.block:
            source["fsType"] = filesystem
        if made.volume_context:
            source["volumeAttributes"] = dict(made.volume_context)
        return Restored(
            handle=made.volume_id,
            size=made.capacity_bytes or restoration.size,
            source={"csi": source},
            topologies=tuple(dict(one.segments) for one in made.accessible_topology if one.segments),
        )

    async def discard(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        try:
            await self._client.delete_volume(handle, secrets=secrets)
        except Refused as problem:
            if problem.code != "NOT_FOUND":
                raise

    async def size(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> int | None:
        """The blocks that have data, where the driver tells of them: some do for raw devices only. The size that every driver
        tells is that of a volume made from the snapshot."""
        if not (await self._client.driver()).metadata:
            return None
        try:
            return await self._client.allocated_bytes(handle, secrets=secrets)
        except Refused:
            return None

    async def estimate(self, volume: VolumeHandle, *, owner: str = "") -> int | None:
        """Not told: what CSI has to say about blocks is about snapshots, and nothing tells what was written since."""
        return None

    async def _created(self, creation: Creation) -> csi.Snapshot:
        request = csi.CreateSnapshotRequest(
            source_volume_id=creation.volume.handle,
            name=creation.name,
            secrets=creation.secrets.values,
            parameters=creation.parameters,
        )
        return await self._client.create_snapshot(request)

    def _backend_snapshot(self, one: csi.Snapshot, *, of: str = "") -> BackendSnapshot:
        if not one.HasField("creation_time"):
            raise Uncertain(f"driver {self._name}: snapshot {one.snapshot_id} has no creation_time, so its cut is not known")
        return BackendSnapshot(
            handle=one.snapshot_id,
            volume=one.source_volume_id or of,
            cut=one.creation_time.ToDatetime(tzinfo=UTC),
            ready=one.ready_to_use,
            restore_size=one.size_bytes or None,
        )

    async def _refuse_unfit(self, made: csi.Volume, restoration: Restoration) -> None:
        """A driver that overlooks the source makes an empty volume; handing that out would look like lost data."""
        problem = ""
        if made.content_source.snapshot.snapshot_id != restoration.snapshot:
            problem = f"made from {made.content_source.snapshot.snapshot_id or 'nothing'}, not from {restoration.snapshot}"
        elif 0 < made.capacity_bytes < restoration.size:
            problem = f"{made.capacity_bytes} bytes large, not {restoration.size}"
        if problem:
            await self.discard(made.volume_id, secrets=restoration.secrets)
            raise Impossible(f"driver {self._name}: the volume {restoration.name} was {problem}; it was deleted again")


def _from_snapshot(handle: str) -> csi.VolumeContentSource:
    return csi.VolumeContentSource(snapshot=csi.VolumeContentSource.SnapshotSource(snapshot_id=handle))


def _requirements(restoration: Restoration, driver: Driver) -> csi.TopologyRequirement | None:
    """Only drivers whose volumes have a place are told of one. The chosen node's is the only one that will do: the pod runs
    there. Of those that a class allows any will."""
    if not driver.topology:
        return None
    if restoration.node and not restoration.topologies:
        raise NotNow(
            f"driver {driver.name} has to know where node {restoration.node} is, and CSINode {restoration.node} does not tell: "
            "its part on that node has not registered"
        )
    places = [csi.Topology(segments=one) for one in restoration.topologies]
    return csi.TopologyRequirement(requisite=places, preferred=places) if places else None


def _capabilities(restoration: Restoration, filesystem: str, driver: Driver) -> list[csi.VolumeCapability]:
    modes: Mapping[str, _Mode.Mode.ValueType] = _FINER_MODES if "SINGLE_NODE_MULTI_WRITER" in driver.capabilities else _MODES
    unknown = [mode for mode in restoration.access_modes if mode not in modes]
    if unknown:
        raise Refused(f"accessModes {', '.join(unknown)}: not known; there are {', '.join(modes)}")
    return [_capability(restoration, filesystem, modes[mode]) for mode in restoration.access_modes]


def _capability(restoration: Restoration, filesystem: str, mode: _Mode.Mode.ValueType) -> csi.VolumeCapability:
    access = csi.VolumeCapability.AccessMode(mode=mode)
    if restoration.block:
        return csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=access)
    return csi.VolumeCapability(mount=csi.VolumeCapability.MountVolume(fs_type=filesystem), access_mode=access)
