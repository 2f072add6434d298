"""The host of the embedded engines: volumes come and go, are attached and detached, and nothing gets lost on the way."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest
from google.protobuf.empty_pb2 import Empty

from tests.unit.engines.embedded import MIB, SIZE, VOLUME, Scene, host_in, scene_in
from ullage.clock import FakeClock
from ullage.engines.client.errors import Reason
from ullage.engines.client.host import HostVolume
from ullage.engines.local.server.server import serving
from ullage.engines.local.store.purge import Cancelled, Progress
from ullage.engines.local.store.volume import StoredVolume
from ullage.engines.protocol.controller_pb2_grpc import ControllerServiceStub
from ullage.errors import BadInput, Impossible, NotNow, Retryable


@pytest.fixture
async def directory() -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory(prefix="engine-") as directory:
        yield Path(directory)


@pytest.fixture
async def scene(directory: Path) -> AsyncIterator[Scene]:
    async with scene_in(directory) as scene:
        yield scene


def volume(name: str, *, attached: bool = False, frontend: str = "", damage: str = "", size: int = SIZE) -> HostVolume:
    return HostVolume(name=name, size=size, attached=attached, frontend=frontend, damage=damage)


async def test_a_volume_is_made_once_attached_detached_and_deleted(directory: Path) -> None:
    async with host_in(directory) as host:
        for _ in range(2):  # every call may be repeated
            assert await host.create("a", size=SIZE) == volume("a")
        for _ in range(2):
            assert await host.attach("a") == volume("a", attached=True, frontend="grpc")
        assert await host.attach("a", frontend=False) == volume("a", attached=True)
        for _ in range(2):
            assert await host.detach("a") == volume("a")
        assert await host.list() == (volume("a"),)
        for _ in range(2):
            await host.delete("a")
        assert await host.list() == ()


async def test_a_volume_of_another_size_is_not_taken_for_the_one_that_was_asked_for(scene: Scene) -> None:
    with pytest.raises(Impossible, match="already existing") as caught:
        await scene.host.create(VOLUME, size=2 * SIZE)
    assert caught.value.reason is Reason.EXISTS


async def test_volumes_do_not_see_each_other(scene: Scene) -> None:
    await scene.host.create("other", size=SIZE)
    await scene.host.attach("other")
    await scene.write(0, b"mine")
    await scene.engine.snapshot("one")
    assert await scene.host.read("other", offset=0, length=4) == bytes(4)
    assert "one" not in (await scene.host.engine("other").snapshots()).entries


async def test_what_is_larger_than_a_message_is_read_and_written(scene: Scene) -> None:
    data = bytes(range(251)) * (6 * MIB // 251)
    await scene.host.write(VOLUME, offset=100, data=data, sync=True)
    assert await scene.read(0, SIZE) == bytes(100) + data + bytes(SIZE - 100 - len(data))


async def test_nobody_reads_or_writes_without_a_frontend(scene: Scene) -> None:
    await scene.engine.shut_frontend()
    for call in (scene.read(0, 1), scene.write(0, b"x")):
        with pytest.raises(NotNow) as caught:
            await call
        assert caught.value.reason is Reason.FRONTEND_DOWN
    await scene.engine.start_frontend(scene.frontend)
    assert await scene.read(0, 1) == b"\0"


async def test_after_a_restart_nothing_is_attached_and_everything_is_there(directory: Path) -> None:
    async with scene_in(directory) as scene:
        await scene.write(5, b"kept")
        await scene.engine.snapshot("one")
    async with host_in(directory) as host:
        assert await host.list() == (volume(VOLUME),)
        with pytest.raises(NotNow) as caught:
            await host.engine(VOLUME).state()
        assert caught.value.reason is Reason.DETACHED
        await host.attach(VOLUME)
        assert await host.read(VOLUME, offset=5, length=4) == b"kept"
        assert "one" in (await host.engine(VOLUME).snapshots()).entries


async def test_a_damaged_volume_is_shown_and_hides_no_other(directory: Path) -> None:
    async with host_in(directory) as host:
        await host.create("bad", size=SIZE)
        await host.create("good", size=SIZE)
    (directory / "volumes" / "bad" / "volume-head-000.img").unlink()
    async with host_in(directory) as host:
        bad, good = await host.list()
        assert (bad.name, bad.size, "volume-head-000.img missing" in bad.damage) == ("bad", 0, True)
        assert good == volume("good")
        with pytest.raises(Impossible) as caught:
            await host.attach("bad")
        assert caught.value.reason is Reason.DAMAGED
        await host.delete("bad")
        assert await host.list() == (volume("good"),)


# --- work that goes on by itself ---------------------------------------------------------------------------------------


class Stuck:
    """A purge that goes on until it is stopped, or let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()
        self.stopped = False

    def purge(self, _: StoredVolume, *, progress: Progress, cancelled: Cancelled) -> bool:
        self.begun.set()
        progress(40)
        while not self.release.wait(0.005):
            if cancelled():
                self.stopped = True
                return False
        return True


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Stuck:
    stuck = Stuck()
    monkeypatch.setattr(StoredVolume, "purge", lambda volume, **given: stuck.purge(volume, **given))
    return stuck


