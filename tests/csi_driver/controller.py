"""Volumes and snapshots: making, deleting, listing them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any

import grpc
import msgspec
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import Int64Value

from ullage.snapshots.backends.csi import csi_pb2 as csi
from ullage.snapshots.backends.csi.csi_pb2_grpc import ControllerServicer

from .asking import Turns, found, invalid, is_block, page, required, short
from .faults import Faults, Refusal
from .store import Snapshot, Store, Volume, grow

DEFAULT_BYTES = 1 << 30
LARGEST_BYTES = 1 << 44
MOST_ON_NODE = 32
CAPABILITIES = (
    "CREATE_DELETE_VOLUME",
    "PUBLISH_UNPUBLISH_VOLUME",
    "LIST_VOLUMES",
    "GET_CAPACITY",
    "CREATE_DELETE_SNAPSHOT",
    "LIST_SNAPSHOTS",
    "CLONE_VOLUME",
    "PUBLISH_READONLY",
    "EXPAND_VOLUME",
)


class Controller(ControllerServicer):
    def __init__(self, store: Store, faults: Faults, *, node: str, total: int, without: Collection[str]) -> None:
        self._store = store
        self._faults = faults
        self._node = node
        self._total = total
        self._can = [name for name in CAPABILITIES if name not in without]
        self._turns = Turns()

    async def CreateVolume(self, request: csi.CreateVolumeRequest, context: Any) -> csi.CreateVolumeResponse:
        self._needs("CREATE_DELETE_VOLUME")
        required(name=request.name)
        short(request.name)
        block = is_block(request.volume_capabilities)
        with self._turns.take(request.name):
            if (volume := self._store.volumes.named(request.name)) is None:
                volume = await self._new_volume(request, block=block)
            _check_same(volume, request, block=block)
            return csi.CreateVolumeResponse(volume=_volume(volume))

    async def DeleteVolume(self, request: csi.DeleteVolumeRequest, context: Any) -> csi.DeleteVolumeResponse:
        self._needs("CREATE_DELETE_VOLUME")
        required(volume_id=request.volume_id)
        with self._turns.take(request.volume_id):
            volume = self._store.volumes.get(request.volume_id)
            if volume is not None and volume.published:
                nodes = ", ".join(volume.published)
                raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, f"volume {volume.id} is published to {nodes}")
            if volume is not None:
                await asyncio.to_thread(self._store.volumes.remove, volume.id)
        return csi.DeleteVolumeResponse()

    async def CreateSnapshot(self, request: csi.CreateSnapshotRequest, context: Any) -> csi.CreateSnapshotResponse:
        self._needs("CREATE_DELETE_SNAPSHOT")
        required(name=request.name, source_volume_id=request.source_volume_id)
        short(request.name)
        with self._turns.take(request.name):
            snapshot = self._store.snapshots.named(request.name)
            if snapshot is not None and snapshot.volume != request.source_volume_id:
                taken = f"snapshot {request.name} is one of volume {snapshot.volume}"
                raise Refusal(grpc.StatusCode.ALREADY_EXISTS, taken)
            if snapshot is None:
                snapshot = await self._new_snapshot(request)
            return csi.CreateSnapshotResponse(snapshot=snapshot_message(snapshot))

    async def DeleteSnapshot(self, request: csi.DeleteSnapshotRequest, context: Any) -> csi.DeleteSnapshotResponse:
        self._needs("CREATE_DELETE_SNAPSHOT")
        required(snapshot_id=request.snapshot_id)
        with self._turns.take(request.snapshot_id):
            snapshot = self._store.snapshots.get(request.snapshot_id)
            if snapshot is not None and snapshot.group:
                raise invalid(f"snapshot {snapshot.id} is a member of group {snapshot.group}, and goes with that")
            if snapshot is not None:
                await asyncio.to_thread(self._store.snapshots.remove, request.snapshot_id)
        return csi.DeleteSnapshotResponse()

    async def ListSnapshots(self, request: csi.ListSnapshotsRequest, context: Any) -> csi.ListSnapshotsResponse:
        self._needs("LIST_SNAPSHOTS")
        chosen = [
            snapshot
            for snapshot in self._store.snapshots.all()
            if request.snapshot_id in {"", snapshot.id} and request.source_volume_id in {"", snapshot.volume}
        ]
        part, token = page(chosen, request.starting_token, request.max_entries)
        entries = [csi.ListSnapshotsResponse.Entry(snapshot=snapshot_message(snapshot)) for snapshot in part]
        return csi.ListSnapshotsResponse(entries=entries, next_token=token)

    async def ListVolumes(self, request: csi.ListVolumesRequest, context: Any) -> csi.ListVolumesResponse:
        self._needs("LIST_VOLUMES")
        part, token = page(self._store.volumes.all(), request.starting_token, request.max_entries)
        entries = [csi.ListVolumesResponse.Entry(volume=_volume(volume)) for volume in part]
        return csi.ListVolumesResponse(entries=entries, next_token=token)

    async def GetCapacity(self, request: csi.GetCapacityRequest, context: Any) -> csi.GetCapacityResponse:
        self._needs("GET_CAPACITY")
        return csi.GetCapacityResponse(
            available_capacity=max(0, self._room()), maximum_volume_size=Int64Value(value=LARGEST_BYTES)
        )

    async def ValidateVolumeCapabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest, context: Any
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        required(volume_id=request.volume_id)
        block = is_block(request.volume_capabilities)
        volume = found(self._store.volumes.get(request.volume_id), f"volume {request.volume_id}")
        if volume.block != block:
            return csi.ValidateVolumeCapabilitiesResponse(message=f"the volume is {'a' if volume.block else 'no'} raw device")
        confirmed = csi.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_context=request.volume_context,
            volume_capabilities=request.volume_capabilities,
            parameters=request.parameters,
        )
        return csi.ValidateVolumeCapabilitiesResponse(confirmed=confirmed)

    async def ControllerPublishVolume(
        self, request: csi.ControllerPublishVolumeRequest, context: Any
    ) -> csi.ControllerPublishVolumeResponse:
        self._needs("PUBLISH_UNPUBLISH_VOLUME")
        required(volume_id=request.volume_id, node_id=request.node_id)
        is_block([request.volume_capability] if request.HasField("volume_capability") else [])
        volume = found(self._store.volumes.get(request.volume_id), f"volume {request.volume_id}")
        found(request.node_id if request.node_id == self._node else None, f"node {request.node_id}")
        if volume.published.get(request.node_id, request.readonly) != request.readonly:
            raise Refusal(grpc.StatusCode.ALREADY_EXISTS, f"volume {volume.id} is published with another readonly")
        there = sum(1 for other in self._store.volumes.all() if request.node_id in other.published and other.id != volume.id)
        if there >= MOST_ON_NODE:
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, f"node {request.node_id} has {there} volumes: as many as it can")
        published = {**volume.published, request.node_id: request.readonly}
        self._store.volumes.change(msgspec.structs.replace(volume, published=published))
        return csi.ControllerPublishVolumeResponse()

    async def ControllerUnpublishVolume(
        self, request: csi.ControllerUnpublishVolumeRequest, context: Any
    ) -> csi.ControllerUnpublishVolumeResponse:
        self._needs("PUBLISH_UNPUBLISH_VOLUME")
        required(volume_id=request.volume_id)
        volume = self._store.volumes.get(request.volume_id)
        if volume is not None and volume.published:
            kept = {node: readonly for node, readonly in volume.published.items() if request.node_id not in {"", node}}
            self._store.volumes.change(msgspec.structs.replace(volume, published=kept))
        return csi.ControllerUnpublishVolumeResponse()

    async def ControllerExpandVolume(
        self, request: csi.ControllerExpandVolumeRequest, context: Any
    ) -> csi.ControllerExpandVolumeResponse:
        self._needs("EXPAND_VOLUME")
        required(volume_id=request.volume_id)
        wanted = _wanted_bytes(request.capacity_range if request.HasField("capacity_range") else None, default=0)
        if not wanted:
            raise invalid("capacity_range is missing")
        with self._turns.take(request.volume_id):
            volume = found(self._store.volumes.get(request.volume_id), f"volume {request.volume_id}")
            if wanted > volume.capacity:
                self._check_room(wanted - volume.capacity, wanted)
                if volume.block:
                    grow(self._store.volumes.data(volume.id), wanted)
                volume = msgspec.structs.replace(volume, capacity=wanted)
                self._store.volumes.change(volume)
        return csi.ControllerExpandVolumeResponse(capacity_bytes=volume.capacity)

    async def ControllerGetCapabilities(
        self, request: csi.ControllerGetCapabilitiesRequest, context: Any
    ) -> csi.ControllerGetCapabilitiesResponse:
        rpc = csi.ControllerServiceCapability.RPC
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[csi.ControllerServiceCapability(rpc=rpc(type=rpc.Type.Value(name))) for name in self._can]
        )

    async def _new_volume(self, request: csi.CreateVolumeRequest, *, block: bool) -> Volume:
        source, block, least = self._source(request.volume_content_source, block=block)
        capacity = _wanted_bytes(request.capacity_range, default=max(DEFAULT_BYTES, least))
        if capacity < least:
            raise Refusal(grpc.StatusCode.OUT_OF_RANGE, f"{capacity} bytes are asked for, its source needs {least}")
        self._check_room(capacity, capacity)
        volume = Volume(
            id=f"vol-{uuid.uuid4().hex}",
            name=request.name,
            capacity=capacity,
            block=block,
            from_snapshot=request.volume_content_source.snapshot.snapshot_id,
            from_volume=request.volume_content_source.volume.volume_id,
        )
        await asyncio.to_thread(self._store.volumes.put, volume, source)
        return volume

    async def _new_snapshot(self, request: csi.CreateSnapshotRequest) -> Snapshot:
        volume = found(self._store.volumes.get(request.source_volume_id), f"volume {request.source_volume_id}")
        now = time.time_ns()
        snapshot = Snapshot(
            id=f"snap-{uuid.uuid4().hex}",
            name=request.name,
            volume=volume.id,
            size=volume.capacity,
            created=now,
            ready=now + int(self._faults.control.upload_seconds * 1e9),
            block=volume.block,
        )
        await asyncio.to_thread(self._store.snapshots.put, snapshot, self._store.volumes.data(volume.id))
        return snapshot

    def _source(self, source: csi.VolumeContentSource, *, block: bool) -> tuple[Path | None, bool, int]:
        """The data to begin with, of which kind it is, and the bytes that it needs."""
        match source.WhichOneof("type"):
            case "snapshot":
                snapshot = found(self._store.snapshots.get(source.snapshot.snapshot_id), "such snapshot")
                if snapshot.ready > time.time_ns():
                    raise Refusal(grpc.StatusCode.UNAVAILABLE, f"snapshot {snapshot.id} is not uploaded yet")
                return self._store.snapshots.data(snapshot.id), snapshot.block, snapshot.size
            case "volume":
                volume = found(self._store.volumes.get(source.volume.volume_id), "such volume")
                return self._store.volumes.data(volume.id), volume.block, volume.capacity
        return None, block, 0

    def _needs(self, capability: str) -> None:
        if capability not in self._can:
            raise Refusal(grpc.StatusCode.UNIMPLEMENTED, f"{capability} is not among my capabilities")

    def _room(self) -> int:
        return self._total - sum(volume.capacity for volume in self._store.volumes.all())

    def _check_room(self, more: int, size: int) -> None:
        if size > LARGEST_BYTES:
            raise Refusal(grpc.StatusCode.OUT_OF_RANGE, f"{size} bytes; the largest volume has {LARGEST_BYTES}")
        if more > self._room():
            raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{more} bytes are asked for, {self._room()} are left")


def _wanted_bytes(range_: csi.CapacityRange | None, *, default: int) -> int:
    if range_ is None:
        return default
    least, most = range_.required_bytes, range_.limit_bytes
    if least < 0 or most < 0 or (most and least > most):
        raise invalid(f"capacity_range: at least {least} and at most {most} bytes cannot be")
    return least or (min(default, most) if most else default)


def _check_same(volume: Volume, request: csi.CreateVolumeRequest, *, block: bool) -> None:
    """A name that is taken must be taken by just what is asked for."""
    least, most = request.capacity_range.required_bytes, request.capacity_range.limit_bytes
    wanted = (request.volume_content_source.snapshot.snapshot_id, request.volume_content_source.volume.volume_id)
    fits = volume.capacity >= least and (not most or volume.capacity <= most)
    if not fits or volume.block != block or (volume.from_snapshot, volume.from_volume) != wanted:
        taken = f"volume {volume.name} has {volume.capacity} bytes and other properties than those asked for"
        raise Refusal(grpc.StatusCode.ALREADY_EXISTS, taken)


def _volume(volume: Volume) -> csi.Volume:
    answer = csi.Volume(volume_id=volume.id, capacity_bytes=volume.capacity, volume_context={"name": volume.name})
    if volume.from_snapshot:
        answer.content_source.snapshot.snapshot_id = volume.from_snapshot
    if volume.from_volume:
        answer.content_source.volume.volume_id = volume.from_volume
    return answer


def snapshot_message(snapshot: Snapshot) -> csi.Snapshot:
    return csi.Snapshot(
        snapshot_id=snapshot.id,
        source_volume_id=snapshot.volume,
        size_bytes=snapshot.size,
        creation_time=Timestamp(seconds=snapshot.created // 10**9, nanos=snapshot.created % 10**9),
        ready_to_use=snapshot.ready <= time.time_ns(),
        group_snapshot_id=snapshot.group,
    )
