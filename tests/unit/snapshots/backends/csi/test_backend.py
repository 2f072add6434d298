"""The CSI backend on a real driver that behaves: every verb, each of them twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop

from tests.csi_driver.calls import GIB, make_volume
from tests.csi_driver.running import NAME, RunningDriver, running_driver
from tests.unit.snapshots.backends.csi.drivers import backend_at, creation, restoration
from ullage.errors import BadInput, Uncertain
from ullage.snapshots.backends.base import Backend, Secrets, VolumeHandle
from ullage.snapshots.backends.csi import client
from ullage.snapshots.backends.csi.backend import CsiBackend
from ullage.snapshots.backends.csi.channel import socket_path
from ullage.snapshots.backends.csi.errors import Refused


@pytest.fixture(scope="module")
def driver() -> Iterator[RunningDriver]:
    with running_driver() as running:
        yield running


@pytest.fixture
async def backend(driver: RunningDriver) -> AsyncIterator[CsiBackend]:
    async with backend_at(driver.path) as opened:
        yield opened


@pytest.fixture
def volume(driver: RunningDriver) -> str:
    """A volume of the test's own, with a file in it."""
    handle = make_volume(driver.path, f"vol-{uuid.uuid4()}")
    (driver.data(handle) / "table").write_bytes(b"first")
    return handle


def test_it_is_a_backend(backend: CsiBackend) -> None:
    as_backend: Backend = backend
    assert as_backend.driver == NAME


async def test_a_backend_can_take_the_name_that_the_driver_gives(driver: RunningDriver) -> None:
    async with backend_at(driver.path, driver="") as opened:
        assert opened.driver == NAME


async def test_creating_twice_makes_one(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    asked = creation(volume)
    before = datetime.now(UTC) - timedelta(seconds=1)
    first = await backend.create(asked)
    assert await backend.create(asked) == first
    assert [one.name for one in driver.snapshots() if one.volume == volume] == [asked.name]
    assert (first.volume, first.ready, first.restore_size) == (volume, True, GIB)
    assert before < first.cut < datetime.now(UTC) + timedelta(seconds=1)


async def test_a_snapshot_has_the_data_of_its_cut(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    shot = await backend.create(creation(volume))
    (driver.data(volume) / "table").write_bytes(b"second")
    made = await backend.restore(restoration(shot.handle))
    assert (driver.data(made.handle) / "table").read_bytes() == b"first"


async def test_a_name_that_is_taken_may_be_of_an_earlier_try_of_ours(
    driver: RunningDriver, backend: CsiBackend, volume: str
) -> None:
    asked = creation(volume)
    await backend.create(asked)
    other = make_volume(driver.path, f"vol-{uuid.uuid4()}")
    with pytest.raises(Uncertain, match=f"CreateSnapshot {asked.name} of volume {other}: ALREADY_EXISTS"):
        await backend.create(replace(asked, volume=VolumeHandle(handle=other)))
    assert len([one for one in driver.snapshots() if one.name == asked.name]) == 1


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("x" * 129, "has 129 bytes; CSI allows 1 to 128", id="one byte too long"),
        pytest.param("é" * 65, "has 130 bytes; CSI allows 1 to 128", id="bytes are counted and not letters"),
    ],
)
async def test_a_long_name_is_refused_before_the_driver_sees_it(
    driver: RunningDriver, backend: CsiBackend, volume: str, name: str, problem: str
) -> None:
    with pytest.raises(Refused, match=problem):
        await backend.create(creation(volume, name))
    assert name not in {call.about for call in driver.calls()}


async def test_the_longest_name_is_allowed(backend: CsiBackend, volume: str) -> None:
    assert (await backend.create(creation(volume, uuid.uuid4().hex * 4))).ready


async def test_a_volume_that_is_not_there_is_named(backend: CsiBackend) -> None:
    with pytest.raises(Refused, match="of volume vol-none: NOT_FOUND"):
        await backend.create(creation("vol-none"))


