"""Restores in place of directories, for controllers: `swaps` in threads, long copies in the background."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from ullage.clock import Clock, SystemClock
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.files.trees import DIRECTORY, closing
from ullage.snapshots.backends.base import Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import errors
from ullage.snapshots.backends.hostpath.copies import PATIENCE, Copies, CopyKey
from ullage.snapshots.backends.hostpath.errors import printable
from ullage.snapshots.backends.hostpath.paths import (
    HostPathSettings,
    VolumePath,
    check_name,
    is_name,
    opened,
    volume_path,
)
from ullage.snapshots.backends.hostpath.restores import Mark, Restores, read_mark, write_mark
from ullage.snapshots.backends.hostpath.snapshots import Snapshots
from ullage.snapshots.backends.hostpath.threads import Stop, Workers

# Two directories change places: at once where the file system can do that, or else in three renames. Whoever is killed
# within the three leaves one of four arrangements, and `mend` makes one of the two whole ones of it: the volume is then
# where it was before, or where it was to go. Which directory is which is told by its number, never by its name alone.
# volume   entry    moving old      new               before new      old      killed after the first: the old one goes
# back new               old      killed after the second: the old one becomes the entry new      old
# after


_EXCHANGE: Final = 2  # RENAME_EXCHANGE
_UNABLE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class Number(NamedTuple):
    """Which directory it is. The device is that of the day on which it was written down: the same file system may have another
    one at its next mount. So two are told apart by their inodes, among directories that are on one file system now."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class Place:
    """A name in a directory that is open."""

    directory: int
    name: str

    def inode(self) -> int | None:
        """Of the directory that is there; None where there is none, or something else. What is mounted there is something else:
        its inodes are those of another file system."""
        try:
            with closing(os.open(self.name, DIRECTORY, dir_fd=self.directory)) as found:
                state, around = os.fstat(found), os.fstat(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a symbolic link
                return None
            raise
        return state.st_ino if state.st_dev == around.st_dev else None


def exchange(volume: Place, entry: Place, *, moving: Place) -> None:
    """Both are there. `moving` is a name for the time in between, where there is one."""
    if not _exchanged(volume, entry):
        move(volume, moving)
        move(entry, volume)
        move(moving, entry)


def sync(volume: Place, entry: Place) -> None:
    """What is where is on the disk afterwards, whoever put it there."""
    os.fsync(volume.directory)
    os.fsync(entry.directory)


def mend(volume: Place, entry: Place, *, moving: Place) -> None:
    """Ends what a process that was killed had begun."""
    if moving.inode() is None:
        return
    if volume.inode() is None:
        move(moving, volume)
    elif entry.inode() is None:
        move(moving, entry)
    sync(volume, entry)


def move(old: Place, new: Place) -> None:
    os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)


