"""Copies that take long: they go on whoever asks, tell how far they are, and share the threads between namespaces."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ullage.errors import Impossible
from ullage.snapshots.backends.base import BackendSnapshot, Creation, InProgress, Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import HostPathBackend, HostPathSettings, file_copy
from ullage.snapshots.backends.hostpath.copies import Copies, CopyKey
from ullage.snapshots.backends.hostpath.threads import Stop

KEY = CopyKey("copy", "source")
MI = 1024 * 1024


async def done(ask: Callable[[], object]) -> None:
    """Asks until it is done, as controllers do."""
    while True:
        try:
            await ask()  # type: ignore[misc]  # a coroutine
        except InProgress:
            await asyncio.sleep(0.001)
        else:
            return


async def test_a_copy_goes_on_and_is_joined_by_whoever_asks_again() -> None:
    copies, gate, runs = Copies(1, name="test", patience=0.01), threading.Event(), list[str]()

    def work(stop: Stop) -> str:
        runs.append("begun")
        stop.expect(4 * MI)
        stop.advance(MI)
        gate.wait(30)
        return "made"

    async def ask() -> str:
        return await copies.run(KEY, work, owner="team")

    told = ""
    while told != "copied 1Mi of 4Mi":
        with pytest.raises(InProgress) as caught:
            await ask()
        told = str(caught.value)
        assert told in ("waiting for other copies to end", "looking at the files to copy", "copied 1Mi of 4Mi")
    gate.set()
    await done(ask)
    assert runs == ["begun"]


async def test_a_failure_is_told_to_the_next_who_asks_and_then_it_is_begun_anew() -> None:
    copies, runs = Copies(1, name="test"), list[str]()

    def work(stop: Stop) -> str:
        runs.append("begun")
        if len(runs) == 1:
            raise Impossible("no")
        return "made"

    with pytest.raises(Impossible):
        await copies.run(KEY, work, owner="team")
    assert await copies.run(KEY, work, owner="team") == "made"


async def test_who_asks_for_many_copies_does_not_keep_another_namespace_waiting() -> None:
    copies, order, first = Copies(1, name="test", patience=0.0), list[str](), threading.Event()

    def work(name: str) -> Callable[[Stop], None]:
        def run(stop: Stop) -> None:
            if not order:
                first.wait(30)
            order.append(name)

        return run

    asked = [*(("greedy", f"greedy-{number}") for number in range(5)), ("modest", "modest-0"), ("third", "third-0")]
    for owner, name in asked:
        with pytest.raises(InProgress):
            await copies.run(CopyKey(name, ""), work(name), owner=owner)
        await asyncio.sleep(0)
    first.set()
    for owner, name in asked:
        await done(lambda owner=owner, name=name: copies.run(CopyKey(name, ""), work(name), owner=owner))  # type: ignore[misc]
    assert order == ["greedy-0", "greedy-1", "modest-0", "third-0", "greedy-2", "greedy-3", "greedy-4"]


@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_what_is_called_off_has_ended_and_lets_the_next_in(how: str) -> None:
    copies, ended = Copies(1, name="test", patience=0.01), threading.Event()

    def endless(stop: Stop) -> None:
        try:
            while True:
                stop.pause(0.001)
        finally:
            ended.set()

    with pytest.raises(InProgress):
        await copies.run(KEY, endless, owner="team")
    await (copies.cancel(KEY.name) if how == "cancel" else copies.close())
    assert ended.is_set()
    await done(lambda: copies.run(CopyKey("next", ""), lambda stop: None, owner="team"))


async def test_a_caller_that_is_cancelled_calls_it_off() -> None:
    copies, begun, ended = Copies(1, name="test", patience=60.0), threading.Event(), threading.Event()

    def endless(stop: Stop) -> None:
        begun.set()
        try:
            while True:
                stop.pause(0.001)
        finally:
            ended.set()

    asking = asyncio.create_task(copies.run(KEY, endless, owner="team"))
    await asyncio.to_thread(begun.wait, 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert ended.is_set()


# --- on files ---------------------------------------------------------------------------------------------------------


class SlowDisk:
    """Copies half of a file, and goes on when it is told to."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def copy_data(self, source: int, target: int, *, size: int, stop: Stop) -> None:
        stop.advance(size // 2)
        while not self.gate.wait(0.001):
            stop.check()
        COPY_DATA(source, target, size=size - size // 2, stop=stop)
        COPY_DATA(source, target, size=size, stop=Stop())


COPY_DATA = file_copy.copy_data


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk = SlowDisk()
    monkeypatch.setattr(file_copy, "copy_data", disk.copy_data)
    yield disk
    disk.gate.set()


@pytest.fixture
def backend(tmp_path: Path) -> HostPathBackend:
    for name in ("volumes/v", "snapshots"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "volumes" / "v" / "file").write_bytes(b"x" * MI)
    settings = HostPathSettings(
        volumes=(tmp_path / "volumes",), snapshots=tmp_path / "snapshots", restored=tmp_path / "volumes", node="n"
    )
    return HostPathBackend(settings, patience=0.01)


async def until_told(ask: Callable[[], object], text: str) -> None:
    told = ""
    while told != text:
        with pytest.raises(InProgress) as caught:
            await ask()  # type: ignore[misc]  # a coroutine
        told = str(caught.value)
        await asyncio.sleep(0.001)


async def test_a_snapshot_and_a_restore_tell_their_bytes_and_end(
    backend: HostPathBackend, disk: SlowDisk, tmp_path: Path
) -> None:
    creation = Creation(name="snapshot-1", volume=VolumeHandle(handle=str(tmp_path / "volumes" / "v"), node="n"), owner="team")
    await until_told(lambda: backend.create(creation), "copied 512Ki of 1Mi")
    disk.gate.set()
    await done(lambda: backend.create(creation))
    taken: BackendSnapshot = await _result(lambda: backend.create(creation))
    disk.gate.clear()
    restoration = Restoration(name="pvc-1", snapshot=taken.handle, size=16 * MI, owner="team")
    await until_told(lambda: backend.restore(restoration), "copied 512Ki of 1Mi")
    disk.gate.set()
    await done(lambda: backend.restore(restoration))
    assert (tmp_path / "volumes" / "pvc-1" / "file").read_bytes() == b"x" * MI


async def test_a_copy_that_is_given_up_is_called_off_at_once(backend: HostPathBackend, disk: SlowDisk, tmp_path: Path) -> None:
    creation = Creation(name="snapshot-1", volume=VolumeHandle(handle=str(tmp_path / "volumes" / "v"), node="n"), owner="team")
    await until_told(lambda: backend.create(creation), "copied 512Ki of 1Mi")
    await backend.undo(creation)
    assert [one.name for one in (tmp_path / "snapshots").iterdir() if one.name != ".locks"] == []


async def _result(ask: Callable[[], object]) -> BackendSnapshot:
    while True:
        try:
            return await ask()  # type: ignore[misc,no-any-return]  # a coroutine
        except InProgress:
            await asyncio.sleep(0.001)
