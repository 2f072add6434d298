"""Answers of one write, given one after the other.

kube-apiserver keeps 25 idle connections to a webhook. Dozens of answers at one moment leave it with as many idle ones: it
closes the rest, and opens them again, each with a handshake, for the requests that follow a few milliseconds later. Spread over
the pause before the next write, which those could not be part of anyway, most connections are asked for again at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from ullage.ledger.service.decisions import Said

_STEP = 0.001  # seconds between two, at the least: answers of one step go together

Answer = tuple[asyncio.Future[Said], Said]


class Answers:
    """Of one ledger, in the order in which they were decided."""

    def __init__(self) -> None:
        self._waiting: deque[Answer] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._step = _STEP
        self._together = 1

    def give(self, answers: Sequence[Answer], *, over: float) -> None:
        """The first at once, and the last before so many seconds have passed. Those of before are given first."""
        self.give_now()
        self._waiting.extend(answers)
        steps = max(1, min(len(answers), int(over / _STEP)))
        self._step, self._together = over / steps, -(-len(answers) // steps)
        self._next()

    def give_now(self) -> None:
        """All that are left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._give(len(self._waiting))

    def _next(self) -> None:
        self._timer = None
        self._give(self._together)
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(self._step, self._next)

    def _give(self, number: int) -> None:
        for _ in range(min(number, len(self._waiting))):
            future, said = self._waiting.popleft()
            if not future.done():  # whoever has given up needs none
                future.set_result(said)
