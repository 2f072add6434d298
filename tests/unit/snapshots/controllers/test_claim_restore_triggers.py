"""The controllers as they run: what wakes a claim, and what does not make it run in circles. In virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.snapshots.controllers.cluster import NAME, World
from ullage.errors import Impossible, NotNow
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller, run
from ullage.kube.slices import Part, Wiring
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.controllers.claim_restore import Restorer
from ullage.snapshots.controllers.volume_reclaim import Reclaimer
from ullage.snapshots.data_source import RESTORING
from ullage.snapshots.lookup import kinds_of, snapshot_lookup, volume_lookup


@contextlib.asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    wiring = Wiring(cast(Client, world.api), clock=VirtualClock())

    def make(wiring: Wiring) -> list[Controller[Key]]:
        lookups = [snapshot_lookup(wiring, dialect) for dialect in (GA, PROTOTYPE)]
        volumes, clock = volume_lookup(wiring), wiring.clock
        restorer = Restorer(wiring.client, volumes, lookups, backends=world.backends, recorder=world.told, clock=clock)
        reclaimer = Reclaimer(wiring.client, volumes, backends=world.backends, recorder=world.told, clock=clock)
        return [restorer.controller(metrics=wiring.metrics), reclaimer.controller(metrics=wiring.metrics)]

    controllers = wiring.made(Part(make=make, watches=kinds_of((GA, PROTOTYPE))))
    stop = asyncio.Event()
    task = asyncio.create_task(run(wiring.caches, controllers, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def calm(world: World) -> None:
    """Long enough for everything that wants to happen at once, and for nothing that waits for its backoff."""
    await asyncio.sleep(0.01)


Step = Callable[[World], None]


def class_there(world: World) -> None:
    world.storage_class()


def snapshot_there(world: World) -> None:
    world.snapshot()


def claim_there(world: World) -> None:
    world.claim()


def not_ready(world: World) -> None:
    world.snapshot(ready=False)


def ready_snapshot(world: World) -> None:
    world.api.edit(GA.snapshots, "snap", "team", merge={"status": {"readyToUse": True}})


def ready_record(world: World) -> None:
    world.api.edit(GA.records, "content", merge={"status": {"readyToUse": True}})


@pytest.mark.parametrize(
    ("steps", "reasons"),
    [
        pytest.param([class_there, snapshot_there, claim_there], [], id="the claim comes last"),
        pytest.param([snapshot_there, claim_there, class_there], ["NoStorageClass"], id="the class comes last"),
        pytest.param([class_there, claim_there, snapshot_there], ["SnapshotNotFound"], id="the snapshot comes last"),
        pytest.param(
            [class_there, not_ready, claim_there, ready_snapshot, ready_record],
            ["SnapshotNotReady", "SnapshotNotReady"],
            id="the record is ready last",
        ),
        pytest.param(
            [class_there, not_ready, claim_there, ready_record, ready_snapshot],
            ["SnapshotNotReady", "SnapshotNotReady"],
            id="the snapshot is ready last",
        ),
    ],
)
def test_a_claim_is_filled_as_soon_as_the_last_thing_is_there(steps: list[Step], reasons: list[str]) -> None:
    async def main() -> World:
        world = World()
        async with running(world):
            for step in steps:
                assert world.volume() is None
                step(world)
                await calm(world)
        return world

    world = in_virtual_time(main())
    assert list(world.storage.volumes.values()) == [NAME]
    assert world.finalizers() == ["kubernetes.io/pvc-protection"]
    assert list(dict.fromkeys(world.told.reasons[:-1])) == list(dict.fromkeys(reasons))
    assert world.told.reasons[-1] == "Restored"


def test_a_volume_is_reclaimed_when_its_claim_goes() -> None:
    async def main() -> World:
        world = World().everything()
        async with running(world):
            await calm(world)
            world.bind()
            await calm(world)
            assert world.volume() is not None
            world.delete_claim()
            await calm(world)
        return world

    world = in_virtual_time(main())
    assert (world.volume(), world.storage.volumes) == (None, {})


def failing(error: Exception) -> Callable[[], None]:
    def outcome() -> None:
        raise error

    return outcome


async def asked_within(seconds: float, error: Exception, also: Callable[[World], Awaitable[None]] | None = None) -> World:
    world = World().everything()
    world.storage.before = failing(error)
    async with running(world):
        await asyncio.sleep(seconds)
        if also is not None:
            await also(world)
    return world


def test_what_is_impossible_is_tried_once_until_something_changes() -> None:
    async def touched(world: World) -> None:
        assert len(world.storage.asked) == 1
        world.api.edit(CLAIMS, "copy", "team", merge={"metadata": {"labels": {"try": "again"}}})
        await asyncio.sleep(600)

    world = in_virtual_time(asked_within(600, Impossible("no"), touched))
    assert len(world.storage.asked) == 2
    assert RESTORING not in world.finalizers()


def test_what_was_impossible_is_tried_again_after_a_long_time_though_nothing_changed() -> None:
    """The Secret or the driver may have been mended: nothing tells of that."""

    async def mended(world: World) -> None:
        assert len(world.storage.asked) == 1
        world.storage.before = lambda: None
        await asyncio.sleep(3600)

    world = in_virtual_time(asked_within(600, Impossible("no"), mended))
    assert len(world.storage.asked) == 2
    assert world.told.reasons == ["RestoreFailed", "Restored"]


def test_a_volume_whose_deletion_was_refused_is_tried_again_after_a_long_time() -> None:
    async def main() -> World:
        world = World().everything()
        async with running(world):
            await calm(world)
            world.bind()
            world.storage.discarding = failing(Impossible("the password is wrong"))
            world.delete_claim()
            await asyncio.sleep(60)
            assert world.volume() is not None
            world.storage.discarding = lambda: None
            await asyncio.sleep(3600)
        return world

    world = in_virtual_time(main())
    assert (world.volume(), world.storage.volumes) == (None, {})
    assert ("Warning", "VolumeDeleteFailed", REFUSED) in world.told.events


REFUSED = (
    "the password is wrong; it is tried again when it changes, or after 30 minutes; to leave the data, delete the"
    " PersistentVolume and take finalizer ullage.io/restored-volume off it"
)


def test_what_may_work_later_is_tried_less_and_less_often() -> None:
    world = in_virtual_time(asked_within(600, NotNow("full")))
    # 0.02 s doubled up to 60 s: twelve tries in the first minute or so, one a minute after that.
    assert 18 <= len(world.storage.asked) <= 24
    assert RESTORING not in world.finalizers()


def test_claims_without_a_snapshot_cost_nothing() -> None:
    async def main() -> World:
        world = World()
        world.storage_class()
        world.claim(dataSourceRef=None)
        async with running(world):
            await asyncio.sleep(60)
        return world

    world = in_virtual_time(main())
    assert (world.api.fuse.log, world.told.events) == ([], [])


def test_the_prototype_is_restored_too() -> None:
    async def main() -> World:
        world = World()
        world.storage_class()
        prototype_snapshot(world)
        world.claim(dataSourceRef={"apiGroup": PROTOTYPE.snapshots.group, "kind": "VolumeSnapshot", "name": "snap"})
        async with running(world):
            await calm(world)
        return world

    world = in_virtual_time(main())
    assert list(world.storage.volumes.values()) == [NAME]


def prototype_snapshot(world: World) -> None:
    ready: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    world.api.put(
        PROTOTYPE.snapshots,
        {
            "metadata": {"name": "snap", "namespace": "team"},
            "spec": {"persistentVolumeClaimName": "db", "snapshotDataName": "data"},
            "status": ready | {"snapshotDataName": "data"},
        },
    )
    ref = {"kind": "VolumeSnapshot", "namespace": "team", "name": "snap", "uid": "uid-snap"}
    source = {"driver": "csi.example.com", "snapshotHandle": "shot-1"}
    spec = {"volumeSnapshotRef": ref, "csiVolumeSnapshotSource": source}
    world.api.put(PROTOTYPE.records, {"metadata": {"name": "data"}, "spec": spec, "status": ready})
