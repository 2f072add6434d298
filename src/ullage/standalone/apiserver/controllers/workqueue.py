"""Keys to be looked at: none by two workers at once, again if it changed meanwhile, again later if it failed.

The API server's own controllers are few and small; this is all the machinery they need.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_RETRY = 0.05
LAST_RETRY = 30.0
_DOUBLINGS = 16  # more lead nowhere but out of the range of floats, after a night of failures


class WorkQueue(Generic[K]):
    """`workers` is for keys that have nothing to do with each other: their writes then share a commit."""

    def __init__(self, process: Callable[[K], Awaitable[None]], *, name: str, workers: int = 1) -> None:
        self._process = process
        self._name = name
        self._workers = workers
        self._waiting: dict[K, None] = {}  # in the order of arrival, each key once
        self._running: set[K] = set()
        self._again: set[K] = set()  # came while they were being worked on
        self._later: set[K] = set()
        self._failures: dict[K, int] = {}
        self._arrived = asyncio.Event()

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._running and not self._later and not self._failures

    def add(self, key: K) -> None:
        if key in self._running:
            self._again.add(key)
            return
        self._waiting[key] = None
        self._arrived.set()

    def add_later(self, key: K, delay: float) -> None:
        """Once for all calls of so many seconds, and nobody waits for it meanwhile."""
        if key not in self._later:
            self._later.add(key)
            asyncio.get_running_loop().call_later(delay, self._come, key)

    def _come(self, key: K) -> None:
        self._later.discard(key)
        self.add(key)

    async def run(self) -> None:
        """Works until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._running.add(key)
            try:
                await self._process(key)
            except Exception:
                self._retry(key)
            else:
                self._failures.pop(key, None)
            finally:
                self._running.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    def _retry(self, key: K) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(FIRST_RETRY * 2 ** min(failures - 1, _DOUBLINGS), LAST_RETRY)
        # The first failures are the ordinary kind, a conflict or a webhook that is not up yet.
        level = logging.WARNING if failures > 3 else logging.DEBUG
        logger.log(level, "%s will try again", self._name, exc_info=True, extra={"key": str(key), "delay": delay})
        asyncio.get_running_loop().call_later(delay, self.add, key)
