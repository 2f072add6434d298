"""Takes away the ledger that counts the clusters of a project on a seed, once the project has no quota there. Keys are
projects.

The master makes it with the first number (`ullage.io/max-clusters`), and tells its limit, which is a part of that number
(`escrow/divisions.py`): nobody else writes it. A ledger that has a limit stays until the master has taken that back.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
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
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.cluster_count.ledger import ledger_name, project_in
from ullage.projects.names import is_project_id
from ullage.projects.subjects import QuotaLookup

NAME: Final = "project-cluster-limits"
WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, LEDGERS)
WRITES: Final = (Write(LEDGERS, ("delete",)),)


class ClusterLimits:
    """The controller of these ledgers. `ledgers` are those of our own namespace."""

    def __init__(self, client: ObjectClient, lookup: QuotaLookup, ledgers: Cache[Ledger], *, clock: Clock) -> None:
        self._client = client
        self._lookup = lookup
        self._ledgers = ledgers
        self._clock = clock

    def controller(self, *, metrics: Metrics | None = None) -> Controller[str]:
        sources: list[Source[Any, str]] = [
            Source(self._lookup.quotas, _subject, when=_comes_or_goes),
            Source(self._ledgers, _counted, when=_other_limits),
        ]
        return Controller(NAME, sources, self.reconcile, clock=self._clock, metrics=metrics)

    async def reconcile(self, project: str) -> None:
        ledger = self._ledgers.get(Key(LEDGER_NAMESPACE, ledger_name(project)))
        if ledger is None or ledger.spec.limits or self._lookup.of(project):
            return
        with suppress(NotFound):
            await self._client.delete(LEDGERS, ledger.metadata.name, LEDGER_NAMESPACE, uid=ledger.metadata.uid)


def _subject(quota: ResourceQuota) -> Iterable[str]:
    project = quota.spec.subject.name
    return (project,) if is_project_id(project) else ()


def _counted(ledger: Ledger) -> Iterable[str]:
    project = project_in(ledger.metadata.name)
    return (project,) if project else ()


def _comes_or_goes(old: ResourceQuota | None, new: ResourceQuota | None) -> bool:
    return old is None or new is None or old.spec.subject != new.spec.subject


def _other_limits(old: Ledger | None, new: Ledger | None) -> bool:
    """Bookings are none of our business."""
    return old is None or new is None or old.spec != new.spec
