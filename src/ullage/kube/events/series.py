"""Which events are worth a request: pure bookkeeping between what controllers say and what is written to the API.

The first saying is a new Event, the second turns it into a series, and after that only the count goes up: it is written at
growing intervals, however often it is said. Each object has an allowance of new Events; one that is talked about too much is
not heard of for a while. Everything is bounded: what does not fit is refused, never waited for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and counts."""

    series: int = 1000  # held at a time
    burst: int = 25  # new Events on one object
    refill: float = 60.0  # until the object may have one more
    first_pause: float = 10.0  # between writes of one count; doubles
    last_pause: float = 300.0
    forget: float = 1800.0  # silence after which a series is over, and an unwritten one is no news any more


@dataclass(slots=True)
class Series(Generic[K]):
    """One thing that is said again and again, and what the API knows of it."""

    key: K
    first: datetime
    last: datetime
    heard: float  # when it was last said, on the monotonic clock
    said: int = 1
    written: int = 0  # how many of these the API knows
    before: int = 0  # added to `said` to give the count in the API: what others said, less what was forgotten
    due: float = 0.0  # not to be written before
    pause: float = 0.0

    @property
    def pending(self) -> bool:
        return self.said > self.written

    @property
    def count(self) -> int:
        return self.before + self.said


@dataclass(slots=True)
class _Allowance:
    tokens: float
    at: float


class SeriesBook(Generic[K]):
    """All series of a process. Times are given: `now` is monotonic, `moment` is the time of day."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        # The one that was last heard is last. A plain dict: to go through an OrderedDict hashes every key, and these are large.
        self._series: dict[K, Series[K]] = {}
        self._allowances: OrderedDict[Hashable, _Allowance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def say(self, key: K, *, about: Hashable, now: float, moment: datetime) -> bool:
        """Notes that something was said about an object. False: it is one too many, and forgotten."""
        known = self._series.get(key)
        if known is not None:
            known.said += 1
            known.last, known.heard = moment, now
            self._series[key] = self._series.pop(key)
            return True
        if not self._has_room() or not self._allowed(about, now):
            return False
        self._series[key] = Series(key, first=moment, last=moment, heard=now, due=now)
        return True

    def _has_room(self) -> bool:
        """Room for one more; the longest silent series that has nothing to write makes way."""
        if len(self._series) < self._limits.series:
            return True
        quiet = next((key for key, series in self._series.items() if not series.pending), None)
        if quiet is None:
            return False
        del self._series[quiet]
        return True

    def _allowed(self, about: Hashable, now: float) -> bool:
        limits = self._limits
        allowance = self._allowances.setdefault(about, _Allowance(float(limits.burst), now))
        self._allowances.move_to_end(about)
        if len(self._allowances) > limits.series:
            self._allowances.popitem(last=False)
        allowance.tokens = min(float(limits.burst), allowance.tokens + (now - allowance.at) / limits.refill)
        allowance.at = now
        if allowance.tokens < 1.0:
            return False
        allowance.tokens -= 1.0
        return True

    def due(self, now: float) -> list[Series[K]]:
        """What should be written now, what has waited longest first. Series that are over are dropped on the way."""
        over = [key for key, series in self._series.items() if now - series.heard > self._limits.forget]
        for key in over:
            del self._series[key]
        due = (series for series in self._series.values() if series.pending and series.due <= now)
        return sorted(due, key=lambda series: series.due)

    def next_due(self) -> float | None:
        return min((series.due for series in self._series.values() if series.pending), default=None)

    def pending(self) -> list[Series[K]]:
        """Everything that the API does not know yet, due or not: for the end."""
        return [series for series in self._series.values() if series.pending]

    def wrote(self, series: Series[K], *, said: int, now: float) -> None:
        """The API knows `said` of them. The second is written as soon as it is said, the others less and less often."""
        if series.written or said > 1:
            series.pause = min(self._limits.last_pause, series.pause * 2 or self._limits.first_pause)
        series.due = now + series.pause
        series.written = said

    def drop(self, series: Series[K]) -> None:
        self._series.pop(series.key, None)
