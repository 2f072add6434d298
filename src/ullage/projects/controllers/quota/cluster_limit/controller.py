"""From the annotation `ullage.io/max-clusters` of a seed's copy to the limit of the ledger that counts the project's clusters.
Keys are projects.

The ledger is made with the first limit, and goes with the last: there are thousands of projects, and few say a number. That
there are more clusters than a new limit allows takes none away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.interface import ObjectClient
from ullage.kube.controller.controller import Controller, Source
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Write
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.limits import has_limits
from ullage.ledger.service.limits import set_limits
from ullage.projects.api.quotas import QUOTAS, ResourceQuota
from ullage.projects.cluster_count.ledger import ACCOUNT, ledger_name, limits_for, project_in
from ullage.projects.names import is_project_id
from ullage.projects.subjects import QuotaLookup

NAME: Final = "project-cluster-limits"
WATCHES: Final[tuple[Kind[Any], ...]] = (QUOTAS, LEDGERS)
WRITES: Final = (Write(LEDGERS, ("get", "create", "patch", "delete")),)


class ClusterLimits:
    """The controller of these limits. `ledgers` are those of our own namespace."""

    def __init__(self, client: ObjectClient, lookup: QuotaLookup, ledgers: Cache[Ledger], *, clock: Clock) -> None:
        self._client = client
        self._lookup = lookup
        self._ledgers = ledgers
        self._clock = clock

    def controller(self, *, metrics: Metrics | None = None) -> Controller[str]:
        sources: list[Source[Any, str]] = [
            Source(self._lookup.quotas, _subject, when=_says_otherwise),
            Source(self._ledgers, _counted, when=_other_limits),
        ]
        return Controller(NAME, sources, self.reconcile, clock=self._clock, metrics=metrics)

    async def reconcile(self, project: str) -> None:
        name = ledger_name(project)
        ledger = self._ledgers.get(Key(LEDGER_NAMESPACE, name))
        wanted = limits_for(self._lookup.of(project))
        if wanted and (ledger is None or not has_limits(ledger.spec, wanted, about=ACCOUNT)):
            await set_limits(self._client, name, wanted, about=ACCOUNT)
        elif not wanted and ledger is not None:
            try:
                await self._client.delete(LEDGERS, name, LEDGER_NAMESPACE, uid=ledger.metadata.uid)
            except NotFound:
                return


def _subject(quota: ResourceQuota) -> Iterable[str]:
    project = quota.spec.subject.name
    return (project,) if is_project_id(project) else ()


def _counted(ledger: Ledger) -> Iterable[str]:
    project = project_in(ledger.metadata.name)
    return (project,) if project else ()


def _says_otherwise(old: ResourceQuota | None, new: ResourceQuota | None) -> bool:
    return old is None or new is None or limits_for([old]) != limits_for([new]) or old.spec.subject != new.spec.subject


def _other_limits(old: Ledger | None, new: Ledger | None) -> bool:
    """Bookings are none of our business."""
    return old is None or new is None or old.spec != new.spec
