"""Shows what `surge: replace` has let pass: a condition on the seed's copy of a quota while its project is over the limit there
and one of its deployments is replacing machines. Keys are projects.

It is found out from what is there, and not from what was admitted: so it holds over restarts, and for any number of replicas.
With `surge: strict` nothing passes, and a condition that is left from before goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.client.conditional import patch_status
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.objects import drop_condition, find_condition, set_condition
from ullage.kube.slices import Wiring, Write
from ullage.ledger.accounts import passed
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.book import Book, Over
from ullage.ledger.charging.registry import registry_of
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.api.quotas import PROJECT_QUOTAS, REPLACING, ResourceQuota, ResourceQuotaStatus
from ullage.projects.charging.machines import charged_clusters
from ullage.projects.machines.surge import REPLACE, SurgeAllowance, SurgeSetting
from ullage.projects.machines.texts import surge_text
from ullage.projects.names import ACCOUNT, project_of, quota_name
from ullage.projects.settings import Settings
from ullage.projects.subjects import QuotaLookup, quota_lookup
from ullage.projects.webhook.surges import shared_surges

# What a seed's copy of a quota says while a replacement of machines has passed the limit.


NAMED: Final = 3  # deployments that a message spells out


@dataclass(frozen=True, slots=True)
class Replacing:
    """A deployment that has more machines than it wants, since it is replacing some."""

    cluster: str
    deployment: str
    surge: SurgeAllowance


def status_with(
    quota: ResourceQuota, over: Sequence[Over], replacing: Sequence[Replacing], *, now: datetime
) -> ResourceQuotaStatus:
    """The very same value where nothing is new. What is over for another reason, a quota that was lowered say, is not told
    here."""
    old, generation = quota.status, quota.metadata.generation
    if not over or not replacing:
        conditions = drop_condition(old.conditions, REPLACING)
    else:
        message, reason = replacing_text(over, replacing), "SurgePassesLimit"
        conditions = set_condition(
            old.conditions, REPLACING, status=True, reason=reason, message=message, generation=generation, now=now
        )
    return old if conditions is old.conditions else msgspec.structs.replace(old, conditions=conditions)


def replacing_text(over: Sequence[Over], replacing: Sequence[Replacing]) -> str:
    ordered = sorted(replacing, key=lambda one: (one.cluster, one.deployment))
    said = [
        f"cluster {one.cluster}: "
        + surge_text(one.deployment, revision=one.surge.revision, new=one.surge.new, old=one.surge.old, over=over)
        for one in ordered[:NAMED]
    ]
    more = f"; and {len(ordered) - NAMED} more deployments" if len(ordered) > NAMED else ""
    return f"{'; '.join(said)}{more}"


NAME: Final = "project-surge"
WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, CLUSTERS, LEDGERS)
WRITES: Final = (Write(PROJECT_QUOTAS, ("patch",), ("status",)),)
BETWEEN: Final = 2.0  # seconds between two looks at one project
AGAIN: Final = 10.0  # seconds, while it is shown: what is replaced changes without the sums

Surplus = Callable[[str], list[tuple[str, SurgeAllowance]]]


class ProjectSurges:
    """`book` is a ledger as this process last saw it; `surplus` tells by cluster which deployments are replacing machines, and
    `clusters` by project which clusters count for it."""

    def __init__(
        self,
        client: Patcher,
        lookup: QuotaLookup,
        *,
        book: Callable[[str], Book | None],
        surplus: Surplus,
        clusters: Callable[[str], Iterable[str]],
        setting: SurgeSetting,
        clock: Clock,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._book = book
        self._surplus = surplus
        self._clusters = clusters
        self._setting = setting
        self._clock = clock
        self._looked: dict[str, float] = {}  # by project, while it is over its limit

    def controller(self, ledgers: Cache[Ledger], *, metrics: Metrics | None = None) -> Controller[str]:
        sources: list[Source[Any, str]] = [
            Source(self._lookup.quotas, lambda quota: (quota.spec.subject.name,), when=_other),
            Source(ledgers, lambda one: filter(None, (project_of(one.metadata.name),))),
        ]
        return Controller(NAME, sources, self.reconcile, clock=self._clock, metrics=metrics)

    async def reconcile(self, project: str) -> Requeue | None:
        over = self._over(project)
        shown = [one for one in self._lookup.of(project) if find_condition(one.status.conditions, REPLACING) is not None]
        if not over and not shown:
            self._looked.pop(project, None)
            return None
        now = self._clock.monotonic()
        if over and (wait := self._looked.get(project, -BETWEEN) + BETWEEN - now) > 0:
            return Requeue(wait)
        self._looked[project] = now
        replacing = self._replacing(project) if over else []
        for quota in self._lookup.of(project):
            await self._write(quota, over, replacing)
        return Requeue(AGAIN) if replacing else None

    def _over(self, project: str) -> list[Over]:
        book = self._book(quota_name(project)) if self._setting == REPLACE else None
        return [one for one in passed(book) if one.account == ACCOUNT] if book is not None else []

    def _replacing(self, project: str) -> list[Replacing]:
        clusters = sorted(self._clusters(project))
        return [Replacing(cluster, name, found) for cluster in clusters for name, found in self._surplus(cluster)]

    async def _write(self, quota: ResourceQuota, over: list[Over], replacing: list[Replacing]) -> None:
        new = status_with(quota, over, replacing, now=self._clock.now())
        try:
            await patch_status(self._client, PROJECT_QUOTAS, quota, old=quota.status, new=new)
        except NotFound:
            return


def _other(old: ResourceQuota | None, new: ResourceQuota | None) -> bool:
    """What others write there is of no interest."""
    if old is None or new is None or old.spec != new.spec:
        return True
    return find_condition(old.status.conditions, REPLACING) != find_condition(new.status.conditions, REPLACING)


def make_surges(wiring: Wiring, settings: Settings) -> Controller[str]:
    """For a part that declares WATCHES and WRITES."""
    found = ProjectSurges(
        wiring.client,
        wiring.shared(quota_lookup),
        book=registry_of(wiring).look,
        surplus=wiring.shared(shared_surges).surplus,
        clusters=wiring.shared(charged_clusters).of,
        setting=settings.surge,
        clock=wiring.clock,
    )
    return found.controller(wiring.cache(LEDGERS, namespace=LEDGER_NAMESPACE), metrics=wiring.metrics)
