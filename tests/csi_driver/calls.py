"""What tests ask of a driver directly, since Ullage itself never makes empty volumes."""

from __future__ import annotations

from pathlib import Path

import grpc

from ullage.snapshots.backends.csi import csi_pb2 as csi
from ullage.snapshots.backends.csi.csi_pb2_grpc import ControllerStub

GIB = 1 << 30


def make_volume(socket: Path, name: str, *, size: int = GIB, block: bool = False) -> str:
    """An empty volume; returns its handle."""
    capability = csi.VolumeCapability(
        access_mode=csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER)
    )
    (capability.block if block else capability.mount).SetInParent()
    request = csi.CreateVolumeRequest(
        name=name, capacity_range=csi.CapacityRange(required_bytes=size), volume_capabilities=[capability]
    )
    with grpc.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")]) as channel:
        return ControllerStub(channel).CreateVolume(request, timeout=30).volume.volume_id
