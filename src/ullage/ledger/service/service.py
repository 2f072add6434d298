"""Asking a ledger: any number of processes, one answer.

The ledger object in the API decides, by compare-and-swap: a decision counts once the PUT of the status that books it was
accepted with the resourceVersion that it was made on. Requests for one ledger that arrive while a write is on its way are
decided in order and written together, so the API sees a few writes a second however many ask.

What is said, and when:
- "allowed, and booked" after the write that books it; "allowed, nothing to book" at once;
- "it does not fit" and "there is no ledger" only on a state that the API had after the request arrived;
- "that name exists already", to a create, only after the API itself was asked for it; nothing is booked then;
- otherwise nothing: whoever waits until its deadline is told to try again, and is never admitted by default.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Self

from ullage.clock import Clock, SystemClock
from ullage.errors import Retryable, UllageError
from ullage.kube.cache.cache import Cache
from ullage.kube.review import Decision
from ullage.ledger.api import Ledger
from ullage.ledger.book import Charge, Crowd, Refusal, grows
from ullage.ledger.keys import source_of
from ullage.ledger.limiting.in_flight import LimitChange, lowered
from ullage.ledger.metrics import Metrics
from ullage.ledger.refusals import crowd_text, existing_text, held_text, refusal_text
from ullage.ledger.service.batcher import Batcher, Stopping, Surroundings
from ullage.ledger.service.decisions import ALLOWED, Contested, ManyLimits, Postponed, Question, Uncounted, Verdict
from ullage.ledger.service.expiry import Pulse, Settings
from ullage.ledger.service.sources import Sources
from ullage.ledger.service.writes import LedgerApi

NAME_SECONDS: Final = 1.0  # for which a create waits to be told what became of another of its name
FIRST_LOOK, LONGEST_LOOK = 0.02, 0.2  # seconds between two looks at a name
BATCHERS: Final = 2000  # ledgers whose last state is kept; what is dropped is read again


class BudgetSpent(Retryable):
    """No decision in time: the API is slow or away, or too many ask. Nothing was admitted."""


class Crowded(Retryable):
    """The ledger holds as many attempts as it may. Nothing was admitted; there is room once some are counted, or expire."""


class NotCounted(Retryable):
    """How much of a limit is left is not known: not everything was counted yet. Nothing was admitted."""


def _postponed(ledger: str, said: Postponed) -> Retryable:
    match said.why:
        case Crowd():
            return Crowded(f"ledger {ledger}: {crowd_text(said.why)}")
        case Uncounted(sources):
            return NotCounted(
                f"ledger {ledger}: how much of the limit is left is not known, since these were not counted yet: "
                f"{', '.join(sources)}. Try again in a moment; ullage ledger describe {ledger} tells how it stands"
            )
        case ManyLimits(held):
            return Crowded(f"ledger {ledger}: {held} requests that set limits are on their way, as many as it holds. Try again")


class Service:
    """`async with Service(client, Sources(view)) as service: verdict = await service.decide("ns-team", charge, deadline=…)`"""

    def __init__(
        self,
        api: LedgerApi,
        sources: Sources,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        ledgers: Cache[Ledger] | None = None,
        jitter: Callable[[], float] = random.random,
        pulse: Pulse | None = None,
    ) -> None:
        """`jitter` gives 0 to 1. `ledgers` is a cache of the ledgers, where other processes write them too."""
        self._clock = clock or SystemClock()
        self._metrics = metrics or Metrics()
        settings = settings or Settings()
        self._around = Surroundings(
            api=api,
            sources=sources,
            pulse=pulse or Pulse(sources, call=settings.call, clock=self._clock),
            settings=settings,
            clock=self._clock,
            metrics=self._metrics,
            jitter=jitter,
            ledgers=ledgers,
        )
        self._batchers: dict[str, Batcher] = {}
        self._closed = False
        if ledgers is not None:
            ledgers.handle(self._see)

    def _see(self, old: Ledger | None, new: Ledger | None) -> None:
        """Those who wait for room are told. All ledgers that have begun a new epoch are seen as soon as they are there:
        everything is listed anew once for all of them, not for each when it is first asked."""
        some = new if new is not None else old
        if some is not None and (batcher := self._batchers.get(some.metadata.name)):
            batcher.wake()
        if new is not None and (old is None or old.status.epochs != new.status.epochs):
            for name, epoch in new.status.epochs.items():
                if source := self._around.sources.get(name):
                    source.see(new.metadata.name, epoch)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Whoever is still in line is told to try again."""
        self._closed = True
        batchers, self._batchers = list(self._batchers.values()), {}
        for batcher in batchers:
            await batcher.close()
        await self._around.pulse.close()

    async def decide(
        self,
        ledger: str,
        charge: Charge,
        *,
        deadline: float = math.inf,
        hopeless: Callable[[Refusal], bool] = lambda refusal: False,
    ) -> Verdict:
        """Whether a charge fits, booked if it does. `deadline` is on the monotonic clock of the service, like a Review's.

        Where a limit is in the way that is a grant, more is asked for, and waited for: `grant_wait` seconds at most, and until
        shortly before the deadline. A refusal that is `hopeless` waits for nothing, and its demand is written all the same.

        Raises BudgetSpent at the deadline. What was booked by then stays booked until its expiry, and a retry under the same
        name does not pay for it again. Raises Crowded where too much is on its way already.
        """
        began = self._clock.monotonic()
        result = "error"
        try:
            name = _Name(charge, self._around, deadline)
            verdict = ALLOWED if not grows(charge) else await self._booked(ledger, charge, name, deadline)
            if verdict.refusal is not None and await name.is_taken():
                verdict = replace(verdict, existing=charge.key)
            elif verdict.more == "asked" and deadline < math.inf and not (verdict.refusal and hopeless(verdict.refusal)):
                settings = self._around.settings
                until = min(deadline - settings.margin, self._clock.monotonic() + settings.grant_wait)
                verdict = await self._answer(ledger, charge, deadline, until=until)
            result = "refused" if not verdict.allowed else "unlimited" if verdict.unlimited else "allowed"
            return verdict
        except Retryable:
            result = "again"
            raise
        except asyncio.CancelledError:
            result = "again"  # the server's own budget came first, or the client went away
            raise
        finally:
            self._metrics.decisions.labels(result).inc()
            self._metrics.decision_seconds.labels(result).observe(self._clock.monotonic() - began)

    async def limit(self, ledger: str, change: LimitChange, *, deadline: float = math.inf) -> None:
        """Has the first and the lower limits of a change hold from the moment that this returns, and makes the ledger where
        there is none. Raises BudgetSpent at the deadline: they may hold then until they expire."""
        if lowered(change):
            await self._answer(ledger, change, deadline)

    async def _booked(self, ledger: str, charge: Charge, name: _Name, deadline: float) -> Verdict:
        """A create is not booked for a name that an object has: it would hold room until it expires, and many do. Where a cache
        shows such an object, or another create of the name was booked a moment ago, the API itself is asked what there is.
        Where it cannot tell, or not in time, the create is booked as any other."""
        began = self._clock.monotonic()
        until, wait = began + min(NAME_SECONDS, (deadline - began) / 2), FIRST_LOOK
        while name.can_be_read and self._clock.monotonic() < until:
            if name.is_shown and await name.is_taken():
                return Verdict(existing=charge.key)
            said = await self._said(ledger, replace(charge, alone=True, gone=name.gone), deadline)
            if not isinstance(said, Contested):
                return said
            if await name.is_taken():
                return Verdict(existing=charge.key)
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_LOOK)
        return await self._answer(ledger, charge, deadline)

    async def _answer(self, ledger: str, charge: Question, deadline: float, *, until: float = -math.inf) -> Verdict:
        said = await self._said(ledger, charge, deadline, until=until)
        if isinstance(said, Contested):
            raise BudgetSpent(f"ledger {ledger}: another create of that name is under way")
        return said

    async def _said(self, ledger: str, charge: Question, deadline: float, *, until: float = -math.inf) -> Verdict | Contested:
        batcher = self._batcher(ledger)
        budget = None if deadline == math.inf else max(0.0, deadline - self._clock.monotonic())
        try:
            async with asyncio.timeout(budget):
                said = await batcher.ask(charge, until=until)
        except TimeoutError as error:
            why = f": {batcher.trouble}" if batcher.trouble else ", others are before you"
            raise BudgetSpent(f"ledger {ledger} gave no answer within {budget or 0.0:.1f} s{why}") from error
        if isinstance(said, Postponed):
            raise _postponed(ledger, said)
        return said

    def _batcher(self, ledger: str) -> Batcher:
        if self._closed:
            raise Stopping(f"ledger {ledger}: this process stops; ask another")
        batcher = self._batchers.pop(ledger, None) or Batcher(ledger, self._around)
        self._batchers[ledger] = batcher  # the one that was asked last stands last
        if len(self._batchers) > BATCHERS:
            for name, other in list(self._batchers.items())[: len(self._batchers) - BATCHERS]:
                if other.idle:
                    del self._batchers[name]
        return batcher


