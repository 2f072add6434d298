"""Walks through trees of files that a tenant has written: any depth, any modes, links to anywhere.

Every directory is opened in the one above it and no link is followed, so that whatever is swapped meanwhile, the way cannot
leave the tree. Nothing recurses, and few directories are open at a time.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count, islice
from typing import IO, Final, Self

from ullage.errors import NotNow

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH: Final = 10_000  # files
_AHEAD: Final = 10_000  # directories of one directory that are remembered; the others are found when these are gone
_DEEP: Final = 16  # levels; what is deeper is moved to the top first, so that no way down is long


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def descend(start: int, parts: Iterable[str]) -> int:
    """A descriptor of a directory below another one, reached without following a link. The caller closes it.

    Even without parts it is a new one: btrfs lists through a descriptor only what was there when it was opened.
    """
    current = os.open(".", DIRECTORY, dir_fd=start)
    for part in parts:
        try:
            following = os.open(part, DIRECTORY, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current


# --- removing ---------------------------------------------------------------------------------------------------------


def remove_tree(parent: int, name: str) -> None:
    """Removes a directory in another one, with all that is in it. One that is not there is removed already.

    A file system that is mounted inside stays, and so does the directory. A link in the directory's place is a
    NotADirectoryError.
    """
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
        try:
            if below := _look(top, path, device=device, numbers=numbers):
                ahead.extend((*path, name) for name in below)
                continue
            if path:
                with closing(descend(top, path[:-1])) as above:
                    os.rmdir(path[-1], dir_fd=above)
        except FileNotFoundError:  # another process removes the same tree
            if not path:
                raise
        ahead.pop()


def _look(top: int, path: tuple[str, ...], *, device: int, numbers: Iterator[int]) -> list[str]:
    """Removes the files of a directory, and gives directories in it that are to be emptied first."""
    with closing(descend(top, path)) as here:
        while (inside := _unlink_files(here, device=device)) and len(path) >= _DEEP:
            for name in inside:  # they are found there, when the top is looked at again
                with suppress(FileNotFoundError):
                    _lift(here, name, top=top, numbers=numbers)
        return inside


def _unlink_files(here: int, *, device: int) -> list[str]:
    """The first of the directories that are left."""
    while _unlink_some(here):
        pass
    directories = []
    with os.scandir(here) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):  # it came a moment ago
                with suppress(FileNotFoundError):
                    os.unlink(entry.name, dir_fd=here)
                continue
            with suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_dev != device:
                    raise OSError(errno.EBUSY, "a file system is mounted here", entry.name)
                open_up(here, entry.name)
                directories.append(entry.name)
            if len(directories) == _AHEAD:
                break
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


# --- what is ahead of a walk ------------------------------------------------------------------------------------------


class DirectoriesAhead:
    """Those that a walk has seen and not entered yet, the last one first. Millions of them cost a file, not the memory."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most  # in memory
        self._paths: list[str] = []
        self._blocks: list[int] = []  # where each begins in the file, the oldest first
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def push(self, path: str) -> None:
        self._paths.append(path)
        if len(self._paths) > self._most:
            half = self._most // 2
            self._put_away(self._paths[:half])
            del self._paths[:half]

    def pop(self) -> str | None:
        if not self._paths and self._blocks:
            self._paths = self._taken_back()
        return self._paths.pop() if self._paths else None

    def _put_away(self, paths: list[str]) -> None:
        if self._file is None:
            self._file = _temporary_file()
        self._blocks.append(self._file.seek(0, os.SEEK_END))
        self._file.write(b"\0".join(map(os.fsencode, paths)))

    def _taken_back(self) -> list[str]:
        assert self._file is not None
        start = self._blocks.pop()
        self._file.seek(start)
        paths = [os.fsdecode(one) for one in self._file.read().split(b"\0")]
        self._file.truncate(start)
        return paths


def _temporary_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:  # not as one of the tree: that would look like a directory that has gone
        raise NotNow(f"a tree with very many directories needs a temporary file: {error}") from error
