"""When a failed call may be tried again: later and later up to a cap, at once where something changed that it failed on.

An error is written to the object, and that write wakes whoever watches it. Without this memory the failure itself would be
the reason for the next try. It is memory only: after a restart everything is tried once more.

A refusal for good is tried again as well, after a long time: what mends it may be nothing that is watched, such as a Secret or
the other side itself.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ullage.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)

AFTER_REFUSAL: Final = Backoff(first=300.0, cap=3600.0)


@dataclass(frozen=True, slots=True)
class _Failure:
    count: int
    until: float
    facts: Hashable  # what it failed on
    refused: bool


class Attempts(Generic[K]):
    def __init__(self, backoff: Backoff, *, after_refusal: Backoff = AFTER_REFUSAL) -> None:
        self._backoff = backoff
        self._after_refusal = after_refusal
        self._failures: dict[K, _Failure] = {}

    def wait(self, key: K, facts: Hashable, now: float) -> float:
        """Seconds until it may be tried; 0 now. Other facts are a new case."""
        failure = self._failures.get(key)
        if failure is None or failure.facts != facts:
            return 0.0
        return max(0.0, failure.until - now)

    def failed(self, key: K, facts: Hashable, now: float) -> float:
        """Notes a failure that may pass; the seconds to wait."""
        return self._note(key, facts, now, refused=False)

    def refused(self, key: K, facts: Hashable, now: float) -> float:
        """Notes a failure that only other facts are expected to mend; the seconds to wait while they are the same."""
        return self._note(key, facts, now, refused=True)

    def count(self, key: K, facts: Hashable) -> int:
        """How often it has failed in a row on these facts."""
        failure = self._failures.get(key)
        return failure.count if failure is not None and failure.facts == facts else 0

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)

    def _note(self, key: K, facts: Hashable, now: float, *, refused: bool) -> float:
        before = self._failures.get(key)
        same = before is not None and before.facts == facts and before.refused == refused
        count = before.count + 1 if before is not None and same else 1
        delay = (self._after_refusal if refused else self._backoff).delay(count)
        self._failures[key] = _Failure(count, now + delay, facts, refused)
        return delay