async def test_deleting_twice_is_deleting(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    shot = await backend.create(creation(volume))
    await backend.delete(shot.handle)
    await backend.delete(shot.handle)
    assert [one for one in driver.snapshots() if one.volume == volume] == []


async def test_what_is_there_is_found_and_what_is_not_is_not(backend: CsiBackend, volume: str) -> None:
    shot = await backend.create(creation(volume))
    assert await backend.find(shot.handle) == shot
    await backend.delete(shot.handle)
    assert await backend.find(shot.handle) is None


async def test_a_list_goes_through_all_pages(
    backend: CsiBackend, driver: RunningDriver, volume: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_PAGE", 2)
    made = {(await backend.create(creation(volume))).handle for _ in range(5)}
    asked = len(driver.calls("ListSnapshots"))
    assert {shot.handle async for shot in backend.list(volume)} == made
    assert len(driver.calls("ListSnapshots")) == asked + 3
    assert made <= {shot.handle async for shot in backend.list()}
    assert [shot async for shot in backend.list("vol-none")] == []


async def test_undoing_leaves_nothing_whether_it_was_made_or_not(
    driver: RunningDriver, backend: CsiBackend, volume: str
) -> None:
    made, never = creation(volume), creation(volume)
    await backend.create(made)
    await backend.undo(made)
    await backend.undo(made)
    await backend.undo(never)
    assert [one for one in driver.snapshots() if one.volume == volume] == []


async def test_undoing_what_could_never_be_made_is_done_at_once(backend: CsiBackend) -> None:
    await backend.undo(creation("vol-none"))


async def test_undoing_spares_the_snapshot_of_another_volume(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    asked = creation(volume)
    await backend.create(asked)
    other = make_volume(driver.path, f"vol-{uuid.uuid4()}")
    with pytest.raises(Uncertain):  # it may be our own, taken when things were different
        await backend.undo(replace(asked, volume=VolumeHandle(handle=other)))
    assert [one.name for one in driver.snapshots() if one.volume == volume] == [asked.name]


async def test_restoring_twice_makes_one(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    shot = await backend.create(creation(volume))
    wanted = restoration(shot.handle, size=2 * GIB)
    made = await backend.restore(wanted)
    assert await backend.restore(wanted) == made
    assert [one.id for one in driver.volumes() if one.name == wanted.name] == [made.handle]
    assert made.size == 2 * GIB
    source = {"driver": NAME, "volumeHandle": made.handle, "volumeAttributes": {"name": wanted.name}}
    assert made.source == {"csi": source}


async def test_a_file_system_that_is_asked_for_is_in_the_source(backend: CsiBackend, volume: str) -> None:
    shot = await backend.create(creation(volume))
    made = await backend.restore(replace(restoration(shot.handle), filesystem="xfs"))
    assert made.source["csi"]["fsType"] == "xfs"


async def test_a_raw_device_is_restored_as_one(driver: RunningDriver, backend: CsiBackend) -> None:
    handle = make_volume(driver.path, f"vol-{uuid.uuid4()}", block=True)
    with driver.data(handle).open("r+b") as device:
        device.seek(GIB // 2)
        device.write(b"middle")
    shot = await backend.create(creation(handle))
    made = await backend.restore(restoration(shot.handle, block=True, size=2 * GIB))
    data = driver.data(made.handle)
    assert data.stat().st_size == 2 * GIB
    assert data.stat().st_blocks * 512 < 1 << 20  # holes are still holes
    with data.open("rb") as device:
        device.seek(GIB // 2)
        assert device.read(6) == b"middle"
    assert "fsType" not in made.source["csi"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"size": GIB - 1}, "OUT_OF_RANGE", id="smaller than the snapshot"),
        pytest.param({"snapshot": "snap-none"}, "NOT_FOUND", id="a snapshot that is not there"),
        pytest.param({"access_modes": ("ReadWrite",)}, "accessModes ReadWrite: not known", id="an unknown access mode"),
        pytest.param({"name": "x" * 129}, "has 129 bytes", id="a name that is too long"),
    ],
)
async def test_what_cannot_be_restored_makes_no_volume(
    driver: RunningDriver, backend: CsiBackend, volume: str, change: dict[str, object], problem: str
) -> None:
    wanted = restoration((await backend.create(creation(volume))).handle)
    count = len(driver.volumes())
    with pytest.raises(Refused, match=problem):
        await backend.restore(replace(wanted, **change))  # type: ignore[arg-type]  # a table of one field each
    assert len(driver.volumes()) == count


async def test_discarding_twice_is_discarding(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    made = await backend.restore(restoration((await backend.create(creation(volume))).handle))
    await backend.discard(made.handle)
    await backend.discard(made.handle)
    assert made.handle not in {one.id for one in driver.volumes()}


async def test_secrets_reach_the_driver(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    asked = creation(volume, secrets=Secrets({"password": "hunter2"}))
    shot = await backend.create(asked)
    await backend.delete(shot.handle, secrets=asked.secrets)
    seen = {call.method: call.secrets for call in driver.calls() if call.about in {asked.name, shot.handle}}
    assert seen == {"CreateSnapshot": ["password"], "DeleteSnapshot": ["password"]}


async def test_what_is_in_a_volume_is_not_told(backend: CsiBackend, volume: str) -> None:
    await backend.create(creation(volume))
    assert await backend.estimate(VolumeHandle(handle=volume)) is None, "and that of its last snapshot would be a guess"


@pytest.mark.parametrize("block", [True, False], ids=["a raw device", "a file system"])
async def test_a_snapshot_takes_the_blocks_that_have_data(driver: RunningDriver, backend: CsiBackend, block: bool) -> None:
    volume = await asyncio.to_thread(make_volume, driver.path, f"sized-{block}", size=GIB, block=block)
    disk = driver.data(volume) if block else driver.data(volume) / "disk.img"
    with disk.open("r+b" if block else "wb") as file:
        for number in range(1000):  # more than fit into one answer
            file.seek(number * 65536)
            file.write(b"x")
    shot = await backend.create(creation(volume))
    with disk.open("r+b") as file:
        file.truncate(0)
    assert await backend.size(shot.handle) == 1000 * 4096, "and stays what it was at the cut"
    assert shot.restore_size == GIB


async def test_an_empty_snapshot_takes_nothing(driver: RunningDriver, backend: CsiBackend) -> None:
    volume = await asyncio.to_thread(make_volume, driver.path, "never-written", size=GIB, block=True)
    shot = await backend.create(creation(volume))
    assert await backend.size(shot.handle) == 0


async def test_the_size_of_what_is_not_there_is_not_told(backend: CsiBackend) -> None:
    assert await backend.size("no-such-snapshot") is None


async def test_a_driver_without_the_service_is_not_asked() -> None:
    with running_driver("--without=SNAPSHOT_METADATA_SERVICE") as driver:
        volume = await asyncio.to_thread(make_volume, driver.path, "a")
        async with backend_at(driver.path) as backend:
            shot = await backend.create(creation(volume))
            assert await backend.size(shot.handle) is None
        assert driver.calls("GetMetadataAllocated") == []


def test_it_works_on_uvloop(driver: RunningDriver, volume: str) -> None:
    async def create_and_delete() -> bool:
        async with backend_at(driver.path) as backend:
            shot = await backend.create(creation(volume))
            await backend.delete(shot.handle)
            return shot.ready

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(create_and_delete())


@pytest.mark.parametrize("given", ["unix:///run/csi.sock", "unix:/run/csi.sock", "/run/csi.sock"])
def test_an_address_is_a_path_with_or_without_its_scheme(given: str) -> None:
    assert socket_path(given) == Path("/run/csi.sock")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param("tcp://10.0.0.1:9000", "absolute path of a socket", id="another machine"),
        pytest.param("unix://run/csi.sock", "absolute path of a socket", id="a slash too few"),
        pytest.param("", "absolute path of a socket", id="nothing"),
        pytest.param("/" + "x" * 107, "107 bytes at most, this one 108", id="longer than the kernel allows"),
    ],
)
def test_an_address_that_cannot_be_is_refused(given: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        socket_path(given)


def test_grpc_is_loaded_only_where_a_driver_is_used() -> None:
    script = (
        "import sys, ullage.app, ullage.snapshots.slice, ullage.app.drivers\n"
        "print([name for name in sys.modules if name.partition('.')[0] in {'grpc', 'google'}])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
