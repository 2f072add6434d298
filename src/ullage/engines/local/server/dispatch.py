"""How the server answers a call: finds the volume, lets the call finish, and gives a failure its gRPC code.

The text of a failure is written where it is found. longhorn-engine answers nearly everything with the code UNKNOWN, and so
do we where it would have answered, so that nobody comes to rely on more.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from ullage.engines.local.server.attached import AttachedVolume, Detached, FrontendDown
from ullage.engines.local.server.host import Host, NoVolume
from ullage.engines.local.store.errors import Damaged, Refused, Unavailable
from ullage.errors import BadInput

Context = Any  # grpc.aio's, which the generated types mix with the one of the blocking kind
Answer = TypeVar("Answer")

_KEY: Final = "volume-name"
_CODES: Final[tuple[tuple[type[Exception], grpc.StatusCode], ...]] = (
    (NoVolume, grpc.StatusCode.NOT_FOUND),
    (BadInput, grpc.StatusCode.INVALID_ARGUMENT),
    (Damaged, grpc.StatusCode.DATA_LOSS),
    (Detached, grpc.StatusCode.FAILED_PRECONDITION),
    (FrontendDown, grpc.StatusCode.FAILED_PRECONDITION),
    (Refused, grpc.StatusCode.UNKNOWN),
    (Unavailable, grpc.StatusCode.INTERNAL),
)

_logger = logging.getLogger(__name__)


class Dispatcher:
    """What all services of a host have in common. `address` is where it listens: it is its volumes' replica, too."""

    def __init__(self, host: Host, address: str) -> None:
        self.host = host
        self.address = address

    async def attached(self, context: Context, work: Callable[[AttachedVolume], Awaitable[Answer]]) -> Answer:
        """A call about the attached volume that its metadata names."""

        async def call() -> Answer:
            return await work(self.host.attached(_volume(context)))

        return await self.answer(context, call())

    async def answer(self, context: Context, call: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            return await self.host.finish(call)
        except Exception as problem:
            await context.abort(*_failure(problem))
            raise AssertionError("abort raises") from problem


def _failure(problem: Exception) -> tuple[grpc.StatusCode, str]:
    for kind, code in _CODES:
        if isinstance(problem, kind):
            return code, str(problem)
    _logger.error("a call failed unexpectedly", exc_info=problem)
    return grpc.StatusCode.INTERNAL, f"unexpected {type(problem).__name__}; the log of the engine host says more"


def _volume(context: Context) -> str:
    names = [value for key, value in context.invocation_metadata() or () if key == _KEY]
    if len(names) != 1 or not names[0]:
        raise BadInput(f"metadata {_KEY}", ", ".join(map(repr, names)) or "missing", "the name of one volume is allowed")
    return str(names[0])
