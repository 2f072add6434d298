"""Which volume a copy is for, and which of two directories is the old one and which the new: a file beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from ullage.errors import NotNow
from ullage.files.trees import closing
from ullage.snapshots.backends.hostpath.in_place.exchange import Number

JOURNAL: Final = ".journal-"
DRAFT: Final = ".draft-"


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """Which volume a copy is for, and which directory is which."""

    parts: tuple[str, ...]  # of the volume's path, below its root
    old: Number
    new: Number

    def is_swapped(self, *, volume: int | None, beside: int | None) -> bool | None:
        """By the inodes of the directories at both places. None: they do not tell."""
        if volume == self.new.inode:
            return True
        return False if volume == self.old.inode or beside == self.new.inode else None


def read_journal(area: Path, name: str) -> Journal | None:
    """None: there is none. One that cannot be read is not none: what is beside the volume may be all there is of it."""
    path = area / (JOURNAL + name)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return msgspec.json.decode(file.read(), type=Journal)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise NotNow(f"{path}: cannot be read: {error}") from error


def write_journal(area: Path, name: str, journal: Journal) -> None:
    """Under another name first: it is whole, or not there."""
    path, draft = area / (JOURNAL + name), area / (DRAFT + name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
        file.write(msgspec.json.encode(journal))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    with closing(os.open(area, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        os.fsync(directory)  # a swap whose journal is lost could not be told from one that never was
