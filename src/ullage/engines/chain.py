"""The snapshots of a volume as its engine has them: a chain of entries with the head on top, how far a purge is, and limits.

Controllers, clients and the embedded engine all speak of these. Replicas name the files: `volume-snap-NAME.img` is a snapshot,
`volume-head-NNN.img` the head; everybody else says NAME and `volume-head`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

HEAD: Final = "volume-head"  # the entry that the volume writes to; never a snapshot
MAX_NAME: Final = 239  # bytes of a snapshot's name; a file name has 255, of which 16 are the engine's

_HEAD_FILE: Final = re.compile(r"volume-head-[0-9]+\.img")
_SNAPSHOT_FILE: Final = re.compile(r"volume-snap-(.+)\.img", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A snapshot, or the head under the name `volume-head`."""

    name: str
    parent: str = ""  # empty: none
    children: frozenset[str] = frozenset()
    removed: bool = False  # marked: a purge removes it, if it can
    user_created: bool = True
    created: str = ""  # RFC 3339
    size: int = 0  # bytes that it holds beyond its parent
    merged: int | None = None  # bytes that it will hold when the removed ones below are merged into it; None: not told
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeProgress:
    """How far one replica is with a purge, or how the last one ended."""

    purging: bool = False
    progress: int = 0  # percent
    state: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the engine allows: snapshots, and bytes in all of them (0: no limit)."""

    max_count: int
    max_size: int = 0

    @classmethod
    def told(cls, *, max_count: int, max_size: int) -> Limits:
        """As an engine tells them."""
        return cls(max_count=max_count, max_size=0 if max_size >= UNLIMITED else max_size)


# Engines refuse the 0 that means no limit while snapshots take any room at all. This is what they are given instead.
UNLIMITED: Final = 2**62  # bytes


@dataclass(frozen=True, slots=True)
class PollResult:
    """What an engine says of itself in one poll."""

    entries: Mapping[str, Entry]
    purges: Mapping[str, PurgeProgress]  # by replica
    limits: Limits


def clone_base(volume: str) -> str:
    """The snapshot that a clone of ours begins with. A real engine's has the name of the snapshot that it was made from: but of
    two volumes' snapshots of one name only one can have an object."""
    return f"{volume}-base"


def head_file(number: int) -> str:
    return f"volume-head-{number:03d}.img"


def snapshot_file(name: str) -> str:
    return f"volume-snap-{name}.img"


def entry_of_file(file: str) -> str | None:
    """The name of the entry whose data is in a file; None where it is no such file."""
    if _HEAD_FILE.fullmatch(file):
        return HEAD
    found = _SNAPSHOT_FILE.fullmatch(file)
    return found[1] if found is not None else None
