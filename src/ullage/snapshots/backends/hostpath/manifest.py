"""What a snapshot says of itself: a small JSON file beside its data, written last. Without it there is no snapshot."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

FILE: Final = "manifest.json"
FORMAT: Final = 1
_NOTED: Final = 100  # skipped paths that are written down


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot's own account of itself."""

    format: int
    name: str
    volume: str  # the handle of its volume, as it was given
    node: str
    cut: datetime
    entries: int
    apparent: int  # bytes
    allocated: int  # bytes
    skipped: int  # sockets and devices
    skippedPaths: tuple[str, ...] = ()  # the first of these, in printable form


def noted(paths: tuple[str, ...]) -> tuple[str, ...]:
    return paths[:_NOTED]


def write(directory: int, manifest: Manifest) -> None:
    """Writes it into a snapshot's directory. It is on the disk afterwards. One of an earlier try may be there."""
    with suppress(FileNotFoundError):
        os.unlink(FILE, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(FILE, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.fsync(directory)


def read(directory: int, name: str) -> Manifest | None:
    """None where there is none, or none of ours: of another format, or for another name."""
    try:
        with os.fdopen(os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory), "rb") as file:
            manifest = msgspec.json.decode(file.read(), type=Manifest)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link: never one of ours
            return None
        raise
    return manifest if manifest.format == FORMAT and manifest.name == name else None
