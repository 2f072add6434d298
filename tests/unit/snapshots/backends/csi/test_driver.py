"""The driver that the CSI tests count on: real copies, nothing half done after kill -9, faults that do what they say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.csi_driver.calls import GIB, make_volume
from tests.csi_driver.copies import allocated, copy_tree
from tests.csi_driver.faults import Fault
from tests.csi_driver.running import RunningDriver, running_driver
from tests.unit.snapshots.backends.csi.drivers import backend_at, creation, until
from ullage.errors import Uncertain


@pytest.fixture
def driver() -> Iterator[RunningDriver]:
    with running_driver() as running:
        yield running


def test_a_copy_has_everything_and_takes_no_more_room(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep" / "empty").mkdir(parents=True)
    (source / "script").write_text("#!/bin/sh\n")
    (source / "script").chmod(0o750)
    (source / "deep" / "link").symlink_to("/nowhere")
    with (source / "deep" / "sparse").open("wb") as file:
        for offset in (0, 8 << 20, 64 << 20):
            file.seek(offset)
            file.write(b"x" * 5000)
        file.truncate(100 << 20)
    copy_tree(source, target)
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == [
        "deep", "deep/empty", "deep/link", "deep/sparse", "script",
    ]  # fmt: skip
    assert (target / "script").stat().st_mode & 0o777 == 0o750
    assert os.readlink(target / "deep" / "link") == "/nowhere"
    assert (target / "deep" / "sparse").read_bytes() == (source / "deep" / "sparse").read_bytes()
    assert allocated(target) <= allocated(source) + 4096


def test_what_a_killed_driver_was_at_is_gone_and_the_rest_is_there(driver: RunningDriver) -> None:
    volume = make_volume(driver.path, "vol")
    driver.kill()
    half_done = driver.state / "staging" / "half-done"
    half_done.mkdir()
    driver.start()
    assert not half_done.exists()
    assert [one.id for one in driver.volumes()] == [volume]
    assert make_volume(driver.path, "vol") == volume


def test_a_driver_ends_with_whoever_started_it(driver: RunningDriver) -> None:
    driver.hang_up()
    driver.wait()


async def test_work_goes_on_when_the_caller_hangs_up_and_is_not_begun_twice(driver: RunningDriver) -> None:
    volume = make_volume(driver.path, "vol")
    pipe = driver.data(volume) / "pipe"
    os.mkfifo(pipe)  # to copy it takes until somebody opens its other end
    async with backend_at(driver.path, timeout=1.0) as backend:
        with pytest.raises(Uncertain, match="DEADLINE_EXCEEDED"):
            await backend.create(creation(volume, "s1"))
        with pytest.raises(Uncertain, match="ABORTED: an operation on s1 is under way"):
            await backend.create(creation(volume, "s1"))
        assert driver.snapshots() == []
        os.close(os.open(pipe, os.O_WRONLY))

        async def made() -> bool:
            return bool(driver.snapshots())

        await until(made)
        assert (await backend.create(creation(volume, "s1"))).handle == driver.snapshots()[0].id
    assert len(driver.snapshots()) == 1


def test_a_full_driver_refuses() -> None:
    with running_driver(f"--capacity={2 * GIB}") as driver:
        make_volume(driver.path, "a")
        with pytest.raises(grpc.RpcError) as refused:
            make_volume(driver.path, "b", size=GIB + 1)
        assert isinstance(refused.value, grpc.Call)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        make_volume(driver.path, "b", size=GIB)


async def test_a_fault_hits_what_it_matches_as_often_as_it_says(driver: RunningDriver) -> None:
    volume = make_volume(driver.path, "vol")
    driver.set(Fault("CreateSnapshot", "ABORTED", times=2, match="-b"))
    async with backend_at(driver.path) as backend:
        await backend.create(creation(volume, "snap-a"))
        for _ in range(2):
            with pytest.raises(Uncertain):
                await backend.create(creation(volume, "snap-b"))
        await backend.create(creation(volume, "snap-b"))
    calls = [(call.about, call.outcome) for call in driver.calls("CreateSnapshot")]
    assert calls == [("snap-a", "OK"), ("snap-b", "ABORTED"), ("snap-b", "ABORTED"), ("snap-b", "OK")]
