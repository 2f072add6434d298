"""When a schedule may be looked at, where a look takes time by what its namespace has.

Whoever may write in a namespace can have thousands of schedules there, over thousands of snapshots or claims, whose changes
wake all of them. So the schedules of a namespace take turns: the next one comes so much later that all of them together take a
twentieth of a process. All namespaces together take a fifth at most, and one alone never so much that others wait for it.
"""

from __future__ import annotations

from typing import Final

from ullage.clock import Clock
from ullage.kube.cache.indexer import Key

OF_NAMESPACE: Final = 19.0  # a look is followed by a pause of so many times what it took, for its namespace
OF_ALL: Final = 4.0  # and for everybody


class Pace:
    """It is memory only: after a restart everybody's turn comes anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: dict[Key, float] = {}  # when it is a schedule's turn
        self._next: dict[str, float] = {}  # by namespace: the first moment that is nobody's yet
        self._rests: dict[str, float] = {}  # by namespace: when the pause after its last look ends
        self._costs: dict[str, float] = {}  # by namespace: seconds from one of its looks to the next, by what the last one took
        self._free_at = 0.0  # when the next look of anybody may be

    @property
    def namespaces(self) -> int:
        """Of how many something is known."""
        return len(self._next)

    def wait(self, schedule: Key) -> float:
        """Seconds until it is the schedule's turn; 0: now."""
        now, namespace = self._clock.monotonic(), schedule.namespace
        turn = self._turns.get(schedule)
        if turn is None or turn <= now < self._rests.get(namespace, 0.0):  # a turn from before it was known what a look takes
            turn = self._turns[schedule] = max(now, self._next.get(namespace, now))
            self._next[namespace] = turn + self._costs.get(namespace, 0.0)
        return max(0.0, turn - now, self._free_at - now)

    def looked(self, schedule: Key, began: float) -> None:
        """It has had its turn."""
        now, namespace = self._clock.monotonic(), schedule.namespace
        took = max(0.0, now - began)
        self._turns.pop(schedule, None)
        self._costs[namespace] = took * (1 + OF_NAMESPACE)
        self._rests[namespace] = now + took * OF_NAMESPACE
        self._next[namespace] = max(self._next.get(namespace, now), self._rests[namespace])
        self._free_at = now + took * OF_ALL

    def forget(self, schedule: Key) -> None:
        """It is gone; and so is what is known of namespaces where nobody has to wait."""
        self._turns.pop(schedule, None)
        now = self._clock.monotonic()
        for namespace in [one for one, turn in self._next.items() if turn <= now]:
            del self._next[namespace]
            self._rests.pop(namespace, None)
            self._costs.pop(namespace, None)
