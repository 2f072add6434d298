"""Keeps the status of SnapshotLimits true: woken by the ledger of their namespace, and by each other.

A ledger is written whenever something is booked or counted, so what is shown follows within the second that lies between two
writes of one. Nothing is written that says the same as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ullage.clock import Clock
from ullage.errors import Terminal
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_status
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics
from ullage.kube.objects import find_condition
from ullage.kube.slices import Write
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.book import Book
from ullage.ledger.codec import book_of
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.policies.counts.api import SNAPSHOT_LIMITS, WITHIN_LIMITS, SnapshotLimit, SnapshotLimitStatus
from ullage.policies.counts.controllers.limit_status_rules import CountFacts, passed_or_not, status_of
from ullage.policies.counts.lookup import LimitLookup

WATCHES: Final = (SNAPSHOT_LIMITS, LEDGERS)
WRITES: Final = (Write(SNAPSHOT_LIMITS, ("patch",), ("status",)),)
BETWEEN: Final = 1.0  # seconds, at least, between two writes of one
PASSED: Final = Reason("LimitPassed", type="Warning")
WITHIN: Final = Reason("WithinLimits")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountStatusCaches:
    limits: Cache[SnapshotLimit]
    ledgers: Cache[Ledger]


class CountStatus:
    """The controller of statuses."""

    def __init__(
        self, client: Patcher, caches: CountStatusCaches, *, lookup: LimitLookup, recorder: EventRecorder, clock: Clock
    ) -> None:
        self._client = client
        self._caches = caches
        self._lookup = lookup
        self._recorder = recorder
        self._clock = clock
        self._written: dict[str, float] = {}  # by uid: when

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            Source(self._caches.limits, lambda limit: self._beside(limit.metadata.namespace, key_of(limit))),
            Source(self._caches.ledgers, lambda ledger: self._beside(namespace_of(ledger.metadata.name))),
        ]
        self._caches.limits.handle(self._forget)
        return Controller("snapshot-limit-status", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _beside(self, namespace: str, *known: Key) -> Iterable[Key]:
        """All of a namespace: what one says, the others show."""
        return {*known, *(key_of(one) for one in self._lookup.of(namespace))} if namespace else ()

    def _forget(self, old: SnapshotLimit | None, new: SnapshotLimit | None) -> None:
        if old is not None and new is None:
            self._written.pop(old.metadata.uid, None)

    async def reconcile(self, key: Key) -> Requeue | None:
        limit = self._caches.limits.get(key)
        if limit is None:
            return None
        wait = self._written.get(limit.metadata.uid, 0.0) + BETWEEN - self._clock.monotonic()
        if limit.metadata.uid in self._written and wait > 0:
            return Requeue(wait)  # before the look: a ledger that is written many times a second is read once
        new = status_of(self._facts(limit), now=self._clock.now())
        if new != limit.status:
            await self._write(limit, new)
        return None

    async def _write(self, limit: SnapshotLimit, new: SnapshotLimitStatus) -> None:
        try:
            written = await patch_status(self._client, SNAPSHOT_LIMITS, limit, old=limit.status, new=new)
        except NotFound:
            return
        if written is None:
            return
        if limit.status.used is not None:  # the first count is shown at once: whoever has made a limit looks at it
            self._written[limit.metadata.uid] = self._clock.monotonic()
        before = find_condition(limit.status.conditions, WITHIN_LIMITS)
        told = passed_or_not(before, find_condition(new.conditions, WITHIN_LIMITS))
        if told is not None:
            reason = PASSED if told.status == "False" else WITHIN
            self._recorder.record(SNAPSHOT_LIMITS, limit, reason, note=told.message)

    def _facts(self, limit: SnapshotLimit) -> CountFacts:
        namespace = limit.metadata.namespace
        ledger = self._caches.ledgers.get(Key(LEDGER_NAMESPACE, ledger_name(namespace)))
        book, problem = self._book(ledger)
        return CountFacts(
            limit=limit, all_limits=self._lookup.of(namespace) or [limit], ledger=ledger, book=book, problem=problem
        )

    def _book(self, ledger: Ledger | None) -> tuple[Book | None, str]:
        if ledger is None or not ledger.status.observed:
            return None, ""
        try:
            return book_of(ledger, now=self._clock.now()), ""
        except Terminal as error:
            return None, f"the ledger cannot be read: {error}"
