"""One ledger as one process asks it: a line of requests, the last state that is known, and one call to the API at a time.

Each round does one thing: read, or decide everybody in line and write. Nothing is lost by a round that fails: whoever has no
answer stays in line, and booking the same charge again costs nothing more. So a conflict, and an answer that was lost (was
the write done?), are handled alike: read again, decide again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from ullage.clock import Clock
from ullage.errors import Retryable
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import Conflict, NotFound, Unavailable
from ullage.kube.processor_time import Spend, in_parts, metered, payer
from ullage.ledger.amounts import Cell, Wanted
from ullage.ledger.anew import with_lost_bookings
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.book import Book, Charge
from ullage.ledger.codec import book_of, status_of
from ullage.ledger.limiting.in_flight import LimitChange, unseen
from ullage.ledger.metrics import Metrics
from ullage.ledger.service.decisions import (
    UNLIMITED,
    Contested,
    Question,
    Said,
    Verdict,
    decide,
    folded_from,
    uncounted_in,
    with_ends,
    with_wanted,
)
from ullage.ledger.service.expiry import Expiry, Pulse, Settings
from ullage.ledger.service.first_counts import FirstCounts
from ullage.ledger.service.restores import Remembered
from ullage.ledger.service.sources import Sources, sessions
from ullage.ledger.service.writes import Draft, LedgerApi, draft, make, write

# What a process knows of one ledger.


Sessions = tuple[tuple[object, int], ...]


@dataclass(frozen=True, slots=True)
class Known:
    """The last known state. With `tick` 0 it may be of any age; `ledger` and `book` are None where there is no ledger. Of a
    `beaten` one a write has shown that there is a newer one."""

    ledger: Ledger | None
    book: Book | None
    tick: int
    sessions: Sessions = ()  # of our own cluster's sources, when it was read: after these a backup may have undone it
    beaten: bool = False
    changed: bool = False  # the book says something that the ledger does not, and that is to be written

    @property
    def version(self) -> str:
        return self.ledger.metadata.resource_version if self.ledger else ""


# Answers of one write, given one after the other. kube-apiserver keeps 25 idle connections to a webhook. Dozens of
# answers at one moment leave it with as many idle ones: it closes the rest, and opens them again, each with a
# handshake, for the requests that follow a few milliseconds later. Spread over the pause before the next write, which
# those could not be part of anyway, most connections are asked for again at once.


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


# Those who ask one ledger, in the order in which they came: some to be decided, and some that wait for room. Who waits
# costs nothing until something changes: another state of the ledger, or the end of its time. Who went away is forgotten
# at once.


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


logger = logging.getLogger(__name__)

FIRST_WAIT: Final = 0.05  # seconds, after the first failure in a row
LONGEST_WAIT: Final = 1.0
OTHERS: Final = 1.0  # seconds for which a write of another process is remembered
SPREAD: Final = 2  # conflicts in a row after which the wait grows no more: whoever waits longer than others starves


class Stopping(Retryable):
    """Whoever is in line when the process ends. Nothing was admitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all batchers of a process share. `ledgers` spares conflicts where other processes write too; it decides nothing."""

    api: LedgerApi
    sources: Sources
    pulse: Pulse
    settings: Settings
    clock: Clock
    metrics: Metrics
    jitter: Callable[[], float]
    ledgers: Cache[Ledger] | None = None


class Batcher:
    def __init__(self, name: str, around: Surroundings) -> None:
        self.name = name
        self._around = around
        self._settings = around.settings
        self._line = Line(around.clock)
        self._pace = Pace(around.clock)
        self._demand_at = math.inf  # when a demand is to be written that was held back
        self._tried = ""  # the version on which those who wait were last refused
        self._ticks = itertools.count(1)
        self._copy: Known | None = None  # None: to be read
        self._free_at = 0.0  # when the next call may begin
        self._failures = 0  # in a row
        self._conflicts = 0  # in a row
        self._alone_at = 0.0  # when the last write of another process will be forgotten
        self._trouble: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._remembered = Remembered()
        self._answers = Answers()
        self._first = FirstCounts(name, around.sources, call=around.settings.call, clock=around.clock)
        self._sightings = Expiry(
            around.sources, around.pulse, settings=around.settings, clock=around.clock, metrics=around.metrics
        )

    @property
    def idle(self) -> bool:
        return self._task is None

    @property
    def trouble(self) -> Exception | None:
        """Why there is no answer yet, if the API is to blame."""
        return self._trouble

    def ask(self, charge: Question, *, until: float = -math.inf) -> asyncio.Future[Said]:
        """Gets in line; where more may be granted, waits there until a moment. Whoever gives up cancels the future."""
        ask = Ask(charge, next(self._ticks), asyncio.get_running_loop().create_future(), until, payer=payer())
        self._line.add(ask)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"ledger {self.name}")
        return ask.answer

    def wake(self) -> None:
        """A watch has told of the ledger."""
        self._line.wake()

    async def close(self) -> None:
        tasks = [task for task in (self._task, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._answers.give_now()
        for ask in self._line.asks():
            ask.answer.set_exception(Stopping(f"ledger {self.name}: this process stops; ask another"))

    async def _run(self) -> None:
        try:
            while asks := self._line.asks():
                payers = [ask.payer for ask in asks]
                await metered(self._turn(payers), in_parts(payers))
        finally:
            self._task = None

    async def _turn(self, payers: list[Spend | None]) -> None:
        """`payers` are all in line at first, and then those who are decided: a book of 2,000 bookings is much to read."""
        await self._until_due()
        await asyncio.sleep(max(0.0, self._free_at - self._around.clock.monotonic()))
        due = self._changed() or self._around.clock.monotonic() >= self._demand_at
        if asks := self._line.next(self._settings.batch, waiting=due):
            payers[:] = [ask.payer for ask in asks]
            await self._attempt(asks)

    async def _until_due(self) -> None:
        """While all wait for room, nothing is done until the ledger has changed. Without a watch it is read now and then."""
        clock, ledgers = self._around.clock, self._around.ledgers
        look_at = math.inf if ledgers is not None and not ledgers.doubtful else clock.monotonic() + LOOK
        await self._line.until_due(self._changed, min(look_at, self._demand_at))
        if clock.monotonic() >= look_at:
            self._copy = None

    async def _attempt(self, asks: Sequence[Ask]) -> None:
        try:
            await self._round(asks)
        except Retryable as error:
            self._copy, self._trouble = None, error
            self._failures += 1
            wait = min(FIRST_WAIT * 2.0 ** min(self._failures - 1, 10), LONGEST_WAIT)
            self._rest(getattr(error, "retry_after", None) or wait * (1.0 - self._around.jitter() / 2))
        except Exception as error:  # a ledger that cannot be read, a right that is missing, a bug: theirs to know
            self._copy = None
            for ask in asks:
                if not ask.answer.done():
                    ask.answer.set_exception(error)
        else:
            self._trouble = None

    # --- a round: each makes one call at most, but for the lists of a first count ---

    async def _round(self, asks: Sequence[Ask]) -> None:
        copy = self._latest()
        if copy is None:
            await self._read()
        elif copy.ledger is None or copy.book is None:
            if self._around.sources.sets_limits(self.name) or any(isinstance(ask.charge, LimitChange) for ask in asks):
                self._copy = None
                await make(self._around.api, self.name, self._settings.namespace, timeout=self._settings.call)
                return
            self._settle([(ask, UNLIMITED) for ask in asks if copy.tick > ask.tick])
            self._copy = None  # what is not there leaves no version to be held to: the next one asks anew
        else:
            if not any(isinstance(ask.charge, LimitChange) for ask in asks):  # a limit waits for no count
                await self._first.wait(copy.ledger, copy.book)
            await self._decide(asks, copy, ledger=copy.ledger, known=copy.book)

    def _changed(self) -> bool:
        copy = self._latest()
        return copy is None or not copy.version or copy.version != self._tried

    def _latest(self) -> Known | None:
        """The last state, or a newer one that a watch brought; None where one has to be read."""
        copy, ledgers = self._copy, self._around.ledgers
        if copy is not None and copy.sessions != self._sessions():
            return None
        if copy is None or copy.ledger is None:
            return copy
        found = ledgers.get(Key(self._settings.namespace, self.name)) if ledgers and not ledgers.doubtful else None
        if found is None or int(found.metadata.resource_version) <= int(copy.ledger.metadata.resource_version):
            return None if copy.beaten else copy
        if self._remembered.is_newer_than(found):
            return None
        self._alone_at = self._around.clock.monotonic() + OTHERS
        self._copy = Known(found, book_of(found, now=self._around.clock.now()), 0, self._sessions())
        return self._copy

    def _sessions(self) -> Sessions:
        own, ledgers = sessions(self._around.sources.own), self._around.ledgers
        return own if ledgers is None else (*own, (ledgers, ledgers.session))

    async def _read(self) -> None:
        self._around.metrics.reads.inc()
        tick, sessions = next(self._ticks), self._sessions()
        try:
            async with asyncio.timeout(self._settings.call):
                found = await self._around.api.find(LEDGERS, self.name, self._settings.namespace)
        except TimeoutError as error:
            raise Unavailable(f"ledger {self.name} could not be read within {self._settings.call:.0f} s") from error
        except NotFound as error:  # of the kind, or of a proxy: there may be a ledger all the same
            raise Unavailable(f"ledger {self.name}: whether there is one cannot be told: {error}") from error
        if found is None:
            self._copy = Known(None, None, tick, sessions)
            return
        now = self._around.clock.now()
        known = book_of(found, now=now)
        restored = self._remembered.is_newer_than(found)
        if restored:
            logger.warning("a ledger was restored from a backup", extra={"ledger": self.name})
            known = with_lost_bookings(known, self._around.sources.own, now, above=self._remembered.epoch)
        else:
            self._remembered.see(found)
        self._copy = Known(found, known, tick, sessions, changed=restored)
        self._look(known, found)

    async def _decide(self, asks: Sequence[Ask], copy: Known, *, ledger: Ledger, known: Book) -> None:
        now = self._around.clock.now()
        sources = self._around.sources.of(self.name, counted=known.observed)
        limits = self._around.sources.limit_views(self.name)
        folded = folded_from(
            known,
            self.name,
            sources=sources,
            live=self._sightings.live,
            limits=limits,
            now=now,
            shows_all=self._first.shows_all,
        )
        asks = able(asks, [*self._around.sources.unread_limits(), *unseen(folded, limits)])
        self._pace.see(known.demand)
        all_tried = set(self._line.waiting()) <= set(asks)
        room = len(asks)
        decided, verdicts = self._tested(folded, asks, now, room=room, changed=copy.changed)
        wanted = self._draft(ledger, decided) if decided is not folded or copy.changed else None
        while wanted is not None and wanted.too_large and room:
            room //= 2  # the others are told to come again
            decided, verdicts = self._tested(folded, asks, now, room=room, changed=copy.changed)
            wanted = self._draft(ledger, decided) if decided is not folded or copy.changed else None
        answers = list(zip(asks, verdicts, strict=True))
        if wanted is not None:
            if await self._write(wanted, decided, size=len(asks)):
                # Accepted, so the state that all was decided on was still the latest: refusals are as good as bookings.
                self._settle(answers, over=self._settings.pause)
                if decided.demand != folded.demand or decided.waiting.keys() - folded.waiting.keys():
                    self._pace.wrote(decided.demand)
                self._tried = self._copy.version if self._copy and all_tried else ""
            else:
                self._copy = replace(copy, beaten=True)
            return
        settled = [(ask, verdict) for ask, verdict in answers if ask.refused is not None or is_sure(ask, verdict, copy.tick)]
        self._settle(settled)
        self._tried = copy.version if all_tried else self._tried
        if len(settled) < len(answers):
            self._copy = None
        self._rest(self._settings.pause)

    def _tested(self, folded: Book, asks: Sequence[Ask], now: datetime, *, room: int, changed: bool) -> tuple[Book, list[Said]]:
        """What is booked and what is said. A demand alone is written now and then only; until that it is held back."""
        charges = [ask.charge for ask in asks]
        sources = self._around.sources
        decided, verdicts = decide(folded, charges, now, room=room, needed=sources.own.keys(), shown=sources.shown)
        verdicts = with_ends(folded, verdicts, self._settings.expiry_in)
        tried = set(asks)
        waiting = [ask.charge for ask in self._line.waiting() if ask not in tried]
        others = [charge for charge in waiting if isinstance(charge, Charge)]
        asking, verdicts = with_wanted(decided, charges, verdicts, now, others=others, renewed=self._pace.is_old)
        alone = decided is folded and not changed
        held_back = asking is not decided and alone and self._around.clock.monotonic() < self._pace.free_at
        self._demand_at = self._pace.free_at if held_back else math.inf
        return (decided if held_back else asking), verdicts

    def _draft(self, ledger: Ledger, decided: Book) -> Draft:
        around = self._around
        status = status_of(
            decided,
            ledger,
            sources=around.sources.needed(self.name),
            now=around.clock.now(),
            uncounted=uncounted_in(self.name, around.sources.of(self.name, counted=decided.observed)),
        )
        return draft(ledger, status)

    async def _write(self, wanted: Draft, decided: Book, *, size: int) -> bool:
        around, settings = self._around, self._settings
        tick, sessions, began = next(self._ticks), self._sessions(), around.clock.monotonic()
        try:
            written = await write(around.api, wanted, timeout=settings.call, clock=around.clock, metrics=around.metrics)
        except (Conflict, NotFound):
            self._conflicts += 1  # others write too: those who try again at once would meet again
            took = around.clock.monotonic() - began
            self._rest(around.jitter() * max(settings.pause, took) * 2.0 ** min(self._conflicts, SPREAD))
            return False
        took = around.clock.monotonic() - began
        self._conflicts = 0
        self._remembered.see(written)
        self._copy = Known(written, decided, tick, sessions)
        # Alone, no longer than needed: everybody waits meanwhile. Among others, long enough for them to get a turn.
        alone = around.clock.monotonic() > self._alone_at
        self._rest(settings.pause if alone else max(settings.pause, 2 * took))
        around.metrics.batch.observe(size)
        self._look(decided, written)
        return True

    def _settle(self, answers: Sequence[tuple[Ask, Said]], *, over: float = 0.0) -> None:
        """They may be on their way for so many seconds. Who is to wait for room has none yet."""
        self._failures = 0
        self._answers.give(self._line.settled(answers), over=over)

    def _rest(self, seconds: float) -> None:
        self._free_at = self._around.clock.monotonic() + seconds

    def _look(self, known: Book, ledger: Ledger) -> None:
        """Notes what is pending, and has the API asked about what is past expiry, beside the line."""
        self._sightings.see(known, int(ledger.metadata.resource_version))
        if self._looking is None and (due := self._sightings.due(known)):
            self._looking = asyncio.create_task(self._sightings.read(due), name=f"look {self.name}")
            self._looking.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._looking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("looking at attempts failed", extra={"ledger": self.name}, exc_info=error)
