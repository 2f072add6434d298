"""The one place where the store touches a disk: whatever a crash can tear apart is a call of `Files`.

Tests put something else in its place: one that stops between any two calls, and one that forgets what was not synced.
Paths are relative to the store's root, at most `VOLUME/FILE`, and made of checked names; "" is the root itself.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from ullage.engines.local.store.errors import Damaged, Unavailable
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.spans import Span
from ullage.files.sparse import extents

LOCK: Final = ".lock"
PROBE: Final = ".probe"  # the file that `check_holes` writes
_PUNCH_KEEP_SIZE: Final = 0x02 | 0x01
_OPEN: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class Files(Protocol):
    """Files and directories. Before `sync`, nothing is certain to survive a power cut: neither data nor names."""

    def names(self, directory: str) -> list[str]:
        """What is in a directory."""

    def create(self, path: str, *, size: int) -> None:
        """A new file that is one hole."""

    def read(self, path: str, *, offset: int, length: int) -> bytes:
        """Less than `length` where the file ends."""

    def write(self, path: str, *, offset: int, data: bytes) -> None:
        """All of it, or an error."""

    def punch(self, path: str, span: Span) -> None:
        """Makes a hole."""

    def extents(self, path: str) -> list[Span]:
        """Bytes that are no hole, in order."""

    def allocated(self, path: str) -> int:
        """Bytes on the disk."""

    def sync(self, path: str) -> None:
        """Of a file its data, of a directory its names."""

    def link(self, source: str, target: str) -> None:
        """A second name in the same directory."""

    def rename(self, source: str, target: str) -> None:
        """Replaces a target that is there, at once."""

    def remove(self, path: str) -> None:
        """A file's name; its data with the last of these."""

    def make_directory(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """An empty one."""

    def close(self) -> None: ...


class DiskFiles:
    """Files below a directory. One process at a time has it; the kernel ends that with the process."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        os.makedirs(root, mode=0o700, exist_ok=True)
        self._lock = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | _OPEN, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise Unavailable(f"{root}: another process serves the volumes in it; one is allowed") from error

    def close(self) -> None:
        os.close(self._lock)

    def names(self, directory: str) -> list[str]:
        return sorted(os.listdir(self._at(directory)))

    def create(self, path: str, *, size: int) -> None:
        with self._opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
            os.ftruncate(file, size)

    def read(self, path: str, *, offset: int, length: int) -> bytes:
        with self._opened(path, os.O_RDONLY) as file:
            left = min(length, os.fstat(file).st_size - offset)
            parts = []
            while left > 0 and (part := os.pread(file, left, offset)):
                parts.append(part)
                offset += len(part)
                left -= len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, path: str, *, offset: int, data: bytes) -> None:
        with self._opened(path, os.O_WRONLY) as file:
            view = memoryview(data)
            while view:
                written = os.pwrite(file, view, offset)
                offset += written
                view = view[written:]

    def punch(self, path: str, span: Span) -> None:
        with self._opened(path, os.O_WRONLY) as file:
            offset, length = ctypes.c_int64(span.start), ctypes.c_int64(span.end - span.start)
            if _libc.fallocate(file, _PUNCH_KEEP_SIZE, offset, length) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), path)

    def extents(self, path: str) -> list[Span]:
        with self._opened(path, os.O_RDONLY) as file:
            return [Span(start, end) for start, end in extents(file)]

    def allocated(self, path: str) -> int:
        return os.stat(self._at(path), follow_symlinks=False).st_blocks * 512  # whatever the file system's own blocks are

    def sync(self, path: str) -> None:
        with self._opened(path, os.O_RDONLY) as file:
            os.fsync(file)

    def link(self, source: str, target: str) -> None:
        os.link(self._at(source), self._at(target), follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        os.rename(self._at(source), self._at(target))

    def remove(self, path: str) -> None:
        os.unlink(self._at(path))

    def make_directory(self, path: str) -> None:
        os.mkdir(self._at(path), 0o700)

    def remove_directory(self, path: str) -> None:
        os.rmdir(self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        """Open for one call only: a thousand volumes of thirty layers would use up any process's descriptors."""
        file = os.open(self._at(path), flags | _OPEN, 0o600)
        try:
            yield file
        finally:
            os.close(file)


def check_holes(files: Files) -> None:
    """Whether the file system keeps holes as the store needs them; Damaged where it does not.

    A layer holds a block if and only if its file has data there. A file system that rounds holes to larger pieces, or turns
    zeros into holes, would make a snapshot hide or show the wrong data: nothing is stored on such a one. What is tried:
    blocks apart from each other, one of them zeros, and one punched out again.
    """
    if PROBE in files.names(""):
        files.remove(PROBE)
    files.create(PROBE, size=9 * BLOCK)
    try:
        for block, data in ((1, b"\x01"), (3, b"\x00"), (5, b"\x01"), (6, b"\x01"), (7, b"\x01")):
            files.write(PROBE, offset=block * BLOCK, data=data * BLOCK)
        files.punch(PROBE, Span(6 * BLOCK, 7 * BLOCK))
        expected = [Span(block * BLOCK, (block + 1) * BLOCK) for block in (1, 3, 5, 7)]
        for _ in range(2):  # in memory, and on the disk
            if files.extents(PROBE) != expected:
                raise Damaged(
                    f"the file system of the volumes does not keep holes of {BLOCK} bytes apart from data; "
                    "ext4, XFS, Btrfs and tmpfs with their defaults are known to"
                )
            files.sync(PROBE)
    finally:
        files.remove(PROBE)
