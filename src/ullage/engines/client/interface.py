"""What the controllers need of a volume's engine, whatever it is and however it is reached.

Every call is bounded in time and may be repeated, by this process or by the next one after a crash. What goes wrong is
raised as Uncertain, NotNow or Impossible: whether something may have happened, and whether it is worth asking again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ullage.engines.chain import Entry, Limits, PollResult, PurgeProgress


class EngineClient(Protocol):
    """The engine of one volume, while it runs."""

    async def list(self) -> Mapping[str, Entry]:
        """All its snapshots by name, and `volume-head`: never a part of them, rather an error."""

    async def poll(self) -> PollResult:
        """What `list`, `purge_status` and `limits` say, as cheaply as that can be had: it is asked every few seconds."""

    async def has(self, name: str) -> bool:
        """Whether it has a snapshot of this name now, marked or not."""

    async def create(self, name: str, labels: Mapping[str, str]) -> None:
        """Takes a snapshot. Where there is one of this name already: Impossible, with the reason EXISTS."""

    async def revert(self, name: str) -> None:
        """Has the volume be what it was at a snapshot. What was written since the last one is gone; all snapshots stay. NotNow,
        with the reason FRONTEND_UP, while it could be written to."""

    async def is_offered(self) -> bool:
        """Whether it has a frontend, so that somebody may write to it."""

    async def mark_removed(self, name: str) -> None:
        """Marks a snapshot for removal. One that is marked, or not there, is marked already."""

    async def purge(self) -> None:
        """Begins to merge away whatever is marked and can go. NotNow while it is at it."""

    async def purge_status(self) -> Mapping[str, PurgeProgress]:
        """By replica."""

    async def limits(self) -> Limits:
        """What it allows."""

    async def set_limits(self, limits: Limits) -> None:
        """Has it allow this. Impossible or NotNow where that is less than what is there."""


class EngineClients(Protocol):
    """Where engines are found."""

    def of(self, volume: str) -> EngineClient:
        """The engine of a volume. Never fails: one that cannot be reached says so when it is called."""
