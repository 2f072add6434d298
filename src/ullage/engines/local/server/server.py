"""A host of embedded engines as a server: one socket on this machine for all volumes and all services.

Whoever can open the socket can do everything, so only its owner can.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import grpc.aio
from google.protobuf.empty_pb2 import Empty

from ullage.clock import Clock
from ullage.engines.local.server import messages
from ullage.engines.local.server.attached import AttachedVolume
from ullage.engines.local.server.dispatch import Context, Dispatcher
from ullage.engines.local.server.host import Host
from ullage.engines.local.store.store import Store
from ullage.engines.protocol import MAX_MESSAGE
from ullage.engines.protocol import controller_pb2 as controller
from ullage.engines.protocol import host_pb2 as hosts
from ullage.engines.protocol import replica_pb2 as replicas
from ullage.engines.protocol import syncagent_pb2 as syncagent
from ullage.engines.protocol.controller_pb2_grpc import ControllerServiceServicer, add_ControllerServiceServicer_to_server
from ullage.engines.protocol.host_pb2_grpc import HostServiceServicer, add_HostServiceServicer_to_server
from ullage.engines.protocol.replica_pb2_grpc import ReplicaServiceServicer, add_ReplicaServiceServicer_to_server
from ullage.engines.protocol.syncagent_pb2_grpc import SyncAgentServiceServicer, add_SyncAgentServiceServicer_to_server
from ullage.errors import BadInput
from ullage.rpc import checked_socket, message_sizes

# The services of a host of embedded engines: Longhorn's three, for attached volumes, and our own.


class ControllerService(ControllerServiceServicer):
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def VolumeGet(self, request: Empty, context: Context) -> controller.Volume:
        return await self._dispatcher.attached(context, self._volume)

    async def VolumeSnapshot(
        self, request: controller.VolumeSnapshotRequest, context: Context
    ) -> controller.VolumeSnapshotReply:
        async def work(volume: AttachedVolume) -> controller.VolumeSnapshotReply:
            if request.freezeFilesystem:
                raise BadInput("freezeFilesystem", "true", "false is allowed: there is no file system to freeze")
            return controller.VolumeSnapshotReply(name=await volume.snapshot(request.name, labels=dict(request.labels)))

        return await self._dispatcher.attached(context, work)

    async def VolumeRevert(self, request: controller.VolumeRevertRequest, context: Context) -> controller.Volume:
        async def work(volume: AttachedVolume) -> controller.Volume:
            await volume.revert(request.name)
            return await self._volume(volume)

        return await self._dispatcher.attached(context, work)

    async def VolumeExpand(self, request: controller.VolumeExpandRequest, context: Context) -> controller.Volume:
        async def work(volume: AttachedVolume) -> controller.Volume:
            await volume.expand(request.size)
            return await self._volume(volume)

        return await self._dispatcher.attached(context, work)

    async def VolumeFrontendStart(self, request: controller.VolumeFrontendStartRequest, context: Context) -> controller.Volume:
        async def work(volume: AttachedVolume) -> controller.Volume:
            await volume.start_frontend(request.frontend)
            return await self._volume(volume)

        return await self._dispatcher.attached(context, work)

    async def VolumeFrontendShutdown(self, request: Empty, context: Context) -> controller.Volume:
        async def work(volume: AttachedVolume) -> controller.Volume:
            await volume.shut_frontend()
            return await self._volume(volume)

        return await self._dispatcher.attached(context, work)

    async def VolumeSnapshotMaxCountSet(
        self, request: controller.VolumeSnapshotMaxCountSetRequest, context: Context
    ) -> controller.Volume:
        async def work(volume: AttachedVolume) -> controller.Volume:
            await volume.set_max_count(request.count)
            return await self._volume(volume)

        return await self._dispatcher.attached(context, work)

    async def VolumeSnapshotMaxSizeSet(
        self, request: controller.VolumeSnapshotMaxSizeSetRequest, context: Context
    ) -> controller.Volume:
        async def work(volume: AttachedVolume) -> controller.Volume:
            await volume.set_max_size(request.size)
            return await self._volume(volume)

        return await self._dispatcher.attached(context, work)

    async def ReplicaList(self, request: Empty, context: Context) -> controller.ReplicaListReply:
        async def work(volume: AttachedVolume) -> controller.ReplicaListReply:
            return messages.replica_list(self._dispatcher.address)

        return await self._dispatcher.attached(context, work)

    async def _volume(self, volume: AttachedVolume) -> controller.Volume:
        return messages.volume(volume, await volume.view(), address=self._dispatcher.address)


class ReplicaService(ReplicaServiceServicer):
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def ReplicaGet(self, request: Empty, context: Context) -> replicas.ReplicaGetResponse:
        async def work(volume: AttachedVolume) -> replicas.ReplicaGetResponse:
            return replicas.ReplicaGetResponse(replica=messages.replica(await volume.view()))

        return await self._dispatcher.attached(context, work)

    async def ReplicaSnapshot(
        self, request: replicas.ReplicaSnapshotRequest, context: Context
    ) -> replicas.ReplicaSnapshotResponse:
        async def work(volume: AttachedVolume) -> replicas.ReplicaSnapshotResponse:
            if not request.name or not request.created:
                raise BadInput("ReplicaSnapshot", f"{request.name!r}, {request.created!r}", "name and created have to be set")
            await volume.snapshot(
                request.name, labels=dict(request.labels), user_created=request.user_created, created=request.created
            )
            return replicas.ReplicaSnapshotResponse(replica=messages.replica(await volume.view()))

        return await self._dispatcher.attached(context, work)

    async def DiskMarkAsRemoved(
        self, request: replicas.DiskMarkAsRemovedRequest, context: Context
    ) -> replicas.DiskMarkAsRemovedResponse:
        async def work(volume: AttachedVolume) -> replicas.DiskMarkAsRemovedResponse:
            await volume.mark_removed(request.name)
            return replicas.DiskMarkAsRemovedResponse(replica=messages.replica(await volume.view()))

        return await self._dispatcher.attached(context, work)


class SyncAgentService(SyncAgentServiceServicer):
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def SnapshotPurge(self, request: Empty, context: Context) -> Empty:
        async def work(volume: AttachedVolume) -> Empty:
            volume.start_purge()
            return Empty()

        return await self._dispatcher.attached(context, work)

    async def SnapshotPurgeStatus(self, request: Empty, context: Context) -> syncagent.SnapshotPurgeStatusResponse:
        async def work(volume: AttachedVolume) -> syncagent.SnapshotPurgeStatusResponse:
            return messages.purge_status(volume.purge)

        return await self._dispatcher.attached(context, work)

    async def SnapshotClone(self, request: syncagent.SnapshotCloneRequest, context: Context) -> Empty:
        async def work(volume: AttachedVolume) -> Empty:
            here = self._dispatcher.address
            if request.from_address != here:
                raise BadInput("from_address", request.from_address, f"volumes of this host are allowed: {here}")
            source = self._dispatcher.host.attached(request.from_volume_name)
            await volume.clone_from(source.volume, request.snapshot_file_name, address=here)
            return Empty()

        return await self._dispatcher.attached(context, work)

    async def SnapshotCloneStatus(self, request: Empty, context: Context) -> syncagent.SnapshotCloneStatusResponse:
        async def work(volume: AttachedVolume) -> syncagent.SnapshotCloneStatusResponse:
            return messages.clone_status(volume)

        return await self._dispatcher.attached(context, work)

    async def SnapshotHashCancel(self, request: syncagent.SnapshotHashCancelRequest, context: Context) -> Empty:
        """Nothing is ever hashed here."""

        async def work(volume: AttachedVolume) -> Empty:
            return Empty()

        return await self._dispatcher.attached(context, work)


class HostService(HostServiceServicer):
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._host = dispatcher.host

    async def VolumeCreate(self, request: hosts.VolumeCreateRequest, context: Context) -> hosts.HostVolume:
        return messages.host_volume(await self._dispatcher.answer(context, self._host.create(request.name, request.size)))

    async def VolumeDelete(self, request: hosts.VolumeDeleteRequest, context: Context) -> hosts.VolumeDeleteReply:
        await self._dispatcher.answer(context, self._host.delete(request.name))
        return hosts.VolumeDeleteReply()

    async def VolumeList(self, request: hosts.VolumeListRequest, context: Context) -> hosts.VolumeListReply:
        found = await self._dispatcher.answer(context, self._host.volumes())
        return hosts.VolumeListReply(volumes=map(messages.host_volume, found))

    async def VolumeAttach(self, request: hosts.VolumeAttachRequest, context: Context) -> hosts.HostVolume:
        attaching = self._host.attach(request.name, frontend=request.frontend)
        return messages.host_volume(await self._dispatcher.answer(context, attaching))

    async def VolumeDetach(self, request: hosts.VolumeDetachRequest, context: Context) -> hosts.HostVolume:
        return messages.host_volume(await self._dispatcher.answer(context, self._host.detach(request.name)))

    async def VolumeLook(self, request: hosts.VolumeLookRequest, context: Context) -> hosts.VolumeLookReply:
        async def poll() -> hosts.VolumeLookReply:
            view, purge = await self._host.look(request.name, detached=request.detached)
            return messages.poll_result(view, purge, address=self._dispatcher.address)

        return await self._dispatcher.answer(context, poll())

    async def VolumeRead(self, request: hosts.VolumeReadRequest, context: Context) -> hosts.VolumeReadReply:
        async def read() -> bytes:
            return await self._host.attached(request.name).read(request.offset, request.length)

        return hosts.VolumeReadReply(data=await self._dispatcher.answer(context, read()))

    async def VolumeWrite(self, request: hosts.VolumeWriteRequest, context: Context) -> hosts.VolumeWriteReply:
        async def write() -> None:
            await self._host.attached(request.name).write(request.offset, request.data, sync=request.sync)

        await self._dispatcher.answer(context, write())
        return hosts.VolumeWriteReply()


GRACE_SECONDS: Final = 2.0  # for calls that are under way when we stop
_OPTIONS: Final = message_sizes(max_receive=MAX_MESSAGE, max_send=MAX_MESSAGE)


@contextlib.asynccontextmanager
async def serving(volumes: Path, socket: Path, *, clock: Clock) -> AsyncIterator[str]:
    """Serves the volumes in a directory until the block ends; gives the address. One process has a directory at a time, and
    so a socket that is left over is nobody's."""
    path = _absolute(socket)
    with contextlib.closing(Store.open(volumes)) as store:
        host = Host(store, clock=clock)
        try:
            server = _server(host, f"unix://{path}")
            path.unlink(missing_ok=True)
            before = os.umask(0o177)
            try:
                server.add_insecure_port(f"unix:{path}")
            finally:
                os.umask(before)
            await server.start()
            try:
                yield f"unix://{path}"
            finally:
                await server.stop(GRACE_SECONDS)
        finally:
            await host.close()


def _absolute(socket: Path) -> Path:
    path = socket.absolute()
    return checked_socket(path, where="socket", given=path)


def _server(host: Host, address: str) -> grpc.aio.Server:
    server = grpc.aio.server(options=_OPTIONS)
    dispatcher = Dispatcher(host, address)
    add_ControllerServiceServicer_to_server(ControllerService(dispatcher), server)
    add_ReplicaServiceServicer_to_server(ReplicaService(dispatcher), server)
    add_SyncAgentServiceServicer_to_server(SyncAgentService(dispatcher), server)
    add_HostServiceServicer_to_server(HostService(dispatcher), server)
    return server
