"""Whether what members of a group or of a VM backup would take was measured a few seconds ago, by our own clock.

From when an estimate was first seen here: the worker may be on another machine, whose clock is off. It looks by its own clock
once more when it is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ullage.clock import Clock
from ullage.snapshots.gate import FRESH, Estimate

LATE_SECONDS: Final = 120.0  # for which all members have been measured, and never all of them at about the same time


class Measured(Protocol):
    """A member. `cut` is true of one that is cut."""

    @property
    def estimate(self) -> Estimate | None: ...

    @property
    def cut(self) -> object: ...


class Freshness:
    """It is memory only: after a restart everything was just seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}  # by record: its last estimate, and when it was first seen here
        self._measured: dict[str, float] = {}  # by the uid of the whole: since when all its members have been measured

    def forget_record(self, name: str) -> None:
        self._seen.pop(name, None)

    def forget(self, whole: str) -> None:
        self._measured.pop(whole, None)

    def is_fresh(self, record: str, estimate: Estimate | None) -> bool:
        now = self._clock.monotonic()
        if estimate is None:
            self._seen.pop(record, None)
            return False
        at, since = self._seen.get(record, ("", now))
        if at != estimate.at:
            self._seen[record] = estimate.at, now
            return True
        return now - since < FRESH.total_seconds()

    def is_late(self, whole: str, members: Sequence[Measured]) -> bool:
        """Whether all have been measured for long, and never within a few seconds: their volumes take long to look at. They
        count as fresh, then: what has grown since, each finds out when it is told."""
        if all(one.estimate is not None or one.cut for one in members) and not all(one.cut for one in members):
            now = self._clock.monotonic()
            return now - self._measured.setdefault(whole, now) > LATE_SECONDS
        self.forget(whole)
        return False
