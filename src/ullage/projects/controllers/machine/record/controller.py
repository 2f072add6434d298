"""Keeps a MachineRecord for each user cluster. One write for many Machines: a key is a cluster, and is not looked at more than
twice a second, or so much less often that its Machines, however many, leave time for those of others. What changes on a Machine
is mostly how it does: that wakes nobody.

Whoever administers a user cluster cannot reach it. Where the cluster cannot be read its Machines stay as they were recorded,
and those that went before count no longer than they would have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.client.interface import ObjectClient
from ullage.kube.clusters.cluster import Cluster as FollowedCluster
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import AlreadyExists, NotFound
from ullage.kube.kinds import Kind, Meta
from ullage.kube.metrics import Metrics
from ullage.kube.objects import is_owned_by, owner_reference
from ullage.kube.slices import Write
from ullage.ledger.amounts import Amounts
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.machines import MACHINES, Machine
from ullage.projects.api.records import RECORDS, MachineRecord
from ullage.projects.charging.keys import StampKeys
from ullage.projects.charging.machines import ChargedClusters
from ullage.projects.controllers.machine.record.rules import RecordFacts, keep_for, next_record
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import Valid, verify
from ullage.projects.names import PROJECT_ID
from ullage.projects.records import remembered_in, status_of, vanished_in

NAME: Final = "machine-record"
WATCHES: Final[tuple[Kind[Any], ...]] = (CLUSTERS, RECORDS)
WRITES: Final = (Write(RECORDS, ("create", "patch", "delete")), Write(RECORDS, ("patch",), ("status",)))
ELSEWHERE: Final[tuple[Kind[Any], ...]] = (MACHINES,)

BETWEEN: Final = 0.5  # seconds between two looks at one cluster
IDLE: Final = 10.0  # times as long as a look took, if that is more
UNTIL_READ: Final = 2.0  # seconds between two looks whether a cluster can be read: where nothing is in it, nothing tells


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCaches:
    records: Cache[MachineRecord]
    charged: ChargedClusters


class MachineRecords:
    def __init__(
        self,
        client: ObjectClient,
        clusters: Clusters,
        caches: RecordCaches,
        *,
        keys: StampKeys,
        keep: timedelta,
        clock: Clock,
    ) -> None:
        self._client = client
        self._clusters = clusters
        self._records = caches.records
        self._charged = caches.charged
        self._keys = keys
        self._keep = keep
        self._clock = clock
        self._seen: defaultdict[str, dict[str, Amounts | None]] = defaultdict(dict)  # by cluster, by uid
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

        self._clusters.handle(follow)
        return made

    def _is_news(self, cluster: str, machine: Machine) -> bool:
        """Whether it counts otherwise than it did. What it counts is noted."""
        seen, uid, amounts = self._seen[cluster], machine.metadata.uid, self._amounts(cluster, machine)
        if uid in seen and seen[uid] == amounts:
            return False
        seen[uid] = amounts
        return True

    def _amounts(self, cluster: str, machine: Machine) -> Amounts | None:
        verdict = verify(machine_facts(cluster, machine), self._keys.current)
        return verdict.amounts if isinstance(verdict, Valid) else None

    async def reconcile(self, name: str) -> Requeue | None:
        cluster, record = self._charged.get(name), self._records.get(Key("", name))
        if cluster is None:
            self._seen.pop(name, None)
            self._not_before.pop(name, None)
            return None  # the record goes with its owner
        if record is not None and not is_owned_by(record.metadata, cluster.metadata.uid):
            await self._delete(record)
            return None
        project = self._charged.project(name)
        if record is None:
            if project:
                await self._create(cluster, project)
            return None
        if record.metadata.labels.get(PROJECT_ID, "") != project:
            await patch_seen(self._client, RECORDS, record, {"metadata": {"labels": {PROJECT_ID: project or None}}})
            return None
        if name in self._not_before and (wait := self._not_before[name] - self._clock.monotonic()) > 0:
            return Requeue(wait)
        return await self._write(cluster, record)

    async def _write(self, cluster: Cluster, record: MachineRecord) -> Requeue | None:
        name, now, began = cluster.metadata.name, self._clock.now(), self._clock.monotonic()
        present, seen = self._present(name), self._seen[name]
        gone = [uid for uid in seen if present is not None and uid not in present]
        lost = {uid: amounts for uid in gone if (amounts := seen[uid]) is not None}
        facts = RecordFacts(remembered_in(record), vanished_in(record), present, lost)
        wanted = next_record(name, facts, now=now, keep=keep_for(cluster.spec.cloud.provider_name, self._keep))
        status, ended = status_of(wanted.remembered, wanted.vanished), self._clock.monotonic()
        self._not_before[name] = ended + max(BETWEEN, IDLE * (ended - began))
        await patch_status(self._client, RECORDS, record, old=record.status, new=status)
        for uid in gone:  # it is written down, and not looked at again
            seen.pop(uid, None)
        waits = [(wanted.until - now).total_seconds()] if wanted.until is not None else []
        if present is None:
            waits.append(UNTIL_READ)
        return Requeue(min(waits)) if waits else None

    def _present(self, name: str) -> dict[str, Amounts | None] | None:
        """None until everything was read there once. What is held of a cluster that cannot be read any more stays."""
        followed = self._clusters.get(name)
        cache = followed.cache(MACHINES) if followed is not None and name in self._charged else None
        if cache is None or not cache.synced.is_set():
            return None
        seen = self._seen[name]
        return {one.metadata.uid: seen.get(one.metadata.uid) for one in cache.items()}

    async def _create(self, cluster: Cluster, project: str) -> None:
        owner = owner_reference(CLUSTERS, cluster.metadata)
        meta = Meta(name=cluster.metadata.name, labels={PROJECT_ID: project}, owner_references=(owner,))
        try:
            await self._client.create(RECORDS, MachineRecord(metadata=meta))
        except AlreadyExists:
            return  # the cache will say so

    async def _delete(self, record: MachineRecord) -> None:
        """Of a cluster that had the name before."""
        try:
            await self._client.delete(RECORDS, record.metadata.name, uid=record.metadata.uid)
        except NotFound:
            return


def _name(obj: Cluster | MachineRecord) -> Iterable[str]:
    return (obj.metadata.name,)
