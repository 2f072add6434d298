"""Removes a directory with everything in it, whatever a tenant has put there: any depth, any modes, links to anywhere.

Nothing is followed and nothing outside is touched: a file system that is mounted inside stays, and so does the directory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice
from typing import Final

from ullage.snapshots.backends.hostpath.paths import DIRECTORY, closing, descend

_BATCH: Final = 10_000  # files
_DEEP: Final = 16  # levels; what is deeper is moved to the top first, so that no way down is long


def remove_tree(parent: int, name: str) -> None:
    """Removes a directory in another one. One that is not there is removed already."""
    try:
        open_up(parent, name)
        top = os.open(name, DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return
    with closing(top):
        _empty(top)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=parent)


def _empty(top: int) -> None:
    device = os.fstat(top).st_dev
    numbers = count()
    ahead: list[tuple[str, ...]] = [()]
    while ahead:
        path = ahead[-1]
        with closing(descend(top, path)) as here:
            inside = _unlink_files(here, device=device)
            if inside and len(path) >= _DEEP:
                ahead[1:1] = [(_lift(here, name, top=top, numbers=numbers),) for name in inside]
                inside = []
        if inside:
            ahead.extend((*path, name) for name in inside)
            continue
        ahead.pop()
        if path:
            with closing(descend(top, path[:-1])) as above:
                os.rmdir(path[-1], dir_fd=above)


def _unlink_files(here: int, *, device: int) -> list[str]:
    """The directories that are left."""
    while _unlink_some(here):
        pass
    directories = []
    with os.scandir(here) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):  # it came a moment ago
                with suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=here)
                continue
            if entry.stat(follow_symlinks=False).st_dev != device:
                raise OSError(errno.EBUSY, "a file system is mounted here", entry.name)
            open_up(here, entry.name)
            directories.append(entry.name)
    return directories


def _unlink_some(here: int) -> int:
    """How many. A batch at a time: a directory may have millions, and one that is being read must not change."""
    with os.scandir(here) as entries:
        names = [entry.name for entry in islice((one for one in entries if not one.is_dir(follow_symlinks=False)), _BATCH)]
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=here)
    return len(names)


def _lift(here: int, name: str, *, top: int, numbers: Iterator[int]) -> str:
    """Moves a directory to the top, under a name that nothing has there."""
    while True:
        lifted = f"lifted-{next(numbers)}"
        try:
            os.stat(lifted, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, lifted, src_dir_fd=here, dst_dir_fd=top)
            return lifted


def open_up(parent: int, name: str) -> None:
    """Gives us the right to empty a directory. The kernel follows no link on the way: it is the very one that was opened."""
    with closing(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)) as handle:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{handle}", mode | stat.S_IRWXU)
