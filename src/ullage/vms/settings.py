"""Whose backups and restores are: on a cluster that runs Harvester its own controllers make them, and ours only look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["manage", "observe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """For each kind: `manage` brings it along, makes what it asks for and refuses what cannot be; `observe` does nothing."""

    backups: Mode = "observe"
    restores: Mode = "observe"
    # Drivers whose snapshots are inside their volumes, and go with them: a claim that has some is never deleted.
    within: frozenset[str] = frozenset()
