"""When a failed call may be tried again: later and later up to a cap, or not before something changes.

An error is written to the object, and that write wakes whoever watches it. Without this memory the failure itself would be
the reason for the next try. It is memory only: after a restart everything is tried once more.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ullage.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Failure:
    count: int
    until: float
    facts: Hashable  # what it failed on


class Attempts(Generic[K]):
    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures: dict[K, _Failure] = {}

    def wait(self, key: K, facts: Hashable, now: float) -> float:
        """Seconds until it may be tried; 0 now, infinite for what failed for good. Other facts are a new case."""
        failure = self._failures.get(key)
        if failure is None or failure.facts != facts:
            return 0.0
        return max(0.0, failure.until - now)

    def failed(self, key: K, facts: Hashable, now: float) -> float:
        """Notes a failure that may pass; the seconds to wait."""
        before = self._failures.get(key)
        count = before.count + 1 if before and before.facts == facts else 1
        delay = self._backoff.delay(count)
        self._failures[key] = _Failure(count, now + delay, facts)
        return delay

    def count(self, key: K, facts: Hashable) -> int:
        """How often it has failed in a row on these facts."""
        failure = self._failures.get(key)
        return failure.count if failure is not None and failure.facts == facts else 0

    def stopped(self, key: K, facts: Hashable) -> None:
        """Notes a failure that only other facts can mend."""
        self._failures[key] = _Failure(1, math.inf, facts)

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)
