"""The volumes of one process: which there are, and which of them are attached.

Being attached is not kept on the disk: after a restart nothing is, as after the end of a real engine's process, and whoever
wants a volume attaches it again. A call that has begun is carried to its end, even if the caller hangs up: so nobody has to
think about half of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from ullage.clock import Clock
from ullage.engines.local.server.attached import FRONTEND, AttachedVolume, Detached, Threads
from ullage.engines.local.server.jobs import Job
from ullage.engines.local.store.errors import Damaged, NotFound
from ullage.engines.local.store.store import Store
from ullage.engines.local.store.views import View
from ullage.errors import Terminal
from ullage.times import timestamp

CALLS: Final = 8  # threads: they wait for the disk most of the time
JOBS: Final = 4  # purges and clones at the same time

Result = TypeVar("Result")


class NoVolume(Terminal):
    """There is no such volume here."""


@dataclass(frozen=True, slots=True)
class VolumeSummary:
    """A volume, attached or not."""

    name: str
    size: int  # bytes
    attached: bool
    frontend: str  # empty: none
    damage: str = ""  # what is wrong with its files


class Host:
    """Belongs to one event loop. `close` waits for what is under way."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._attached: dict[str, AttachedVolume] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._begun: set[asyncio.Task[Any]] = set()
        calls = ThreadPoolExecutor(CALLS, thread_name_prefix="call")
        self._threads = Threads(calls=calls, jobs=ThreadPoolExecutor(JOBS, thread_name_prefix="job"))

    async def close(self) -> None:
        while self._begun or self._attached:
            await asyncio.gather(*self._begun, *map(self._close, list(self._attached)), return_exceptions=True)
        self._threads.calls.shutdown()
        self._threads.jobs.shutdown()

    async def finish(self, call: Coroutine[Any, Any, Result]) -> Result:
        """Sees a call through, whatever becomes of its caller."""
        task = asyncio.create_task(call)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return await asyncio.shield(task)

    def attached(self, name: str) -> AttachedVolume:
        """That of an attached volume."""
        attached = self._attached.get(name)
        if attached is None:
            raise Detached(f"volume {name} is not attached")
        return attached

    async def look(self, name: str, *, detached: bool) -> tuple[View, Job | None]:
        """What a volume has, and the purge that works on it. `detached`: also where it is not attached."""
        if detached and name not in self._attached:
            try:
                return await self._run(lambda: self._store.volume(name).view()), None
            except NotFound as problem:
                raise NoVolume(str(problem)) from problem
        volume = self.attached(name)
        return await volume.view(), volume.purge

    async def volumes(self) -> list[VolumeSummary]:
        """All, even such as cannot be read."""
        found = []
        for name in await self._run(self._store.names):
            try:
                found.append(await self._summary(name))
            except Damaged as damage:
                found.append(VolumeSummary(name, 0, attached=False, frontend="", damage=str(damage)))
            except NoVolume:
                continue  # it was deleted meanwhile
        return found

    async def create(self, name: str, size: int) -> VolumeSummary:
        async with self._lock(name):
            created = timestamp(self._clock.now())
            await self._run(partial(self._store.create, name, size=size, created=created))
            return await self._summary(name)

    async def delete(self, name: str) -> None:
        async with self._lock(name):
            await self._close(name)
            await self._run(partial(self._store.delete, name))

    async def attach(self, name: str, *, frontend: bool) -> VolumeSummary:
        async with self._lock(name):
            known = await self._summary(name)  # reads it from the disk, so that damage shows now
            if name not in self._attached:
                volume = self._store.volume(name)
                self._attached[name] = AttachedVolume(volume, threads=self._threads, clock=self._clock)
            if frontend:
                await self._attached[name].start_frontend(FRONTEND)
            else:
                await self._attached[name].shut_frontend()
            return VolumeSummary(name, known.size, attached=True, frontend=FRONTEND if frontend else "")

    async def detach(self, name: str) -> VolumeSummary:
        async with self._lock(name):
            known = await self._summary(name)
            await self._close(name)
            return VolumeSummary(name, known.size, attached=False, frontend="")

    async def _close(self, name: str) -> None:
        attached = self._attached.pop(name, None)
        if attached is not None:
            await attached.close()

    async def _summary(self, name: str) -> VolumeSummary:
        try:
            view = await self._run(lambda: self._store.volume(name).view())
        except NotFound as problem:
            raise NoVolume(str(problem)) from problem
        attached = self._attached.get(name)
        frontend = FRONTEND if attached is not None and attached.frontend_up else ""
        return VolumeSummary(name, view.size, attached=attached is not None, frontend=frontend)

    def _lock(self, name: str) -> asyncio.Lock:
        """Whoever makes, deletes, attaches or detaches a volume is alone with it."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads.calls, work)