def _exchanged(one: Place, other: Place) -> bool:
    """False where the file system, or the C library, cannot do it at once. Then nothing has changed."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if call(one.directory, os.fsencode(one.name), other.directory, os.fsencode(other.name), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNABLE:
        return False
    raise OSError(code, os.strerror(code), one.name)


# Which volume a copy is for, and which of two directories is the old one and which the new: a file beside them.


JOURNAL: Final = ".journal-"
DRAFT: Final = ".draft-"


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """Which volume a copy is for, and which directory is which."""

    parts: tuple[str, ...]  # of the volume's path, below its root
    old: Number
    new: Number

    def is_swapped(self, *, volume: int | None, beside: int | None) -> bool | None:
        """By the inodes of the directories at both places. None: they do not tell."""
        if volume == self.new.inode:
            return True
        return False if volume == self.old.inode or beside == self.new.inode else None


def read_journal(area: Path, name: str) -> Journal | None:
    """None: there is none. One that cannot be read is not none: what is beside the volume may be all there is of it."""
    path = area / (JOURNAL + name)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return msgspec.json.decode(file.read(), type=Journal)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise NotNow(f"{path}: cannot be read: {error}") from error


def write_journal(area: Path, name: str, journal: Journal) -> None:
    """Under another name first: it is whole, or not there."""
    path, draft = area / (JOURNAL + name), area / (DRAFT + name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
        file.write(msgspec.json.encode(journal))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    with closing(os.open(area, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        os.fsync(directory)  # a swap whose journal is lost could not be told from one that never was


# Restores in place, of directories: a copy of the snapshot is made beside the volume, then the two change places.
# ROOT/.in-place/NAME             the copy; after the swap what the volume was before; after an undo the copy again
# ROOT/.in-place/.journal-NAME    which volume it is for, and which directory is the old one and which the new, by
# number ROOT/.in-place/.moving-NAME     for a moment, where two directories cannot change places at once ROOT is the
# volume root that the volume is in: what a dot is in front of is no volume there. Whatever is at the volume's path at
# any moment is one whole directory, the old one or the new; the other one is in `.in-place` until it is discarded.
# After a swap that other one is all there is of what the volume was. So whoever asks for a swap is told that it is
# Impossible only where both directories were looked at and the volume is known to be the old one. Whatever else is in
# the way (no file system mounted, no right to look, a directory that somebody else put there) is Uncertain: an earlier
# call may have come through.


AREA: Final = ".in-place"
MOVING: Final = ".moving-"
_MOUNTED: Final = frozenset({errno.EBUSY, errno.EXDEV})
_NEVER: Final = _MOUNTED | errors.FORBIDDEN  # trying again does not help
_PREFIX: Final = re.compile(r"\.(?:journal|moving|draft|staging|deleting|scratch|notes)-")


@dataclass(frozen=True, slots=True)
class _Area:
    """What belongs to one name, opened and locked."""

    volume: Place
    entry: Place
    moving: Place
    journal: Journal
    path: Path  # of the entry

    def are(self, *, volume: Number, entry: Number) -> bool:
        return (self.volume.inode(), self.entry.inode()) == (volume.inode, entry.inode)

    def is_swapped(self) -> bool | None:
        return self.journal.is_swapped(volume=self.volume.inode(), beside=self.entry.inode())


class Swaps:
    """Every call blocks, and belongs in a thread. Each may be repeated, and goes on from wherever an earlier one ended."""

    def __init__(self, settings: HostPathSettings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._snapshots = Snapshots(settings, clock=clock)

    def prepare(self, restoration: Restoration, volume: VolumeHandle, stop: Stop) -> None:
        """The copy, beside the volume, and the journal of the two. The volume is as it was."""
        if not self._snapshots.is_here(volume):
            raise Impossible(
                f"volume {printable(volume.handle)} is on node {volume.node or '(none named)'}, and its snapshots are restored "
                f"on {self._settings.node}"
            )
        path = volume_path(volume.handle, self._settings.volumes)
        old = self._checked(path)
        area = _made(path.root)
        restores = self._restores(area)
        if (journal := read_journal(area, restoration.name)) is not None and journal.parts == path.parts:
            return
        restores.restore(restoration, stop)
        with restores.store.opened() as root, restores.store.locked(root, restoration.name, stop=stop):
            new = Place(root, restoration.name).inode()
            if new is None:
                raise Uncertain(f"{area / restoration.name}: the copy is not there any more; ask again")
            with _translated(area / (JOURNAL + restoration.name)):
                write_journal(area, restoration.name, Journal(parts=path.parts, old=old, new=Number(old.device, new)))

    def swap(self, name: str, volume: VolumeHandle, stop: Stop) -> None:
        """The volume is the copy from now on. Impossible: it is what it was, and that is known."""
        check_name(name)
        with _uncertain():
            obstacle = self._swap(name, volume, stop)
        if obstacle:
            raise Impossible(obstacle)

    def swap_back(self, name: str, volume: VolumeHandle, stop: Stop) -> None:
        """The volume is what it was before. Impossible: that is not there any more, and that is known."""
        check_name(name)
        with _uncertain():
            obstacle = self._swap_back(name, volume, stop)
        if obstacle:
            raise Impossible(obstacle)

    def is_swapped(self, name: str, volume: VolumeHandle, stop: Stop) -> bool:
        """Uncertain where nothing tells."""
        check_name(name)
        with _uncertain(), self._beside(name, volume, stop) as found:
            swapped = found.is_swapped()
            if swapped is None:
                raise Uncertain(_replaced(volume, found.path))
            return swapped

    def discard(self, name: str, stop: Stop) -> None:
        """Removes what is beside a volume under this name, never what is the volume. What is not there is removed already."""
        check_name(name)
        for root in self._settings.volumes:
            area = root / AREA
            if not area.is_dir():
                continue
            if read_journal(area, name) is not None:
                with suppress(Impossible), self._opened(area, name, stop):  # its parent is gone: there is nothing to mend
                    pass
            self._remove(area, name, stop)

    def kept(self, stop: Stop) -> list[str]:
        """The names of all that is beside volumes: copies, half of them too, and what volumes were before."""
        found: set[str] = set()
        for root in self._settings.volumes:
            stop.check()
            with suppress(FileNotFoundError):
                names = os.listdir(root / AREA)
                found |= {_PREFIX.sub("", one, count=1) for one in names}
        return sorted(filter(is_name, found))

    # --- within ---

    def _swap(self, name: str, volume: VolumeHandle, stop: Stop) -> str:
        """Why it cannot be, where the volume is known to be what it was; empty: it is the copy."""
        with self._beside(name, volume, stop) as found:
            if found.volume.inode() != found.journal.new.inode:
                if not found.are(volume=found.journal.old, entry=found.journal.new):
                    replaced = _replaced(volume, found.path)
                    if found.is_swapped() is None:
                        raise Uncertain(replaced)
                    return replaced
                if obstacle := self._exchange(found, volume):
                    return obstacle
            self._finish(found, volume, is_now=found.journal.new)
        return ""

    def _swap_back(self, name: str, volume: VolumeHandle, stop: Stop) -> str:
        """Why it cannot be, where what the volume was is known to be gone; empty: it is that."""
        with self._beside(name, volume, stop) as found:
            if found.volume.inode() != found.journal.old.inode:
                if found.entry.inode() != found.journal.old.inode:
                    return f"volume {printable(volume.handle)}: what it was before is not in {found.path} any more"
                if found.volume.inode() != found.journal.new.inode:
                    raise Uncertain(_replaced(volume, found.path))
                exchange(found.volume, found.entry, moving=found.moving)
            self._finish(found, volume, is_now=found.journal.old)
        return ""

    def _exchange(self, found: _Area, volume: VolumeHandle) -> str:
        """Why the directories cannot change places, where none has; empty: they have."""
        try:
            exchange(found.volume, found.entry, moving=found.moving)
        except OSError as error:
            mend(found.volume, found.entry, moving=found.moving)
            if error.errno in _NEVER and found.are(volume=found.journal.old, entry=found.journal.new):
                return _obstacle(error, volume.handle)
            raise
        return ""

    def _finish(self, found: _Area, volume: VolumeHandle, *, is_now: Number) -> None:
        """Also where an earlier call has changed them: it may have been killed before this."""
        sync(found.volume, found.entry)
        self._write_mark(volume_path(volume.handle, self._settings.volumes), found.journal, is_now=is_now)

    @contextmanager
    def _beside(self, name: str, volume: VolumeHandle, stop: Stop) -> Iterator[_Area]:
        """What belongs to a name that was made ready for this volume."""
        path = volume_path(volume.handle, self._settings.volumes)
        with self._opened(path.root / AREA, name, stop) as found:
            if found.journal.parts != path.parts:
                raise Impossible(f"volume {printable(volume.handle)}: the copy {name} is for another volume")
            if found.moving.inode() is not None:  # a kubelet makes directories that it misses
                raise Impossible(
                    f"{path.root / AREA / (MOVING + name)} was on its way, and something else is at {printable(path.path)} by "
                    "now; move that away"
                )
            yield found

    @contextmanager
    def _opened(self, area: Path, name: str, stop: Stop) -> Iterator[_Area]:
        """What is there, mended."""
        restores = self._restores(area)
        with restores.store.opened() as root, restores.store.locked(root, name, stop=stop):
            journal = read_journal(area, name)
            if journal is None:
                raise Uncertain(
                    f"{area / (JOURNAL + name)}: is not there, though a copy was made; the file system of {area.parent} has to "
                    "be mounted"
                )
            parent = VolumePath(area.parent, journal.parts[:-1])
            with opened(parent) as above, _translated(parent.path / journal.parts[-1]):
                if os.fstat(above).st_dev != os.fstat(root).st_dev:  # inodes of two file systems tell nothing
                    raise Impossible(f"{printable(parent.path)} and {area} are not on one file system any more")
                places = Place(above, journal.parts[-1]), Place(root, name), Place(root, MOVING + name)
                mend(places[0], places[1], moving=places[2])
                yield _Area(*places, journal, area / name)

    def _remove(self, area: Path, name: str, stop: Stop) -> None:
        restores = self._restores(area)
        with restores.store.opened() as root, _translated(area / name), restores.store.locked(root, name, stop=stop):
            for file in (
                JOURNAL + name,
                DRAFT + name,
                f".restored/{name}",
            ):  # without a journal nothing is swapped any more
                with suppress(FileNotFoundError):
                    os.unlink(file, dir_fd=root)
            restores.store.clear(root, name)
            restores.store.retire(root, name)

    def _checked(self, path: VolumePath) -> Number:
        """The volume's own number. Its directory must be one that can change places."""
        with opened(path) as directory, opened(VolumePath(path.root, path.parts[:-1])) as above:
            found, parent = os.fstat(directory), os.fstat(above)
            root = os.stat(path.root)
        if found.st_dev != parent.st_dev or found.st_dev != root.st_dev:
            raise Impossible(
                f"volume {printable(path.path)} is a file system of its own: it cannot change places with a copy in "
                f"{path.root / AREA}; restore the snapshot to a new claim instead"
            )
        return Number(found.st_dev, found.st_ino)

    def _restores(self, area: Path) -> Restores:
        """Makes copies in the area, as it makes volumes elsewhere."""
        return Restores(replace(self._settings, restored=area), self._snapshots, clock=self._clock)

    def _write_mark(self, path: VolumePath, journal: Journal, *, is_now: Number) -> None:
        """A volume that was made from a snapshot is told by its number: it has another one now."""
        if path.path.parent != self._settings.restored:
            return
        with opened(VolumePath(path.root, path.parts[:-1])) as above:
            mark = read_mark(above, path.parts[-1])
            if mark is not None and mark.inode in (journal.old.inode, journal.new.inode):
                write_mark(above, path.parts[-1], Mark(snapshot=mark.snapshot, device=is_now.device, inode=is_now.inode))


