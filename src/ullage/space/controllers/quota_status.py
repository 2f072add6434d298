"""Keeps the status of quotas true: woken by their ledgers, and by virtual machines that come and go.

A ledger is written whenever something is booked or counted, so what is shown follows within the second that lies between two
writes of one quota. Nothing is written that says the same as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.errors import Terminal
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_status
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.controller.outcome import Outcome
from ullage.kube.controller.reconciler import Memory, Reconciler, ReconcilerWiring, Watched
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.objects import Condition, find_condition
from ullage.kube.slices import Write
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.codec import book_of
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.space.api import HARVESTER_QUOTAS, NAME, WITHIN_QUOTA, ResourceQuota, ResourceQuotaStatus
from ullage.space.controllers.quota_status_rules import UNKNOWN, StatusFacts, status_of
from ullage.space.estimate_counts import EstimateCounts
from ullage.space.metrics import QuotaMetrics
from ullage.space.quota import SpaceUsage, usage_in
from ullage.vms.api.machines import VIRTUAL_MACHINES

PASSED: Final = Reason("QuotaPassed", type="Warning")
WITHIN: Final = Reason("WithinQuota")


@dataclass(frozen=True, slots=True)
class _Written:
    """What was wanted, and what the API made of it: Harvester's definition drops what it does not know."""

    wanted: ResourceQuotaStatus
    kept: ResourceQuotaStatus


class QuotaStatus(Reconciler[Key]):
    """Writes what is used into the status of a quota."""

    name = "space-quotas"
    pace = 1.0
    quotas = Watched(HARVESTER_QUOTAS)
    ledgers = Watched(LEDGERS, namespace=LEDGER_NAMESPACE)
    machines = Watched(VIRTUAL_MACHINES)
    writes = (Write(HARVESTER_QUOTAS, ("patch",), ("status",)),)

    def __init__(
        self, wiring: ReconcilerWiring, *, estimates: EstimateCounts, recorder: EventRecorder, metrics: QuotaMetrics
    ) -> None:
        super().__init__(wiring)
        self._estimates = estimates
        self._recorder = recorder
        self._metrics = metrics
        self._written: Memory[_Written] = Memory(forget_with=(self.quotas,))
        self.quotas.handle(metrics.seen)

    def sources(self) -> Iterable[Source[Any, Key]]:
        yield own(self.quotas)
        yield Source(self.ledgers, lambda ledger: self._of(namespace_of(ledger.metadata.name)))
        yield Source(
            self.machines,
            lambda machine: self._of(machine.metadata.namespace),
            when=lambda old, new: old is None or new is None,
        )

    def controller(self) -> Controller[Key]:
        """Counts of estimates wake it, too, and are in no cache."""
        made = super().controller()

        def counted(namespace: str) -> None:
            for key in self._of(namespace):
                made.queue.add(key, after=self.pace)

        self._estimates.handle(counted)
        return made

    def _of(self, namespace: str) -> Iterable[Key]:
        key = Key(namespace, NAME)
        return (key,) if self.quotas.get(key) is not None else ()

    async def reconcile(self, key: Key) -> Outcome | None:
        quota = self.quotas.get(key)
        if quota is None:
            return None
        last = self._written.get(quota.metadata.uid)
        said = last.wanted if last is not None and quota.status == last.kept else quota.status
        new = status_of(self._facts(msgspec.structs.replace(quota, status=said)), now=self.clock.now())
        if new == said or not await self._write(quota, said, new):
            return Outcome(f"quota {key}")
        written = f"status written: {new.shown.used or UNKNOWN} used, limit {new.shown.limit or UNKNOWN}"
        # The first usage follows at once: users look at a quota right after they made it.
        return Outcome(f"quota {key}", (written,), paced=new.snapshot_limit_status is not None)

    async def _write(self, quota: ResourceQuota, said: ResourceQuotaStatus, new: ResourceQuotaStatus) -> bool:
        """Returns False where nothing was written: the quota is gone, or its status says all of this already."""
        try:
            written = await patch_status(self.client, HARVESTER_QUOTAS, quota, old=quota.status, new=new)
        except NotFound:
            return False
        if written is None:
            return False
        self._written[quota.metadata.uid] = _Written(new, written.status)
        self._metrics.writes.inc()
        told = event_for(find_condition(said.conditions, WITHIN_QUOTA), find_condition(new.conditions, WITHIN_QUOTA))
        if told is not None:
            self._recorder.record(HARVESTER_QUOTAS, quota, told[0], note=told[1])
        return True

    def _facts(self, quota: ResourceQuota) -> StatusFacts:
        namespace, machines = quota.metadata.namespace, self.machines
        ledger = self.ledgers.get(Key(LEDGER_NAMESPACE, ledger_name(namespace)))
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
            return usage_in(book_of(ledger, now=self.clock.now())), ""
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
