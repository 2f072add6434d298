"""What a copy has by now, in a file beside it, so that another process can go on with it.

One line says what is copied to where and since which start of the machine: what a process has written outlives the process,
but not the machine, so notes of before its last start count for nothing. Then follows a record for each file, written when
its copy is whole. A record that was cut short by the end of a process is ignored; a damaged one makes all of them worthless.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

FORMAT: Final = 1
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_RECORD: Final = struct.Struct("<III")  # a checksum of the rest, the length of the stamp and that of the path
_LONGEST: Final = 1 << 20  # bytes of a stamp and a path: more is damage
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class DamagedNotes(Exception):
    """They cannot be read back."""


def heading(of: str, copy: os.stat_result) -> bytes | None:
    """The first line: `of` says what is copied, `copy` is the directory that it is copied to. None: nobody can tell since
    when the machine runs."""
    start = _start()
    return None if start is None else start + f"{copy.st_dev}:{copy.st_ino} {of!a}\n".encode()


def begin(path: Path, line: bytes | None) -> None:
    """New notes, which nobody else may read: they have the names of a tenant's files."""
    with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
        file.write(line or b"\n")


def have(path: Path, line: bytes | None) -> bool:
    """Whether there are notes with this first line."""
    return line is not None and _first_line(path) == line


def are_of_this_start(path: Path) -> bool:
    """Whether there are notes of any copy since the machine was started."""
    start, line = _start(), _first_line(path)
    return start is not None and line is not None and line.startswith(start)


class CopyNotes:
    """Notes that have begun. Use it inside `with`; what is there is read first."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._file = os.fdopen(os.open(self._path, _OLD), "r+b")
        self._file.readline()
        self._start = self._file.tell()
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """Paths with their stamps, the oldest first. Records are added behind the last whole one from then on."""
        self._file.seek(self._start)
        whole = self._start
        while (record := self._next()) is not None:
            whole = self._file.tell()
            yield record
        self._cut(whole)

    def add(self, path: bytes, stamp: bytes) -> None:
        body = stamp + path
        lengths = struct.pack("<II", len(stamp), len(path))
        self._file.write(struct.pack("<I", zlib.crc32(lengths + body)) + lengths + body)
        self._file.flush()

    def clear(self) -> None:
        """As if nothing had been copied."""
        self._cut(self._start)

    def _next(self) -> tuple[bytes, bytes] | None:
        """None at the end, or where the last record is not whole."""
        head = self._file.read(_RECORD.size)
        if len(head) < _RECORD.size:
            return None
        checksum, stamp, path = _RECORD.unpack(head)
        if stamp + path > _LONGEST:
            raise DamagedNotes
        body = self._file.read(stamp + path)
        if len(body) < stamp + path:
            return None
        if zlib.crc32(head[4:] + body) != checksum:
            raise DamagedNotes
        return body[stamp:], body[:stamp]

    def _cut(self, end: int) -> None:
        self._file.seek(end)
        self._file.truncate()


def _start() -> bytes | None:
    """How the first line begins, since the machine was started."""
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        return None
    return f"copy {FORMAT} {boot} ".encode() if boot else None


def _first_line(path: Path) -> bytes | None:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return file.readline(_LONGEST)
    except OSError:
        return None
