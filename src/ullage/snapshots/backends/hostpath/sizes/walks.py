"""Looks at trees that take as long as they take: a caller waits a little, and asks again.

It gets what a look found that was begun for it: one that somebody else had begun may be older than the question. A tenant can
make a tree of a hundred million files: so looks are few at a time, shared by turns between namespaces, and end after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from ullage.clock import Clock
from ullage.snapshots.backends.base import InProgress, TakesTooLong
from ullage.snapshots.backends.hostpath.copies import Turns
from ullage.snapshots.backends.hostpath.errors import bytes_text, printable
from ullage.snapshots.backends.hostpath.threads import Stop, Workers

LONGEST: Final = 600.0  # seconds
KEPT: Final = 30.0  # seconds for which a result waits for whoever asked: after that he has to have it looked at anew
RECENT: Final = 60.0  # seconds for which what was found for a snapshot will do for nobody in particular…
TIMES: Final = 20  # …or so many times as long as it took to find that


class WalkKey(NamedTuple):
    """Who wants to know about which volume. Without an owner it is nobody in particular, who may be told what was found for
    others a moment ago. It is told that once."""

    owner: str
    volume: str


@dataclass(slots=True)
class _Walk:
    task: asyncio.Task[int]
    stop: Stop
    ended: float = 0.0


class _Found(NamedTuple):
    bytes: int
    until: float  # on the monotonic clock


class Walks:
    def __init__(self, threads: int, *, patience: float, clock: Clock, longest: float = LONGEST) -> None:
        self._workers = Workers(threads, name="hostpath-walk")
        self._turns = Turns(threads)
        self._patience = patience
        self._clock = clock
        self._longest = longest
        self._walks: dict[WalkKey, _Walk] = {}
        self._found: dict[str, _Found] = {}  # by volume: what was found last for somebody

    async def run(self, key: WalkKey, work: Callable[[Stop], int]) -> int:
        """What came of the work. InProgress: it goes on, ask again. Whoever is cancelled leaves it to the next one who asks."""
        self._forget_old()
        walk = self._walks.get(key)
        if walk is None and not key.owner and (known := self._found.pop(key.volume, None)) is not None:
            return known.bytes  # once: after its interval it wants to know how it is by then
        if walk is None:
            stop = Stop()
            walk = self._walks[key] = _Walk(asyncio.create_task(self._work(key, work, stop)), stop)
            walk.task.add_done_callback(lambda task: self._note_end(key, task))
        await asyncio.wait({walk.task}, timeout=self._patience)
        if not walk.task.done():
            seen, _ = walk.stop.progress
            raise InProgress(f"looking at what is in the volume: {bytes_text(seen)} so far")
        if self._walks.get(key) is walk:
            del self._walks[key]
        return walk.task.result()

    async def close(self) -> None:
        walks = [walk.task for walk in self._walks.values()]
        self._walks.clear()
        for task in walks:
            task.cancel()
        await asyncio.gather(*walks, return_exceptions=True)

    async def _work(self, key: WalkKey, work: Callable[[Stop], int], stop: Stop) -> int:
        async with self._turns.taken(key.owner):
            try:
                began = self._clock.monotonic()
                async with asyncio.timeout(self._longest):
                    found = await self._workers.run(work, stop=stop)
                self._remember(key, found, began=began)
                return found
            except TimeoutError:
                seen, _ = stop.progress
                what, took = f"volume {printable(key.volume)}", f"{self._longest:g} s"
                message = f"{what} cannot be measured: after {took} only {bytes_text(seen)} of it were looked at"
                raise TakesTooLong(message) from None

    def _remember(self, key: WalkKey, found: int, *, began: float) -> None:
        """Not what nobody in particular had looked at: he asks again when he wants to know how it is by then."""
        if key.owner:
            now = self._clock.monotonic()
            self._found[key.volume] = _Found(found, now + max(RECENT, TIMES * (now - began)))

    def _note_end(self, key: WalkKey, task: asyncio.Task[int]) -> None:
        with suppress(asyncio.CancelledError):
            task.exception()  # whoever asked may have gone: nobody has to be told of an error then
        walk = self._walks.get(key)
        if walk is not None and walk.task is task:
            walk.ended = self._clock.monotonic()

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for key in [key for key, walk in self._walks.items() if walk.task.done() and walk.ended < now - KEPT]:
            del self._walks[key]
        for volume in [volume for volume, one in self._found.items() if one.until < now]:
            del self._found[volume]
