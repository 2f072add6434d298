"""Sockets of others that our processes call: that one is missing is told at once, and not with the first request."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final, Self

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0


class WatchedSocket:
    """Looks at one socket, for as long as its block lasts. `owner` is who should be listening there."""

    def __init__(self, path: Path, *, owner: str, every: float = LOOK_SECONDS) -> None:
        self._path = path
        self._owner = owner
        self._every = every
        self._missing = False
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.look()
        self._task = asyncio.create_task(self._watch(), name=f"socket {self._path}")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def look(self) -> None:
        missing = not self._path.exists()
        if missing == self._missing:
            return
        self._missing = missing
        about = {"owner": self._owner, "socket": str(self._path)}
        if missing:
            logger.warning("a socket is missing: is its owner running?", extra=about)
        else:
            logger.info("a socket that was missing is there", extra=about)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            self.look()