async def test_how_far_a_purge_is_can_be_seen_and_a_second_one_waits(scene: Scene, stuck: Stuck) -> None:
    await scene.engine.purge()
    await asyncio.to_thread(stuck.begun.wait, 10)
    (status,) = (await scene.engine.purge_status()).values()
    assert (status.purging, status.progress, status.state) == (True, 40, "in_progress")
    with pytest.raises(NotNow) as caught:
        await scene.engine.purge()
    assert caught.value.reason is Reason.PURGING
    await scene.engine.snapshot("meanwhile")
    stuck.release.set()
    assert (await scene.purge_ended()).state == "complete"


@pytest.mark.parametrize("end", ["detach", "delete"])
async def test_a_purge_is_stopped_when_its_volume_is_taken_away(scene: Scene, stuck: Stuck, end: str) -> None:
    await scene.engine.purge()
    await asyncio.to_thread(stuck.begun.wait, 10)
    await getattr(scene.host, end)(VOLUME)
    assert stuck.stopped


async def test_a_purge_does_not_hold_up_the_end_of_the_host(directory: Path, stuck: Stuck) -> None:
    async with scene_in(directory) as scene:
        await scene.engine.purge()
        await asyncio.to_thread(stuck.begun.wait, 10)
    assert stuck.stopped


async def test_a_purge_that_fails_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: StoredVolume, **__: object) -> bool:
        raise Retryable("volume vol: no space left on the device")

    monkeypatch.setattr(StoredVolume, "purge", full)
    await scene.engine.purge()
    status = await scene.purge_ended()
    assert (status.state, status.error) == ("error", "volume vol: no space left on the device")


async def test_a_write_that_has_begun_is_finished_though_its_caller_hangs_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    write_at = StoredVolume.write_at

    def slow(volume: StoredVolume, offset: int, data: bytes) -> None:
        begun.set()
        go.wait(10)
        write_at(volume, offset, data)

    monkeypatch.setattr(StoredVolume, "write_at", slow)
    writing = asyncio.create_task(scene.write(0, b"kept"))
    await asyncio.to_thread(begun.wait, 10)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    shutting = asyncio.create_task(scene.engine.shut_frontend())
    done, _ = await asyncio.wait([shutting], timeout=0.1)
    assert not done, "a frontend is down only when nothing is under way"
    go.set()
    await shutting
    await scene.engine.start_frontend(scene.frontend)
    assert await scene.read(0, 4) == b"kept"


# --- the socket --------------------------------------------------------------------------------------------------------


async def test_only_its_owner_can_open_the_socket(scene: Scene) -> None:
    assert stat.S_IMODE(os.stat(scene.host.address.removeprefix("unix://")).st_mode) == 0o600


async def test_a_socket_that_a_crash_left_is_replaced(directory: Path) -> None:
    (directory / "socket").touch()
    async with host_in(directory) as host:
        assert await host.list() == ()


async def test_a_socket_with_too_long_a_path_is_refused(directory: Path) -> None:
    with pytest.raises(BadInput, match="107 bytes at most"):
        async with serving(directory / "volumes", directory / ("x" * 108), clock=FakeClock()):
            pass


async def test_two_hosts_cannot_have_the_same_volumes(directory: Path) -> None:
    async with host_in(directory):
        with pytest.raises(Retryable, match="another process serves the volumes"):
            async with serving(directory / "volumes", directory / "socket2", clock=FakeClock()):
                pass


async def test_a_call_without_a_volume_is_refused(scene: Scene) -> None:
    async with grpc.aio.insecure_channel(scene.host.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="metadata volume-name missing: the name of one volume is allowed"):
            await ControllerServiceStub(channel).VolumeGet(Empty())


async def test_a_fault_of_ours_is_not_told_in_detail(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: StoredVolume) -> None:
        raise RuntimeError("what only the log should have")

    monkeypatch.setattr(StoredVolume, "view", broken)
    with pytest.raises(Retryable, match="unexpected RuntimeError; the log of the engine host says more"):
        await scene.engine.state()
    assert "what only the log should have" in caplog.text
