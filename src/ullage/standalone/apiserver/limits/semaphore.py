"""Memory that many requests share, by owner: whoever wants more than is left waits, and nobody takes all of it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

WORK_BYTES: Final = 96 * 1024 * 1024  # for what large bodies become


class FairSemaphore:
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
