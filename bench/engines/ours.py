"""The controllers of engine snapshots under measurement, as `ullage controller` runs them, with engines that are made up.

ours.py upgrade VOLUMES SNAPSHOTS 0       no Snapshot object is there: until all are made, and ready
ours.py cold VOLUMES SNAPSHOTS ROUNDS     all are there: until all is read and looked at; then polls; then one snapshot
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from typing import Any

import uvloop

from bench.engines.moments import tell
from bench.engines.volumes import NS, MadeUpEngines, Scale, volume_name
from ullage.clock import SystemClock
from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUMES, Snapshot, SnapshotSpec
from ullage.engines.model import stamped
from ullage.engines.settings import Settings
from ullage.engines.slice import Options, engines
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.controller import controller as runtime
from ullage.kube.controller.controller import run
from ullage.kube.controller.queue import Queue
from ullage.kube.kinds import Meta
from ullage.kube.slices import Wiring

ROUND = 5.5  # seconds: the longest that a look may be away from the next, so that each engine has one in a round
CALM = 2.0  # seconds of real time before memory is read
EXTRA = "one-more"
ROUNDS_AFTER = 4  # after a snapshot; whatever waits for a moment comes within two


class JumpingClock(SystemClock):
    """The machine's monotonic clock, put forward by hand: ten minutes of polls take as long as the polls themselves do."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


class CountedQueue(Queue[Any]):
    """Notes what it was asked for, and what was reconciled."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.added: Counter[str] = Counter()
        self.run: Counter[str] = Counter()

    def add(self, key: Any, *, after: float = 0.0) -> None:
        self.added[key.name] += 1
        super().add(key, after=after)

    def pop(self) -> Any:
        key = super().pop()
        if key is not None:
            self.run[key.name] += 1
        return key

    def forget(self) -> None:
        self.added.clear()
        self.run.clear()


class Ready:
    """How many snapshots there are, and how many are ready."""

    def __init__(self, cache: Cache[Snapshot]) -> None:
        self.made = self.ready = 0
        self._news = asyncio.Event()
        cache.handle(self._changed)

    def _changed(self, old: Snapshot | None, new: Snapshot | None) -> None:
        self.made += (new is not None) - (old is not None)
        self.ready += _is_ready(new) - _is_ready(old)
        self._news.set()

    async def until(self, *, made: int = 0, ready: int = 0) -> None:
        while self.made < made or self.ready < ready:
            self._news.clear()
            await self._news.wait()


def _is_ready(snapshot: Snapshot | None) -> bool:
    return snapshot is not None and snapshot.status.ready_to_use is True


class Stage:
    """The controllers, and everything that is read off them."""

    def __init__(self, client: Client, scale: Scale) -> None:
        self.scale = scale
        self.writes = 0
        self.client = client
        self.clock = JumpingClock()
        self.engines = MadeUpEngines(scale)
        self.wiring = Wiring(client.guarded(self._writes), clock=self.clock)
        part = engines(Options(settings=Settings(manage=True), engines=lambda wiring: self.engines)).controllers
        assert part is not None
        runtime.Queue = CountedQueue  # type: ignore[attr-defined]  # each controller makes its own
        self.controllers = self.wiring.made(part)
        self.queues: dict[str, Any] = {one.name: one.queue for one in self.controllers}
        self.snapshots = Ready(next(one for one in self.wiring.caches if one.kind is ENGINE_SNAPSHOTS))

    def _writes(self) -> None:
        """Asked before each write, and each repetition of one."""
        self.writes += 1

    async def rest(self) -> None:
        for one in (*self.controllers, *self.controllers):  # the work of one may be work for another
            await one.queue.drained()

    async def round(self) -> None:
        """Has every engine looked at once more, and whatever else waits for a moment done."""
        self.clock.advance(ROUND)
        for one in self.controllers:
            len(one.queue)  # has it look at the clock
        await self.rest()

    def forget(self) -> None:
        self.writes = self.engines.looks = 0
        for queue in self.queues.values():
            queue.forget()

    async def version(self) -> int:
        """The API server's count of writes by anybody."""
        return int((await self.client.list(ENGINE_SNAPSHOTS, NS, labels="no=such")).resource_version)


async def upgrade(stage: Stage) -> None:
    total = stage.scale.objects
    await stage.snapshots.until(made=total)
    tell("made", writes=stage.writes)
    await stage.snapshots.until(ready=total)
    await stage.rest()
    tell("ready", writes=stage.writes)


async def cold(stage: Stage, rounds: int) -> None:
    for cache in stage.wiring.caches:
        await cache.synced.wait()
    tell("read")
    await stage.engines.all_seen.wait()
    await stage.rest()
    tell("synced", writes=stage.writes, ready=stage.snapshots.ready)
    await asyncio.sleep(CALM)
    tell("calm")
    await idle(stage, rounds)
    await one_more(stage)


async def idle(stage: Stage, rounds: int) -> None:
    version = await stage.version()
    await stage.rest()  # a look that is under way would be away from the next for longer than a round
    stage.forget()
    begun, cpu = time.monotonic(), time.process_time()
    for _ in range(rounds):
        await stage.round()
    spent, used = time.monotonic() - begun, time.process_time() - cpu
    added = sum(queue.added.total() for queue in stage.queues.values())
    figures = {"writes": stage.writes, "server": await stage.version() - version, "adds": added}
    tell("idle", looks=stage.engines.looks, spent=spent, used=used, **figures)


async def one_more(stage: Stage) -> None:
    """A snapshot as the webhook lets it through, of the first volume."""
    volume = await stage.client.get(VOLUMES, volume_name(0), NS)
    meta = stamped(Meta(name=EXTRA, namespace=NS), volume)
    body = Snapshot(metadata=meta, spec=SnapshotSpec(volume=volume.metadata.name, create_snapshot=True))
    stage.forget()
    begun, ready = time.monotonic(), stage.snapshots.ready
    await stage.client.create(ENGINE_SNAPSHOTS, body)
    await stage.snapshots.until(ready=ready + 1)
    spent = time.monotonic() - begun
    for _ in range(ROUNDS_AFTER):
        await stage.round()
    keys = {name: {"added": queue.added, "run": queue.run} for name, queue in stage.queues.items()}
    tell("one", spent=spent, writes=stage.writes, keys=keys)


async def main(name: str, volumes: int, snapshots: int, rounds: int) -> None:
    tell("started")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), sys.exit, 1)  # whoever started it holds the other end
    async with Client(Config.load()) as client:
        stage = Stage(client, Scale(volumes, snapshots))
        for manager in stage.wiring.held:
            await manager.__aenter__()
        running = asyncio.create_task(run(stage.wiring.caches, stage.controllers, stop=stop))
        measuring = asyncio.create_task(upgrade(stage) if name == "upgrade" else cold(stage, rounds))
        await asyncio.wait((running, measuring), return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await running
        for manager in reversed(stage.wiring.held):
            await manager.__aexit__(None, None, None)
        await measuring


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], *map(int, sys.argv[2:5])))
