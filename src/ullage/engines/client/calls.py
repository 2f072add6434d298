"""One call to one of an engine's servers: bounded in time, meant for one volume, and its failure one of our errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import grpc
import grpc.aio

from ullage.engines.client.channels import Channels, sync_agent
from ullage.engines.client.errors import Reason, error, translated
from ullage.engines.protocol.controller_pb2_grpc import ControllerServiceStub
from ullage.engines.protocol.host_pb2_grpc import HostServiceStub
from ullage.engines.protocol.replica_pb2_grpc import ReplicaServiceStub
from ullage.engines.protocol.syncagent_pb2_grpc import SyncAgentServiceStub

if TYPE_CHECKING:
    from ullage.engines.protocol.controller_pb2_grpc import ControllerServiceAsyncStub
    from ullage.engines.protocol.host_pb2_grpc import HostServiceAsyncStub
    from ullage.engines.protocol.replica_pb2_grpc import ReplicaServiceAsyncStub
    from ullage.engines.protocol.syncagent_pb2_grpc import SyncAgentServiceAsyncStub

Stub = TypeVar("Stub")
Request = TypeVar("Request")
Response = TypeVar("Response")
Method = Callable[[Stub], grpc.aio.UnaryUnaryMultiCallable[Request, Response]]

_VOLUME: Final = re.compile(r"[!-~]{0,253}")


class VolumeCalls:
    """Calls about one volume."""

    def __init__(self, channels: Channels, *, volume: str) -> None:
        self._channels = channels
        self._volume = volume

    async def controller(
        self,
        address: str,
        method: Method[ControllerServiceAsyncStub, Request, Response],
        request: Request,
        *,
        what: str,
        seconds: float,
    ) -> Response:
        async with self._channels.to(address) as channel:
            call = method(ControllerServiceStub(channel))
            return await self._called(call, request, what=f"engine {address}: {what}", seconds=seconds)

    async def replica(
        self,
        address: str,
        method: Method[ReplicaServiceAsyncStub, Request, Response],
        request: Request,
        *,
        what: str,
        seconds: float,
    ) -> Response:
        async with self._channels.to(address) as channel:
            call = method(ReplicaServiceStub(channel))
            return await self._called(call, request, what=f"replica {address}: {what}", seconds=seconds)

    async def sync(
        self,
        address: str,
        method: Method[SyncAgentServiceAsyncStub, Request, Response],
        request: Request,
        *,
        what: str,
        seconds: float,
    ) -> Response:
        """`address` is the replica's."""
        async with self._channels.to(sync_agent(address)) as channel:
            call = method(SyncAgentServiceStub(channel))
            return await self._called(call, request, what=f"replica {address}: {what}", seconds=seconds)

    async def host(
        self,
        address: str,
        method: Method[HostServiceAsyncStub, Request, Response],
        request: Request,
        *,
        what: str,
        seconds: float,
    ) -> Response:
        async with self._channels.to(address) as channel:
            call = method(HostServiceStub(channel))
            return await self._called(call, request, what=f"host {address}: {what}", seconds=seconds)

    async def _called(
        self, call: grpc.aio.UnaryUnaryMultiCallable[Request, Response], request: Request, *, what: str, seconds: float
    ) -> Response:
        if _VOLUME.fullmatch(self._volume) is None:  # else gRPC fails in a way of its own
            allowed = "visible ASCII characters are allowed, 253 at most"
            raise error(Reason.BAD_REQUEST, f"{what}: volume {self._volume[:253]!r}: {allowed}")
        try:
            return await call(request, timeout=seconds, metadata=(("volume-name", self._volume),))
        except grpc.aio.AioRpcError as failure:
            code, words = failure.code().name, failure.details() or ""
            if code == "DEADLINE_EXCEEDED":
                words = f"no answer within {seconds:g} s"
            named = f"volume {self._volume}: {what}" if self._volume else what
            raise translated(code, words, what=named) from failure
