"""A directory changes places with a copy of its snapshot: whoever is killed at any moment leaves the old one or the new."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ullage.errors import Impossible, NotNow, Uncertain
from ullage.snapshots.backends.base import Creation, Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import HostPathBackend, HostPathSettings
from ullage.snapshots.backends.hostpath import in_place as exchange
from ullage.snapshots.backends.hostpath import in_place as swaps
from ullage.snapshots.backends.hostpath.in_place import HostPathInPlace, Swaps
from ullage.snapshots.backends.hostpath.threads import Stop

NAME = "restore-uid-1"
OLD, NEW = {"file": b"old", "later": b"more"}, {"file": b"as it was"}


class Killed(BaseException):
    """The process is gone."""


class Disk:
    """A volume that has changed since its snapshot."""

    def __init__(self, top: Path) -> None:
        self.root = top / "volumes"
        self.volume = self.root / "team" / "db"
        self.volume.mkdir(parents=True)
        (top / "snapshots").mkdir()
        self.settings = HostPathSettings(
            volumes=(self.root,), snapshots=top / "snapshots", restored=self.root, node="here", single_node=True
        )
        self.handle = VolumeHandle(handle=str(self.volume))
        self.snapshot = str(top / "snapshots" / "s-1")
        self.backend = HostPathInPlace(self.settings)

    async def taken(self) -> Disk:
        write(self.volume, NEW)
        await HostPathBackend(self.settings).create(Creation(name="s-1", volume=self.handle))
        write(self.volume, OLD)
        return self

    @property
    def restoration(self) -> Restoration:
        return Restoration(name=NAME, snapshot=self.snapshot, size=1 << 20)

    def remounted(self) -> None:
        """What was written down has a device number that the file system has no more: same inodes."""
        for journal in self.root.glob(".in-place/.journal-*"):
            found = json.loads(journal.read_bytes())
            found["old"][0], found["new"][0] = found["old"][0] + 7, found["new"][0] + 7
            journal.write_text(json.dumps(found))
        for mark in self.root.glob("**/.restored/*"):
            known = json.loads(mark.read_bytes())
            mark.write_text(json.dumps(known | {"device": known["device"] + 7}))

    def kept(self) -> list[str]:
        return [one for one in os.listdir(self.root / ".in-place") if one not in (".locks", ".restored")]


def write(top: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (top / name).write_bytes(content)


def read(top: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in top.iterdir()}


@pytest.fixture
async def disk(tmp_path: Path) -> Disk:
    return await Disk(tmp_path).taken()


@pytest.fixture(params=["at once", "in three renames"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in three renames":
        monkeypatch.setattr(exchange, "_exchanged", lambda one, other: False)


@pytest.mark.usefixtures("how")
async def test_the_volume_is_the_copy_then_what_it_was_and_nothing_is_left(disk: Disk) -> None:
    await disk.backend.prepare(disk.restoration, disk.handle)
    assert (read(disk.volume), await disk.backend.is_swapped(NAME, disk.handle)) == (OLD, False)
    for _ in range(2):
        await disk.backend.swap(NAME, disk.handle)
        assert (read(disk.volume), await disk.backend.is_swapped(NAME, disk.handle)) == (NEW, True)
        assert read(disk.root / ".in-place" / NAME) == OLD
    for _ in range(2):
        await disk.backend.swap_back(NAME, disk.handle)
        assert (read(disk.volume), await disk.backend.is_swapped(NAME, disk.handle)) == (OLD, False)
    assert await disk.backend.kept() == [NAME]
    for _ in range(2):
        await disk.backend.discard(NAME)
        assert (read(disk.volume), disk.kept(), await disk.backend.kept()) == (OLD, [], [])


async def test_what_the_volume_was_before_goes_when_it_is_discarded(disk: Disk) -> None:
    await disk.backend.prepare(disk.restoration, disk.handle)
    await disk.backend.swap(NAME, disk.handle)
    await disk.backend.discard(NAME)
    assert (read(disk.volume), disk.kept()) == (NEW, [])


STEPS: tuple[Callable[[Swaps, Disk], object], ...] = (
    lambda swaps, disk: swaps.prepare(disk.restoration, disk.handle, Stop()),
    lambda swaps, disk: swaps.swap(NAME, disk.handle, Stop()),
    lambda swaps, disk: swaps.swap_back(NAME, disk.handle, Stop()),
    lambda swaps, disk: swaps.swap(NAME, disk.handle, Stop()),
    lambda swaps, disk: swaps.discard(NAME, Stop()),
)


def effects(monkeypatch: pytest.MonkeyPatch, blows_at: int) -> Iterator[int]:
    """Has the process die at the moment with this number: right before or right after something was changed."""
    passed = 0

    def watched(name: str, module: object = os) -> None:
        real = getattr(module, name)

        def call(*args: object, **named: object) -> object:
            nonlocal passed
            passed += 1
            if passed == blows_at:
                raise Killed
            done = real(*args, **named)
            passed += 1
            if passed == blows_at:
                raise Killed
            return done

        monkeypatch.setattr(module, name, call)

    for name in ("rename", "rmdir"):
        watched(name)
    watched("_exchanged", exchange)
    watched("write_journal", swaps)
    while True:
        yield passed


def run_until_killed(work: Swaps, case: Disk) -> int:
    """The number of the step that was interrupted, or of the last one."""
    for number, step in enumerate(STEPS):
        try:
            step(work, case)
        except Killed:
            return number
    return len(STEPS) - 1


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize("reboots", [False, True], ids=["the process alone", "with the machine, and another device number"])
async def test_killed_at_any_moment_the_volume_is_the_old_directory_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reboots: bool
) -> None:
    """Each time all steps are gone through again by the next process, from the one that was interrupted."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nobody pulls the plug here, and there are many cases
    moments, moment = 0, 0
    while moment <= moments:
        moment += 1
        case = await Disk(tmp_path / f"case-{moment}").taken()
        work = Swaps(case.settings, clock=case.backend._swaps._clock)
        with pytest.MonkeyPatch.context() as patch:
            counted = effects(patch, moment)
            next(counted)
            number = run_until_killed(work, case)
            moments = max(moments, next(counted))
        assert not case.volume.exists() or read(case.volume) in (OLD, NEW), f"a mix at moment {moment}"
        if reboots:
            case.remounted()
        for step in STEPS[number:]:
            step(work, case)
            assert read(case.volume) in (OLD, NEW)
        assert (read(case.volume), case.kept()) == (NEW, []), f"moment {moment}, step {number}"
    assert moments >= 14


