"""Those who ask one ledger, in the order in which they came: some to be decided, and some that wait for room.

Who waits costs nothing until something changes: another state of the ledger, or the end of its time. Who went away is
forgotten at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ullage.clock import Clock
from ullage.errors import Retryable
from ullage.kube.processor_time import Spend
from ullage.ledger.amounts import Cell, Wanted
from ullage.ledger.book import Charge
from ullage.ledger.limiting.in_flight import LimitChange
from ullage.ledger.service.decisions import Contested, Question, Said, Verdict

MOST_WAITING: Final = 500  # for room in one ledger; whoever comes after that is refused at once
LOOK: Final = 1.0  # seconds between two looks at a ledger that no watch tells of
PAUSE: Final = 1.0  # seconds between two writes of a demand alone
RENEW: Final = 20.0  # seconds after which a demand that is still asked for is said once more


@dataclass(slots=True, eq=False)
class Ask:
    charge: Question
    tick: int  # arrivals and calls are counted together: a state with a higher tick is later than the arrival
    answer: asyncio.Future[Said]
    until: float = -math.inf  # how long it waits for room, on the monotonic clock
    refused: Verdict | None = None  # what it is told then, if it waits
    payer: Spend | None = None  # of the time of the processor


class Line:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asks: list[Ask] = []
        self._news = asyncio.Event()

    def add(self, ask: Ask) -> None:
        self._asks.append(ask)
        ask.answer.add_done_callback(self._left)
        self._news.set()

    def _left(self, answer: asyncio.Future[Said]) -> None:
        if answer.cancelled():
            self._news.set()

    def wake(self) -> None:
        """Something may have changed for those who wait."""
        self._news.set()

    def asks(self) -> list[Ask]:
        """All that have no answer. Those whose time to wait is over get theirs."""
        now = self._clock.monotonic()
        for ask in self._asks:
            if ask.refused is not None and ask.until <= now and not ask.answer.done():
                ask.answer.set_result(ask.refused)
        self._asks = [ask for ask in self._asks if not ask.answer.done()]
        return self._asks

    def settled(self, answers: Sequence[tuple[Ask, Said]]) -> list[tuple[asyncio.Future[Said], Said]]:
        """The answers to be given; those who get one are in line no more. Not to those who are refused for want of a grant,
        and have time to wait for more."""
        given: dict[Ask, Said] = {}
        for ask, verdict in answers:
            if isinstance(verdict, Verdict) and verdict.more == "asked" and self.may_wait(ask):
                ask.refused = verdict
            else:
                given[ask] = verdict
        self._asks = [ask for ask in self._asks if ask not in given]
        return [(ask.answer, verdict) for ask, verdict in given.items()]

    def waiting(self) -> list[Ask]:
        return [ask for ask in self.asks() if ask.refused is not None]

    def next(self, most: int, *, waiting: bool) -> list[Ask]:
        """Who is decided now: the next of those who came, and before them those who wait, if anything has changed for them."""
        asks = self.asks()
        fresh = [ask for ask in asks if ask.refused is None][:most]
        if not waiting:
            return fresh
        return [ask for ask in asks if ask.refused is not None or not fresh or ask.tick <= fresh[-1].tick]

    def may_wait(self, ask: Ask) -> bool:
        """Whether it has time, and there is a place."""
        if ask.refused is not None:
            return True
        return ask.until > self._clock.monotonic() and sum(one.refused is not None for one in self._asks) < MOST_WAITING

    async def until_due(self, changed: Callable[[], bool], at: float) -> None:
        """Until somebody is to be decided: who came, or all who wait, since something has changed or this moment has come."""
        while (asks := self.asks()) and all(ask.refused is not None for ask in asks) and not changed():
            left = min(at, *(ask.until for ask in asks)) - self._clock.monotonic()
            if at - self._clock.monotonic() <= 0:
                return
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left)):
                    await self._news.wait()


class Pace:
    """When a process writes what is wanted: many refusals make one write, and one that says nothing new makes none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: Mapping[Cell, Wanted] = {}
        self._said_at = -math.inf
        self._free_at = -math.inf

    @property
    def free_at(self) -> float:
        """When a demand may be written for its own sake."""
        return self._free_at

    def see(self, demand: Mapping[Cell, Wanted]) -> None:
        """What the ledger says now."""
        if demand != self._said:
            self._said, self._said_at = demand, self._clock.monotonic()

    @property
    def is_old(self) -> bool:
        """Whether what is said was said so long ago that it would be taken for forgotten soon. On our own clock."""
        return self._clock.monotonic() - self._said_at > RENEW

    def wrote(self, demand: Mapping[Cell, Wanted]) -> None:
        self.see(demand)
        self._free_at = self._clock.monotonic() + PAUSE


# --- who can be answered ---------------------------------------------------------------------------------------------


class Behind(Retryable):
    """This process has not seen all limits that others have. It catches up within moments."""


def able(asks: Sequence[Ask], behind: Sequence[str]) -> Sequence[Ask]:
    """Those who can be decided with what this process has seen: limits, and growth that has happened, at any time. The others
    stay in line until its caches have caught up."""
    if not behind:
        return asks
    found = [ask for ask in asks if isinstance(ask.charge, LimitChange) or ask.charge.past_limit]
    if not found:
        raise Behind(f"limits are not seen here yet that others have seen: {', '.join(behind)}")
    return found


def is_sure(ask: Ask, verdict: Said, tick: int) -> bool:
    """Whether an answer that nothing was written for may be given, on a state with this tick. "It does not fit", and whatever
    a dry run is told, is only said after a look that began after the question: a request is decided on the latest state, since
    it is written there."""
    dry_run = isinstance(ask.charge, Charge) and ask.charge.dry_run
    return tick > ask.tick or isinstance(verdict, Contested) or (verdict.allowed and not dry_run)
