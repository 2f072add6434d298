"""How bodies come in: for whom they are read, how much of them the process holds at once, and how long they may take.

A body is read only when it is known who sends it and that they may do what they ask for. It is admitted by its announced
length before the first byte is taken from the connection; small ones and large ones have room of their own, and nobody has more
than half of it, so that slow or many senders hold up neither the others nor the small requests of everyday.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

from ullage.standalone.apiserver.codec.json import MAX_BODY
from ullage.standalone.apiserver.limits.semaphore import WORK_BYTES, FairSemaphore
from ullage.standalone.apiserver.limits.threads import cost_of
from ullage.standalone.apiserver.status import ApiError, too_large

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BODY_SECONDS: Final = 30.0  # for a whole body, from the moment at which it is admitted
SILENCE_SECONDS: Final = 10.0  # between two pieces of it
ADMIT_SECONDS: Final = 20.0  # until there is room for it
SMALL: Final = 64 * 1024
SMALL_BYTES: Final = 16 * 1024 * 1024
LARGE_BYTES: Final = 24 * 1024 * 1024


class Disconnected(Exception):
    """The client went away before its request was complete."""


class Intake:
    """The room that all bodies share."""

    def __init__(self, *, small: int = SMALL_BYTES, large: int = LARGE_BYTES) -> None:
        self._small = FairSemaphore(small, share=small // 2)
        self._large = FairSemaphore(large, share=large // 2)
        self._work = FairSemaphore(WORK_BYTES, share=WORK_BYTES // 2)

    @asynccontextmanager
    async def read(self, headers: Mapping[str, str], receive: Receive, owner: str) -> AsyncIterator[bytes]:
        """The body, which counts as held until the block ends. Raises 408, 413 or 429, or Disconnected."""
        length = announced(headers)
        if length > MAX_BODY:
            raise too_large(f"Request entity too large: limit is {MAX_BODY}")
        if not length:
            yield b""
            return
        async with AsyncExitStack() as held:
            await _admitted(held, (self._small if length <= SMALL else self._large).hold(length, owner))
            body = await _read(receive)
            if cost := cost_of(body):
                await _admitted(held, self._work.hold(cost, owner))
            yield body


async def _admitted(held: AsyncExitStack, room: AbstractAsyncContextManager[None]) -> None:
    try:
        async with asyncio.timeout(ADMIT_SECONDS):
            await held.enter_async_context(room)
    except TimeoutError:
        raise _busy() from None


def announced(headers: Mapping[str, str]) -> int:
    """How long a body may become: what it says, or the most there can be. The HTTP parser holds it to its word."""
    if "transfer-encoding" in headers:
        return MAX_BODY
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else (MAX_BODY if length else 0)


async def _read(receive: Receive) -> bytes:
    chunks = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):
                    message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                chunks += message.get("body", b"")
                if len(chunks) > MAX_BODY:
                    raise too_large(f"Request entity too large: limit is {MAX_BODY}")
                if not message.get("more_body"):
                    return bytes(chunks)
    except TimeoutError:
        raise ApiError(408, "Timeout", "Timeout: the body of the request did not arrive in time", details={}) from None


def _busy() -> ApiError:
    text = "the server has received too many requests and has asked us to try again later"
    return ApiError(429, "TooManyRequests", text, details={"retryAfterSeconds": 1}, headers=[("retry-after", "1")])
