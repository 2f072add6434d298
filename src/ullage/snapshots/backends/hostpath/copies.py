"""Copies that take as long as they take: one goes on until it is done, however often it is asked for meanwhile.

A caller waits for it a little. Who asks while it is at it is told how far it is, and asks again. Threads are few, and shared by
turns between namespaces: whoever asks for a hundred copies waits for his own, and others do not wait for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from ullage.snapshots.backends.base import InProgress
from ullage.snapshots.backends.hostpath.errors import bytes_text
from ullage.snapshots.backends.hostpath.threads import Stop, Workers

T = TypeVar("T")

PATIENCE: Final = 5.0  # seconds that the first caller waits: most copies are done by then


class CopyKey(NamedTuple):
    """What is made, and of what: the same name of another source is another copy, and will be refused."""

    name: str
    source: str


@dataclass(slots=True)
class _Copy:
    task: asyncio.Task[Any]
    stop: Stop
    begun: bool = False  # a thread is at it


@dataclass(slots=True)
class Turns:
    """So many at a time. Those that wait are let in by turns: one of each owner, then the next of each."""

    free: int
    waiting: dict[str, deque[asyncio.Future[None]]] = field(default_factory=dict)

    @asynccontextmanager
    async def taken(self, owner: str) -> AsyncIterator[None]:
        await self._take(owner)
        try:
            yield
        finally:
            self.free += 1
            self._let_in()

    async def _take(self, owner: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(owner, deque()).append(turn)
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was let in a moment ago
                self.free += 1
            self._let_in()
            raise

    def _let_in(self) -> None:
        while self.free and self.waiting:
            owner = next(iter(self.waiting))
            line = self.waiting.pop(owner)
            turn = line.popleft()
            if line:
                self.waiting[owner] = line  # at the end: it is the others' turn
            if not turn.done():
                self.free -= 1
                turn.set_result(None)


class Copies:
    def __init__(self, threads: int, *, name: str, patience: float = PATIENCE) -> None:
        self._workers = Workers(threads, name=name)
        self._turns = Turns(threads)
        self._patience = patience
        self._copies: dict[CopyKey, _Copy] = {}

    async def run(self, key: CopyKey, work: Callable[[Stop], T], *, owner: str) -> T:
        """What came of the work. Raises InProgress while it goes on; whoever is cancelled has called it off."""
        copy = self._copies.get(key)
        patience = 0.0 if copy is not None else self._patience
        if copy is None:
            stop = Stop()
            copy = self._copies[key] = _Copy(asyncio.create_task(self._work(key, work, stop, owner=owner)), stop)
        try:
            await asyncio.wait({copy.task}, timeout=patience)
        except asyncio.CancelledError:
            await self.cancel(key.name)
            raise
        if not copy.task.done():
            raise InProgress(_how_far(copy))
        self._copies.pop(key, None)
        result: T = copy.task.result()
        return result

    def under_way(self, name: str) -> bool:
        """Whether somebody has asked for it: it is being made, or waits for its turn."""
        return any(key.name == name for key in tuple(self._copies))  # threads ask too

    async def cancel(self, name: str) -> None:
        """Calls off what is being made under a name. Afterwards nobody writes there any more."""
        copies = [self._copies.pop(key) for key in list(self._copies) if key.name == name]
        for copy in copies:
            copy.task.cancel()
        if copies:
            await asyncio.gather(*(copy.task for copy in copies), return_exceptions=True)

    async def close(self) -> None:
        for key in list(self._copies):
            await self.cancel(key.name)

    async def _work(self, key: CopyKey, work: Callable[[Stop], T], stop: Stop, *, owner: str) -> T:
        async with self._turns.taken(owner):
            self._copies[key].begun = True
            return await self._workers.run(work, stop=stop)


def _how_far(copy: _Copy) -> str:
    if not copy.begun:
        return "waiting for other copies to end"
    done, total = copy.stop.progress
    if total is None:
        return "looking at the files to copy"
    return f"copied {bytes_text(min(done, total))} of {bytes_text(total)}"
