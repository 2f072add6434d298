"""A copy that was interrupted goes on where it was, if it can, and is right whatever happened to the tree meanwhile."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.snapshots.backends.hostpath.killed import FILES, SIZE, filled, settings
from tests.unit.snapshots.backends.hostpath.trees import described
from ullage.clock import SystemClock
from ullage.errors import NotNow
from ullage.snapshots.backends.base import Creation, InProgress, Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import HostPathBackend, copy_notes, file_copy
from ullage.snapshots.backends.hostpath.restores import Restores
from ullage.snapshots.backends.hostpath.snapshots import Snapshots
from ullage.snapshots.backends.hostpath.store import DirectoryStore
from ullage.snapshots.backends.hostpath.threads import Stop, Stopped

COPY_DATA = file_copy.copy_data
ROOT = Path(__file__).parents[5]


class Disk:
    """Counts the files whose data is copied; is interrupted in the middle of one of them."""

    def __init__(self) -> None:
        self.copied: list[str] = []
        self.left: int | None = None  # files until it is
        self.stuck: threading.Event | None = None  # set at the second file, which then lasts until it is called off

    def copy_data(self, source: int, target: int, *, size: int, stop: Stop) -> None:
        if self.left == 0:
            COPY_DATA(source, target, size=size // 2, stop=stop)
            raise Stopped
        self.left = None if self.left is None else self.left - 1
        self.copied.append(Path(f"/proc/self/fd/{source}").readlink().name)
        COPY_DATA(source, target, size=size, stop=stop)
        if self.stuck is not None and len(self.copied) == 2:
            self.stuck.set()
            stop.pause(30)


class World:
    def __init__(self, top: Path) -> None:
        self.top = top
        self.volume = top / "volumes" / "db"
        self.snapshots = Snapshots(settings(top), clock=SystemClock())
        self.restores = Restores(settings(top), self.snapshots, clock=SystemClock())
        self.creation = Creation(name="s", volume=VolumeHandle(handle=str(self.volume)))
        self.restoration = Restoration(name="pvc", snapshot=str(top / "snapshots" / "s"), size=SIZE)
        self.data = top / "snapshots" / "s" / "data"
        self.staged = top / "snapshots" / ".staging-s" / "data"
        self.notes = top / "snapshots" / ".notes-s"
        self.disk = Disk()

    def create(self, *, until: int | None = None) -> None:
        """Takes a snapshot. It is interrupted after so many files, if a number is given."""
        self.disk.copied, self.disk.left = [], until
        if until is None:
            self.snapshots.create(self.creation, Stop())
        else:
            with pytest.raises(Stopped):
                self.snapshots.create(self.creation, Stop())

    def hidden(self) -> list[str]:
        """All that is neither a snapshot nor a volume."""
        found = [*(self.top / "snapshots").iterdir(), *(self.top / "volumes").iterdir()]
        return sorted(path.name for path in found if path.name[0] == "." and path.name not in (".locks", ".restored"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    filled(tmp_path)
    world = World(tmp_path)
    monkeypatch.setattr(file_copy, "copy_data", world.disk.copy_data)
    return world


def test_a_copy_whose_process_was_killed_copies_only_the_rest(world: World) -> None:
    command = [sys.executable, "-m", "tests.unit.snapshots.backends.hostpath.killed", "half", str(world.top)]
    killed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = killed.stdout.split()
    assert len(before) == FILES // 2
    assert world.notes.stat().st_mode & 0o777 == 0o600
    world.create()
    assert len(world.disk.copied) == FILES - FILES // 2
    assert not set(before) & set(world.disk.copied)
    assert described(world.data) == described(world.volume)
    assert world.hidden() == []


def test_a_restore_that_was_interrupted_copies_only_the_rest(world: World) -> None:
    world.create()
    world.disk.copied, world.disk.left = [], 3
    with pytest.raises(Stopped):
        world.restores.restore(world.restoration, Stop())
    assert world.hidden() == [".notes-pvc", ".staging-pvc"]
    world.disk.left = None
    world.restores.restore(world.restoration, Stop())
    assert sorted(world.disk.copied) == sorted(f"f{number}" for number in range(FILES))
    assert described(world.top / "volumes" / "pvc") == described(world.volume)
    assert world.hidden() == []


def test_what_was_copied_before_counts_as_done(world: World) -> None:
    world.create(until=FILES // 2)
    stop = Stop()
    world.disk.left = None
    world.snapshots.create(world.creation, stop)
    size = sum(path.stat().st_size for path in world.volume.rglob("f*"))
    assert stop.progress == (size, size)


def _replaced(path: Path) -> Path:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return path


def _all(volume: Path, change: Callable[[Path], object]) -> None:
    """To every file, so that copied ones and others are among them, whatever the order of the walk is."""
    for number in range(FILES):
        change(volume / f"d{number % 2}" / f"f{number}")


def _in_turn(volume: Path) -> None:
    """Every file becomes something else."""
    kinds: list[Callable[[Path], object]] = [
        lambda path: _replaced(path).mkdir(),
        lambda path: _replaced(path).symlink_to("elsewhere"),
        lambda path: os.mkfifo(_replaced(path)),
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("another name")),
        lambda path: os.link(path, path.with_name("second name")),
    ]
    for number in range(FILES):
        kinds[number % len(kinds)](volume / f"d{number % 2}" / f"f{number}")


CHANGES = {
    "nothing has changed": lambda volume: None,
    "all files have other content of the same size": lambda volume: _all(volume, lambda path: path.write_bytes(b"y" * 5000)),
    "all files have other modes": lambda volume: _all(volume, lambda path: path.chmod(0o640)),
    "all files were replaced by others with the same times": lambda volume: _all(volume, _same_times),
    "all files have second names": lambda volume: _all(volume, lambda path: os.link(path, path.with_name(f"{path.name}-too"))),
    "all files have become one": lambda volume: _all(volume, lambda path: _linked(path, volume / "one")),
    "all files have gone": lambda volume: _all(volume, lambda path: path.unlink()),
    "all files have become directories": lambda volume: _all(
        volume, lambda path: (_replaced(path) / "in" / "it").mkdir(parents=True)
    ),
    "files have become something else": _in_turn,
    "directories have become files": lambda volume: [_replaced(volume / f"d{number}").write_text("x") for number in range(2)],
    "directories have changed places": lambda volume: _swapped(volume / "d0", volume / "d1"),
    "all has gone": lambda volume: [_replaced(path) for path in volume.iterdir()],
    "directories have come": lambda volume: (volume / "new" / "below").mkdir(parents=True),
    "directories have other attributes": lambda volume: os.setxattr(volume / "d0", "user.label", b"2"),
}


def _same_times(path: Path) -> None:
    found = path.stat()
    _replaced(path).write_bytes(b"z" * found.st_size)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def _linked(path: Path, one: Path) -> None:
    if not one.exists():
        os.link(path, one)
    else:
        _replaced(path)
        os.link(one, path)


def _swapped(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.parametrize("until", [0, FILES // 2, FILES - 1], ids=["at its first file", "half-way", "at its last file"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_copy_that_goes_on_is_what_the_tree_is_by_then(world: World, change: Callable[[Path], object], until: int) -> None:
    os.link(world.volume / "d0" / "f0", world.volume / "d1" / "again")
    (world.volume / "link").symlink_to("d0")
    os.setxattr(world.volume / "d0", "user.label", b"1")
    world.create(until=until)
    change(world.volume)
    world.create()
    assert described(world.data) == described(world.volume)
    assert world.hidden() == []


@pytest.mark.parametrize("at", ["publish", "sync"])
def test_a_copy_whose_directories_have_their_attributes_already_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """They may deny us writing, and hand down what is not to be handed down."""
    entries = ((1, 7, -1), (2, 6, 1234), (4, 5, -1), (16, 7, -1), (32, 0, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(world.volume / "d0", "system.posix_acl_default", acl)
    except OSError as error:
        pytest.skip(f"access lists cannot be set here: {error.strerror}")
    (world.volume / "d1").chmod(0o500)

    def interrupted(*_: object) -> None:
        raise Stopped

    sync, calls = file_copy.sync_filesystem, list[int]()

    def second(directory: int) -> None:
        calls.append(directory)
        (interrupted if len(calls) == 2 else sync)(directory)

    with monkeypatch.context() as patched:
        if at == "publish":
            patched.setattr(DirectoryStore, "publish", interrupted)
        else:
            patched.setattr(file_copy, "sync_filesystem", second)
        with pytest.raises(Stopped):
            world.snapshots.create(world.creation, Stop())
    world.disk.copied.clear()
    (world.volume / "d0" / "f0").chmod(0o600)
    (world.volume / "d1" / "f1").write_bytes(b"other")
    world.create()
    assert sorted(world.disk.copied) == ["f0", "f1"]
    assert described(world.data) == described(world.volume)


def _damage(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray(world.notes.read_bytes())
    content[-3] ^= 1
    world.notes.write_bytes(content)


def _other_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = world.top / "boot_id"
    other.write_text("another-start\n")
    monkeypatch.setattr(copy_notes, "BOOT_ID", other)


def _no_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_notes, "BOOT_ID", world.top / "missing")


def _made_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    aside = world.volume.with_name("aside")
    world.volume.rename(aside)
    world.volume.mkdir()
    for path in aside.iterdir():
        path.rename(world.volume / path.name)


def _other_volume(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.volume = world.volume.rename(world.volume.with_name("other"))
    world.creation = replace(world.creation, volume=VolumeHandle(handle=str(world.volume)))


def _other_target(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = world.staged.parent
    shutil.copytree(staging, staging.with_name("copy"), symlinks=True)
    shutil.rmtree(staging)
    staging.with_name("copy").rename(staging)


BEGINS_ANEW: dict[str, Callable[[World, pytest.MonkeyPatch], object]] = {
    "the machine was started meanwhile": _other_start,
    "nothing tells when the machine was started": _no_start,
    "a note is damaged": _damage,
    "the notes are of another format": lambda world, _: world.notes.write_bytes(b"copy 0" + world.notes.read_bytes()[6:]),
    "the notes are not ours": lambda world, _: world.notes.write_bytes(os.urandom(9000)),
    "the notes are empty": lambda world, _: world.notes.write_bytes(b""),
    "the notes are gone": lambda world, _: world.notes.unlink(),
    "the notes are a link": lambda world, _: world.notes.symlink_to(world.notes.rename(world.top / "moved")),
    "the volume's directory is another": _made_anew,
    "it is another volume": _other_volume,
    "what was copied lies in another directory": _other_target,
    "what was copied is gone": lambda world, _: shutil.rmtree(world.staged),
    "it was given up": lambda world, _: world.snapshots.undo(world.creation, Stop()),
    "it was deleted": lambda world, _: world.snapshots.delete(str(world.data.parent), Stop()),
    "it was swept away": lambda world, _: asyncio.run(HostPathBackend(settings(world.top)).sweep()),
}


@pytest.mark.parametrize("happens", BEGINS_ANEW.values(), ids=BEGINS_ANEW.keys())
def test_a_copy_begins_anew_where(
    world: World, monkeypatch: pytest.MonkeyPatch, happens: Callable[[World, pytest.MonkeyPatch], object]
) -> None:
    world.create(until=FILES - 1)
    (world.staged / "stray").write_text("of nobody")
    happens(world, monkeypatch)
    world.create()
    assert sorted(world.disk.copied) == sorted(f"f{number}" for number in range(FILES))
    assert described(world.data) == described(world.volume)
    assert world.hidden() == []


def test_a_note_that_was_cut_short_is_left_out_and_others_follow_it(world: World) -> None:
    world.create(until=FILES - 1)
    os.truncate(world.notes, world.notes.stat().st_size - 1)
    world.create(until=1)
    world.create()
    assert len(world.disk.copied) == 1
    assert described(world.data) == described(world.volume)


def test_a_file_whose_copy_is_not_what_the_notes_say_is_copied_again(world: World) -> None:
    world.create(until=FILES - 1)
    [*before] = world.disk.copied
    path = next(world.staged.rglob(before[0]))
    path.write_bytes(b"half")
    next(world.staged.rglob(before[1])).unlink()
    world.create()
    assert set(before[:2]) <= set(world.disk.copied)
    assert len(world.disk.copied) == 3
    assert described(world.data) == described(world.volume)


def test_names_of_one_file_that_are_copies_of_their_own_become_one_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a kill between the new copy of the first name and that of the next."""
    names = ["d0/f0", "d0/second", "d1/third"]
    for name in names[1:]:
        os.link(world.volume / names[0], world.volume / name)

    def interrupted(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryStore, "publish", interrupted)
        with pytest.raises(Stopped):
            world.snapshots.create(world.creation, Stop())
    second = world.staged / names[1]
    shutil.copy2(second, second.with_name("alone"))
    second.with_name("alone").rename(second)
    assert len({(world.staged / name).stat().st_ino for name in names}) == 2
    world.create()
    assert described(world.data) == described(world.volume)
    assert len(world.disk.copied) == 1


