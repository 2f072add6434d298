"""What is in a tree, in enough detail to see later whether anything has changed.

Sound as far as the file system's timestamps are: they move in steps (a tick of the kernel, or a second on old file systems),
so two changes within one step look like one. What was changed a moment ago is therefore left to age before it is looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from ullage.clock import Clock
from ullage.errors import Impossible
from ullage.files.trees import DirectoriesAhead, closing, descend
from ullage.snapshots.backends.hostpath.errors import naming, printable
from ullage.snapshots.backends.hostpath.threads import Stop

DEEPEST: Final = 256  # levels; every directory is reached from the top anew
_NAMED: Final = 200  # characters of a path that is too deep
_BREATH: Final = 1000  # entries of a directory between two looks at whether anybody still wants the walk
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

    for path, entry in walk(top, enter=enter, stop=stop):
        try:
            notes.note(path, Stamp.of(entry.stat(follow_symlinks=False)))
        except FileNotFoundError:
            continue


@contextmanager
def directory_at(top: int, path: str) -> Iterator[int]:
    """A descriptor of a directory of the tree."""
    with naming(path):
        directory = descend(top, path.split("/") if path else ())
    with closing(directory):
        yield directory


def walk(top: int, *, enter: Callable[[str, int], None], stop: Stop) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything that is not a directory; directories are entered, each before what is in it."""
    with DirectoriesAhead() as ahead:
        ahead.push("")
        while (path := ahead.pop()) is not None:
            stop.check()
            try:
                with directory_at(top, path) as directory:
                    enter(path, directory)
                    with naming(path), os.scandir(directory) as entries:
                        for number, entry in enumerate(entries, 1):
                            if number % _BREATH == 0:
                                stop.check()
                            below = f"{path}/{entry.name}" if path else entry.name
                            if not entry.is_dir(follow_symlinks=False):
                                yield below, entry
                            elif below.count("/") < DEEPEST:
                                ahead.push(below)
                            else:
                                raise Impossible(
                                    f"{printable(below)[:_NAMED]}…: deeper than {DEEPEST} levels, which is the most"
                                )
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
