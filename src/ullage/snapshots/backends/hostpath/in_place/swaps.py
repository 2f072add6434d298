"""Restores in place, of directories: a copy of the snapshot is made beside the volume, then the two change places.

    ROOT/.in-place/NAME             the copy; after the swap what the volume was before; after an undo the copy again
    ROOT/.in-place/.journal-NAME    which volume it is for, and which directory is the old one and which the new, by number
    ROOT/.in-place/.moving-NAME     for a moment, where two directories cannot change places at once

ROOT is the volume root that the volume is in: what a dot is in front of is no volume there. Whatever is at the volume's path at
any moment is one whole directory, the old one or the new; the other one is in `.in-place` until it is discarded.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from ullage.clock import Clock
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.snapshots.backends.base import Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import errors
from ullage.snapshots.backends.hostpath.errors import printable
from ullage.snapshots.backends.hostpath.in_place.exchange import Number, Place, exchange, mend
from ullage.snapshots.backends.hostpath.paths import HostPathSettings, VolumePath, check_name, is_name, opened, volume_path
from ullage.snapshots.backends.hostpath.restores import Mark, Restores, read_mark, write_mark
from ullage.snapshots.backends.hostpath.snapshots import Snapshots
from ullage.snapshots.backends.hostpath.threads import Stop

AREA: Final = ".in-place"
JOURNAL: Final = ".journal-"
MOVING: Final = ".moving-"
DRAFT: Final = ".draft-"
_PREFIX: Final = re.compile(r"\.(?:journal|moving|draft|staging|deleting|scratch|notes)-")


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """Which volume a copy is for, and which directory is which."""

    parts: tuple[str, ...]  # of the volume's path, below its root
    old: Number
    new: Number


@dataclass(frozen=True, slots=True)
class _Area:
    """What belongs to one name, opened and locked."""

    volume: Place
    entry: Place
    moving: Place
    journal: Journal


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
        if (journal := _read(area, restoration.name)) is not None and journal.parts == path.parts:
            return
        restores.restore(restoration, stop)
        with restores.store.opened() as root, restores.store.locked(root, restoration.name, stop=stop):
            new = Place(root, restoration.name).number()
            if new is None:
                raise Uncertain(f"{area / restoration.name}: the copy is not there any more; ask again")
            _write(area, restoration.name, Journal(parts=path.parts, old=old, new=new))

    def swap(self, name: str, volume: VolumeHandle, stop: Stop) -> None:
        """The volume is the copy from now on."""
        self._arrange(name, volume, stop, wanted=lambda journal: journal.new)

    def swap_back(self, name: str, volume: VolumeHandle, stop: Stop) -> None:
        """The volume is what it was before."""
        self._arrange(name, volume, stop, wanted=lambda journal: journal.old)

    def is_swapped(self, name: str, volume: VolumeHandle, stop: Stop) -> bool:
        path = volume_path(volume.handle, self._settings.volumes)
        area = path.root / AREA
        if _read(area, check_name(name)) is None:
            return False
        with self._opened(area, name, stop) as found:
            return found.volume.number() == found.journal.new

    def discard(self, name: str, stop: Stop) -> None:
        """Removes what is beside a volume under this name, never what is the volume. What is not there is removed already."""
        check_name(name)
        for root in self._settings.volumes:
            area = root / AREA
            if not area.is_dir():
                continue
            if _read(area, name) is not None:
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

    def _arrange(self, name: str, volume: VolumeHandle, stop: Stop, *, wanted: Callable[[Journal], Number]) -> None:
        path = volume_path(volume.handle, self._settings.volumes)
        area = path.root / AREA
        if _read(area, check_name(name)) is None:
            raise Impossible(f"volume {printable(volume.handle)}: no copy of a snapshot was made for {name}")
        with self._opened(area, name, stop) as found:
            if found.journal.parts != path.parts:
                raise Impossible(f"volume {printable(volume.handle)}: the copy {name} is for another volume")
            is_now, beside = found.volume.number(), found.entry.number()
            if is_now != wanted(found.journal):
                if {is_now, beside} != {found.journal.old, found.journal.new}:
                    raise Impossible(
                        f"volume {printable(volume.handle)}: its directory, or the one that was to take its place, was "
                        "replaced by somebody else; neither is touched"
                    )
                exchange(found.volume, found.entry, moving=found.moving)
            self._write_mark(path, found.journal, is_now=wanted(found.journal))

    @contextmanager
    def _opened(self, area: Path, name: str, stop: Stop) -> Iterator[_Area]:
        """What is there, mended."""
        restores = self._restores(area)
        with restores.store.opened() as root, restores.store.locked(root, name, stop=stop):
            journal = _read(area, name)
            if journal is None:
                raise Uncertain(f"{area / name}: the journal is gone; ask again")
            parent = VolumePath(area.parent, journal.parts[:-1])
            with opened(parent) as above, _translated(parent.path / journal.parts[-1]):
                places = Place(above, journal.parts[-1]), Place(root, name), Place(root, MOVING + name)
                mend(places[0], places[1], moving=places[2])
                yield _Area(*places, journal)

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
        return found.st_dev, found.st_ino

    def _restores(self, area: Path) -> Restores:
        """Makes copies in the area, as it makes volumes elsewhere."""
        return Restores(replace(self._settings, restored=area), self._snapshots, clock=self._clock)

    def _write_mark(self, path: VolumePath, journal: Journal, *, is_now: Number) -> None:
        """A volume that was made from a snapshot is told by its number: it has another one now."""
        if path.path.parent != self._settings.restored:
            return
        with opened(VolumePath(path.root, path.parts[:-1])) as above:
            mark = read_mark(above, path.parts[-1])
            if mark is not None and (mark.device, mark.inode) in (journal.old, journal.new):
                write_mark(above, path.parts[-1], Mark(snapshot=mark.snapshot, device=is_now[0], inode=is_now[1]))


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.EXDEV):
            raise Impossible(f"{printable(path)}: is mounted, or has something mounted in it; it cannot be moved") from error
        if error.errno in errors.FORBIDDEN:
            raise Impossible(f"{printable(path)}: {error.strerror}") from error
        raise NotNow(f"{printable(path)}: {error.strerror}") from error


def _made(root: Path) -> Path:
    area = root / AREA
    try:
        area.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise NotNow(f"{area}: {error.strerror}; it has to be possible to make it") from error
    if area.is_symlink():
        raise Impossible(f"{area}: is a symbolic link, which is not followed")
    return area


def _read(area: Path, name: str) -> Journal | None:
    try:
        with os.fdopen(os.open(area / (JOURNAL + name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return msgspec.json.decode(file.read(), type=Journal)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write(area: Path, name: str, journal: Journal) -> None:
    """Under another name first: it is whole, or not there."""
    path, draft = area / (JOURNAL + name), area / (DRAFT + name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
        file.write(msgspec.json.encode(journal))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    with suppress(OSError):
        directory = os.open(area, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fsync(directory)
        os.close(directory)
