"""Time as an argument: the only place that asks the machine what time it is.

Whoever needs the time takes a `Clock`; tests hand in a `FakeClock` and move it by hand.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of day, aware and in UTC. It may jump: never subtract two of these to measure."""

    def monotonic(self) -> float:
        """Seconds since some moment. It never goes back: for durations and deadlines."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def processor_seconds() -> float:
    """Seconds for which the processor has been busy with this thread, whatever the time of day is."""
    return time.thread_time()


class BootClock(SystemClock):
    """The machine's clocks, where time spent suspended counts too: for promises that others rely on meanwhile."""

    def monotonic(self) -> float:
        return time.clock_gettime(_SINCE_BOOT)


# Only Linux has the one with this name; elsewhere the monotonic clock of the system goes on during a suspend.
_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class FakeClock:
    """A clock that moves only when told to. Both its hands move together."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} s")
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds
