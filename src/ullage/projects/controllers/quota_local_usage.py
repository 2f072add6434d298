"""What the clusters of a project use on this seed, in the status of the seed's copy of its quota. Keys are projects.

A cluster that changes costs a look at the clusters of its project. A copy is written once a second at most, however many of
them change; all else in its status is the master's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import key_of
from ullage.kube.client.conditional import patch_status
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.objects import Condition, find_condition
from ullage.kube.slices import Write
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.api.records import CLUSTER_USAGE_FRESH, MACHINE_RECORDS, MachineRecord
from ullage.projects.clusters import project_of
from ullage.projects.controllers.quota_local_usage_rules import local_usage, status_with
from ullage.projects.records import stale_usage
from ullage.projects.subjects import QuotaLookup

NAME: Final = "project-local-usage"
WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, CLUSTERS, MACHINE_RECORDS)
WRITES: Final = (Write(PROJECT_QUOTAS, ("patch",), ("status",)),)
BY_PROJECT: Final = "project of a cluster"
BETWEEN: Final = 1.0  # seconds, at least, between two writes of one copy


class LocalUsages:
    """The controller of local usages. `records` say of which clusters the figures are not of now."""

    def __init__(
        self,
        client: Patcher,
        lookup: QuotaLookup,
        clusters: Cache[Cluster],
        records: Cache[MachineRecord],
        *,
        clock: Clock,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._clusters = clusters
        self._records = records
        self._clock = clock
        self._written: dict[str, float] = {}  # by uid: when
        clusters.index(BY_PROJECT, _projects)
        lookup.quotas.handle(self._forget)

    def controller(self, *, metrics: Metrics | None = None) -> Controller[str]:
        sources: list[Source[Any, str]] = [
            Source(self._lookup.quotas, lambda quota: (quota.spec.subject.name,), when=_other_usage),
            Source(self._clusters, _projects, when=_counts_otherwise),
            Source(self._records, self._projects_of, when=_stale_otherwise),
        ]
        return Controller(NAME, sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _projects_of(self, record: MachineRecord) -> Iterable[str]:
        cluster = self._clusters.get(key_of(record))
        return _projects(cluster) if cluster is not None else ()

    def _forget(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if old is not None and new is None:
            self._written.pop(old.metadata.uid, None)

    async def reconcile(self, project: str) -> Requeue | None:
        waits = [await self._write(quota, project) for quota in self._lookup.of(project)]
        soonest = min(filter(None, waits), default=0.0)
        return Requeue(soonest) if soonest else None

    async def _write(self, quota: ResourceQuota, project: str) -> float:
        """Gives the seconds until it is worth another look; 0: it says what is used."""
        uid = quota.metadata.uid
        if uid in self._written and (wait := self._written[uid] + BETWEEN - self._clock.monotonic()) > 0:
            return wait
        clusters = self._clusters.by(BY_PROJECT, project)
        said = {one.metadata.name: stale_usage(self._records.get(key_of(one)), one.metadata) for one in clusters}
        stale = {name: one for name, one in said.items() if one is not None}
        found = local_usage(clusters, project, before=quota.status.local_usage, stale=stale)
        new = status_with(quota, found, now=self._clock.now())
        try:
            written = await patch_status(self._client, PROJECT_QUOTAS, quota, old=quota.status, new=new)
        except NotFound:
            return 0.0
        if written is not None:
            self._written[uid] = self._clock.monotonic()
        return 0.0


def _projects(cluster: Cluster) -> Iterable[str]:
    project = project_of(cluster)
    return (project,) if project else ()


def _counts_otherwise(old: Cluster | None, new: Cluster | None) -> bool:
    """Most of what is written there is how the cluster does."""
    if old is None or new is None or project_of(old) != project_of(new):
        return True
    return old.status.resource_usage != new.status.resource_usage


def _stale_otherwise(old: MachineRecord | None, new: MachineRecord | None) -> bool:
    """A record is written whenever machines come and go. One that is new has nothing to say yet, or was not read before."""
    before, after = (find_condition(one.status.conditions, CLUSTER_USAGE_FRESH) if one else None for one in (old, new))
    return _brief(before) != _brief(after)


def _brief(said: Condition | None) -> tuple[str, str] | None:
    return (said.status, said.reason) if said is not None else None


def _other_usage(old: ResourceQuota | None, new: ResourceQuota | None) -> bool:
    """What the master writes there is of no interest, unless it is about another generation."""
    if old is None or new is None or old.metadata.generation != new.metadata.generation or old.spec != new.spec:
        return True
    return (old.status.local_usage, old.status.conditions) != (new.status.local_usage, new.status.conditions)
