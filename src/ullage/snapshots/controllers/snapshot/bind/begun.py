"""Tells of a snapshot that was begun only if it is not ready soon after: most are, which is one write and one Event less.

It is memory only: a process that starts anew tells of what it sees at once.
"""

from __future__ import annotations

from typing import Final

from ullage.snapshots.controllers.snapshot.bind.rules import CREATING_NOW, WAITING
from ullage.snapshots.model import State

TOLD_AFTER: Final = 1.0  # seconds


class Begun:
    """Snapshots whose record was made by this process, and that do not say so yet, by uid."""

    def __init__(self, seconds: float = TOLD_AFTER) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}

    def note(self, uid: str, now: float) -> None:
        """The record of a snapshot was made."""
        self._since[uid] = now

    def wait(self, uid: str, state: State, now: float) -> float:
        """For how many seconds this is not worth telling; 0: it is."""
        since = self._since.get(uid)
        if since is not None and state.waiting in (CREATING_NOW, WAITING) and now < since + self._seconds:
            return since + self._seconds - now
        self.forget(uid)
        return 0.0

    def forget(self, uid: str) -> None:
        self._since.pop(uid, None)
