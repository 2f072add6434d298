"""Files of a volume, reached through open directories only: neither a link in the data nor one that appears meanwhile leads
outside. May block: it is called in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 1024 * 1024  # of a file that is read
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not make us wait for its other end


def read(root: Path, parts: Sequence[str]) -> bytes:
    """The first of its bytes. Raises OSError."""
    with _opened(root, parts, os.O_RDONLY) as file:
        return os.read(file, MOST_BYTES)


def write(root: Path, parts: Sequence[str], data: bytes, *, append: bool) -> None:
    """Makes the file where there is none. Raises OSError."""
    how = os.O_APPEND if append else os.O_TRUNC
    with _opened(root, parts, os.O_WRONLY | os.O_CREAT | how) as file:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]


def touch(root: Path, parts: Sequence[str]) -> None:
    with _opened(root, parts, os.O_WRONLY | os.O_CREAT) as file:
        os.utime(file)


@contextmanager
def _opened(root: Path, parts: Sequence[str], flags: int) -> Iterator[int]:
    folder = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        if not parts:
            raise IsADirectoryError(21, "Is a directory")
        file = os.open(parts[-1], flags | _FILE, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise IsADirectoryError(21, "Is no regular file")
        yield file
    finally:
        os.close(file)
