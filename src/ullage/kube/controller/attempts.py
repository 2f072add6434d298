"""When a failed call may be tried again: later and later up to a cap, at once where something changed that it failed on.

An error is written to the object, and that write wakes whoever watches it. Without this memory the failure itself would be
the reason for the next try. It is memory only: after a restart everything is tried once more.

A refusal for good is tried again as well, after a long time: what mends it may be nothing that is watched, such as a Secret or
the other side itself.

Changes are made by users, and each try costs a call to the other side: whoever edits again and again gets a few tries at once,
and then waits as well.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ullage.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)

AFTER_REFUSAL: Final = Backoff(first=300.0, cap=3600.0)
EDITS: Final = 5  # in a row, each of which has it tried at once
FORGET_EDITS: Final = 120.0  # seconds without a try


@dataclass(frozen=True, slots=True)
class _Failure:
    count: int
    until: float
    facts: Hashable  # what it failed on
    refused: bool
    at: float = 0.0
    edits: int = 0  # in a row, that it failed after


class Attempts(Generic[K]):
    def __init__(self, backoff: Backoff, *, after_refusal: Backoff = AFTER_REFUSAL) -> None:
        self._backoff = backoff
        self._after_refusal = after_refusal
        self._failures: dict[K, _Failure] = {}

    def wait(self, key: K, facts: Hashable, now: float) -> float:
        """Seconds until it may be tried; 0 now. Other facts are a new case, tried at once unless they change all the time."""
        failure = self._failures.get(key)
        if failure is None:
            return 0.0
        if failure.facts == facts:
            return max(0.0, failure.until - now)
        many = _edits(failure, facts, now) - EDITS
        return max(0.0, failure.at + self._backoff.delay(many) - now) if many > 0 else 0.0

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
        self._failures[key] = _Failure(count, now + delay, facts, refused, now, _edits(before, facts, now))
        return delay


def _edits(before: _Failure | None, facts: Hashable, now: float) -> int:
    """How many times in a row the facts have changed after a failure."""
    if before is None or now - before.at > FORGET_EDITS:
        return 0
    return before.edits + (before.facts != facts)
