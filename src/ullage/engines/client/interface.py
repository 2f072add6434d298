"""What is needed of a volume's engine, whatever it is and however it is reached.

Every call is bounded in time and may be repeated, by this process or by the next one after a crash. What goes wrong is said
with the errors of `errors.py`: whether something may have happened, and whether it is worth asking again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A snapshot, or the head under the name `volume-head`."""

    name: str
    parent: str = ""
    children: frozenset[str] = frozenset()
    removed: bool = False  # marked: it goes with a purge, if it can
    user_created: bool = True
    created: str = ""  # RFC 3339
    size: int = 0  # bytes
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


@dataclass(frozen=True, slots=True)
class PollResult:
    """What an engine says of itself in one look."""

    entries: Mapping[str, Entry]
    purges: Mapping[str, PurgeProgress]
    limits: Limits


class EngineClient(Protocol):
    """The engine of one volume, while it runs."""

    async def list(self) -> Mapping[str, Entry]:
        """All its snapshots by name, and `volume-head`: never a part of them, rather an error."""

    async def poll(self) -> PollResult:
        """What `list`, `purge_status` and `limits` say, as cheaply as that can be had: it is asked every few seconds."""

    async def has(self, name: str) -> bool:
        """Whether it has a snapshot of this name now, marked or not."""

    async def create(self, name: str, labels: Mapping[str, str]) -> None:
        """Takes a snapshot. Where there is one of this name already: Refused, with the reason EXISTS."""

    async def mark_removed(self, name: str) -> None:
        """Marks a snapshot for removal. One that is marked, or not there, is marked already."""

    async def purge(self) -> None:
        """Begins to merge away whatever is marked and can go. NotNow while it is at it."""

    async def purge_status(self) -> Mapping[str, PurgeProgress]:
        """By replica."""

    async def limits(self) -> Limits:
        """What it allows."""

    async def set_limits(self, limits: Limits) -> None:
        """Has it allow this. Refused or NotNow where that is less than what is there."""


class EngineClients(Protocol):
    """Where engines are found."""

    def of(self, volume: str) -> EngineClient:
        """The engine of a volume. Never fails: one that cannot be reached says so when it is called."""
