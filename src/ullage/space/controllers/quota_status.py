"""Keeps the status of quotas true: woken by their ledgers, and by virtual machines that come and go.

A ledger is written whenever something is booked or counted, so what is shown follows within the second that lies between two
writes of one quota. Nothing is written that says the same as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.errors import Terminal
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_status
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics
from ullage.kube.objects import Condition, find_condition
from ullage.kube.slices import Write
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.codec import book_of
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.space.api import HARVESTER_QUOTAS, NAME, WITHIN_QUOTA, ResourceQuota, ResourceQuotaStatus
from ullage.space.controllers.quota_status_rules import StatusFacts, status_of
from ullage.space.estimate_counts import EstimateCounts
from ullage.space.metrics import QuotaMetrics
from ullage.space.quota import SpaceUsage, usage_in
from ullage.vms.api.machines import VIRTUAL_MACHINES, VirtualMachine

WATCHES: Final = (HARVESTER_QUOTAS, LEDGERS, VIRTUAL_MACHINES)
WRITES: Final = (Write(HARVESTER_QUOTAS, ("patch",), ("status",)),)
BETWEEN: Final = 1.0  # seconds, at least, between two writes of one quota
PASSED: Final = Reason("QuotaPassed", type="Warning")
WITHIN: Final = Reason("WithinQuota")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCaches:
    quotas: Cache[ResourceQuota]
    ledgers: Cache[Ledger]
    machines: Cache[VirtualMachine]


@dataclass(frozen=True, slots=True)
class _Written:
    """What was wanted, and what the API made of it: Harvester's definition drops what it does not know."""

    at: float
    wanted: ResourceQuotaStatus
    kept: ResourceQuotaStatus

    def waits(self, now: float) -> float:
        """Seconds until the next write. The first usage follows at once: whoever has made a quota looks at it."""
        return 0.0 if self.wanted.snapshot_limit_status is None else self.at + BETWEEN - now


class QuotaStatus:
    """The controller of statuses."""

    def __init__(
        self,
        client: Patcher,
        caches: StatusCaches,
        *,
        estimates: EstimateCounts,
        recorder: EventRecorder,
        metrics: QuotaMetrics,
        clock: Clock,
    ) -> None:
        self._client = client
        self._caches = caches
        self._estimates = estimates
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._written: dict[str, _Written] = {}  # by uid

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        caches = self._caches
        sources: list[Source[Any, Key]] = [
            own(caches.quotas),
            Source(caches.ledgers, self._of_ledger),
            Source(caches.machines, self._of_machine, when=lambda old, new: old is None or new is None),
        ]
        found = Controller("space-quotas", sources, self.reconcile, clock=self._clock, metrics=metrics)
        caches.quotas.handle(self._seen)

        def counted(namespace: str) -> None:
            for key in self._of(namespace):
                found.queue.add(key, after=BETWEEN)

        self._estimates.handle(counted)
        return found

    def _seen(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        self._metrics.seen(old, new)
        if old is not None and new is None:
            self._written.pop(old.metadata.uid, None)

    def _of(self, namespace: str) -> Iterable[Key]:
        key = Key(namespace, NAME)
        return (key,) if self._caches.quotas.get(key) is not None else ()

    def _of_ledger(self, ledger: Ledger) -> Iterable[Key]:
        return self._of(namespace_of(ledger.metadata.name))

    def _of_machine(self, machine: VirtualMachine) -> Iterable[Key]:
        return self._of(machine.metadata.namespace)

    async def reconcile(self, key: Key) -> Requeue | None:
        quota = self._caches.quotas.get(key)
        if quota is None:
            return None
        last = self._written.get(quota.metadata.uid)
        if last is not None and (wait := last.waits(self._clock.monotonic())) > 0:
            return Requeue(wait)  # before the look: a ledger that is written many times a second is read once
        said = last.wanted if last is not None and quota.status == last.kept else quota.status
        new = status_of(self._facts(msgspec.structs.replace(quota, status=said)), now=self._clock.now())
        if new != said:
            await self._write(quota, said, new)
        return None

    async def _write(self, quota: ResourceQuota, said: ResourceQuotaStatus, new: ResourceQuotaStatus) -> None:
        try:
            written = await patch_status(self._client, HARVESTER_QUOTAS, quota, old=quota.status, new=new)
        except NotFound:
            return
        if written is None:
            return
        self._written[quota.metadata.uid] = _Written(self._clock.monotonic(), new, written.status)
        self._metrics.writes.inc()
        told = event_for(find_condition(said.conditions, WITHIN_QUOTA), find_condition(new.conditions, WITHIN_QUOTA))
        if told is not None:
            self._recorder.record(HARVESTER_QUOTAS, quota, told[0], note=told[1])

    def _facts(self, quota: ResourceQuota) -> StatusFacts:
        namespace, machines = quota.metadata.namespace, self._caches.machines
        ledger = self._caches.ledgers.get(Key(LEDGER_NAMESPACE, ledger_name(namespace)))
        usage, problem = self._usage(ledger)
        return StatusFacts(
            quota=quota,
            ledger=ledger,
            usage=usage,
            problem=problem,
            exists=lambda vm: not machines.served or machines.get(Key(namespace, vm)) is not None,
            estimates=self._estimates.of(namespace),
            may_pass_by=self._estimates.may_pass_by(namespace),
        )

    def _usage(self, ledger: Ledger | None) -> tuple[SpaceUsage | None, str]:
        if ledger is None or not ledger.status.observed:
            return None, ""
        try:
            return usage_in(book_of(ledger, now=self._clock.now())), ""
        except Terminal as error:
            return None, f"the ledger cannot be read: {error}"


def event_for(old: Condition | None, new: Condition | None) -> tuple[Reason, str] | None:
    """What is worth an Event: a limit that is passed, and that it is not any more. A quota that is new, and kept, is not."""
    if new is None or new.status == (old.status if old is not None else "Unknown"):
        return None
    if new.status == "False":
        return PASSED, new.message
    was_passed = old is not None and old.status == "False"
    return (WITHIN, new.message) if new.status == "True" and was_passed else None
