"""The CSI backend on a driver that fails: no answer, no process, no room, the wrong driver; and nothing is lost or left."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.csi_driver.calls import make_volume
from tests.csi_driver.faults import Fault
from tests.csi_driver.running import NAME, RunningDriver, running_driver
from tests.unit.snapshots.backends.csi.drivers import backend_at, creation, restoration, until
from ullage.errors import Impossible, NotNow, UllageError, Uncertain
from ullage.snapshots.backends.base import BackendSnapshot, Creation, Secrets
from ullage.snapshots.backends.csi.backend import CsiBackend
from ullage.snapshots.backends.csi.errors import Incapable, Refused

SHORT = 1.0  # seconds, for calls that get no answer


@pytest.fixture
def driver() -> Iterator[RunningDriver]:
    with running_driver() as running:
        yield running


@pytest.fixture
async def backend(driver: RunningDriver) -> AsyncIterator[CsiBackend]:
    async with backend_at(driver.path) as opened:
        yield opened


@pytest.fixture
def volume(driver: RunningDriver) -> str:
    return make_volume(driver.path, "vol")


@pytest.mark.parametrize(
    ("code", "meaning"),
    [("ABORTED", Uncertain), ("RESOURCE_EXHAUSTED", Uncertain), ("INTERNAL", NotNow), ("ALREADY_EXISTS", Uncertain)],
)
async def test_a_refusal_is_translated_and_names_driver_and_snapshot(
    driver: RunningDriver, backend: CsiBackend, volume: str, code: str, meaning: type[UllageError]
) -> None:
    driver.set(Fault("CreateSnapshot", code, times=1, message="no"))
    with pytest.raises(meaning, match=f"^driver {NAME}: CreateSnapshot s1 of volume {volume}: {code}: no$"):
        await backend.create(creation(volume, "s1"))
    assert driver.snapshots() == []
    assert (await backend.create(creation(volume, "s1"))).ready


@pytest.mark.parametrize("do", ["hang", "UNAVAILABLE", "DEADLINE_EXCEEDED"])
async def test_an_answer_that_is_lost_after_success_loses_nothing(driver: RunningDriver, volume: str, do: str) -> None:
    driver.set(Fault("CreateSnapshot", do, when="after", times=1))
    async with backend_at(driver.path, timeout=SHORT) as backend:
        with pytest.raises(Uncertain):
            await backend.create(creation(volume, "s1"))
        made = [one.id for one in driver.snapshots()]
        assert (await backend.create(creation(volume, "s1"))).handle == made[0]
    assert [one.id for one in driver.snapshots()] == made


async def test_a_call_that_gets_no_answer_says_how_long_it_waited(driver: RunningDriver, volume: str) -> None:
    driver.set(Fault("CreateSnapshot", "hang", times=1))
    async with backend_at(driver.path, timeout=SHORT) as backend:
        with pytest.raises(Uncertain, match=r"DEADLINE_EXCEEDED: no answer within 1 s$"):
            await backend.create(creation(volume))


async def test_a_creation_whose_answer_was_lost_is_undone(driver: RunningDriver, volume: str) -> None:
    driver.set(Fault("CreateSnapshot", "hang", when="after", times=1))
    async with backend_at(driver.path, timeout=SHORT) as backend:
        with pytest.raises(Uncertain):
            await backend.create(creation(volume, "s1"))
        assert len(driver.snapshots()) == 1
        await backend.undo(creation(volume, "s1"))
    assert driver.snapshots() == []


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAUTHENTICATED"])
async def test_undoing_goes_on_until_the_driver_can_tell(
    driver: RunningDriver, backend: CsiBackend, volume: str, code: str
) -> None:
    await backend.create(creation(volume, "s1"))
    driver.set(Fault("CreateSnapshot", code, times=1))
    with pytest.raises(Uncertain, match=code):
        await backend.undo(creation(volume, "s1"))
    await backend.undo(creation(volume, "s1"))
    assert driver.snapshots() == []


async def test_an_upload_is_waited_for(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    driver.set(upload_seconds=600)
    slow = await backend.create(creation(volume, "slow"))
    driver.set(upload_seconds=0.3)
    quick = await backend.create(creation(volume, "quick"))
    assert (slow.ready, quick.ready) == (False, False)
    with pytest.raises(Uncertain, match="not uploaded yet"):
        await backend.restore(restoration(slow.handle))

    async def uploaded() -> bool:
        return (await backend.create(creation(volume, "quick"))).ready

    await until(uploaded)
    found = await backend.find(quick.handle)
    assert found is not None
    assert (found.ready, found.cut) == (True, quick.cut)
    still = await backend.find(slow.handle)
    assert still is not None
    assert not still.ready


@pytest.mark.parametrize("method", ["DeleteSnapshot", "DeleteVolume"])
async def test_a_driver_may_say_that_what_is_gone_is_not_found(
    driver: RunningDriver, backend: CsiBackend, volume: str, method: str
) -> None:
    driver.set(Fault(method, "NOT_FOUND"))
    await (backend.delete("gone") if method == "DeleteSnapshot" else backend.discard("gone"))
    driver.set(Fault(method, "FAILED_PRECONDITION"))
    with pytest.raises(NotNow, match=f"{method} gone: FAILED_PRECONDITION"):
        await (backend.delete("gone") if method == "DeleteSnapshot" else backend.discard("gone"))


async def test_only_not_found_means_that_there_is_no_snapshot(driver: RunningDriver, backend: CsiBackend) -> None:
    driver.set(Fault("ListSnapshots", "NOT_FOUND"))
    assert await backend.find("gone") is None
    driver.set(Fault("ListSnapshots", "INVALID_ARGUMENT"))
    with pytest.raises(Refused):
        await backend.find("gone")


async def test_a_driver_that_cannot_take_snapshots_says_what_it_can() -> None:
    with running_driver("--without=CREATE_DELETE_SNAPSHOT") as driver:
        volume = make_volume(driver.path, "vol")
        async with backend_at(driver.path) as backend:
            with pytest.raises(Incapable, match=f"^driver {NAME} 1.0.0 lacks CREATE_DELETE_SNAPSHOT; its .*LIST_SNAPSHOTS"):
                await backend.create(creation(volume))
            await backend.undo(creation(volume))
        assert driver.calls("CreateSnapshot") == []


async def test_a_secret_that_the_driver_quotes_is_not_shown(
    driver: RunningDriver, backend: CsiBackend, volume: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    driver.set(Fault("CreateSnapshot", "UNAUTHENTICATED", message="the password {password} is wrong"))
    asked = creation(volume, secrets=Secrets({"password": "hunter2"}))
    with pytest.raises(NotNow, match=r"the password \(hidden\) is wrong$") as refused:
        await backend.create(asked)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None
    assert "hunter2" not in repr(asked) + caplog.text


async def test_a_missing_socket_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no.sock"
    async with backend_at(path, driver="d") as backend:
        with pytest.raises(Uncertain, match=f"^driver d: there is no socket {path}"):
            await backend.create(creation("vol"))
        with pytest.raises(Uncertain):
            await backend.undo(creation("vol"))


async def test_a_dead_socket_is_named_to_all_who_ask_at_once(driver: RunningDriver) -> None:
    driver.kill()
    assert driver.path.exists()
    async with backend_at(driver.path, connect_timeout=0.5) as backend:
        async with asyncio.timeout(10):  # one after the other they would wait 25 s
            asked = [backend.create(creation("vol")) for _ in range(50)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(answer) for answer in answers} == {Uncertain}
    assert {str(answer) for answer in answers} == {f"driver {NAME}: nobody answers on socket {driver.path} within 0.5 s"}


async def test_a_driver_that_is_restarted_is_found_again(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    shot = await backend.create(creation(volume, "s1"))
    driver.kill()
    driver.start()
    again = await persistently(backend, volume)
    assert again == shot
    driver.kill()
    driver.start("--without=LIST_SNAPSHOTS")
    await persistently(backend, volume)
    with pytest.raises(Incapable, match="lacks LIST_SNAPSHOTS"):
        await backend.find(shot.handle)


async def persistently(backend: CsiBackend, volume: str) -> BackendSnapshot:
    """As a controller would: again, for as long as the outcome is not known."""
    made: list[BackendSnapshot] = []

    async def created() -> bool:
        try:
            made.append(await backend.create(creation(volume, "s1")))
        except Uncertain:
            return False
        return True

    await until(created)
    return made[0]


@pytest.mark.parametrize(("when", "made"), [("before", 0), ("after", 1)])
async def test_a_driver_that_dies_in_a_call_keeps_what_it_made(
    driver: RunningDriver, backend: CsiBackend, volume: str, when: str, made: int
) -> None:
    driver.set(Fault("CreateSnapshot", "crash", when="after" if when == "after" else "before"))
    with pytest.raises(Uncertain):
        await backend.create(creation(volume, "s1"))
    driver.wait()
    assert len(driver.snapshots()) == made
    driver.set()
    driver.start()
    await persistently(backend, volume)
    assert len(driver.snapshots()) == 1


async def test_another_driver_at_the_socket_gets_no_calls(driver: RunningDriver) -> None:
    async with backend_at(driver.path, driver="other.io") as backend:
        for call in (backend.create(creation("vol")), backend.undo(creation("vol"))):
            with pytest.raises(Impossible, match=f"^socket {driver.path} belongs to driver {NAME}, not to other.io$"):
                await call
    assert {call.method for call in driver.calls()} == {"GetPluginInfo"}


async def test_a_cancelled_call_leaves_the_backend_usable(driver: RunningDriver, backend: CsiBackend, volume: str) -> None:
    driver.set(Fault("CreateSnapshot", "hang", times=1))
    task = asyncio.create_task(backend.create(creation(volume, "s1")))

    async def arrived() -> bool:
        return bool(driver.calls("CreateSnapshot"))

    await until(arrived)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await backend.create(creation(volume, "s1"))).ready


async def test_kills_at_random_moments_leave_one_snapshot_for_each_name_and_none_after_undoing(
    driver: RunningDriver, backend: CsiBackend, volume: str
) -> None:
    chance = random.Random(6)
    asked = [creation(volume, f"s{number}") for number in range(40)]
    methods: tuple[str, ...] = ("CreateSnapshot", "DeleteSnapshot")
    moments: tuple[Literal["before", "after"], ...] = ("before", "after")
    driver.set(*(Fault(method, "wait", when=when, seconds=0.05) for method in methods for when in moments))

    async def with_kills(verb: Callable[[Creation], Awaitable[object]]) -> None:
        async def persist(one: Creation) -> None:
            await until(lambda: certain(verb(one)))

        async with asyncio.TaskGroup() as group:
            for one in asked:
                group.create_task(persist(one))
            for _ in range(3):
                await asyncio.sleep(chance.uniform(0, 0.15))
                driver.kill()
                await asyncio.to_thread(driver.start)

    await with_kills(backend.create)
    assert sorted(one.name for one in driver.snapshots()) == sorted(one.name for one in asked)
    await with_kills(backend.undo)
    assert driver.snapshots() == []


async def certain(call: Awaitable[object]) -> bool:
    try:
        await call
    except Uncertain:
        return False
    return True
