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
from typing import Final

from ullage.snapshots.backends.hostpath.paths import DIRECTORY, closing

_EXCHANGE: Final = 2  # RENAME_EXCHANGE
_UNABLE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})

Number = tuple[int, int]  # device and inode: which directory it is


@dataclass(frozen=True, slots=True)
class Place:
    """A name in a directory that is open."""

    directory: int
    name: str

    def number(self) -> Number | None:
        """Of the directory that is there; None where there is none, or something else."""
        try:
            with closing(os.open(self.name, DIRECTORY, dir_fd=self.directory)) as found:
                state = os.fstat(found)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a symbolic link
                return None
            raise
        return state.st_dev, state.st_ino


def exchange(volume: Place, entry: Place, *, moving: Place) -> None:
    """Both are there. `moving` is a name for the time in between, where there is one."""
    if not _exchanged(volume, entry):
        move(volume, moving)
        move(entry, volume)
        move(moving, entry)
    os.fsync(volume.directory)
    os.fsync(entry.directory)


def mend(volume: Place, entry: Place, *, moving: Place) -> None:
    """Ends what a process that was killed had begun."""
    if moving.number() is None:
        return
    if volume.number() is None:
        move(moving, volume)
    elif entry.number() is None:
        move(moving, entry)
    os.fsync(volume.directory)
    os.fsync(entry.directory)


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