async def test_exchanged_at_once_there_is_a_volume_at_every_moment(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    await disk.backend.prepare(disk.restoration, disk.handle)
    monkeypatch.setattr(exchange, "move", lambda old, new: pytest.fail("it was moved"))
    await disk.backend.swap(NAME, disk.handle)
    assert read(disk.volume) == NEW


async def test_a_directory_that_somebody_put_in_its_place_is_not_touched(disk: Disk) -> None:
    await disk.backend.prepare(disk.restoration, disk.handle)
    disk.volume.rename(disk.root / "team" / "aside")
    disk.volume.mkdir()
    with pytest.raises(Impossible, match="replaced by somebody else"):
        await disk.backend.swap(NAME, disk.handle)
    assert (read(disk.volume), read(disk.root / "team" / "aside")) == ({}, OLD)


@pytest.mark.parametrize("what", ["is_swapped", "swap", "swap_back"])
@pytest.mark.parametrize("beside", ["kept", "gone"])
async def test_nothing_is_concluded_from_a_directory_that_somebody_put_there_after_the_swap(
    disk: Disk, what: str, beside: str
) -> None:
    """Whoever is told that it is impossible takes what is kept away: here that is all there is of the old data."""
    await disk.backend.prepare(disk.restoration, disk.handle)
    await disk.backend.swap(NAME, disk.handle)
    disk.volume.rename(disk.root / "team" / "aside")
    disk.volume.mkdir()
    if beside == "gone":
        (disk.root / ".in-place" / NAME).rename(disk.root / "team" / "old")
    lost = (what, beside) == ("swap_back", "gone")
    problem = "replaced by somebody else; neither is touched"
    if lost:
        problem = f"what it was before is not in {disk.root}/.in-place/{NAME} any more"
    with pytest.raises(Impossible if lost else Uncertain, match=re.escape(problem)):
        await getattr(disk.backend, what)(NAME, disk.handle)
    assert read(disk.root / "team" / "old" if beside == "gone" else disk.root / ".in-place" / NAME) == OLD


async def test_a_directory_that_a_kubelet_makes_between_two_renames_does_not_take_the_place_of_the_old_data(
    disk: Disk,
) -> None:
    """Killed after the first of three, the volume's path is empty, and a volume of type DirectoryOrCreate is made anew."""
    await disk.backend.prepare(disk.restoration, disk.handle)
    moving = disk.root / ".in-place" / f".moving-{NAME}"
    disk.volume.rename(moving)
    disk.volume.mkdir()
    for call in (disk.backend.is_swapped, disk.backend.swap, disk.backend.swap_back):
        with pytest.raises(Uncertain, match=f"{moving} was on its way, and something else is at {disk.volume}"):
            await call(NAME, disk.handle)
    assert read(moving) == OLD
    disk.volume.rmdir()
    await disk.backend.swap(NAME, disk.handle)
    assert (read(disk.volume), read(disk.root / ".in-place" / NAME)) == (NEW, OLD)


@pytest.mark.parametrize(
    ("breaks", "problem"),
    [
        pytest.param(lambda path: path.unlink(), "is not there, though a copy was made", id="that is gone"),
        pytest.param(lambda path: path.write_text("{"), "cannot be read", id="that is damaged"),
        pytest.param(lambda path: (path.unlink(), path.mkdir()), "cannot be read", id="that is something else"),
    ],
)
@pytest.mark.parametrize("what", ["is_swapped", "swap", "swap_back"])
async def test_nothing_is_concluded_from_a_journal(
    disk: Disk, what: str, breaks: Callable[[Path], object], problem: str
) -> None:
    await disk.backend.prepare(disk.restoration, disk.handle)
    await disk.backend.swap(NAME, disk.handle)
    breaks(disk.root / ".in-place" / f".journal-{NAME}")
    with pytest.raises((Uncertain, NotNow), match=problem):
        await getattr(disk.backend, what)(NAME, disk.handle)
    assert (read(disk.volume), read(disk.root / ".in-place" / NAME)) == (NEW, OLD)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        pytest.param(errno.EBUSY, "is mounted, or has something mounted in it", id="a mount"),
        pytest.param(errno.EPERM, "Operation not permitted", id="a right"),
    ],
)
async def test_what_keeps_the_directories_from_changing_places_is_told_and_nothing_has_changed(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, code: int, problem: str
) -> None:
    def fails(*_: object) -> bool:
        raise OSError(code, os.strerror(code))

    await disk.backend.prepare(disk.restoration, disk.handle)
    with monkeypatch.context() as patch:
        patch.setattr(exchange, "_exchanged", fails)
        with pytest.raises(Impossible, match=problem):
            await disk.backend.swap(NAME, disk.handle)
        assert (read(disk.volume), await disk.backend.is_swapped(NAME, disk.handle)) == (OLD, False)
    await disk.backend.swap(NAME, disk.handle)
    with monkeypatch.context() as patch:
        patch.setattr(exchange, "_exchanged", fails)
        with pytest.raises(Uncertain, match=problem):  # what it was is there: it may be given back yet
            await disk.backend.swap_back(NAME, disk.handle)
    assert read(disk.root / ".in-place" / NAME) == OLD


