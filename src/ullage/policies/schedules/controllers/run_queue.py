"""What a run has still to deal with: the next claims in its order, and those of them that are asked to wait.

A few hundred are kept and no more: of thousands of schedules over thousands of claims, all of them would be gigabytes. Pure:
the time is an argument, of a clock that never goes back.
"""

from __future__ import annotations

import heapq
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

KEPT: Final = 500
AGAIN_SECONDS: Final = 0.05


def place_of(time: str, claim: str) -> str:
    """Where a claim stands in the order of a run. It is another order each time: what is refused at the end of one run comes
    first in another."""
    return f"{zlib.crc32(f'{time}/{claim}'.encode()):08x}/{claim}"


def claim_at(place: str) -> str:
    return place.partition("/")[2]


def next_places(time: str, claims: Iterable[str], *, after: str, most: int) -> tuple[list[str], int]:
    """The first so many places of a run after one of them, in its order, and how many come after these."""
    placed = [place for claim in claims if (place := place_of(time, claim)) > after]
    chosen = heapq.nsmallest(most, placed)
    return chosen, len(placed) - len(chosen)


class RunQueue:
    """Of one run, in one process."""

    def __init__(self, mark: str, place: str) -> None:
        self.mark = mark
        self.not_before = 0.0  # until then the API server is left alone
        self._free: deque[str] = deque()
        self._waiting: dict[str, float] = {}  # by place: when it is asked for again
        self._said: dict[str, str] = {}  # by place: what was answered when it was last asked for
        self._last = place  # the claims up to here have been chosen
        self._beyond: int | None = None  # how many come after these; None: not known yet

    def __len__(self) -> int:
        return len(self._free) + len(self._waiting)

    def __iter__(self) -> Iterator[str]:
        yield from self._free
        yield from self._waiting

    @property
    def known(self) -> bool:
        return self._beyond is not None

    @property
    def left(self) -> int:
        """How many claims there are still to deal with."""
        return len(self) + (self._beyond or 0)

    @property
    def first(self) -> str | None:
        """The place of the next claim that is not asked to wait."""
        return self._free[0] if self._free else None

    @property
    def needs_choice(self) -> bool:
        """Whether claims are to be chosen. Where as many wait as are kept, the others wait, too."""
        return self._beyond is None or bool(self._beyond and not self._free and len(self._waiting) < KEPT)

    def choose(self, time: str, claims: Iterable[str]) -> None:
        chosen, self._beyond = next_places(time, claims, after=self._last, most=KEPT - len(self))
        self._free.extend(chosen)
        self._last = chosen[-1] if chosen else self._last

    def done(self) -> None:
        """The first has been dealt with."""
        self._said.pop(self._free.popleft(), None)

    def put_back(self, places: Iterable[str]) -> None:
        self._free.extendleft(reversed(list(places)))

    # --- those that wait ---

    def wait(self, place: str, message: str, *, until: float) -> None:
        """The first is asked for again at that time, after all others."""
        self._free.remove(place)
        self._waiting[place], self._said[place] = until, message

    def release(self, now: float) -> None:
        """Those whose time has come wait no longer."""
        for place in [place for place, until in self._waiting.items() if until <= now]:
            self._free.append(place)
            del self._waiting[place]

    @property
    def waits_until(self) -> float | None:
        """When the first of those is asked for again."""
        return min(self._waiting.values(), default=None)

    @property
    def said(self) -> list[tuple[str, str]]:
        """Each claim that was asked to wait, and what was answered, in the order of the run: the same however they take turns,
        since a status that changes is a write."""
        return [(claim_at(place), self._said[place]) for place in sorted(self._said)]

    def pause(self, now: float, *, room: int) -> float | None:
        """Seconds until the next look; None: when something changes."""
        if self.not_before > now:
            return self.not_before - now
        if room > 0 and (self._free or self.needs_choice):
            return AGAIN_SECONDS
        return max(0.0, self.waits_until - now) if self.waits_until is not None else None
