"""At most one action for each key in so many seconds.

A ledger may change many times a second. A controller that shows its sums acts once, then looks again when the time is over.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

from ullage.clock import Clock

K = TypeVar("K", bound=Hashable)


class Pace(Generic[K]):
    def __init__(self, between: float, *, clock: Clock) -> None:
        """`between` is in seconds; with 0 no key ever waits."""
        self._between = between
        self._clock = clock
        self._until: dict[K, float] = {}  # in the order of time, since the time between is always the same

    def wait(self, key: K) -> float:
        """Returns the seconds until the key may act again; 0 means now."""
        until = self._until.get(key)
        return 0.0 if until is None else max(0.0, until - self._clock.monotonic())

    def acted(self, key: K) -> None:
        """Notes that the key acted. Keys whose time is over are dropped here, so the memory does not grow."""
        now = self._clock.monotonic()
        self.forget(key)
        for over in list(itertools.takewhile(lambda other: self._until[other] <= now, self._until)):
            del self._until[over]
        if self._between > 0:
            self._until[key] = now + self._between

    def forget(self, key: K) -> None:
        self._until.pop(key, None)

    def __len__(self) -> int:
        return len(self._until)
