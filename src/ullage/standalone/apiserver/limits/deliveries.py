"""Answers that are longer than a client takes at once: in pieces, and with a bound on what waits for those that take nothing.

A piece is sent when the one before it is on its way, so a connection holds little. What is held beside it is what the pieces
come from: old versions of objects, rows of a Table. All answers together may hold `MOST_HELD` of it: when there is no room,
the one whose client has taken nothing for the longest time ends, as kube-apiserver ends a watch that does not keep up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from ullage.standalone.apiserver.limits.pieces import Part, pieces

logger = logging.getLogger(__name__)

MOST_HELD = 24 << 20
GRACE = 1.0  # seconds for which a client may take nothing although others need the room
STALLED = 60.0  # seconds for which a client may take nothing of a list: it holds objects that may be gone otherwise

Parts = Iterable[Part]


async def in_time(chunks: AsyncGenerator[bytes, None], seconds: float = STALLED) -> AsyncGenerator[bytes, None]:
    """The chunks, to a client that takes each within a time. Another is hung up on: whoever sends is cancelled."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if task is None:
        raise RuntimeError("whoever sends is a task")
    async with aclosing(chunks):
        async for chunk in chunks:
            waiting = loop.call_later(seconds, task.cancel)
            try:
                yield chunk
            finally:
                waiting.cancel()


class Delivery:
    """What one answer holds until its client has it."""

    __slots__ = ("since", "size", "task")

    def __init__(self, task: asyncio.Task[object] | None) -> None:
        self.task = task
        self.size = 0
        self.since = 0.0


class Deliveries:
    """All of them, the one that has waited longest first."""

    def __init__(self, most: int = MOST_HELD, grace: float = GRACE) -> None:
        self._most = most
        self._grace = grace
        self._waiting: dict[Delivery, None] = {}
        self.held = 0

    async def send(self, parts: Parts, size: int) -> AsyncGenerator[bytes, None]:
        """The parts in pieces. None is made before its turn; `size` is what they hold until the last piece is taken."""
        delivery = Delivery(asyncio.current_task())
        await self._room(size)
        self.held += size
        delivery.size = size
        try:
            for piece in pieces(parts):
                self._waiting.pop(delivery, None)
                delivery.since = asyncio.get_running_loop().time()
                self._waiting[delivery] = None
                yield piece
                await asyncio.sleep(0)  # others get their turn: the connection may have taken the piece without a pause
        finally:
            self._end(delivery)

    def _end(self, delivery: Delivery) -> None:
        self._waiting.pop(delivery, None)
        self.held -= delivery.size
        delivery.size = 0

    async def _room(self, size: int) -> None:
        """Returns when there is room. One that is larger than all there is may go alone."""
        while self._waiting and self.held + size > self._most:
            longest = next(iter(self._waiting))
            left = longest.since + self._grace - asyncio.get_running_loop().time()
            if left > 0:
                await asyncio.sleep(left)
                continue
            logger.warning("an answer ends: its client takes nothing", extra={"held": self.held})
            self._end(longest)
            if longest.task is not None:
                longest.task.cancel()
