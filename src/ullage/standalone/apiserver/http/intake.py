"""How bodies come in: for whom they are read, how much of them the process holds at once, and how long they may take.

A body is read only when it is known who sends it and that they may do what they ask for. It is admitted by its announced
length before the first byte is taken from the connection; small ones and large ones have room of their own, and nobody has more
than half of it, so that slow or many senders hold up neither the others nor the small requests of everyday.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

from ullage.standalone.apiserver.codec.json import MAX_BODY
from ullage.standalone.apiserver.limits.threads import cost_of
from ullage.standalone.apiserver.status import ApiError, too_large

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BODY_SECONDS: Final = 30.0  # for a whole body, from the moment at which it is admitted
SILENCE_SECONDS: Final = 10.0  # between two pieces of it
ADMIT_SECONDS: Final = 20.0  # until there is room for it
SMALL: Final = 64 * 1024
SMALL_ROOM: Final = 16 * 1024 * 1024
LARGE_ROOM: Final = 24 * 1024 * 1024
WORK_ROOM: Final = 96 * 1024 * 1024  # for what large bodies become


class Disconnected(Exception):
    """The client went away before its request was complete."""


class Room:
    """An amount that many share: `hold` waits until its part is free. First come, first served."""

    def __init__(self, total: int, *, share: int) -> None:
        self._free = total
        self._share = share  # what one owner may have at once
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[str, int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, amount: int, owner: str) -> AsyncIterator[None]:
        if not amount:
            yield
            return
        amount = min(amount, self._share)
        await self._take(amount, owner)
        try:
            yield
        finally:
            self._give(amount, owner)

    async def _take(self, amount: int, owner: str) -> None:
        if not self._waiting and self._fits(amount, owner):
            self._grant(amount, owner)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((owner, amount, turn))
        self._admit()  # others may wait for their own share only
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give(amount, owner)
            else:
                self._waiting = deque(waiter for waiter in self._waiting if waiter[2] is not turn)
                self._admit()
            raise

    def _fits(self, amount: int, owner: str) -> bool:
        return amount <= self._free and self._held[owner] + amount <= self._share

    def _grant(self, amount: int, owner: str) -> None:
        self._free -= amount
        self._held[owner] += amount

    def _give(self, amount: int, owner: str) -> None:
        self._free += amount
        self._held[owner] -= amount
        if not self._held[owner]:
            del self._held[owner]
        self._admit()

    def _admit(self) -> None:
        """Lets in whoever fits. One who waits for room keeps those behind from taking it; one at their own limit does not."""
        left: deque[tuple[str, int, asyncio.Future[None]]] = deque()
        room = True
        for owner, amount, turn in self._waiting:
            if turn.done():
                continue
            if room and self._fits(amount, owner):
                self._grant(amount, owner)
                turn.set_result(None)
                continue
            room = room and amount <= self._free
            left.append((owner, amount, turn))
        self._waiting = left


class Intake:
    """The room that all bodies share."""

    def __init__(self, *, small: int = SMALL_ROOM, large: int = LARGE_ROOM) -> None:
        self._small = Room(small, share=small // 2)
        self._large = Room(large, share=large // 2)
        self._work = Room(WORK_ROOM, share=WORK_ROOM // 2)

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
