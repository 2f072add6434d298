"""Work on files in threads, so that the event loop never waits for a disk; and how such work is told to stop.

A thread cannot be killed. So work asks its `Stop` between files and between the pieces of a large one, and whoever cancels a
call waits until the thread has heard of it: after a cancelled call nobody writes any more.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """The work was called off."""


class Stop:
    """One call's way to be told that nobody wants it any more, and to tell how far it is."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._done = 0
        self._total: int | None = None

    def ask(self) -> None:
        self._asked.set()

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes that are done, and how many there are: None while nobody knows."""
        return self._done, self._total

    def expect(self, total: int) -> None:
        """There are so many bytes to be done. What is found to be more later counts too."""
        self._total = max(total, self._total or 0)

    def advance(self, count: int) -> None:
        self._done += count

    def check(self) -> None:
        if self._asked.is_set():
            raise Stopped

    def pause(self, seconds: float) -> None:
        """Sleeps, unless it is called off."""
        if self._asked.wait(seconds):
            raise Stopped


class Workers:
    """A few threads. Calls beyond their number wait for their turn."""

    def __init__(self, threads: int, *, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[[Stop], T], *, stop: Stop | None = None) -> T:
        stop = stop or Stop()
        running = self._pool.submit(work, stop)
        waiting = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            stop.ask()
            if not running.cancel():
                await _ended(waiting)
            raise


async def _ended(waiting: asyncio.Future[T]) -> None:
    """Waits for the thread, however often the caller is cancelled meanwhile. What it says at the end is of no use any more."""
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue
    if not waiting.cancelled():
        waiting.exception()
