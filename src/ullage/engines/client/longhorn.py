"""The calls to a volume's engine, real or embedded: each bounded in time, each about one volume, refusals translated.

An engine is a controller and its replicas. The controller takes snapshots, reverts and holds the limits; what snapshots there
are only the replicas know, and each marks and purges for itself. So some calls here are several on the wire, in the order that
Longhorn makes them in: first it is asked whether all replicas can, then each is told. Every one may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.protobuf.empty_pb2 import Empty

from ullage.engines.chain import PurgeProgress
from ullage.engines.client import messages
from ullage.engines.client.calls import CONTROLLER, REPLICA, SYNC_AGENT, Request, VolumeCalls
from ullage.engines.client.channels import Channels
from ullage.engines.client.errors import Reason, error
from ullage.engines.client.messages import CloneProgress, ReplicaInfo, ReplicaState, VolumeState, checked_name
from ullage.engines.protocol import controller_pb2 as controller
from ullage.engines.protocol import replica_pb2 as replica
from ullage.engines.protocol import syncagent_pb2 as syncagent
from ullage.times import timestamp

if TYPE_CHECKING:
    from ullage.engines.client.calls import Method
    from ullage.engines.protocol.controller_pb2_grpc import ControllerServiceAsyncStub

ASKING_SECONDS: Final = 10.0
CHANGING_SECONDS: Final = 60.0  # a snapshot waits for the disk
CLONING_SECONDS: Final = 24 * 3600.0  # the call lasts as long as the copying

Found = TypeVar("Found")


class LonghornClient:
    """The engine of one volume. `address` is its controller's."""

    def __init__(self, channels: Channels, address: str, *, volume: str) -> None:
        self.address = address
        self.volume = volume
        self._calls = VolumeCalls(channels, volume=volume)

    # --- what there is ------------------------------------------------------------------------------------------------

    async def state(self) -> VolumeState:
        asked = self._calls.call(
            CONTROLLER, self.address, lambda stub: stub.VolumeGet, Empty(), what="VolumeGet", seconds=ASKING_SECONDS
        )
        return messages.volume_state(await asked)

    async def replicas(self) -> tuple[ReplicaInfo, ...]:
        asked = self._calls.call(
            CONTROLLER, self.address, lambda stub: stub.ReplicaList, Empty(), what="ReplicaList", seconds=ASKING_SECONDS
        )
        return tuple(map(messages.replica_info, (await asked).replicas))

    async def replica(self, address: str) -> ReplicaState:
        """One replica, with all snapshots that it has."""
        asked = self._calls.call(
            REPLICA, address, lambda stub: stub.ReplicaGet, Empty(), what="ReplicaGet", seconds=ASKING_SECONDS
        )
        return messages.replica_state((await asked).replica)

    async def snapshots(self) -> ReplicaState:
        """The snapshots of the volume: those of the readable replica that has most, since one may lag behind."""
        infos = [info for info in await self.replicas() if info.mode == "RW"]
        if not infos:
            raise self._unfit("snapshots cannot be listed", infos)
        return max(await _all(self.replica(info.address) for info in infos), key=lambda state: len(state.entries))

    async def purge_status(self) -> Mapping[str, PurgeProgress]:
        """By the replica's address; those in error are left out."""
        infos = [info for info in await self.replicas() if info.mode != "ERR"]
        found = await _all(self._purge_status(info.address) for info in infos)
        return {info.address: status for info, status in zip(infos, found, strict=True)}

    async def clone_status(self) -> Mapping[str, CloneProgress]:
        """By the replica's address; those in error are left out."""
        infos = [info for info in await self.replicas() if info.mode != "ERR"]
        found = await _all(self._clone_status(info.address) for info in infos)
        return {info.address: status for info, status in zip(infos, found, strict=True)}

    # --- snapshots ----------------------------------------------------------------------------------------------------

    async def snapshot(self, name: str, *, labels: Mapping[str, str] | None = None) -> str:
        """Takes a snapshot of the head as it is now, and gives its name. One that has this name already is Impossible."""
        request = controller.VolumeSnapshotRequest(name=checked_name(name), labels=labels or {}, freezeFilesystem=False)
        taken = self._calls.call(
            CONTROLLER,
            self.address,
            lambda stub: stub.VolumeSnapshot,
            request,
            what=f"VolumeSnapshot {name}",
            seconds=CHANGING_SECONDS,
        )
        return (await taken).name

    async def system_snapshot(self, name: str, *, created: datetime) -> None:
        """A snapshot that nobody asked for, such as a rebuild leaves: the next purge takes it away."""
        request = replica.ReplicaSnapshotRequest(name=checked_name(name), user_created=False, created=timestamp(created))
        for info in await self._all_writable(f"snapshot {name} cannot be taken"):
            await self._calls.call(
                REPLICA,
                info.address,
                lambda stub: stub.ReplicaSnapshot,
                request,
                what=f"ReplicaSnapshot {name}",
                seconds=CHANGING_SECONDS,
            )

    async def mark_removed(self, name: str) -> None:
        """Nobody wants the snapshot any more: it no longer counts, and the next purge takes it away if it can. One that is
        not there is marked already."""
        marking = replica.DiskMarkAsRemovedRequest(name=checked_name(name))
        unhashing = syncagent.SnapshotHashCancelRequest(snapshot_name=name)
        for info in await self._all_writable(f"snapshot {name} cannot be removed"):
            await self._calls.call(
                REPLICA,
                info.address,
                lambda stub: stub.DiskMarkAsRemoved,
                marking,
                what=f"DiskMarkAsRemoved {name}",
                seconds=CHANGING_SECONDS,
            )
            await self._calls.call(
                SYNC_AGENT,
                info.address,
                lambda stub: stub.SnapshotHashCancel,
                unhashing,
                what=f"SnapshotHashCancel {name}",
                seconds=ASKING_SECONDS,
            )

    async def purge(self) -> None:
        """Starts to take away what is marked, and every system snapshot with it. `purge_status` says how far it is."""
        infos = await self._all_writable("snapshots cannot be purged")
        busy = [address for address, status in (await self.purge_status()).items() if status.purging]
        if busy:
            raise error(Reason.PURGING, f"volume {self.volume}: {', '.join(busy)} is already purging snapshots")
        await _all(self._purge(info.address) for info in infos)

    async def revert(self, name: str) -> VolumeState:
        """The volume becomes what it was at the snapshot; what is in the head is lost. Only without a frontend."""
        request = controller.VolumeRevertRequest(name=checked_name(name))
        return await self._changed(lambda stub: stub.VolumeRevert, request, what=f"VolumeRevert {name}")

    async def clone(self, snapshot: str, *, source: LonghornClient) -> None:
        """Copies another volume's snapshot into this one, which has to be new and large enough, and reverts to it. It takes
        as long as the copying does; `clone_status` says how far it is."""
        otherwise = f"snapshot {snapshot} of volume {source.volume} cannot be cloned"
        infos = await self._all_writable(otherwise)
        origins = await source.replicas()
        origin = next((info for info in origins if info.mode == "RW"), None)
        if origin is None:
            raise source._unfit(otherwise, origins)
        await _all(self._clone(info, checked_name(snapshot), origin=origin, volume=source.volume) for info in infos)

    # --- the volume ---------------------------------------------------------------------------------------------------

    async def expand(self, size: int) -> VolumeState:
        """Starts to make the volume larger, to this many bytes. `state` says whether it is done."""
        request = controller.VolumeExpandRequest(size=size)
        return await self._changed(lambda stub: stub.VolumeExpand, request, what=f"VolumeExpand to {size} bytes")

    async def set_max_count(self, count: int) -> VolumeState:
        """How many snapshots the volume may have; those that are marked as removed do not count."""
        request = controller.VolumeSnapshotMaxCountSetRequest(count=count)
        return await self._changed(
            lambda stub: stub.VolumeSnapshotMaxCountSet, request, what=f"VolumeSnapshotMaxCountSet {count}"
        )

    async def set_max_size(self, size: int) -> VolumeState:
        """How many bytes all snapshots may take. 0 is no limit, and longhorn-engine takes it only while they take none."""
        request = controller.VolumeSnapshotMaxSizeSetRequest(size=size)
        return await self._changed(
            lambda stub: stub.VolumeSnapshotMaxSizeSet, request, what=f"VolumeSnapshotMaxSizeSet {size} bytes"
        )

    async def start_frontend(self, frontend: str) -> VolumeState:
        request = controller.VolumeFrontendStartRequest(frontend=frontend)
        return await self._changed(lambda stub: stub.VolumeFrontendStart, request, what=f"VolumeFrontendStart {frontend}")

    async def shut_frontend(self) -> VolumeState:
        return await self._changed(lambda stub: stub.VolumeFrontendShutdown, Empty(), what="VolumeFrontendShutdown")

    # --- several replicas ---------------------------------------------------------------------------------------------

    async def _changed(
        self, method: Method[ControllerServiceAsyncStub, Request, controller.Volume], request: Request, *, what: str
    ) -> VolumeState:
        changing = self._calls.call(CONTROLLER, self.address, method, request, what=what, seconds=CHANGING_SECONDS)
        return messages.volume_state(await changing)

    async def _all_writable(self, otherwise: str) -> tuple[ReplicaInfo, ...]:
        """All replicas, if every one can be changed: one that is left out would bring back what was removed."""
        infos = await self.replicas()
        if not infos or any(info.mode != "RW" for info in infos):
            raise self._unfit(otherwise, infos)
        states = await _all(self.replica(info.address) for info in infos)
        rebuilt = [info.address for info, state in zip(infos, states, strict=True) if state.rebuilding]
        if rebuilt:
            raise error(Reason.REBUILDING, f"volume {self.volume}: {otherwise}: {', '.join(rebuilt)} is rebuilding")
        return infos

    def _unfit(self, otherwise: str, infos: Iterable[ReplicaInfo]) -> Exception:
        modes = ", ".join(f"replica {info.address} is {info.mode}" for info in infos if info.mode != "RW")
        return error(Reason.NO_REPLICA, f"volume {self.volume}: {otherwise}: {modes or 'there is no replica'}")

    async def _purge(self, address: str) -> None:
        await self._calls.call(
            SYNC_AGENT, address, lambda stub: stub.SnapshotPurge, Empty(), what="SnapshotPurge", seconds=CHANGING_SECONDS
        )

    async def _purge_status(self, address: str) -> PurgeProgress:
        asked = self._calls.call(
            SYNC_AGENT,
            address,
            lambda stub: stub.SnapshotPurgeStatus,
            Empty(),
            what="SnapshotPurgeStatus",
            seconds=ASKING_SECONDS,
        )
        return messages.purge_status(await asked)

    async def _clone(self, info: ReplicaInfo, snapshot: str, *, origin: ReplicaInfo, volume: str) -> None:
        request = syncagent.SnapshotCloneRequest(
            from_address=origin.address,
            to_host=info.address.removeprefix("tcp://").rpartition(":")[0],
            snapshot_file_name=snapshot,
            from_volume_name=volume,
            file_sync_http_client_timeout=int(ASKING_SECONDS),
        )
        await self._calls.call(
            SYNC_AGENT,
            info.address,
            lambda stub: stub.SnapshotClone,
            request,
            what=f"SnapshotClone {snapshot} of volume {volume}",
            seconds=CLONING_SECONDS,
        )

    async def _clone_status(self, address: str) -> CloneProgress:
        asked = self._calls.call(
            SYNC_AGENT,
            address,
            lambda stub: stub.SnapshotCloneStatus,
            Empty(),
            what="SnapshotCloneStatus",
            seconds=ASKING_SECONDS,
        )
        return messages.clone_status(await asked)


async def _all(calls: Iterable[Coroutine[Any, Any, Found]]) -> list[Found]:
    """All at once. The first failure is the answer, and the others are not left behind."""
    first: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except* Exception as failures:
        first = failures.exceptions[0]
    if first is not None:  # out here, or it would come in a group again
        raise first
    return [task.result() for task in tasks]
