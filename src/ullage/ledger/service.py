"""Asking a ledger: any number of processes, one answer.

The ledger object in the API decides, by compare-and-swap: a decision counts once the PUT of the status that books it was
accepted with the resourceVersion that it was made on. Requests for one ledger that arrive while a write is on its way are
decided in order and written together, so the API sees a few writes a second however many ask.

What is said, and when:
- "allowed, and booked" after the write that books it; "allowed, nothing to book" at once;
- "it does not fit" and "there is no ledger" only on a state that the API had after the request arrived;
- otherwise nothing: whoever waits until its deadline is told to try again, and is never admitted by default.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterable
from typing import Final, Self

from ullage.clock import Clock, SystemClock
from ullage.errors import Retryable
from ullage.kube.cache import Cache
from ullage.kube.review import Decision
from ullage.ledger.book import Charge, grows
from ullage.ledger.desk import Desk, LedgerApi, Settings, Stopping, Surroundings
from ullage.ledger.metrics import Metrics
from ullage.ledger.refusals import crowd_text, refusal_text
from ullage.ledger.types import Ledger
from ullage.ledger.verdicts import ALLOWED, NotNow, Verdict
from ullage.ledger.views import Source, sources_by_name

DESKS: Final = 2000  # ledgers whose last state is kept; what is dropped is read again


class BudgetSpent(Retryable):
    """No decision in time: the API is slow or away, or too many ask. Nothing was admitted."""


class Crowded(Retryable):
    """The ledger holds as many attempts as it may. Nothing was admitted; there is room once some are counted, or expire."""


class Service:
    """`async with Service(client, [view, …]) as service: verdict = await service.decide("ns-team-a", charge, deadline=…)`"""

    def __init__(
        self,
        api: LedgerApi,
        sources: Iterable[Source],
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        ledgers: Cache[Ledger] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` gives 0 to 1. `ledgers` is a cache of the ledgers, where other processes write them too."""
        self._clock = clock or SystemClock()
        self._metrics = metrics or Metrics()
        self._around = Surroundings(
            api=api,
            sources=sources_by_name(*sources),
            settings=settings or Settings(),
            clock=self._clock,
            metrics=self._metrics,
            jitter=jitter,
            ledgers=ledgers,
        )
        self._desks: dict[str, Desk] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Whoever is still in line is told to try again."""
        self._closed = True
        desks, self._desks = list(self._desks.values()), {}
        for desk in desks:
            await desk.close()

    async def decide(self, ledger: str, charge: Charge, *, deadline: float = math.inf) -> Verdict:
        """Whether a charge fits, booked if it does. `deadline` is on the monotonic clock of the service, like a Review's.

        Raises BudgetSpent at the deadline. What was booked by then stays booked until its expiry, and a retry under the same
        name does not pay for it again. Raises Crowded where too much is on its way already.
        """
        began = self._clock.monotonic()
        result = "error"
        try:
            verdict = ALLOWED if not grows(charge) else await self._answer(ledger, charge, deadline)
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

    async def _answer(self, ledger: str, charge: Charge, deadline: float) -> Verdict:
        desk = self._desk(ledger)
        budget = None if deadline == math.inf else max(0.0, deadline - self._clock.monotonic())
        try:
            async with asyncio.timeout(budget):
                said = await desk.ask(charge)
        except TimeoutError as error:
            why = f": {desk.trouble}" if desk.trouble else ", others are before you"
            raise BudgetSpent(f"ledger {ledger} gave no answer within {budget or 0.0:.1f} s{why}") from error
        if isinstance(said, NotNow):
            raise Crowded(f"ledger {ledger}: {crowd_text(said.crowd)}")
        return said

    def _desk(self, ledger: str) -> Desk:
        if self._closed:
            raise Stopping(f"ledger {ledger}: this process stops; ask another")
        desk = self._desks.pop(ledger, None) or Desk(ledger, self._around)
        self._desks[ledger] = desk  # the one that was asked last stands last
        if len(self._desks) > DESKS:
            for name, other in list(self._desks.items())[: len(self._desks) - DESKS]:
                if other.idle:
                    del self._desks[name]
        return desk


def decision(verdict: Verdict, *, next_step: str = "") -> Decision:
    """A verdict as the answer of a hook: 403 with every number where it does not fit."""
    if verdict.refusal is None:
        return Decision.allow()
    return Decision.refuse(refusal_text(verdict.refusal, next_step=next_step))
