"""When the claims of a namespace are gone through for a group that waits for some.

Whoever may write there can have thousands of groups wait, and thousands of claims, each of whose changes wakes all of them. A
look at the claims takes time by their number; so the groups of a namespace take turns, and the next one comes so much later
that all of them together take a hundredth of a process at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ullage.clock import Clock
from ullage.kube.cache.indexer import Key

SECONDS_PER_CLAIM: Final = 0.0005  # between two looks: 5 s for 10,000 claims, a tenth of a second for 200


class PlanPace:
    """It is memory only: after a restart everybody's turn comes anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: dict[Key, float] = {}  # when it is a group's turn
        self._next: dict[str, float] = {}  # by namespace: the first moment that is nobody's yet

    def wait(self, group: Key, claims: Callable[[], int]) -> float:
        """Seconds until it is the group's turn; 0: now, and then not again before the others'."""
        now, turn = self._clock.monotonic(), self._turns.get(group)
        if turn is None:
            turn = max(now, self._next.get(group.namespace, now))
            self._next[group.namespace] = turn + claims() * SECONDS_PER_CLAIM
            self._turns[group] = turn
        if turn > now:
            return turn - now
        self.forget(group)
        return 0.0

    def forget(self, group: Key) -> None:
        """It has had its turn, or needs none any more."""
        self._turns.pop(group, None)
        if self._next.get(group.namespace, 0.0) <= self._clock.monotonic():
            self._next.pop(group.namespace, None)
