"""Keeps a MachineRecord for each user cluster. One write for many Machines: a key is a cluster, and is not looked at more than
twice a second, or so much less often that its Machines, however many, leave time for those of others. What changes on a Machine
is mostly how it does: that wakes nobody.

Machines whose stamps cannot be believed are written down with what their specs cost, so that they count although somebody
takes each stamp off again; after a moment an Event says so.

Whoever administers a user cluster cannot reach it. Where the cluster cannot be read its Machines stay as they were recorded,
and those that went before count no longer than they would have. The record outlives its Cluster: then all its Machines went.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ullage.clock import Clock
from ullage.errors import BadInput
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.client.interface import ObjectClient
from ullage.kube.clusters.cluster import Cluster as FollowedCluster
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import AlreadyExists, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind, Meta
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Write
from ullage.ledger.amounts import Amounts
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.machines import MACHINES, Machine
from ullage.projects.api.records import MACHINE_RECORDS, REMEMBERED, STAMPED, MachineRecord
from ullage.projects.charging.keys import StampKeys
from ullage.projects.charging.machines import ChargedClusters
from ullage.projects.controllers.machine_record_rules import (
    NextRecord,
    RecordFacts,
    RecordNews,
    conditions_of,
    is_false,
    keep_for,
    needs_size,
    newly_false,
    next_record,
)
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import Valid, verify
from ullage.projects.names import CLUSTER_UID, PROJECT_ID
from ullage.projects.records import RecordedAmounts, recorded_in, status_of, vanished_in
from ullage.projects.sizes.lookups import Unknown
from ullage.projects.sizes.source import SizeSource
from ullage.times import read_time

# Machines that count without a stamp, in numbers: clusters where there are any have somebody who takes stamps off.


class RecordCollector(Collector):
    """What the records say, when somebody asks. Clusters without any are left out."""

    def __init__(self, records: Cache[MachineRecord]) -> None:
        self._records = records

    def collect(self) -> Iterator[Metric]:
        unstamped = GaugeMetricFamily(
            "ullage_project_machines_unstamped",
            "Machines of a cluster that count without a stamp that can be believed",
            labels=["cluster"],
        )
        beyond = GaugeMetricFamily(
            "ullage_project_machines_not_remembered",
            "Machines of a cluster beyond the number that is remembered",
            labels=["cluster"],
        )
        for one in sorted(self._records.items(), key=lambda record: record.metadata.name):
            if one.status.unstamped:
                unstamped.add_metric([one.metadata.name], one.status.unstamped)
            if one.status.not_remembered:
                beyond.add_metric([one.metadata.name], one.status.not_remembered)
        yield unstamped
        yield beyond


NAME: Final = "machine-record"
WATCHES: Final[tuple[Kind[Any], ...]] = (CLUSTERS, MACHINE_RECORDS)
WRITES: Final = (Write(MACHINE_RECORDS, ("create", "patch", "delete")), Write(MACHINE_RECORDS, ("patch",), ("status",)))
ELSEWHERE: Final[tuple[Kind[Any], ...]] = (MACHINES,)

BETWEEN: Final = 0.5  # seconds between two looks at one cluster
IDLE: Final = 10.0  # times as long as a look took, if that is more
UNTIL_KNOWN: Final = 30.0  # seconds between two looks whether the size of a Machine without a stamp is known
EACH: Final = 1000  # machines of a cluster: for each so many it is as long again
GRACE: Final = 30.0  # seconds that Machines are without a stamp before anybody is told
UNTIL_READ: Final = 2.0  # seconds between two looks whether a cluster can be read: where nothing is in it, nothing tells
REASONS: Final = {
    STAMPED: Reason("MachinesWithoutStamp", type="Warning"),
    REMEMBERED: Reason("MachinesNotRemembered", type="Warning"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCaches:
    records: Cache[MachineRecord]
    charged: ChargedClusters


class Sight(NamedTuple):
    """What a Machine was last seen with: what its valid stamp says, or what its spec costs where it has none. None: neither is
    known."""

    stamped: Amounts | None
    size: Amounts | None = None
    created: datetime | None = None

    @property
    def amounts(self) -> Amounts | None:
        return self.stamped if self.stamped is not None else self.size


class MachineRecords:
    def __init__(
        self,
        client: ObjectClient,
        clusters: Clusters,
        caches: RecordCaches,
        *,
        keys: StampKeys,
        sizes: SizeSource,
        recorder: EventRecorder,
        keep: timedelta,
        clock: Clock,
    ) -> None:
        self._client = client
        self._clusters = clusters
        self._records = caches.records
        self._charged = caches.charged
        self._keys = keys
        self._sizes = sizes
        self._recorder = recorder
        self._keep = keep
        self._clock = clock
        self._seen: defaultdict[str, dict[str, Sight]] = defaultdict(dict)  # by cluster, by uid
        self._unstamped_since: dict[str, float] = {}  # by cluster
        self._not_before: dict[str, float] = {}  # by cluster: when it may be looked at again

    def controller(self, *, metrics: Metrics | None = None) -> Controller[str]:
        sources: list[Source[Any, str]] = [Source(self._charged.objects, _name), Source(self._records, _name)]
        made = Controller(NAME, sources, self.reconcile, clock=self._clock, metrics=metrics)

        def follow(name: str, cluster: FollowedCluster | None) -> None:
            if cluster is None:
                return
            made.queue.add(name)

            def changed(old: Machine | None, new: Machine | None) -> None:
                if new is None or self._is_news(name, new):
                    made.queue.add(name)

            cluster.cache(MACHINES).handle(changed)

        def renew() -> None:
            """Other keys sign, or are accepted."""
            for name in self._clusters.names:
                cluster = self._clusters.get(name) if name in self._charged else None
                machines = cluster.cache(MACHINES).items() if cluster is not None else ()
                if sum(self._is_news(name, one) for one in machines):
                    made.queue.add(name)

        self._clusters.handle(follow)
        self._keys.handle(renew)
        return made

    def _is_news(self, cluster: str, machine: Machine) -> bool:
        """Whether it counts otherwise than it did. What it counts is noted."""
        seen, uid = self._seen[cluster], machine.metadata.uid
        verdict = verify(machine_facts(cluster, machine), self._keys.current)
        stamped = verdict.amounts if isinstance(verdict, Valid) else None
        size = self._size(cluster, machine) if stamped is None else None
        sight = Sight(stamped, size, read_time(machine.metadata.creation_timestamp))
        if uid in seen and seen[uid] == sight:
            return False
        seen[uid] = sight
        return True

    def _size(self, cluster: str, machine: Machine) -> Amounts | None:
        """Whoever stamps has it looked up, and tells that it is not known."""
        try:
            found = self._sizes.size_of(cluster, machine.spec.provider_spec.value)
        except BadInput:
            return None
        return None if isinstance(found, Unknown) else found

    async def reconcile(self, name: str) -> Requeue | None:
        cluster, record = self._charged.get(name), self._records.get(Key("", name))
        if record is not None and (cluster is None or record.metadata.annotations.get(CLUSTER_UID) != cluster.metadata.uid):
            return await self._end(record, cluster)
        if cluster is None:
            self._forget(name)
            return None
        project = self._charged.project(name)
        if record is None:
            if project:
                await self._create(cluster, project)
            return None
        if record.metadata.labels.get(PROJECT_ID, "") != project:
            await patch_seen(self._client, MACHINE_RECORDS, record, {"metadata": {"labels": {PROJECT_ID: project or None}}})
            return None
        if name in self._not_before and (wait := self._not_before[name] - self._clock.monotonic()) > 0:
            return Requeue(wait)
        return await self._write(cluster, record)

    async def _end(self, record: MachineRecord, follower: Cluster | None) -> Requeue | None:
        """Of a cluster that is gone: its Machines went with it, and count on like others that did. Then the record goes, or is
        that of another cluster of the name."""
        name, now = record.metadata.name, self._clock.now()
        live = await self._client.find(CLUSTERS, name)  # the cache may not have it yet
        if (live.metadata.uid if live is not None else "") != (follower.metadata.uid if follower is not None else ""):
            return Requeue(UNTIL_READ)
        facts = RecordFacts(recorded_in(record).amounts, vanished_in(record), {}, {})
        wanted = next_record(name, facts, now=now, keep=keep_for(record.status.provider, self._keep))
        status = msgspec.structs.replace(status_of({}, wanted.vanished), provider=record.status.provider)
        await patch_status(self._client, MACHINE_RECORDS, record, old=record.status, new=status)
        if status != record.status:
            return None  # as it is written it comes again
        self._forget(name)
        if follower is not None:
            await patch_seen(
                self._client, MACHINE_RECORDS, record, {"metadata": {"annotations": {CLUSTER_UID: follower.metadata.uid}}}
            )
        elif not wanted.vanished:
            await self._delete(record)
        return Requeue(max(BETWEEN, (wanted.until - now).total_seconds())) if wanted.until is not None else None

    def _forget(self, name: str) -> None:
        self._seen.pop(name, None)
        self._not_before.pop(name, None)
        self._unstamped_since.pop(name, None)

    async def _write(self, cluster: Cluster, record: MachineRecord) -> Requeue | None:
        name, now, began = cluster.metadata.name, self._clock.now(), self._clock.monotonic()
        machines, recorded, seen = self._present(name), recorded_in(record), self._seen[name]
        gone = [uid for uid in seen if machines is not None and uid not in machines]
        facts = RecordFacts(
            recorded.amounts,
            vanished_in(record),
            None if machines is None else {uid: seen[uid].stamped for uid in machines},
            {uid: amounts for uid in gone if (amounts := seen[uid].amounts) is not None},
            held=recorded.held,
            sizes=self._sized(name, machines or {}, recorded),
            created={uid: created for uid in gone if (created := seen[uid].created) is not None},
        )
        wanted = next_record(name, facts, now=now, keep=keep_for(cluster.spec.cloud.provider_name, self._keep))
        status, ended = status_of(wanted.remembered, wanted.vanished, held=wanted.held), self._clock.monotonic()
        self._not_before[name] = ended + max(BETWEEN, IDLE * (ended - began))
        news = self._news(record, wanted, machines or {}, beyond=status.not_remembered)
        conditions = conditions_of(record.status, news, meta=record.metadata, now=now)
        status = msgspec.structs.replace(status, conditions=conditions, provider=cluster.spec.cloud.provider_name)
        await patch_status(self._client, MACHINE_RECORDS, record, old=record.status, new=status)
        for condition in newly_false(record.status, status):
            self._recorder.record(CLUSTERS, cluster, REASONS[condition.type], note=condition.message)
        for uid in gone:  # it is written down, and not looked at again
            seen.pop(uid, None)
        return self._next(name, wanted, machines)

    def _next(self, name: str, wanted: NextRecord, machines: dict[str, Machine] | None) -> Requeue | None:
        waits = [(wanted.until - self._clock.now()).total_seconds()] if wanted.until is not None else []
        if machines is None:
            waits.append(UNTIL_READ)
        elif any(uid not in wanted.remembered for uid in machines):
            waits.append(UNTIL_KNOWN * (1 + len(machines) // EACH))
        if (since := self._unstamped_since.get(name)) is not None:
            waits.append(since + GRACE - self._clock.monotonic())
        return Requeue(max(BETWEEN, min(waits))) if waits else None

    def _present(self, name: str) -> dict[str, Machine] | None:
        """By uid. None until everything was read there once. What is held of a cluster that cannot be read any more stays."""
        followed = self._clusters.get(name)
        cache = followed.cache(MACHINES) if followed is not None and name in self._charged else None
        if cache is None or not cache.synced.is_set():
            return None
        found, seen = {one.metadata.uid: one for one in cache.items()}, self._seen[name]
        for uid, machine in found.items():
            if uid not in seen:
                self._is_news(name, machine)
        return found

    def _sized(self, name: str, machines: dict[str, Machine], recorded: RecordedAmounts) -> dict[str, Amounts]:
        """What those cost whose stamps say nothing, or less than was recorded."""
        seen = self._seen[name]
        for uid, machine in machines.items():
            sight = seen[uid]
            if sight.size is None and needs_size(sight.stamped, recorded.amounts.get(uid)):
                seen[uid] = sight._replace(size=self._size(name, machine))
        return {uid: size for uid in machines if (size := seen[uid].size) is not None}

    def _news(self, record: MachineRecord, wanted: NextRecord, machines: dict[str, Machine], *, beyond: int) -> RecordNews:
        """Notes since when there are Machines without a stamp, until that was told or there are none."""
        now, name, lasting = self._clock.monotonic(), record.metadata.name, is_false(record.status, STAMPED)
        if wanted.held and not lasting:
            lasting = now - self._unstamped_since.setdefault(name, now) >= GRACE
        if not wanted.held or lasting:
            self._unstamped_since.pop(name, None)
        names = [str(key_of(machines[uid])) for uid in wanted.held if uid in machines]
        return RecordNews(unstamped=names or tuple(wanted.held), lasting=lasting, beyond=beyond)

    async def _create(self, cluster: Cluster, project: str) -> None:
        named = {CLUSTER_UID: cluster.metadata.uid}
        meta = Meta(name=cluster.metadata.name, labels={PROJECT_ID: project}, annotations=named)
        try:
            await self._client.create(MACHINE_RECORDS, MachineRecord(metadata=meta))
        except AlreadyExists:
            return  # the cache will say so

    async def _delete(self, record: MachineRecord) -> None:
        """Of a cluster that is gone, when nothing of it counts any more."""
        try:
            await self._client.delete(MACHINE_RECORDS, record.metadata.name, uid=record.metadata.uid)
        except NotFound:
            return


def _name(obj: Cluster | MachineRecord) -> Iterable[str]:
    return (obj.metadata.name,)
