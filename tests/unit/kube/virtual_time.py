"""A loop in which waiting takes no time: when nothing is ready, its clock jumps to the next timer.

Tests of things that wait for minutes are exact and over at once, and depend on no luck with the machine's speed.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
START = datetime(2026, 1, 1, tzinfo=UTC)


class _Jumping(selectors.SelectSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits for something that cannot come")
            self.loop.moment += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _Jumping()
        selector.loop = self
        self.moment = 1000.0
        super().__init__(selector)

    def time(self) -> float:
        return self.moment


class VirtualClock:
    """The loop's time as a `Clock`. Both hands can be set wrong: `skew` the time of day, `offset` the monotonic one."""

    def __init__(self, *, skew: float = 0.0, offset: float = 0.0) -> None:
        self.skew = skew
        self.offset = offset

    def now(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time() + self.skew)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.offset


def in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
