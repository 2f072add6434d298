"""Keys to be looked at: each once, one after the other, again later if it failed.

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


class WorkQueue(Generic[K]):
    def __init__(self, process: Callable[[K], Awaitable[None]], *, name: str) -> None:
        self._process = process
        self._name = name
        self._waiting: dict[K, None] = {}  # in the order of arrival, each key once
        self._failures: dict[K, int] = {}
        self._arrived = asyncio.Event()
        self._busy = False

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._busy and not self._failures

    def add(self, key: K) -> None:
        self._waiting[key] = None
        self._arrived.set()

    async def run(self) -> None:
        """Works until it is cancelled."""
        while True:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._busy = True
            try:
                await self._process(key)
            except Exception:
                self._retry(key)
            else:
                self._failures.pop(key, None)
            finally:
                self._busy = False

    def _retry(self, key: K) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(FIRST_RETRY * 2 ** (failures - 1), LAST_RETRY)
        # The first failures are the ordinary kind, a conflict or a webhook that is not up yet.
        level = logging.WARNING if failures > 3 else logging.DEBUG
        logger.log(level, "%s will try again", self._name, exc_info=True, extra={"key": str(key), "delay": delay})
        asyncio.get_running_loop().call_later(delay, self.add, key)