def test_a_copy_that_failed_leaves_nothing_to_go_on_with(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file_copy, "copy_data", fails)
    with pytest.raises(NotNow, match="no space left"):
        world.snapshots.create(world.creation, Stop())
    assert world.hidden() == []


async def test_a_start_keeps_what_can_be_gone_on_with_for_those_who_ask_and_no_longer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(until=FILES // 2)
    (world.top / "snapshots" / ".staging-other" / "data").mkdir(parents=True)
    (world.top / "snapshots" / ".notes-third").touch()
    backend = HostPathBackend(settings(world.top))
    await backend.sweep(keep_interrupted=True)
    assert world.hidden() == [".notes-s", ".staging-s"]
    with monkeypatch.context() as patched:
        _other_start(world, patched)
        await backend.sweep(keep_interrupted=True)
    assert world.hidden() == []


async def test_a_backend_that_is_closed_leaves_its_copies_to_the_next(world: World) -> None:
    stuck = world.disk.stuck = threading.Event()
    slow = HostPathBackend(settings(world.top), patience=0.0)
    with pytest.raises(InProgress):
        await slow.create(world.creation)
    await asyncio.to_thread(stuck.wait, 30)
    await slow.close()
    first, second = world.disk.copied
    await HostPathBackend(settings(world.top)).create(world.creation)
    assert sorted(world.disk.copied) == sorted([second, *(f"f{number}" for number in range(FILES))]), first
    assert described(world.data) == described(world.volume)
