"""Two directories change places: at once where the file system can do that, or else in three renames.

Whoever is killed within the three leaves one of four arrangements, and `mend` makes one of the two whole ones of it: the volume
is then where it was before, or where it was to go. Which directory is which is told by its number, never by its name alone.

    volume   entry    moving
    old      new               before
             new      old      killed after the first: the old one goes back
    new               old      killed after the second: the old one becomes the entry
    new      old               after
"""

from __future__ import annotations

import ctypes
import errno
import os
from dataclasses import dataclass
from typing import Final, NamedTuple

from ullage.files.trees import DIRECTORY, closing

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
