"""Volumes are measured in the background and after snapshots; what is idle costs no write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tests.unit.snapshots.memory_api import MemoryApi
from ullage.errors import Impossible, NotNow, UllageError
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Requeue
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.backends.base import Backend, InProgress, TakesTooLong, VolumeHandle
from ullage.snapshots.controllers.volume_measure import VolumeMeasurer
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup
from ullage.snapshots.used import USED
from ullage.times import timestamp

GIB = 1024**3
HOSTPATH = "ullage.io/hostpath"
START = datetime(2026, 1, 1, 10, tzinfo=UTC)
KEY = Key("", "pv")
WRITTEN = ["patch persistentvolumes pv"]


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 5000.0 + self.seconds


class Storage:
    """What would be in volumes, and how often it was asked."""

    driver = HOSTPATH
    node = "here"

    def __init__(self) -> None:
        self.bytes: int | None = GIB
        self.problem: UllageError | None = None
        self.asked: list[str] = []

    async def estimate(self, volume: VolumeHandle, *, owner: str = "") -> int | None:
        self.asked.append(volume.handle)
        assert owner == "", "nobody's: the turns of those who take snapshots are their own"
        if self.problem is not None:
            raise self.problem
        return self.bytes


class World:
    def __init__(self) -> None:
        self.api = MemoryApi()
        self.clock = Clock()
        self.storage = Storage()
        self.volume()
        spec = {"volumeName": "pv", "resources": {"requests": {"storage": "5Gi"}}}
        self.api.put(CLAIMS, {"metadata": {"name": "db", "namespace": "team", "uid": "uid-db"}, "spec": spec})

    def volume(self, **spec: Any) -> None:
        ref = {"namespace": "team", "name": "db", "uid": "uid-db"}
        self.api.put(
            PERSISTENT_VOLUMES,
            {"metadata": {"name": "pv"}, "spec": {"hostPath": {"path": "/volumes/db"}, "claimRef": ref} | spec},
        )

    def snapshot(self, name: str = "snap") -> None:
        """One that has just been taken."""
        cut = timestamp(self.clock.now())
        source = {"persistentVolumeClaimName": "db"}
        meta = {"name": name, "namespace": "team"}
        self.api.put(GA.snapshots, {"metadata": meta, "spec": {"source": source}, "status": {"creationTime": cut}})

    def used(self) -> str | None:
        body = self.api.body(PERSISTENT_VOLUMES, "pv")
        assert body is not None
        found: str | None = body["metadata"].get("annotations", {}).get(USED)
        return found

    @asynccontextmanager
    async def process(self) -> AsyncIterator[Process]:
        api = self.api
        volumes = VolumeLookup(Cache(api, CLAIMS), Cache(api, PERSISTENT_VOLUMES), Cache(api, STORAGE_CLASSES))
        lookups = [
            SnapshotLookup(one, Cache(api, one.snapshots), Cache(api, one.records), Cache(api, one.classes))
            for one in (GA, PROTOTYPE)
        ]
        caches: list[Cache[Any]] = [volumes.claims, volumes.volumes, *(one.snapshots for one in lookups)]
        backends = {HOSTPATH: cast(Backend, self.storage)}
        measurer = VolumeMeasurer(api, volumes, lookups, backends=backends, interval=300, clock=self.clock)
        running = [asyncio.create_task(one.run()) for one in caches]
        try:
            yield Process(self, measurer, caches)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


class Process:
    def __init__(self, world: World, measurer: VolumeMeasurer, caches: list[Cache[Any]]) -> None:
        self._world = world
        self._measurer = measurer
        self._caches = caches

    async def look(self, *, after: float = 0.0) -> Requeue | None:
        """So many seconds later."""
        self._world.clock.seconds += after
        await self.current()
        found = await self._measurer.reconcile(KEY)
        await self.current()
        return found

    async def current(self) -> None:
        async with asyncio.timeout(10):
            for cache in self._caches:
                await cache.reached(self._world.api.version)


async def test_a_volume_that_was_never_measured_is_measured_at_once() -> None:
    world = World()
    async with world.process() as process:
        requeue = await process.look()
    assert world.used() == '{"bytes":1073741824,"at":"2026-01-01T10:00:00Z","by":"measured"}'
    assert world.api.fuse.log == WRITTEN
    assert requeue is not None
    assert 0.9 * 3600 <= requeue.after <= 1.1 * 3600, "nobody takes snapshots of it"


async def test_an_idle_volume_is_looked_at_and_not_written() -> None:
    world = World()
    world.snapshot()
    async with world.process() as process:
        requeue = await process.look(after=1)
        assert requeue is not None
        assert 0.9 * 300 <= requeue.after <= 1.1 * 300
        world.api.fuse.log.clear()
        for _ in range(10):
            await process.look(after=400)
    assert len(world.storage.asked) == 11
    assert world.api.fuse.log == []


async def test_between_two_looks_nobody_is_asked() -> None:
    world = World()
    async with world.process() as process:
        await process.look()
        again = await process.look(after=60)
    assert again is not None
    assert len(world.storage.asked) == 1


async def test_growth_is_written_with_its_time() -> None:
    world = World()
    async with world.process() as process:
        await process.look()
        world.storage.bytes = 2 * GIB
        await process.look(after=4000)
    assert world.used() == '{"bytes":2147483648,"at":"2026-01-01T11:06:40Z","by":"measured"}'


async def test_after_a_snapshot_it_is_measured_at_once_and_only_once() -> None:
    world = World()
    async with world.process() as process:
        await process.look()
        world.clock.seconds += 10
        world.snapshot()
        world.storage.bytes = 3 * GIB
        await process.look(after=1)
        await process.look(after=1)
    assert len(world.storage.asked) == 2
    assert '"bytes":3221225472' in (world.used() or "")


async def test_a_snapshot_within_the_second_in_which_it_was_measured_is_one_after_it() -> None:
    """The times of snapshots are whole seconds."""
    world = World()
    world.clock.seconds = 0.5
    async with world.process() as process:
        await process.look()
        world.clock.seconds = 0.9
        world.snapshot()
        await process.look(after=0.05)
    assert len(world.storage.asked) == 2


async def test_a_new_process_does_not_measure_everything_at_once() -> None:
    world = World()
    world.snapshot()
    async with world.process() as process:
        await process.look(after=1)
    async with world.process() as process:
        requeue = await process.look(after=60)
    assert len(world.storage.asked) == 1
    assert requeue is not None
    assert requeue.after <= 300


async def test_a_look_that_takes_long_is_asked_for_again_soon() -> None:
    world = World()
    world.storage.problem = InProgress("looking at what is in it")
    async with world.process() as process:
        assert await process.look() == Requeue(5.0)
        world.storage.problem = None
        await process.look(after=5)
    assert world.used() is not None


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"claimRef": None}, id="no claim has it"),
        pytest.param({"hostPath": None, "csi": {"driver": "csi.example.com", "volumeHandle": "v"}}, id="another driver's"),
        pytest.param({"hostPath": None, "nfs": {"server": "s", "path": "/"}}, id="of a kind that has no snapshots"),
        pytest.param(
            {
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["there"]}]}
                        ]
                    }
                }
            },
            id="on another node",
        ),
    ],
)
async def test_what_is_not_measured_here(spec: dict[str, Any]) -> None:
    world = World()
    world.volume(**spec)
    async with world.process() as process:
        assert await process.look() is None
    assert (world.storage.asked, world.api.fuse.log) == ([], [])


async def test_a_volume_that_nobody_can_tell_about_gets_no_figure() -> None:
    world = World()
    world.storage.bytes = None
    async with world.process() as process:
        assert await process.look() is None
    assert world.used() is None


async def test_a_volume_whose_files_are_gone_keeps_what_was_last_known() -> None:
    world = World()
    async with world.process() as process:
        await process.look()
        before = world.used()
        world.storage.problem = Impossible("path /volumes/db: No such file or directory")
        assert await process.look(after=4000) == Requeue(3600)
        world.storage.problem = NotNow("/volumes: not mounted")
        with pytest.raises(NotNow):
            await process.look(after=4000)
    assert world.used() == before


async def test_a_volume_that_takes_too_long_is_looked_at_later_and_later_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.storage.problem = TakesTooLong("volume /volumes/db cannot be measured: after 600 s only 1Gi of it were looked at")
    waits = []
    async with world.process() as process:
        for _ in range(7):
            requeue = await process.look()
            assert requeue is not None
            waits.append(requeue.after)
            world.clock.seconds += requeue.after
        assert waits == [3600, 7200, 14400, 28800, 57600, 86400, 86400]
        assert [one.getMessage() for one in caplog.records] == ["a volume takes too long to measure"] * 7
        assert caplog.records[0].__dict__["volume"] == "pv"
        asked = len(world.storage.asked)
        world.snapshot()
        assert await process.look() is not None
        assert len(world.storage.asked) == asked + 1
        world.snapshot("another")
        await process.look(after=10)
        assert len(world.storage.asked) == asked + 1, "nor do snapshots have it looked at any sooner"
        world.storage.problem = None
        await process.look(after=86400)
        assert world.used() is not None
        world.storage.problem = TakesTooLong("it has grown")
        assert await process.look(after=4000) == Requeue(3600), "from the beginning"


async def test_what_we_write_ourselves_wakes_nobody() -> None:
    world = World()
    async with world.process() as process:
        controller = process._measurer.controller()
        await process.current()
        assert [await controller.queue.take()] == [KEY]
        controller.queue.done(KEY)
        await process.look()
        assert len(controller.queue) == 0
        world.snapshot()
        await process.current()
        assert len(controller.queue) == 1
