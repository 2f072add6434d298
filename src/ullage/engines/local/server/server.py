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

from ullage.clock import Clock
from ullage.engines.local.server.dispatch import Dispatcher
from ullage.engines.local.server.host import Host
from ullage.engines.local.server.services import ControllerService, HostService, ReplicaService, SyncAgentService
from ullage.engines.local.store.store import Store
from ullage.engines.protocol import MAX_MESSAGE
from ullage.engines.protocol.controller_pb2_grpc import add_ControllerServiceServicer_to_server
from ullage.engines.protocol.host_pb2_grpc import add_HostServiceServicer_to_server
from ullage.engines.protocol.replica_pb2_grpc import add_ReplicaServiceServicer_to_server
from ullage.engines.protocol.syncagent_pb2_grpc import add_SyncAgentServiceServicer_to_server
from ullage.rpc import checked_socket, message_sizes

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
