"""One gRPC call to one of an engine's services: bounded in time, about one volume, and its failure one of our errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import grpc
import grpc.aio

from ullage.engines.client.channels import Channels, sync_agent, target
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


@dataclass(frozen=True, slots=True)
class Service(Generic[Stub]):
    """A gRPC service of an engine. `locate` finds it by the address of the engine's controller, replica or host."""

    server: str  # who answers, as errors name it
    stub: Callable[[grpc.aio.Channel], Stub]
    locate: Callable[[str], str] = target


CONTROLLER: Final[Service[ControllerServiceAsyncStub]] = Service("engine", ControllerServiceStub)
REPLICA: Final[Service[ReplicaServiceAsyncStub]] = Service("replica", ReplicaServiceStub)
SYNC_AGENT: Final[Service[SyncAgentServiceAsyncStub]] = Service("replica", SyncAgentServiceStub, sync_agent)
HOST: Final[Service[HostServiceAsyncStub]] = Service("host", HostServiceStub)


class VolumeCalls:
    """Calls about one volume."""

    def __init__(self, channels: Channels, *, volume: str) -> None:
        self._channels = channels
        self._volume = volume

    async def call(
        self,
        service: Service[Stub],
        address: str,
        method: Method[Stub, Request, Response],
        request: Request,
        *,
        what: str,
        seconds: float,
    ) -> Response:
        what = f"{service.server} {address}: {what}"
        if _VOLUME.fullmatch(self._volume) is None:  # else gRPC fails in a way of its own
            allowed = "visible ASCII characters are allowed, 253 at most"
            raise error(Reason.BAD_REQUEST, f"{what}: volume {self._volume[:253]!r}: {allowed}")
        try:
            async with self._channels.to(service.locate(address)) as channel:
                call = method(service.stub(channel))
                return await call(request, timeout=seconds, metadata=(("volume-name", self._volume),))
        except grpc.aio.AioRpcError as failure:
            code, words = failure.code().name, failure.details() or ""
            if code == "DEADLINE_EXCEEDED":
                words = f"no answer within {seconds:g} s"
            named = f"volume {self._volume}: {what}" if self._volume else what
            raise translated(code, words, what=named) from failure
