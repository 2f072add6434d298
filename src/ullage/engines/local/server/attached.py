"""One attached volume: what an engine's controller adds to the stored volume: a frontend, a lock, and background jobs.

All state here belongs to the event loop; the volume does its work in threads. Changes run one at a time, as in longhorn-
engine: a revert must not meet a frontend that is being started. The frontend is the way to the data, `VolumeRead` and
`VolumeWrite`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from ullage.clock import Clock
from ullage.engines.local.server.jobs import Job
from ullage.engines.local.store.errors import NotFound, Refused
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.views import View
from ullage.engines.local.store.volume import StoredVolume
from ullage.errors import BadInput, Retryable
from ullage.times import timestamp

FRONTEND: Final = "grpc"
MOST_DATA: Final = 4 << 20  # bytes in one call

Result = TypeVar("Result")


class Detached(Retryable):
    """The volume has no engine now."""


class FrontendDown(Retryable):
    """Nobody may read or write now."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Those that answer calls, and those for work that takes long, so that neither waits for the other."""

    calls: Executor
    jobs: Executor


class AttachedVolume:
    """One attached volume."""

    def __init__(self, volume: StoredVolume, *, threads: Threads, clock: Clock) -> None:
        self.volume = volume
        self.frontend_up = False
        self.purge = Job(threads.jobs)
        self.clone = Job(threads.jobs)
        self.cloned = ("", "")  # the snapshot that is or was cloned from another volume, and where that was
        self._threads = threads
        self._clock = clock
        self._lock = asyncio.Lock()
        self._closed = False
        self._moving: set[asyncio.Future[bytes]] = set()

    async def view(self) -> View:
        return await self._run(self.volume.view)

    async def close(self) -> None:
        """Returns when no job works on the volume any more, and none will."""
        self._closed = True
        await self.shut_frontend()
        await self.purge.stop()
        await self.clone.stop()

    # --- changes ------------------------------------------------------------------------------------------------------

    async def snapshot(self, name: str, *, labels: Mapping[str, str], user_created: bool = True, created: str = "") -> str:
        """Without a name it gets one, which is given back."""
        name, created = name or str(uuid.uuid4()), created or self._now()
        async with self._lock:
            await self._run(partial(self.volume.snapshot, name, created=created, user_created=user_created, labels=labels))
        return name

    async def mark_removed(self, name: str) -> None:
        await self._run(partial(self.volume.mark_removed, name))

    async def revert(self, name: str) -> None:
        async with self._lock:
            entry = (await self.view()).entries.get(name)
            if self.frontend_up and entry is not None and not entry.removed:
                raise Refused("volume frontend enabled, aborting snapshot revert")
            await self._run(partial(self.volume.revert, name, created=self._now()))

    async def expand(self, size: int) -> None:
        if size % BLOCK:
            raise Refused(f"requested expansion size {size} not multiple of volume sector size {BLOCK}")
        async with self._lock:
            await self._run(partial(self.volume.expand, size, created=self._now()))

    async def set_max_count(self, count: int) -> None:
        await self._run(partial(self.volume.set_max_count, count))

    async def set_max_size(self, size: int) -> None:
        await self._run(partial(self.volume.set_max_size, size))

    def start_purge(self) -> None:
        self._check_open()
        if self.purge.running:
            raise Refused("replica is already purging snapshots")
        self.purge.start(lambda progress, cancelled: self.volume.purge(progress=progress, cancelled=cancelled))

    async def clone_from(self, source: StoredVolume, snapshot: str, *, address: str) -> None:
        """Ends when the copy is whole, or fails."""
        if snapshot not in (await self._run(source.view)).entries:
            raise NotFound(f"cannot find snapshot {snapshot} in the source replica {address}")
        self._check_open()
        if self.clone.running:
            busy, origin = self.cloned
            raise Refused(f"replica is cloning snapshot {busy} from replica address {origin}")
        self.cloned = (snapshot, address)
        clone = partial(self.volume.clone_from, source, snapshot, created=self._now())
        await self.clone.start(lambda progress, cancelled: clone(progress=progress, cancelled=cancelled))
        if self.clone.error:
            raise Refused(self.clone.error)

    # --- the frontend -------------------------------------------------------------------------------------------------

    async def start_frontend(self, name: str) -> None:
        if not name:
            raise Refused("cannot start empty frontend")
        if name != FRONTEND:
            raise Refused(f"failed to find frontend: {name}; {FRONTEND} is allowed")
        async with self._lock:
            self._check_open()
            self.frontend_up = True

    async def shut_frontend(self) -> None:
        """Returns when no read or write is under way."""
        async with self._lock:
            self.frontend_up = False
            while self._moving:
                await asyncio.wait(self._moving)

    async def read(self, offset: int, length: int) -> bytes:
        return await self._move(length, partial(self.volume.read_at, offset, length))

    async def write(self, offset: int, data: bytes, *, sync: bool) -> None:
        def write() -> bytes:
            self.volume.write_at(offset, data)
            if sync:
                self.volume.sync()
            return b""

        await self._move(len(data), write)

    async def _move(self, length: int, work: Callable[[], bytes]) -> bytes:
        if not self.frontend_up:
            raise FrontendDown(f"the frontend of volume {self.volume.name} is down")
        if length > MOST_DATA:
            raise BadInput("length", f"{length} bytes", f"{MOST_DATA} bytes at a time are allowed")
        moving = asyncio.ensure_future(self._run(work))
        self._moving.add(moving)
        moving.add_done_callback(self._moving.discard)
        return await moving

    def _check_open(self) -> None:
        if self._closed:
            raise Detached(f"volume {self.volume.name} is not attached")

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads.calls, work)

    def _now(self) -> str:
        return timestamp(self._clock.now())
