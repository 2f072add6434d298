"""Writes on their way to disk: those that arrive while a commit runs form the next one, so one fsync serves them all.

A write ends with the request that it is for, here too: what waits longer than that, for the disk or because the process stood
still, is not stored. Clients and controllers count on nothing of a request being stored once its time is over.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from sys import intern

from ullage.standalone.apiserver.status import ApiError, internal_error
from ullage.standalone.apiserver.storage.database import Late, Revision
from ullage.standalone.apiserver.storage.entries import Entry, Event, Key
from ullage.standalone.apiserver.storage.sizes import growth

logger = logging.getLogger(__name__)

BATCH_BYTES = 8 << 20  # that one commit takes: the next compaction has its turn soon


Remaining = Callable[[], float]
"""Gives the seconds that are left of the request which is being answered: a write ends with it."""


def forever() -> float:
    return math.inf


class Staged:
    """A write on its way to disk. `entry` is the object after it, None after a delete; `growth` is in bytes of all objects.
    After `ends`, on the monotonic clock, it is not stored any more."""

    __slots__ = ("ends", "entry", "event", "future", "growth", "row")

    def __init__(self, event: Event, row: Revision, future: asyncio.Future[Entry], ends: float) -> None:
        self.event = event
        self.ends = ends
        self.row = row
        self.future = future
        self.entry = None if row.deleted else Entry(event.key, event.rv, event.data)
        self.growth = growth(event)


class CommitQueue:
    """`append` writes revisions to the disk, `publish` shows them to readers, `after` runs before the next commit."""

    def __init__(
        self,
        newest: int,
        remaining: Remaining,
        *,
        append: Callable[[list[Revision], float], None],
        work: Callable[[Callable[[], None]], Awaitable[None]],
        publish: Callable[[list[Staged]], None],
        after: Callable[[], Awaitable[None]],
    ) -> None:
        """`append` blocks, and raises Late after the moment that it is told; `work` runs it beside the event loop."""
        self._append = append
        self._work = work
        self._publish = publish
        self._after = after
        self._remaining = remaining
        self._task: asyncio.Task[None] | None = None
        self._batch: list[Staged] = []
        self.heads: dict[tuple[str, Key], Staged] = {}  # the newest write of each key that is not durable yet
        self.newest = newest  # the last revision that was given out
        self.size = 0  # bytes of all objects, what is staged included
        self.broken = ""  # why the last write to the disk failed; empty when the disk takes them

    def __len__(self) -> int:
        """How many writes wait for the next commit."""
        return len(self._batch)

    @property
    def running(self) -> bool:
        return self._task is not None

    def add(self, storage: str, event: Event, *, prev: int) -> asyncio.Future[Entry]:
        loop = asyncio.get_running_loop()
        row = Revision(event.rv, intern(storage), *event.key, prev, int(event.type == "DELETED"), event.data)
        ends = time.monotonic() + self._remaining()
        staged = self.heads[storage, event.key] = Staged(event, row, loop.create_future(), ends)
        self._batch.append(staged)
        self.newest = event.rv
        self.size += staged.growth
        if self._task is None:
            self._task = loop.create_task(self._commit())
        # Shielded: the write is on its way, whatever becomes of the request that waits for it.
        return asyncio.shield(staged.future)

    async def _commit(self) -> None:
        try:
            while self._batch:
                self._give_up()
                batch = self._next_batch()
                if not batch:
                    return
                rows = [staged.row for staged in batch]
                try:
                    await self._work(partial(self._append, rows, min(staged.ends for staged in batch)))
                except Late:
                    self._batch = batch + self._batch
                except Exception as error:
                    logger.exception("commit failed", extra={"writes": len(rows)})
                    self._fail(batch, error)
                else:
                    self.broken = ""
                    self._publish(batch)
                    await self._after()  # the next commit waits for it: history cannot be outrun
        finally:
            self._task = None

    def _give_up(self) -> None:
        """The first write whose time is over fails, and everything that was staged since, which may stand on it."""
        now = time.monotonic()
        first = next((number for number, staged in enumerate(self._batch) if staged.ends < now), None)
        if first is None:
            return
        late, self._batch = self._batch[first:], self._batch[:first]
        logger.warning("writes were not stored in time", extra={"writes": len(late)})
        for staged in late:
            self.done(staged)
        for staged in self._batch:  # a key whose newest write has failed has an older one that has not
            self.heads[staged.row.storage, staged.event.key] = staged
        self._end(
            late, ApiError(504, "Timeout", "Timeout: the write was not stored in time, and nothing is changed", details={})
        )

    def _next_batch(self) -> list[Staged]:
        size = count = 0
        for staged in self._batch:
            size += len(staged.event.data)
            if count and size > BATCH_BYTES:
                break
            count += 1
        batch, self._batch = self._batch[:count], self._batch[count:]
        return batch

    def _fail(self, batch: list[Staged], error: Exception) -> None:
        """Everything staged since stands on writes that did not happen: all of it fails."""
        self.broken = str(error) or type(error).__name__
        batch += self._batch
        self._batch = []
        self.heads.clear()
        self._end(batch, internal_error(f"the database cannot be written: {self.broken}"))

    def _end(self, batch: list[Staged], error: ApiError) -> None:
        for staged in batch:
            self.size -= staged.growth
            if not staged.future.done():
                staged.future.set_exception(error)
                staged.future.exception()  # a request that went away does not fetch it

    def done(self, staged: Staged) -> None:
        """A write is durable. Its key has no head from now on, unless something newer is staged."""
        if self.heads.get((staged.row.storage, staged.event.key)) is staged:
            del self.heads[staged.row.storage, staged.event.key]

    async def drained(self) -> None:
        """Returns when nothing is on its way any more."""
        while self._task is not None:
            await asyncio.shield(self._task)