@pytest.mark.parametrize("failing", [1, 2, 3], ids=["first", "second", "third"])
async def test_of_three_renames_one_may_fail(disk: Disk, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """What it leaves is one of the two whole arrangements, and only of the old one it is said that it is impossible."""
    moved, move = 0, exchange.move

    def moves(old: exchange.Place, new: exchange.Place) -> None:
        nonlocal moved
        moved += 1
        if moved == failing:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        move(old, new)

    await disk.backend.prepare(disk.restoration, disk.handle)
    with monkeypatch.context() as patch:
        patch.setattr(exchange, "_exchanged", lambda one, other: False)
        patch.setattr(exchange, "move", moves)
        with pytest.raises(Impossible if failing < 3 else Uncertain, match="Permission denied"):
            await disk.backend.swap(NAME, disk.handle)
    swapped = failing == 3
    assert (read(disk.volume), await disk.backend.is_swapped(NAME, disk.handle)) == (NEW if swapped else OLD, swapped)


async def test_what_the_disk_does_not_have_yet_is_brought_there_by_the_next_call(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed right after the directories have changed places, or told that the disk failed."""
    await disk.backend.prepare(disk.restoration, disk.handle)

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        for _ in range(2):
            with pytest.raises(NotNow, match="Input/output error"):
                await disk.backend.swap(NAME, disk.handle)
    await disk.backend.swap(NAME, disk.handle)
    assert read(disk.volume) == NEW


async def test_a_link_is_not_followed(disk: Disk, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    disk.volume.rename(elsewhere)
    disk.volume.symlink_to(elsewhere)
    with pytest.raises(Impossible, match="symbolic link"):
        await disk.backend.prepare(disk.restoration, disk.handle)
    assert read(elsewhere) == OLD


async def test_links_inside_a_snapshot_stay_links(disk: Disk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of somebody else")
    (disk.volume / "link").symlink_to(secret)
    await HostPathBackend(disk.settings).create(Creation(name="s-2", volume=disk.handle))
    restoration = Restoration(name=NAME, snapshot=str(disk.settings.snapshots / "s-2"), size=1 << 20)
    await disk.backend.prepare(restoration, disk.handle)
    await disk.backend.swap(NAME, disk.handle)
    assert os.readlink(disk.volume / "link") == str(secret)
    await disk.backend.discard(NAME)
    assert secret.read_text() == "of somebody else"


@pytest.mark.parametrize(
    ("handle", "problem"),
    [
        pytest.param("/etc", "below", id="outside of the roots"),
        pytest.param("/etc/../etc", "'..'", id="with dots"),
        pytest.param("relative", "absolute", id="relative"),
    ],
)
async def test_only_volumes_below_the_roots(disk: Disk, handle: str, problem: str) -> None:
    with pytest.raises(Impossible, match=problem):
        await disk.backend.prepare(disk.restoration, VolumeHandle(handle=handle))


@pytest.mark.parametrize("name", ["", "../x", ".locks", "a/b", "x" * 129])
async def test_names_that_are_none_reach_no_file(disk: Disk, name: str) -> None:
    with pytest.raises(Impossible, match="letters, digits and dashes"):
        await disk.backend.discard(name)
    with pytest.raises(Impossible, match="letters, digits and dashes"):
        await disk.backend.swap(name, disk.handle)


async def test_nothing_is_kept_in_place_of_a_volume(disk: Disk) -> None:
    inside = VolumeHandle(handle=str(disk.root / ".in-place" / NAME))
    await disk.backend.prepare(disk.restoration, disk.handle)
    with pytest.raises(Impossible, match="dot in front"):
        await disk.backend.prepare(disk.restoration, inside)


async def test_a_volume_that_was_made_from_a_snapshot_can_still_be_deleted(disk: Disk) -> None:
    """It is told by its directory's number, which is another one after the swap; its file system may have another one too."""
    backend = HostPathBackend(disk.settings)
    made = await backend.restore(Restoration(name="pvc-1", snapshot=disk.snapshot, size=1 << 20))
    volume = VolumeHandle(handle=made.handle)
    write(Path(made.handle), OLD)
    await disk.backend.prepare(disk.restoration, volume)
    for step in (disk.backend.swap, disk.backend.swap_back, disk.backend.swap):
        disk.remounted()
        await step(NAME, volume)
    await disk.backend.discard(NAME)
    assert read(Path(made.handle)) == NEW
    disk.remounted()
    assert (await backend.restore(Restoration(name="pvc-1", snapshot=disk.snapshot, size=1 << 20))).handle == made.handle
    await backend.discard(made.handle)
    assert "pvc-1" not in os.listdir(disk.root)


async def test_a_volume_of_another_node_is_refused(disk: Disk) -> None:
    with pytest.raises(Impossible, match="node there"):
        await disk.backend.prepare(disk.restoration, VolumeHandle(handle=str(disk.volume), node="there"))


async def test_a_snapshot_that_needs_more_than_the_volume_has_is_refused(disk: Disk) -> None:
    with pytest.raises(Impossible, match="needs"):
        await disk.backend.prepare(Restoration(name=NAME, snapshot=disk.snapshot, size=1), disk.handle)
    assert read(disk.volume) == OLD