@contextmanager
def _uncertain() -> Iterator[None]:
    """What keeps us from looking says nothing about what an earlier call has done."""
    try:
        yield
    except Impossible as error:
        raise Uncertain(str(error)) from error


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise (Impossible if error.errno in _NEVER else NotNow)(_obstacle(error, path)) from error


def _obstacle(error: OSError, path: str | Path) -> str:
    if error.errno in _MOUNTED:
        return f"{printable(path)}: is mounted, or has something mounted in it; it cannot be moved"
    return f"{printable(path)}: {error.strerror}"


def _replaced(volume: VolumeHandle, entry: Path) -> str:
    return (
        f"volume {printable(volume.handle)}: its directory, or the one that was to take its place ({entry}), was replaced by "
        "somebody else; neither is touched"
    )


def _made(root: Path) -> Path:
    area = root / AREA
    try:
        area.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise NotNow(f"{area}: {error.strerror}; it has to be possible to make it") from error
    if area.is_symlink():
        raise Impossible(f"{area}: is a symbolic link, which is not followed")
    return area


_COPIES: Final = 2  # at a time
_LOOKS: Final = 2


class InPlaceBackend(Protocol):
    """A storage system whose volumes can change places with copies of their snapshots. Every call may be repeated."""

    async def prepare(self, restoration: Restoration, volume: VolumeHandle) -> None:
        """Makes a copy of the snapshot beside the volume, under the name of the restoration. InProgress: ask again."""

    async def swap(self, name: str, volume: VolumeHandle) -> None:
        """The volume is the copy from now on; what it was before is kept. Impossible: it is what it was, and that is known;
        whatever else is in the way is Uncertain or NotNow, and what is kept must stay."""

    async def swap_back(self, name: str, volume: VolumeHandle) -> None:
        """The volume is what it was before; the copy, with what was written to it, is kept. Impossible: what it was is not
        there any more, and that is known."""

    async def is_swapped(self, name: str, volume: VolumeHandle) -> bool:
        """Whether the volume is the copy now. Never a guess: Uncertain or NotNow where nothing tells."""

    async def discard(self, name: str) -> None:
        """Removes what is kept under this name. The volume stays what it is."""

    async def kept(self) -> list[str]:
        """The names of all that is kept."""


