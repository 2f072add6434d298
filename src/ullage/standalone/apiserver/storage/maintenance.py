"""What the store needs now and then: old history goes, free space returns to the file system, a failed disk is asked again.

Each step is short: writers wait for it on the same thread. That history stays within its bound in bytes is not left to this:
the store sees to it with every commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from ullage.clock import Clock
from ullage.standalone.apiserver.storage.event_expiry import EventExpiry
from ullage.standalone.apiserver.storage.store import Store

logger = logging.getLogger(__name__)

MOST_HISTORY = 100_000  # revisions, however young and small
LOOK_SECONDS = 2.0
SLICE_PAGES = 1024  # that go back to the file system at once: some 30 ms
SLACK_PAGES = 2048  # that stay in the file for the next writes


class Maintenance:
    def __init__(self, store: Store, clock: Clock, *, history: float, expiry: EventExpiry) -> None:
        self._store = store
        self._clock = clock
        self._history = history  # seconds
        self._expiry = expiry
        self._marks: deque[tuple[float, int]] = deque([(clock.monotonic(), store.revision)])

    async def run(self) -> None:
        """Works until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(_every(min(max(self._history / 5, 0.1), 10.0), self.forget))
            group.create_task(_every(LOOK_SECONDS, self.tidy))
            group.create_task(_every(LOOK_SECONDS, self._expiry.turn))

    async def forget(self) -> None:
        """Drops history that is older than it has to be."""
        now = self._clock.monotonic()
        self._marks.append((now, self._store.revision))
        due = self._store.revision - MOST_HISTORY
        while self._marks and self._marks[0][0] < now - self._history:
            due = max(due, self._marks.popleft()[1])
        if due > self._store.compacted:
            await self._store.compact(due)
        await self._store.shorten()  # what an earlier run has left

    async def tidy(self) -> None:
        """Returns free space, slice by slice; writers have their turn between two."""
        if self._store.broken:
            await self._store.probe()
        while not self._store.broken and await self._store.tidy(pages=SLICE_PAGES, slack=SLACK_PAGES):
            pass


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except Exception:  # a full disk, say: it is done a little later, and nothing else may suffer from it
            logger.exception("upkeep failed", extra={"work": work.__qualname__})
