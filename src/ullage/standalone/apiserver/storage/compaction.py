"""Old revisions go from the disk: above the bound on the bytes of history at once, and by age when `maintenance` asks."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from ullage.standalone.apiserver.storage.database import Database
from ullage.standalone.apiserver.storage.history import History

logger = logging.getLogger(__name__)

COMPACT_STEP = 2_000  # revisions a compaction transaction covers, so that writers never wait long
COMPACT_BYTES = 8 << 20  # and bytes that it frees


class Compaction:
    """`compacted` is the revision at and below which history is gone."""

    def __init__(
        self,
        database: Database,
        *,
        most: int,  # bytes of history
        newest: Callable[[], int],
        work: Callable[[Callable[[], None]], Awaitable[None]],  # runs it on the writer's thread
    ) -> None:
        self._database = database
        self._most = most
        self._newest = newest
        self._work = work
        self._lock = asyncio.Lock()
        self.compacted = database.compacted()
        self.history = History()
        for rv, size in database.superseded(self.compacted):
            self.history.add(rv, size)

    async def compact(self, upto: int, *, steps: int = sys.maxsize) -> None:
        """Forgets history at and below a revision, or as much of it as goes in so many steps.

        The newest revision always stays: it carries the counter.
        """
        upto = min(upto, self._newest() - 1)
        while self.compacted < upto and steps:
            steps -= 1
            async with self._lock:
                # Readers are told before anything is gone; where it failed, nothing is.
                after, self.compacted = self.compacted, max(self._step(upto), self.compacted)
                try:
                    await self._work(partial(self._database.compact, after, self.compacted))
                except Exception:
                    self.compacted = after
                    raise
                self.history.forget(self.compacted)

    def _step(self, upto: int) -> int:
        """How far one transaction goes."""
        return min(self.compacted + COMPACT_STEP, upto, self.history.reach(COMPACT_BYTES) or upto)

    async def shorten(self) -> None:
        """Drops some of the oldest history where there is more than its bound: as much as one commit can have made."""
        upto = self.history.reach(self.history.size - self._most)
        if upto:
            try:
                await self.compact(upto, steps=2)
            except Exception:  # a full disk, say: there is a little more history, and nothing else may suffer from it
                logger.exception("history could not be dropped", extra={"upto": upto})
