"""How often the same is written to an object on which somebody else puts it back: twice at once, then later and later.

Two controllers that put each other right would write as fast as they can, for ever. It is memory only.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ullage.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)

AFTER_UNDOING: Final = Backoff(first=1.0, cap=600.0)
AT_ONCE: Final = 2  # times


@dataclass(frozen=True, slots=True)
class _Written:
    what: Hashable
    count: int
    until: float


class Rewrites(Generic[K]):
    def __init__(self, backoff: Backoff = AFTER_UNDOING) -> None:
        self._backoff = backoff
        self._last: dict[K, _Written] = {}

    def wait(self, key: K, what: Hashable, now: float) -> float:
        """Seconds until it may be written; 0 now, as always where it is not what was written last."""
        last = self._last.get(key)
        return max(0.0, last.until - now) if last is not None and last.what == what else 0.0

    def wrote(self, key: K, what: Hashable, now: float) -> None:
        last = self._last.get(key)
        count = last.count + 1 if last is not None and last.what == what else 1
        repeats = count - AT_ONCE
        self._last[key] = _Written(what, count, now + self._backoff.delay(repeats + 1) if repeats >= 0 else now)

    def forget(self, key: K) -> None:
        self._last.pop(key, None)
