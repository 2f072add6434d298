"""Keeps `exceedsQuota` on Namespaces true: there while more runs than the VMs' share, and not otherwise. Keys are namespaces.

Admission keeps within the shares, so this is for what nobody can refuse: what ran before there was a share, a table of costs
that has changed, a status that says what has happened. A ledger that was not counted says nothing; and what is over for a
moment only, since one object pays in the place of another, is not said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ullage.clock import Clock
from ullage.errors import Terminal
from ullage.headroom.accounts import VMS
from ullage.headroom.metrics import ShareMetrics
from ullage.headroom.namespaces import EXCEEDED, EXCEEDS, NOT_OURS
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Object
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Write
from ullage.ledger.accounts import passed
from ullage.ledger.amounts import spell
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.book import Book, Over
from ullage.ledger.codec import book_of, is_counted
from ullage.ledger.keys import ledger_name, namespace_of

# Whether more runs in a namespace than its share, and what is said of it.


def passed_shares(book: Book) -> tuple[Over, ...]:
    """The resources of which more is taken than the VMs' share. The other share only ever refuses migrations."""
    return tuple(one for one in passed(book) if one.account == VMS)


def exceeded_note(over: tuple[Over, ...]) -> str:
    """`What runs takes 3 cores of cpu, 1 core more than the share of 2 cores: …`"""
    said = "; ".join(_over(one) for one in over)
    return (
        f"What runs takes {said}. Nothing is stopped; until it fits, VMs are not created or changed but to stop or to shrink."
    )


def within_note(namespace: str) -> str:
    return f"What runs in namespace {namespace} fits its share again: VMs may be created and changed."


def _over(one: Over) -> str:
    taken, limit = spell(one.resource, one.used + one.reserved), spell(one.resource, one.limit, down=True)
    return f"{taken} of {one.resource}, {spell(one.resource, one.over)} more than the share of {limit}"


WATCHES: Final = (NAMESPACES, LEDGERS)
WRITES: Final = (Write(NAMESPACES, ("patch",)),)
AFTER: Final = 2.0  # seconds that it must be so
BETWEEN: Final = 1.0  # seconds, at least, between two looks at one ledger: it may be written many times in one of them
PASSED: Final = Reason("QuotaExceeded", type="Warning")
WITHIN: Final = Reason("WithinQuota")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceedsCaches:
    namespaces: Cache[Object]
    ledgers: Cache[Ledger]


class ExceedsQuota:
    """The controller of that annotation."""

    def __init__(
        self, client: Patcher, caches: ExceedsCaches, *, recorder: EventRecorder, metrics: ShareMetrics, clock: Clock
    ) -> None:
        self._client = client
        self._caches = caches
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        # By name of a namespace:
        self._since: dict[str, float] = {}  # when it was first seen to be over
        self._looked: dict[str, float] = {}  # when its ledger was last read

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [own(self._caches.namespaces), Source(self._caches.ledgers, _of_ledger)]
        self._caches.namespaces.handle(self._metrics.seen)
        return Controller("headroom-exceeds", sources, self.reconcile, clock=self._clock, metrics=metrics)

    async def reconcile(self, key: Key) -> Requeue | None:
        namespace = self._caches.namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp or key.name in NOT_OURS:
            self._forget(key.name)
            return None
        ledger = self._caches.ledgers.get(Key(LEDGER_NAMESPACE, ledger_name(key.name)))
        limited = ledger is not None and VMS in ledger.spec.limits
        if limited and (wait := self._looked.get(key.name, -BETWEEN) + BETWEEN - self._clock.monotonic()) > 0:
            return Requeue(wait)
        over = self._over(ledger) if ledger is not None and limited else ()
        if over is None:
            return None
        if not over:
            self._since.pop(key.name, None)  # the next time begins anew
        else:
            wait = self._since.setdefault(key.name, self._clock.monotonic()) + AFTER - self._clock.monotonic()
            if wait > 0:
                return Requeue(wait)
        await self._say(namespace, over)
        return None

    def _forget(self, namespace: str) -> None:
        self._since.pop(namespace, None)
        self._looked.pop(namespace, None)

    def _over(self, ledger: Ledger) -> tuple[Over, ...] | None:
        """What is over its share; None: nobody can say."""
        self._looked[namespace_of(ledger.metadata.name)] = self._clock.monotonic()
        if not is_counted(ledger):
            return None
        try:
            return passed_shares(book_of(ledger, now=self._clock.now()))
        except Terminal:
            return None  # it is not written by us; whoever folds says so

    async def _say(self, namespace: Object, over: tuple[Over, ...]) -> None:
        wanted = EXCEEDED if over else None
        if namespace.metadata.annotations.get(EXCEEDS) == wanted:
            return
        try:
            await patch_seen(self._client, NAMESPACES, namespace, {"metadata": {"annotations": {EXCEEDS: wanted}}})
        except NotFound:
            return
        self._metrics.changes.labels("exceeded" if over else "within").inc()
        if over:
            self._recorder.record(NAMESPACES, namespace, PASSED, note=exceeded_note(over))
        else:
            self._recorder.record(NAMESPACES, namespace, WITHIN, note=within_note(namespace.metadata.name))


def _of_ledger(ledger: Ledger) -> Iterable[Key]:
    namespace = namespace_of(ledger.metadata.name)
    return (Key("", namespace),) if namespace else ()