class _Name:
    """The name that a create asks for. Without us the client would be told where an object has it already, and those who create
    a thing or else get it rely on that."""

    def __init__(self, charge: Charge, around: Surroundings, deadline: float) -> None:
        self._charge = charge
        self._around = around
        self._deadline = deadline
        self._source = around.sources.get(source_of(charge.key)) if charge.on_version is None else None
        self._silent = False  # there was no answer: it is not asked again
        self.gone = ""  # the uid of an object that a cache showed, and that was not there any more

    @property
    def can_be_read(self) -> bool:
        return self._source is not None and self._source.followed and not self._silent

    @property
    def is_shown(self) -> bool:
        """Whether a cache shows another object of the name, of which it is not known that it is gone."""
        return self._around.sources.shown(self._charge.key) not in ("", self._charge.uid, self.gone)

    async def is_taken(self) -> bool:
        """Whether an object has it, by a look at the API itself. Where that cannot tell, it is not so."""
        if self._source is None or not self.can_be_read:
            return False
        shown = self._around.sources.shown(self._charge.key)
        half = (self._deadline - self._around.clock.monotonic()) / 2  # the answer, whatever it is, has to be there in time
        try:
            async with asyncio.timeout(min(half, self._around.settings.call)):
                uid = (await self._source.live(self._charge.key)).uid
        except (UllageError, TimeoutError):
            self._silent = True
            return False
        if uid != shown:
            self.gone = shown
        return uid not in ("", self._charge.uid)


def decision(verdict: Verdict, *, next_step: str = "", tell: Callable[[Refusal], str] | None = None) -> Decision:
    """A verdict as the answer of a hook: 403 with every number where it does not fit; 409, as without us, where it is a create
    and the name is taken. `tell` is for slices that have words of their own."""
    if verdict.existing:
        return Decision.refuse(existing_text(verdict.existing), code=409, reason="AlreadyExists")
    if verdict.refusal is None:
        return Decision.allow()
    if tell is not None:
        return Decision.refuse(f"{tell(verdict.refusal)}{held_text(verdict.refusal)}")
    return Decision.refuse(refusal_text(verdict.refusal, next_step=next_step, more=verdict.more))
