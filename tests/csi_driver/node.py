"""Volumes where pods would use them. A symbolic link stands for a mount, so that the driver needs no privileges."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import grpc

from ullage.snapshots.backends.csi import csi_pb2 as csi
from ullage.snapshots.backends.csi.csi_pb2_grpc import NodeServicer

from .asking import found, invalid, is_block, required
from .controller import MOST_ON_NODE
from .copies import allocated
from .faults import Refusal
from .store import Store, Volume


class Node(NodeServicer):
    def __init__(self, store: Store, *, node: str) -> None:
        self._store = store
        self._node = node

    async def NodeStageVolume(self, request: csi.NodeStageVolumeRequest, context: Any) -> csi.NodeStageVolumeResponse:
        required(volume_id=request.volume_id, staging_target_path=request.staging_target_path)
        is_block([request.volume_capability] if request.HasField("volume_capability") else [])
        self._volume(request.volume_id)
        return csi.NodeStageVolumeResponse()

    async def NodeUnstageVolume(self, request: csi.NodeUnstageVolumeRequest, context: Any) -> csi.NodeUnstageVolumeResponse:
        required(volume_id=request.volume_id, staging_target_path=request.staging_target_path)
        self._volume(request.volume_id)
        return csi.NodeUnstageVolumeResponse()

    async def NodePublishVolume(self, request: csi.NodePublishVolumeRequest, context: Any) -> csi.NodePublishVolumeResponse:
        required(volume_id=request.volume_id, target_path=request.target_path)
        is_block([request.volume_capability] if request.HasField("volume_capability") else [])
        volume = self._volume(request.volume_id)
        if not request.staging_target_path:
            raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "staging_target_path is missing: volumes are staged first")
        self._link(Path(request.target_path), volume)
        return csi.NodePublishVolumeResponse()

    async def NodeUnpublishVolume(
        self, request: csi.NodeUnpublishVolumeRequest, context: Any
    ) -> csi.NodeUnpublishVolumeResponse:
        required(volume_id=request.volume_id, target_path=request.target_path)
        self._volume(request.volume_id)
        _unlink(Path(request.target_path))
        return csi.NodeUnpublishVolumeResponse()

    async def NodeGetVolumeStats(self, request: csi.NodeGetVolumeStatsRequest, context: Any) -> csi.NodeGetVolumeStatsResponse:
        required(volume_id=request.volume_id, volume_path=request.volume_path)
        volume = self._volume(request.volume_id)
        self._published(request.volume_path, volume)
        used = allocated(self._store.volumes.data(volume.id))
        usage = csi.VolumeUsage(
            available=max(0, volume.capacity - used), total=volume.capacity, used=used, unit=csi.VolumeUsage.BYTES
        )
        return csi.NodeGetVolumeStatsResponse(usage=[usage])

    async def NodeExpandVolume(self, request: csi.NodeExpandVolumeRequest, context: Any) -> csi.NodeExpandVolumeResponse:
        required(volume_id=request.volume_id, volume_path=request.volume_path)
        volume = self._volume(request.volume_id)
        self._published(request.volume_path, volume)
        return csi.NodeExpandVolumeResponse(capacity_bytes=volume.capacity)

    async def NodeGetCapabilities(
        self, request: csi.NodeGetCapabilitiesRequest, context: Any
    ) -> csi.NodeGetCapabilitiesResponse:
        rpc = csi.NodeServiceCapability.RPC
        types = (rpc.STAGE_UNSTAGE_VOLUME, rpc.GET_VOLUME_STATS, rpc.EXPAND_VOLUME)
        return csi.NodeGetCapabilitiesResponse(capabilities=[csi.NodeServiceCapability(rpc=rpc(type=type_)) for type_ in types])

    async def NodeGetInfo(self, request: csi.NodeGetInfoRequest, context: Any) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id=self._node, max_volumes_per_node=MOST_ON_NODE)

    def _volume(self, id_: str) -> Volume:
        return found(self._store.volumes.get(id_), f"volume {id_}")

    def _link(self, target: Path, volume: Volume) -> None:
        data = self._store.volumes.data(volume.id)
        if target.is_symlink():
            if target.readlink() == data:
                return
            raise Refusal(grpc.StatusCode.ALREADY_EXISTS, f"target_path {target} shows another volume")
        if target.is_dir():
            try:
                target.rmdir()  # some callers make it beforehand
            except OSError:
                raise invalid(f"target_path {target} is a directory with something in it") from None
        os.symlink(data, target)

    def _published(self, path: str, volume: Volume) -> None:
        target = Path(path)
        shown = target.is_symlink() and target.readlink() == self._store.volumes.data(volume.id)
        found(target if shown else None, f"volume {volume.id} at {path}")


def _unlink(target: Path) -> None:
    if target.is_symlink():  # anything else is not ours to remove
        target.unlink()
