"""What the machines of each user cluster take, in the status of its Cluster. Keys are clusters.

A cluster whose machines change all the time is written once a second. While its machines cannot be read, or one of them cannot
be counted, the figures stay, and after a moment an Event and the cluster's record say why: a Machine that was there before us
is stamped soon. An Event also says where Machines are read, and something else is not that decisions go by.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.errors import Terminal
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_status
from ullage.kube.client.interface import Patcher
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.clusters.waking import ReachWatch
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Write
from ullage.ledger.amounts import Amounts
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.records import MACHINE_RECORDS, MachineRecord
from ullage.projects.charging.presence import RecordChanges
from ullage.projects.controllers.cluster_usage_rules import (
    ClusterUsage,
    Stale,
    cluster_usage,
    is_charged,
    not_read,
    record_conditions,
    unreachable,
)
from ullage.projects.controllers.cluster_usage_sums import Keys, MachineSums, Remembering
from ullage.projects.names import ACCOUNT
from ullage.projects.records import is_of, takes_of

NAME: Final = "cluster-usage"
WATCHES: Final[tuple[Kind[Any], ...]] = (CLUSTERS, MACHINE_RECORDS)
ELSEWHERE: Final[tuple[Kind[Any], ...]] = (MACHINES,)
WRITES: Final = (Write(CLUSTERS, ("patch",), ("status",)), Write(MACHINE_RECORDS, ("patch",), ("status",)))
FAILED: Final = Reason("ClusterResourceUsageReconcileFailed", type="Warning")
NOT_READ: Final = Reason("ClusterNotRead", type="Warning")
BETWEEN: Final = 1.0  # seconds, at least, between two writes of one Cluster
GRACE: Final = 30.0  # seconds before anybody is told, and between two that are told of one Cluster
LOOK_AGAIN: Final = 5.0  # seconds, while something is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCaches:
    clusters: Cache[Cluster]
    records: Cache[MachineRecord]


@dataclass(slots=True)
class _Trouble:
    began: datetime
    since: float  # the same, or when it was last told of
    told: str = ""
    word: str = ""  # for what was told


class ClusterUsages:
    """The controller of usages. `keys` gives None while no key was read; when others sign, `renew` is to be called.
    `remembered` tells what is recorded of a Machine, by cluster and uid; when that changes, `recorded` is to be called."""

    def __init__(
        self,
        client: Patcher,
        caches: UsageCaches,
        followed: Clusters,
        keys: Keys,
        *,
        remembered: Remembering,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._caches = caches
        self._followed = followed
        self._recorder = recorder
        self._clock = clock
        self._sums = MachineSums(
            followed, keys, only=lambda name: caches.clusters.get(Key("", name)) is not None, remembered=remembered
        )
        self._written: dict[str, float] = {}  # by uid: when
        self._troubles: dict[tuple[str, Reason], _Trouble] = {}  # by uid
        self._rewrites: Rewrites[str] = Rewrites()
        caches.clusters.handle(self._forget)

    def renew(self) -> None:
        """Other keys sign, or are accepted."""
        self._sums.renew()

    def recorded(self, cluster: str, changes: RecordChanges) -> None:
        """Machines of a cluster are recorded otherwise than they were."""
        self._sums.recorded(cluster, changes)

    def controller(self, reaches: ReachWatch, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            Source(self._caches.clusters, lambda one: (key_of(one),), when=_matters),
            Source(self._caches.records, lambda one: (key_of(one),), when=_vanished_otherwise),
        ]
        found = Controller(NAME, sources, self.reconcile, clock=self._clock, metrics=metrics)

        def wake(name: str) -> None:
            found.queue.add(Key("", name))

        self._sums.handle(wake)
        reaches.handle(wake)
        return found

    def _forget(self, old: Cluster | None, new: Cluster | None) -> None:
        if old is not None and new is None:
            uid = old.metadata.uid
            self._written.pop(uid, None)
            for reason in (FAILED, NOT_READ):
                self._troubles.pop((uid, reason), None)
            self._rewrites.forget(uid)

    async def reconcile(self, key: Key) -> Requeue | None:
        cluster = self._caches.clusters.get(key)
        if cluster is None or not is_charged(cluster):
            return None
        uid = cluster.metadata.uid
        if uid in self._written and (wait := self._written[uid] + BETWEEN - self._clock.monotonic()) > 0:
            return Requeue(wait)
        found = self._usage(cluster)
        trouble = self._told(cluster, FAILED, found.problem, word=found.reason)
        wait = await self._write(cluster, found)
        await self._mark(cluster, trouble)
        if found.problem:
            return Requeue(LOOK_AGAIN)
        if self._told(cluster, NOT_READ, self._not_read(cluster.metadata.name)) is not None:
            return Requeue(LOOK_AGAIN)
        return Requeue(wait) if wait else None

    def _usage(self, cluster: Cluster) -> ClusterUsage:
        name, before = cluster.metadata.name, cluster.status.resource_usage
        sums = self._sums.get(name)
        if sums is None:
            error = self._followed.reach(name).error if name in self._followed else "the cluster is not followed"
            return unreachable(error, before)
        if sums.problem:
            return unreachable(sums.problem, before)
        record = self._caches.records.get(Key("", name))
        try:
            vanished = takes_of(record).account(ACCOUNT) if record is not None else Amounts()
        except Terminal as error:
            return unreachable(str(error), before)
        return cluster_usage(sums.amounts, vanished=vanished, uncounted=sums.uncounted, before=before)

    def _not_read(self, name: str) -> str:
        """What of a cluster is not read now though its Machines are; empty: nothing."""
        reach = self._followed.reach(name) if name in self._followed else None
        return not_read(reach.error) if reach is not None and not reach.reachable else ""

    def _told(self, cluster: Cluster, reason: Reason, problem: str, *, word: str = "") -> _Trouble | None:
        """Notes a problem, and has it told after a moment, and when it is another one; None: there is none."""
        now, key = self._clock.monotonic(), (cluster.metadata.uid, reason)
        if not problem:
            self._troubles.pop(key, None)
            return None
        trouble = self._troubles.setdefault(key, _Trouble(self._clock.now(), now))
        if now >= trouble.since + GRACE and problem != trouble.told:
            trouble.since, trouble.told, trouble.word = now, problem, word
            self._recorder.record(CLUSTERS, cluster, reason, note=problem)
        return trouble

    async def _mark(self, cluster: Cluster, trouble: _Trouble | None) -> None:
        """Has the record say that the figures are not of now, in the words that were told, or that they are again."""
        record = self._caches.records.get(Key("", cluster.metadata.name))
        if record is None or not is_of(record, cluster.metadata) or (trouble is not None and not trouble.told):
            return
        stale = None if trouble is None else Stale(trouble.word, trouble.told, trouble.began)
        conditions = record_conditions(record, stale, now=self._clock.now())
        new = msgspec.structs.replace(record.status, conditions=conditions)
        with suppress(NotFound):
            await patch_status(self._client, MACHINE_RECORDS, record, old=record.status, new=new)

    async def _write(self, cluster: Cluster, found: ClusterUsage) -> float:
        """Gives the seconds until it is worth another try; 0: it says what is used."""
        if found.usage == cluster.status.resource_usage:
            return 0.0
        uid, what, now = cluster.metadata.uid, str(found.usage), self._clock.monotonic()
        if wait := self._rewrites.wait(uid, what, now):
            return wait
        new = msgspec.structs.replace(cluster.status, resource_usage=found.usage)
        try:
            await patch_status(self._client, CLUSTERS, cluster, old=cluster.status, new=new)
        except NotFound:
            return 0.0
        self._written[uid] = self._clock.monotonic()
        self._rewrites.wrote(uid, what, self._written[uid])
        return 0.0


def _matters(old: Cluster | None, new: Cluster | None) -> bool:
    """Most of what is written there is how the cluster does."""
    if old is None or new is None or is_charged(old) != is_charged(new):
        return True
    return old.status.resource_usage != new.status.resource_usage


def _vanished_otherwise(old: MachineRecord | None, new: MachineRecord | None) -> bool:
    return old is None or new is None or old.status.vanished != new.status.vanished
