"""Engines with several replicas in any state, for what the embedded one never shows: it has one, and it is always well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf.empty_pb2 import Empty

from ullage.engines.protocol import controller_pb2 as controller
from ullage.engines.protocol import replica_pb2 as replicas
from ullage.engines.protocol import syncagent_pb2 as syncagent
from ullage.engines.protocol.controller_pb2_grpc import add_ControllerServiceServicer_to_server
from ullage.engines.protocol.replica_pb2_grpc import add_ReplicaServiceServicer_to_server
from ullage.engines.protocol.syncagent_pb2_grpc import add_SyncAgentServiceServicer_to_server


@dataclass(slots=True)
class Replica:
    """One replica: what it answers, and what it was told."""

    mode: controller.ReplicaMode.ValueType = controller.RW
    rebuilding: bool = False
    purging: bool = False
    snapshots: tuple[str, ...] = ()
    silent: bool = False  # never answers
    told: list[str] = field(default_factory=list)

    async def ReplicaGet(self, request: Empty, context: Any) -> replicas.ReplicaGetResponse:
        if self.silent:
            await asyncio.Event().wait()
        files = [f"volume-snap-{name}.img" for name in self.snapshots]
        disks = {file: replicas.DiskInfo(name=file, size="4096") for file in files}
        disks["volume-head-003.img"] = replicas.DiskInfo(name="volume-head-003.img", size="0")
        return replicas.ReplicaGetResponse(replica=replicas.Replica(rebuilding=self.rebuilding, size="8192", disks=disks))

    async def ReplicaSnapshot(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def DiskMarkAsRemoved(
        self, request: replicas.DiskMarkAsRemovedRequest, context: Any
    ) -> replicas.DiskMarkAsRemovedResponse:
        self.told.append(f"mark {request.name}")
        return replicas.DiskMarkAsRemovedResponse()

    async def SnapshotPurge(self, request: Empty, context: Any) -> Empty:
        self.told.append("purge")
        return Empty()

    async def SnapshotPurgeStatus(self, request: Empty, context: Any) -> syncagent.SnapshotPurgeStatusResponse:
        return syncagent.SnapshotPurgeStatusResponse(is_purging=self.purging)

    async def SnapshotClone(self, request: syncagent.SnapshotCloneRequest, context: Any) -> Empty:
        self.told.append(f"clone {request.snapshot_file_name} of {request.from_volume_name}")
        return Empty()

    async def SnapshotCloneStatus(self, request: Empty, context: Any) -> syncagent.SnapshotCloneStatusResponse:
        return syncagent.SnapshotCloneStatusResponse()

    async def SnapshotHashCancel(self, request: syncagent.SnapshotHashCancelRequest, context: Any) -> Empty:
        self.told.append(f"hash no more {request.snapshot_name}")
        return Empty()


class _Controller:
    """Only what the client asks of it here; everything else is unimplemented, as in an engine of another version."""

    def __init__(self, places: list[controller.ControllerReplica]) -> None:
        self._places = places

    async def ReplicaList(self, request: Empty, context: Any) -> controller.ReplicaListReply:
        return controller.ReplicaListReply(replicas=self._places)

    def __getattr__(self, name: str) -> Any:
        async def unimplemented(request: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{name} is not there")

        return unimplemented


@asynccontextmanager
async def engine_of(members: Iterable[Replica], directory: Path) -> AsyncIterator[str]:
    """The address of a controller with these replicas, each behind a socket of its own."""
    async with AsyncExitStack() as stack:
        places = []
        for number, member in enumerate(members):
            server, address = grpc.aio.server(), f"unix://{directory}/r{number}"
            add_ReplicaServiceServicer_to_server(member, server)  # type: ignore[arg-type] # its methods are all there
            add_SyncAgentServiceServicer_to_server(member, server)  # type: ignore[arg-type]
            await _start(server, address, stack)
            place = controller.ReplicaAddress(address=address)
            places.append(controller.ControllerReplica(address=place, mode=member.mode))
        server, address = grpc.aio.server(), f"unix://{directory}/c"
        add_ControllerServiceServicer_to_server(_Controller(places), server)  # type: ignore[arg-type]
        await _start(server, address, stack)
        yield address


async def _start(server: grpc.aio.Server, address: str, stack: AsyncExitStack) -> None:
    server.add_insecure_port(address)
    await server.start()
    stack.push_async_callback(server.stop, None)