class HostPathInPlace:
    """Directories of this machine."""

    def __init__(self, settings: HostPathSettings, *, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        self._swaps = Swaps(settings, clock=clock or SystemClock())
        self._copies = Copies(_COPIES, name="hostpath-in-place", patience=patience)
        self._looks = Workers(_LOOKS, name="hostpath-swap")

    async def prepare(self, restoration: Restoration, volume: VolumeHandle) -> None:
        key = CopyKey(restoration.name, restoration.snapshot)
        await self._copies.run(key, partial(self._swaps.prepare, restoration, volume), owner=restoration.owner)

    async def swap(self, name: str, volume: VolumeHandle) -> None:
        await self._looks.run(partial(self._swaps.swap, name, volume))

    async def swap_back(self, name: str, volume: VolumeHandle) -> None:
        await self._looks.run(partial(self._swaps.swap_back, name, volume))

    async def is_swapped(self, name: str, volume: VolumeHandle) -> bool:
        return await self._looks.run(partial(self._swaps.is_swapped, name, volume))

    async def discard(self, name: str) -> None:
        await self._copies.cancel(name)
        await self._looks.run(partial(self._swaps.discard, name))

    async def kept(self) -> list[str]:
        return await self._looks.run(self._swaps.kept)

    async def close(self) -> None:
        """Calls off every copy that is being made. The next process goes on with them."""
        await self._copies.close()
