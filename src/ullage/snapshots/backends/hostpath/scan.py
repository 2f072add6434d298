"""What is in a tree, in enough detail to see later whether anything has changed.

Sound as far as the file system's timestamps are: they move in steps (a tick of the kernel, or a second on old file systems),
so two changes within one step look like one. What was changed a moment ago is therefore left to age before it is looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ullage.clock import Clock
from ullage.errors import Impossible
from ullage.snapshots.backends.hostpath.errors import naming, printable
from ullage.snapshots.backends.hostpath.paths import closing, descend
from ullage.snapshots.backends.hostpath.threads import Stop

DEEPEST: Final = 256  # levels; every directory is reached from the top anew
_TICK: Final = 20_000_000  # nanoseconds: twice the longest step of a kernel's clock
_COARSE: Final = 2_000_000_000  # the longest step of a file system's timestamps
_SECOND: Final = 1_000_000_000
NEVER: Final = -1  # a time that no file has: what has it is equal to nothing


class Stamp(NamedTuple):
    """One file, directory, link… at one moment. Any change of its content, its attributes or its identity makes another."""

    mode: int
    device: int
    inode: int
    links: int
    owner: int
    group: int
    size: int
    mtime: int
    ctime: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(
            found.st_mode,
            found.st_dev,
            found.st_ino,
            found.st_nlink,
            found.st_uid,
            found.st_gid,
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
        )

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode

    @property
    def kind(self) -> int:
        return stat.S_IFMT(self.mode)


class Notes(Protocol):
    """Where a walk writes down what it finds, directories before what is in them."""

    def begin(self) -> None: ...

    def note(self, path: str, stamp: Stamp) -> None: ...


def settle(stamp: Stamp, *, clock: Clock, stop: Stop) -> bool:
    """Waits until a change from now on cannot have the same timestamp as the last one. True: it had to wait."""
    step = _TICK if stamp.ctime % _SECOND else _COARSE
    age = int(clock.now().timestamp() * _SECOND) - stamp.ctime
    if not 0 <= age < step:  # one from the future cannot be met by chance either
        return False
    stop.pause((step - age) / _SECOND)
    return True


def scan(top: int, notes: Notes, *, clock: Clock, stop: Stop) -> None:
    """Walks through a tree. What vanishes meanwhile is left out: the next walk sees that its directory has changed."""
    notes.begin()

    def enter(path: str, directory: int) -> None:
        notes.note(path, _still(directory, clock=clock, stop=stop))

    for path, entry in _walk(top, enter=enter, stop=stop):
        try:
            notes.note(path, Stamp.of(entry.stat(follow_symlinks=False)))
        except FileNotFoundError:
            continue


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tree takes. A file with several names counts once."""

    entries: int  # files, directories, links…, the top not included
    apparent: int  # the bytes of all files, as long as they claim to be
    allocated: int  # the bytes on the disk, directories included; a block shared with another file (a reflink) counts fully


def measure(top: int, *, stop: Stop) -> Usage:
    """What a tree takes now."""
    inodes: set[tuple[int, int]] = set()
    entries = apparent = allocated = 0

    def enter(path: str, directory: int) -> None:
        nonlocal entries, allocated
        entries += bool(path)
        allocated += os.fstat(directory).st_blocks * 512

    for _path, entry in _walk(top, enter=enter, stop=stop):
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        entries += 1
        if found.st_nlink > 1 and (found.st_dev, found.st_ino) in inodes:
            continue
        if found.st_nlink > 1:
            inodes.add((found.st_dev, found.st_ino))
        apparent += found.st_size if stat.S_ISREG(found.st_mode) else 0
        allocated += found.st_blocks * 512
    return Usage(entries=entries, apparent=apparent, allocated=allocated)


@contextmanager
def directory_at(top: int, path: str) -> Iterator[int]:
    """A descriptor of a directory of the tree."""
    with naming(path):
        directory = descend(top, path.split("/") if path else ())
    with closing(directory):
        yield directory


def _walk(top: int, *, enter: Callable[[str, int], None], stop: Stop) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything that is not a directory; directories are entered, each before what is in it."""
    ahead = [""]
    while ahead:
        stop.check()
        path = ahead.pop()
        try:
            with directory_at(top, path) as directory:
                enter(path, directory)
                with naming(path), os.scandir(directory) as entries:
                    for entry in entries:
                        below = f"{path}/{entry.name}" if path else entry.name
                        if not entry.is_dir(follow_symlinks=False):
                            yield below, entry
                        elif below.count("/") < DEEPEST:
                            ahead.append(below)
                        else:
                            raise Impossible(f"{printable(below)}: deeper than {DEEPEST} levels, which is the most")
        except (FileNotFoundError, NotADirectoryError):
            if not path:
                raise


def _still(directory: int, *, clock: Clock, stop: Stop) -> Stamp:
    """A directory's stamp, taken before its names are read, so that a change meanwhile shows. In flux: never equal."""
    stamp = Stamp.of(os.fstat(directory))
    if not settle(stamp, clock=clock, stop=stop):
        return stamp
    again = Stamp.of(os.fstat(directory))
    return again if again == stamp else again._replace(ctime=NEVER)
