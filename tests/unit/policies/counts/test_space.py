"""`deleteOldest` for limits on snapshot space: the oldest go until the new one fits, and only if it would."""

from __future__ import annotations

import asyncio

from tests.unit.policies.counts.scene import CountScene, counted
from tests.unit.space.scene import OURS, backup_of, record_of
from ullage.snapshots.api.ga.translation import GA
from ullage.vms.api.backups import VM_BACKUPS


def bytes_of(amount: int) -> str:
    return f'{{"snapshots/namespace":{{"storage":"{amount}"}}}}'


def filled(scene: CountScene, *sizes: int, limit: int) -> None:
    scene.limits(all=limit)
    scene.claim("disk", head=50)
    for n, size in enumerate(sizes):
        scene.snapshot(f"old-{n}", stamp=bytes_of(size))
    scene.limit(snapshots=100, oldest=True)


@counted
async def test_as_many_of_the_oldest_go_as_it_takes(scene: CountScene) -> None:
    filled(scene, 20, 20, 20, 40, limit=100)
    async with scene.served(leader=True):
        first = await scene.create("new")
        assert first.code == 429
        assert "snapshots/namespace storage: asked 50 bytes, used" in first.message
        assert "The oldest, old-0, old-1, old-2, are being deleted for it" in first.message
        assert (await scene.insist("new")).allowed
        await asyncio.sleep(60)
    assert scene.server.deleted == ["old-0", "old-1", "old-2"]


@counted
async def test_where_all_of_them_would_not_do_none_goes(scene: CountScene) -> None:
    filled(scene, 20, 20, limit=100)
    scene.snapshot("kept", stamp=bytes_of(60), protected="true")
    async with scene.served(leader=True):
        refused = await scene.create("new")
        await asyncio.sleep(30)
    assert refused.code == 403
    assert "1 is protected" in refused.message
    assert not scene.server.deleted


@counted
async def test_one_whose_bytes_stay_with_its_record_makes_no_room_for_bytes(scene: CountScene) -> None:
    scene.limits(all=100)
    scene.claim("disk", head=50)
    for name in ("retained", "deleted"):
        scene.snapshot(name, stamp=bytes_of(50))
        record = record_of(GA, f"uid-{name}", name, cut=True)
        record["spec"]["deletionPolicy"] = "Retain" if name == "retained" else "Delete"
        record["status"]["snapshotHandle"] = f"snap://{name}"
        scene.store(GA.records, record)
    scene.limit(snapshots=100, oldest=True)
    async with scene.served(leader=True):
        assert (await scene.insist("new")).allowed
    assert scene.server.deleted == ["deleted"]


@counted
async def test_a_backup_of_a_virtual_machine_has_room_made_too(scene: CountScene) -> None:
    filled(scene, 60, 40, limit=100)
    scene.vm("db", "disk")
    async with scene.served(leader=True):
        assert (await scene.submit(VM_BACKUPS, backup_of("b", "db"))).code == 429
        await asyncio.sleep(2)
        assert (await scene.submit(VM_BACKUPS, backup_of("b", "db"))).allowed
    assert scene.server.deleted == ["old-0"]


@counted
async def test_one_that_grows_before_its_cut_is_refused_as_ever(scene: CountScene) -> None:
    """Its volume may be frozen meanwhile: nobody is kept waiting there."""
    filled(scene, 90, limit=100)
    scene.claim("tiny", head=5)
    async with scene.served(leader=True):
        assert (await scene.create("new", "tiny")).allowed
        raised = await scene.annotate(GA.snapshots, "new", user=OURS, takes=bytes_of(20))
        await asyncio.sleep(30)
    assert raised.code == 403
    assert not scene.server.deleted


@counted
async def test_a_limit_of_a_virtual_machine_takes_from_its_own_snapshots(scene: CountScene) -> None:
    scene.limits(all=1000, vms={"db": 100})
    scene.claim("disk", head=50)
    scene.vm("db", "disk")
    scene.snapshot("others", stamp=bytes_of(300))
    scene.snapshot("own", stamp='{"snapshots/namespace":{"storage":"80"},"snapshots/vm/db":{"storage":"80"}}')
    scene.limit(snapshots=100, oldest=True)
    async with scene.served(leader=True):
        assert (await scene.insist("new")).allowed
    assert scene.server.deleted == ["own"]
    assert "others" in scene.names()
