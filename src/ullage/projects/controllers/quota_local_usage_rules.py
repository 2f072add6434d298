"""What the clusters of a project use on one seed. Pure.

A cluster that is being deleted counts until its object is gone, since its machines may be there until then; a paused one
counts, too. Clusters that somebody else runs do not count. One that nobody has counted yet, or whose figures cannot be read, is
named and not taken for empty. One whose figures are of before counts with those, and is named, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from ullage.kube.objects import Condition, set_condition
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import Cluster
from ullage.projects.api.quotas import LOCAL_USAGE_FRESH, ResourceQuota, ResourceQuotaStatus
from ullage.projects.clusters import project_of
from ullage.projects.quota import amounts_of, is_counted, same_limits, usage_of
from ullage.projects.records import MACHINES_NOT_COUNTED, MACHINES_NOT_READ

USAGE_FIELD: Final = "status.resourceUsage"
NAMED: Final = 5  # clusters that a message spells out
# In few words that stay the same: what the record says in full may be put otherwise every half minute.
_WHY: Final = {
    MACHINES_NOT_READ: "its machines cannot be read",
    MACHINES_NOT_COUNTED: "not all of its machines can be counted",
}


@dataclass(frozen=True, slots=True)
class LocalUsage:
    """The sum, the clusters that are not in it, each with the reason, and those whose figures are not of now, each with since
    when."""

    usage: ResourceDetails
    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()

    @property
    def is_fresh(self) -> bool:
        return not self.missing and not self.stale

    @property
    def message(self) -> str:
        said = (
            ("these clusters are not in the sum", self.missing),
            ("the figures of these clusters are not of now, and their MachineRecords on the seed say why", self.stale),
        )
        return "; ".join(f"{what}: {_few(clusters)}" for what, clusters in said if clusters) or "all clusters are counted"


def local_usage(
    clusters: Iterable[Cluster], project: str, *, before: ResourceDetails, stale: Mapping[str, Condition] | None = None
) -> LocalUsage:
    """`before` is what was written down last: where nothing has changed it comes back as it is, however it is written. `stale`
    has the clusters whose figures are not of now, by name (`records.stale_usage`)."""
    parts: list[Amounts] = []
    missing: list[str] = []
    old: list[str] = []
    for cluster in sorted(clusters, key=lambda one: one.metadata.name):
        if project_of(cluster) != project:
            continue
        name, found = cluster.metadata.name, cluster.status.resource_usage
        if found is None or not is_counted(found):
            missing.append(f"{name}: its machines are not counted yet")
            continue
        try:
            parts.append(amounts_of(found, field=USAGE_FIELD))
        except BadAmount as error:
            missing.append(f"{name}: {error}")
            continue
        if stale and (said := stale.get(name)) is not None:
            old.append(f"{name}: {_WHY.get(said.reason, said.reason)} since {said.last_transition_time}")
    usage = usage_of(Amounts.total(parts))
    return LocalUsage(before if is_counted(before) and same_limits(before, usage) else usage, tuple(missing), tuple(old))


def status_with(quota: ResourceQuota, found: LocalUsage, *, now: datetime) -> ResourceQuotaStatus:
    """The status of a seed's copy with what is used there; the very same value where nothing is new. All else in it is the
    master's."""
    old, meta = quota.status, quota.metadata
    conditions = set_condition(
        old.conditions,
        LOCAL_USAGE_FRESH,
        status=found.is_fresh,
        reason="ClustersNotCounted" if found.missing else "ClustersNotOfNow" if found.stale else "Fresh",
        message=found.message,
        generation=meta.generation,
        now=now,
    )
    if found.usage == old.local_usage and conditions is old.conditions:
        return old
    return msgspec.structs.replace(old, local_usage=found.usage, conditions=conditions)


def _few(clusters: Sequence[str]) -> str:
    more = f"; and {len(clusters) - NAMED} more" if len(clusters) > NAMED else ""
    return f"{'; '.join(clusters[:NAMED])}{more}"
