"""What the driver told of a volume's last snapshot stands on the volume where its class asks for that, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.snapshots.memory_api import MemoryApi
from ullage.clock import SystemClock
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.controllers.volume.last_size.controller import LastSizes
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup
from ullage.snapshots.model import SIZE
from ullage.snapshots.settings import HOSTPATH, Settings
from ullage.snapshots.used import ESTIMATE_BY, USED

DRIVER = "csi.example.com"
FIRST, SECOND = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"
MEASURED = '{"bytes":700,"at":"2026-01-01T00:00:00Z","by":"measured"}'


def by_last(size: int, at: str = FIRST) -> str:
    return f'{{"bytes":{size},"at":"{at}","by":"last-snapshot"}}'


class Told:
    """A recorder."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def record(self, kind: Any, regarding: Any, reason: Any, *, note: str, related: Any = None) -> None:
        self.notes.append(f"{regarding.metadata.name}: {reason.name}: {note}")


class World:
    def __init__(self) -> None:
        self.api, self.told = MemoryApi(), Told()
        spec = {"volumeName": "pv", "resources": {"requests": {"storage": "8Ki"}}}
        self.api.put(CLAIMS, {"metadata": {"name": "db", "namespace": "team", "uid": "uid-db"}, "spec": spec})
        self.storage_class()
        self.volume()

    def storage_class(self, ask: str | None = "last-snapshot") -> None:
        annotations = {ESTIMATE_BY: ask} if ask is not None else {}
        self.api.put(STORAGE_CLASSES, {"metadata": {"name": "fast", "annotations": annotations}, "provisioner": DRIVER})

    def volume(self, *, used: str = "", driver: str = DRIVER, storage_class: str = "fast") -> None:
        ref = {"namespace": "team", "name": "db", "uid": "uid-db"}
        source = {"csi": {"driver": driver, "volumeHandle": "vol-1"}}
        if driver == HOSTPATH:
            source = {"hostPath": {"path": "vol-1"}}
        meta = {"name": "pv", "annotations": {USED: used} if used else {}}
        spec = {**source, "claimRef": ref, "storageClassName": storage_class, "capacity": {"storage": "8Ki"}}
        self.api.put(PERSISTENT_VOLUMES, {"metadata": meta, "spec": spec})

    def snapshot(self, name: str = "snap", *, at: str = FIRST, size: str = "1024", bound_to: str = "", **changes: Any) -> None:
        source = {"persistentVolumeClaimName": "db"}
        content = f"snapcontent-uid-{name}"
        status = {"boundVolumeSnapshotContentName": content}
        self.api.put(
            GA.snapshots, {"metadata": {"name": name, "namespace": "team"}, "spec": {"source": source}, "status": status}
        )
        ref = {"namespace": "team", "name": name, "uid": bound_to or f"uid-{name}"}
        given = {"driver": DRIVER, "source": {"volumeHandle": "vol-1"}, **changes}
        spec = {"deletionPolicy": "Delete", "volumeSnapshotRef": ref, **given}
        cut = {"snapshotHandle": f"shot-{name}", "creationTime": _nanoseconds(at), "readyToUse": True, "restoreSize": 4096}
        meta = {"name": content, "annotations": {SIZE: size} if size else {}}
        self.api.put(GA.records, {"metadata": meta, "spec": spec, "status": cut})

    def used(self) -> str:
        body = self.api.body(PERSISTENT_VOLUMES, "pv")
        assert body is not None
        found: str = body["metadata"].get("annotations", {}).get(USED, "")
        return found

    @asynccontextmanager
    async def process(self) -> AsyncIterator[LastSizes]:
        api = self.api
        volumes = VolumeLookup(Cache(api, CLAIMS), Cache(api, PERSISTENT_VOLUMES), Cache(api, STORAGE_CLASSES))
        lookups = [
            SnapshotLookup(one, Cache(api, one.snapshots), Cache(api, one.records), Cache(api, one.classes))
            for one in (GA, PROTOTYPE)
        ]
        caches: list[Cache[Any]] = [volumes.claims, volumes.volumes, volumes.classes]
        caches += [cache for one in lookups for cache in (one.snapshots, one.records)]
        settings = Settings(drivers={DRIVER: "here", HOSTPATH: "here"})
        made = LastSizes(api, volumes, lookups, settings=settings, recorder=self.told, clock=SystemClock())
        running = [asyncio.create_task(one.run()) for one in caches]
        try:
            async with asyncio.timeout(10):
                for cache in caches:
                    await cache.reached(api.version)
            yield made
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def look(self) -> str:
        """What stands on the volume after one look."""
        async with self.process() as made:
            await made.reconcile(Key("", "pv"))
        return self.used()


def _nanoseconds(at: str) -> int:
    return {FIRST: 1767261600, SECOND: 1767265200}[at] * 10**9


async def test_the_size_of_the_last_snapshot_is_written_and_the_class_says_by_how_much_a_limit_may_be_passed() -> None:
    world = World()
    world.snapshot("old")
    world.snapshot("new", at=SECOND, size="2048")
    assert await world.look() == by_last(2048, SECOND)
    assert world.told.notes == [
        "fast: EstimatedByLastSnapshot: volume pv: its last snapshot takes 2Ki. Estimated: the next may pass by up to 6Ki"
    ]
    writes = len(world.api.fuse.log)
    assert await world.look() == by_last(2048, SECOND)
    assert len(world.api.fuse.log) == writes, "what is known is not written again"


async def test_where_no_blocks_are_told_of_the_size_of_a_restored_volume_counts() -> None:
    world = World()
    world.snapshot(size="")
    assert await world.look() == by_last(4096)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda world: world.storage_class(None), id="the class does not ask"),
        pytest.param(lambda world: world.storage_class("guess"), id="the class asks for what there is not"),
        pytest.param(lambda world: world.volume(storage_class="another"), id="it has no class"),
        pytest.param(lambda world: world.volume(driver=HOSTPATH), id="it is measured"),
        pytest.param(lambda world: world.volume(driver="csi.example.org"), id="its driver is another's"),
        pytest.param(lambda world: world.snapshot(bound_to="uid-of-another"), id="the record is of another snapshot"),
        pytest.param(lambda world: world.snapshot(source={"volumeHandle": "vol-2"}), id="the record is of another volume"),
        pytest.param(lambda world: world.snapshot(source={"snapshotHandle": "shot-1"}), id="it was imported"),
        pytest.param(lambda world: world.snapshot(driver="csi.example.org"), id="the record is of another driver"),
    ],
)
async def test_nothing_is_written_where(change: Any) -> None:
    world = World()
    world.snapshot()
    change(world)
    assert await world.look() == ""
    assert world.told.notes == []


async def test_a_class_that_asks_no_more_has_it_taken_away_and_what_was_measured_stays() -> None:
    world = World()
    world.snapshot()
    world.storage_class(None)
    world.volume(used=by_last(1024))
    assert await world.look() == ""
    world.volume(used=MEASURED)
    assert await world.look() == MEASURED


async def test_what_is_known_of_a_later_snapshot_stays_when_that_is_deleted() -> None:
    world = World()
    world.snapshot()
    world.volume(used=by_last(7, SECOND))
    assert await world.look() == by_last(7, SECOND)
