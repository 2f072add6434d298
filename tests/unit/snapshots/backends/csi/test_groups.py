"""Groups on a CSI driver with real files: one call for all, under a name that makes it one, however often it is made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.csi_driver.calls import make_volume
from tests.csi_driver.faults import Fault
from tests.csi_driver.running import NAME, RunningDriver, running_driver
from ullage.errors import Impossible, Uncertain
from ullage.snapshots.backends.base import GroupCreation
from ullage.snapshots.backends.csi.errors import Incapable
from ullage.snapshots.backends.csi.groups import CsiGroupBackend


@pytest.fixture
def driver() -> Iterator[RunningDriver]:
    with running_driver() as running:
        yield running


@pytest.fixture
async def backend(driver: RunningDriver) -> AsyncIterator[CsiGroupBackend]:
    async with CsiGroupBackend.at(driver.path, driver=NAME, timeout=2.0) as made:
        yield made


def creation(driver: RunningDriver, name: str = "groupsnapshot-1", count: int = 2) -> GroupCreation:
    return GroupCreation(name=name, volumes=tuple(make_volume(driver.path, f"{name}-{number}") for number in range(count)))


async def test_a_group_is_made_once_found_and_deleted_with_its_members(driver: RunningDriver, backend: CsiGroupBackend) -> None:
    assert await backend.knows_groups()
    wanted = creation(driver)
    made = await backend.create_group(wanted)
    assert await backend.create_group(wanted) == made
    assert {one.volume for one in made.members} == set(wanted.volumes)
    assert {one.cut for one in made.members} == {made.cut}, "one moment for all"
    handles = [one.handle for one in made.members]
    assert await backend.find_group(made.handle, handles) == made
    await backend.delete_group(made.handle, handles)
    await backend.delete_group(made.handle, handles)
    assert driver.snapshots() == []
    assert await backend.find_group(made.handle, handles) is None


async def test_of_a_group_with_a_volume_that_is_not_there_nothing_is_made(
    driver: RunningDriver, backend: CsiGroupBackend
) -> None:
    wanted = creation(driver)
    with pytest.raises(Impossible, match="NOT_FOUND"):
        await backend.create_group(GroupCreation(name=wanted.name, volumes=(*wanted.volumes, "vol-none")))
    assert driver.snapshots() == []


async def test_what_was_made_without_an_answer_is_undone(driver: RunningDriver, backend: CsiGroupBackend) -> None:
    wanted = creation(driver)
    driver.set(Fault("CreateVolumeGroupSnapshot", "hang", when="after", times=1))
    with pytest.raises(Uncertain):
        await backend.create_group(wanted)
    assert len(driver.snapshots()) == 2
    await backend.undo_group(wanted)
    assert driver.snapshots() == []
    assert driver.groups() == []


async def test_a_driver_that_is_killed_midway_leaves_a_whole_group_or_none(
    driver: RunningDriver, backend: CsiGroupBackend
) -> None:
    wanted = creation(driver)
    driver.set(Fault("CreateVolumeGroupSnapshot", "crash", when="after", times=1))
    with pytest.raises(Uncertain):
        await backend.create_group(wanted)
    driver.set()
    driver.wait()
    driver.start()
    made = await backend.create_group(wanted)
    assert len(made.members) == 2
    assert len(driver.snapshots()) == 2


async def test_a_driver_without_the_service_says_so() -> None:
    with running_driver("--without=GROUP_CONTROLLER_SERVICE") as driver:
        async with CsiGroupBackend.at(driver.path, driver=NAME) as backend:
            assert not await backend.knows_groups()
            with pytest.raises(Incapable, match="takes no snapshots of several volumes in one call"):
                await backend.create_group(creation(driver))
            assert driver.calls("CreateVolumeGroupSnapshot") == []
