"""What `snapshots.backends.base` promises, tried on every backend there is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from tests.contract.systems import System
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.snapshots.backends.base import Backend, BackendSnapshot, Creation, Restoration, VolumeHandle

T = TypeVar("T")

MI = 1024 * 1024
BEFORE = {"db/table": b"old" * 50_000, "db/empty": b"", "log": b"one line\n"}
AFTER = {"db/table": b"new" * 60_000, "log": b"one line\nand another\n", "db/later": b"later"}


async def certain(call: Callable[[], Awaitable[T]]) -> T:
    """Asks again as a controller does, as long as the answer does not tell."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await call()
            except Uncertain:
                await asyncio.sleep(0.02)


async def ready(backend: Backend, creation: Creation) -> BackendSnapshot:
    """Creates, and asks again until the snapshot can be used."""
    async with asyncio.timeout(30):
        while True:
            snapshot = await certain(lambda: backend.create(creation))
            if snapshot.ready:
                return snapshot
            await asyncio.sleep(0.02)


async def listed(backend: Backend, volume: str = "") -> list[str]:
    return [snapshot.handle async for snapshot in backend.list(volume)]


async def later(call: Callable[[], Awaitable[T]]) -> T:
    """Asks again as long as the answer is not now."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await call()
            except NotNow:
                await asyncio.sleep(0.02)


def creation(volume: VolumeHandle, name: str = "snapshot-1") -> Creation:
    return Creation(name=name, volume=volume)


def restoration(snapshot: BackendSnapshot, name: str = "pvc-1", *, size: int = 16 * MI) -> Restoration:
    return Restoration(name=name, snapshot=snapshot.handle, size=size)


async def test_a_snapshot_is_of_its_volume_and_cut_while_it_was_taken(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    begun = datetime.now(UTC)
    snapshot = await ready(system.backend, creation(volume))
    assert snapshot.volume == volume.handle
    # A storage system may tell whole seconds only.
    assert begun - timedelta(seconds=1) <= snapshot.cut <= datetime.now(UTC)
    assert snapshot.cut.utcoffset() == timedelta(0)


async def test_creating_again_gives_back_the_same_snapshot_although_the_volume_has_changed(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    first = await ready(system.backend, creation(volume))
    await system.write(volume, AFTER)
    assert await system.backend.create(creation(volume)) == first
    assert await system.snapshots() == 1


async def test_one_name_for_two_volumes_is_impossible_and_harms_nothing(system: System) -> None:
    first = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    other = await system.volume("b", AFTER)
    with pytest.raises((Impossible, Uncertain)):
        await system.backend.create(creation(other))
    assert await system.backend.find(first.handle) == first
    assert await system.snapshots() == 1


async def test_concurrent_creations_of_one_name_make_one_snapshot(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    snapshots = await asyncio.gather(*(ready(system.backend, creation(volume)) for _ in range(5)))
    assert len({(snapshot.handle, snapshot.cut) for snapshot in snapshots}) == 1
    assert await system.snapshots() == 1


async def test_a_volume_that_is_not_there_cannot_have_a_snapshot(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    missing = VolumeHandle(handle=f"{volume.handle}-missing", node=volume.node)
    with pytest.raises(Impossible, match="missing"):
        await system.backend.create(creation(missing))
    assert await system.snapshots() == 0


async def test_restored_data_is_what_it_was_at_the_cut_byte_by_byte(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    snapshot = await ready(system.backend, creation(volume))
    await system.write(volume, AFTER)
    restored = await system.backend.restore(restoration(snapshot))
    assert await system.read(restored) == BEFORE
    assert restored.size >= 16 * MI
    assert restored.handle != volume.handle


async def test_restoring_again_gives_back_the_same_volume_with_what_was_written_to_it(system: System) -> None:
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    first = await system.backend.restore(restoration(snapshot))
    await system.write(VolumeHandle(handle=first.handle, node=first.node), {"written": b"by the application"})
    assert await system.backend.restore(restoration(snapshot)) == first
    assert (await system.read(first))["written"] == b"by the application"
    assert await system.volumes() == 2


async def test_concurrent_restorations_of_one_name_make_one_volume(system: System) -> None:
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    made = await asyncio.gather(*(certain(lambda: system.backend.restore(restoration(snapshot))) for _ in range(5)))
    assert len({one.handle for one in made}) == 1
    assert await system.read(made[0]) == BEFORE
    assert await system.volumes() == 2


async def test_two_volumes_from_one_snapshot_are_apart(system: System) -> None:
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    one, other = [await system.backend.restore(restoration(snapshot, name)) for name in ("pvc-1", "pvc-2")]
    await system.write(VolumeHandle(handle=one.handle, node=one.node), AFTER)
    assert await system.read(other) == BEFORE


async def test_one_name_for_volumes_from_two_snapshots_is_refused(system: System) -> None:
    first = await ready(system.backend, creation(await system.volume("a", BEFORE), "snapshot-1"))
    other = await ready(system.backend, creation(await system.volume("b", AFTER), "snapshot-2"))
    made = await system.backend.restore(restoration(first))
    with pytest.raises((Impossible, Uncertain)):
        await system.backend.restore(restoration(other))
    assert await system.read(made) == BEFORE


async def test_a_restored_volume_can_have_a_snapshot_of_its_own(system: System) -> None:
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    made = await system.backend.restore(restoration(snapshot))
    again = await ready(system.backend, creation(VolumeHandle(handle=made.handle, node=made.node), "snapshot-2"))
    assert await system.read(await system.backend.restore(restoration(again, "pvc-2"))) == BEFORE


async def test_a_restored_volume_outlives_its_snapshot(system: System) -> None:
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    made = await system.backend.restore(restoration(snapshot))
    await system.backend.delete(snapshot.handle)
    assert await system.read(made) == BEFORE


async def test_a_volume_smaller_than_the_snapshot_needs_is_impossible(system: System) -> None:
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    assert snapshot.restore_size
    with pytest.raises(Impossible):
        await system.backend.restore(restoration(snapshot, size=snapshot.restore_size - 1))
    assert await system.volumes() == 1
    exact = await system.backend.restore(restoration(snapshot, size=snapshot.restore_size))
    assert await system.read(exact) == BEFORE


async def test_nothing_can_be_restored_from_a_snapshot_that_is_not_there(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    gone = BackendSnapshot(handle=system.unknown, volume=volume.handle, cut=datetime.now(UTC), ready=True)
    with pytest.raises(Impossible):
        await system.backend.restore(restoration(gone))
    assert await system.volumes() == 1


async def test_a_deleted_snapshot_is_gone_and_can_be_deleted_again(system: System) -> None:
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    for _ in range(2):
        await system.backend.delete(snapshot.handle)
        assert await system.backend.find(snapshot.handle) is None
        assert await system.snapshots() == 0
    await system.backend.delete(system.unknown)


async def test_concurrent_deletions_all_succeed(system: System) -> None:
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    await asyncio.gather(*(certain(lambda: system.backend.delete(snapshot.handle)) for _ in range(5)))
    assert await system.snapshots() == 0


async def test_a_name_can_be_used_again_after_its_snapshot_was_deleted(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    await system.backend.delete((await ready(system.backend, creation(volume))).handle)
    await system.write(volume, AFTER)
    if system.keeps_names:
        with pytest.raises(NotNow, match=r"being deleted"):
            await system.backend.create(creation(volume))
        await ready(system.backend, creation(volume, "another"))
        snapshot = await later(lambda: ready(system.backend, creation(volume)))
    else:
        snapshot = await ready(system.backend, creation(volume))
    assert await system.read(await system.backend.restore(restoration(snapshot))) == {**BEFORE, **AFTER}


async def test_snapshots_are_found_and_listed_by_volume(system: System) -> None:
    a, b = await system.volume("a", BEFORE), await system.volume("b", AFTER)
    snapshots = [await ready(system.backend, creation(volume, name)) for volume, name in ((a, "s-1"), (b, "s-2"), (a, "s-3"))]
    handles = [snapshot.handle for snapshot in snapshots]
    assert [await system.backend.find(handle) for handle in handles] == snapshots
    assert await system.backend.find(system.unknown) is None
    assert sorted(await listed(system.backend)) == sorted(handles)
    assert sorted(await listed(system.backend, a.handle)) == sorted([handles[0], handles[2]])
    assert await listed(system.backend, b.handle) == [handles[1]]
    assert await listed(system.backend, f"{a.handle}-missing") == []


async def test_undo_removes_the_snapshot_and_can_be_repeated(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    snapshot = await ready(system.backend, creation(volume))
    for _ in range(2):
        await system.backend.undo(creation(volume))
        assert await system.snapshots() == 0
    assert await system.backend.find(snapshot.handle) is None


async def test_undo_of_what_was_never_created_leaves_the_rest_alone(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    snapshot = await ready(system.backend, creation(volume))
    await system.backend.undo(creation(volume, "snapshot-2"))
    assert await listed(system.backend) == [snapshot.handle]
    assert await system.snapshots() == 1


async def test_undo_of_a_cancelled_creation_leaves_nothing(system: System) -> None:
    volume = await system.volume("a", BEFORE)
    for turns in range(6):  # cancelled before the first step, and later and later
        task = asyncio.create_task(system.backend.create(creation(volume)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await certain(lambda: system.backend.undo(creation(volume)))
        assert await system.snapshots() == 0


async def test_a_discarded_volume_is_gone_and_can_be_discarded_again(system: System) -> None:
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    made = await system.backend.restore(restoration(snapshot))
    for _ in range(2):
        await system.backend.discard(made.handle)
        assert await system.volumes() == 1
    await system.backend.discard(system.unknown_volume)
    assert await system.backend.find(snapshot.handle) == snapshot
    assert await system.read(await system.backend.restore(restoration(snapshot))) == BEFORE, "its name can be used again"


async def test_sizes_are_in_proportion(system: System) -> None:
    volume = await system.volume("a", {"data": b"x" * MI})
    estimate = await system.backend.estimate(volume)
    snapshot = await ready(system.backend, creation(volume))
    size = await system.backend.size(snapshot.handle)
    for known in (estimate, size, snapshot.restore_size):
        assert known is None or MI <= known <= 16 * MI
    assert await system.backend.size(system.unknown) is None


LITTLE = 256 * 1024  # bytes that a storage system may need besides data: blocks that are filled in part, directories


async def taken(system: System, volume: VolumeHandle, name: str, *, data: int) -> None:
    """A snapshot takes no more than was said, neither is much more than the data. Who says nothing means the capacity."""
    estimate = await certain(lambda: system.backend.estimate(volume))
    snapshot = await ready(system.backend, creation(volume, name))
    size = await certain(lambda: system.backend.size(snapshot.handle))
    assert estimate is None or data <= estimate <= data + LITTLE
    assert size is None or size <= (16 * MI if estimate is None else estimate)
    assert size is None or data <= size <= data + LITTLE


async def test_what_is_not_written_to_meanwhile_takes_no_more_than_was_said(system: System) -> None:
    volume = await system.volume("a", {"db/table": b"x" * 2 * MI, "db/empty": b"", "log": b"one line\n"})
    await taken(system, volume, "snapshot-1", data=2 * MI)


async def test_an_empty_volume_takes_next_to_nothing(system: System) -> None:
    await taken(system, await system.volume("a", {}), "snapshot-1", data=0)


async def test_holes_take_nothing(system: System) -> None:
    volume = await system.volume("a", {})
    await system.write_sparse(volume, size=12 * MI, data=MI)
    await taken(system, volume, "snapshot-1", data=MI)


async def test_an_estimate_follows_what_is_written_at_once(system: System) -> None:
    volume = await system.volume("a", {"data": b"x" * MI})
    before = await system.backend.estimate(volume)
    await system.write(volume, {"more": b"y" * 3 * MI})
    after = await system.backend.estimate(volume)
    assert (before is None) == (after is None)
    assert before is None or after is None or after >= before + 3 * MI
    await taken(system, volume, "snapshot-1", data=4 * MI)


async def test_a_restored_volume_and_its_next_snapshot_are_measured_alike(system: System) -> None:
    volume = await system.volume("a", {"data": b"x" * 2 * MI})
    snapshot = await ready(system.backend, creation(volume))
    made = await system.backend.restore(restoration(snapshot))
    restored = VolumeHandle(handle=made.handle, node=made.node)
    await system.write(restored, {"more": b"y" * MI})
    estimate = await certain(lambda: system.backend.estimate(restored))
    again = await ready(system.backend, creation(restored, "snapshot-2"))
    size = await certain(lambda: system.backend.size(again.handle))
    assert estimate is None or estimate >= MI
    assert size is None or MI <= size <= (16 * MI if estimate is None else estimate)


async def test_a_handle_that_cannot_be_its_own_is_refused_by_name(system: System) -> None:
    if not system.foreign:
        pytest.skip("to this storage system any text may be a handle")
    snapshot = await ready(system.backend, creation(await system.volume("a", BEFORE)))
    for handle in system.foreign:
        for call in (system.backend.find, system.backend.delete, system.backend.size, system.backend.discard):
            with pytest.raises(Impossible, match=r"allowed"):
                await call(handle)
    assert await system.backend.find(snapshot.handle) == snapshot
    assert await system.volumes() == 1
