"""Who the driver is."""

from __future__ import annotations

from typing import Any

from google.protobuf.wrappers_pb2 import BoolValue

from ullage.snapshots.backends.csi import csi_pb2 as csi
from ullage.snapshots.backends.csi.csi_pb2_grpc import IdentityServicer

VERSION = "1.0.0"


class Identity(IdentityServicer):
    def __init__(self, name: str, *, metadata: bool = True, groups: bool = True) -> None:
        self._name = name
        self._metadata = metadata
        self._groups = groups

    async def GetPluginInfo(self, request: csi.GetPluginInfoRequest, context: Any) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self._name, vendor_version=VERSION)

    async def GetPluginCapabilities(
        self, request: csi.GetPluginCapabilitiesRequest, context: Any
    ) -> csi.GetPluginCapabilitiesResponse:
        service, expansion = csi.PluginCapability.Service, csi.PluginCapability.VolumeExpansion
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[
                csi.PluginCapability(service=service(type=service.CONTROLLER_SERVICE)),
                csi.PluginCapability(volume_expansion=expansion(type=expansion.ONLINE)),
                *([csi.PluginCapability(service=service(type=service.SNAPSHOT_METADATA_SERVICE))] if self._metadata else []),
                *([csi.PluginCapability(service=service(type=service.GROUP_CONTROLLER_SERVICE))] if self._groups else []),
            ]
        )

    async def Probe(self, request: csi.ProbeRequest, context: Any) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready=BoolValue(value=True))
