"""What the clusters of a project use on one seed. Pure.

A cluster that is being deleted counts until its object is gone, since its machines may be there until then; a paused one
counts, too. Clusters that somebody else runs do not count. One that nobody has counted yet, or whose figures cannot be read, is
named and not taken for empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from ullage.kube.objects import set_condition
from ullage.ledger.amounts import Amounts, BadAmount
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import Cluster
from ullage.projects.api.quotas import LOCAL_USAGE_FRESH, ResourceQuota, ResourceQuotaStatus
from ullage.projects.clusters import project_of
from ullage.projects.quota import amounts_of, is_counted, same_limits, usage_of

USAGE_FIELD: Final = "status.resourceUsage"
NAMED: Final = 5  # clusters that a message spells out


@dataclass(frozen=True, slots=True)
class LocalUsage:
    """The sum, and the clusters that are not in it, each with the reason."""

    usage: ResourceDetails
    missing: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        if not self.missing:
            return "all clusters are counted"
        more = f"; and {len(self.missing) - NAMED} more" if len(self.missing) > NAMED else ""
        return f"these clusters are not in the sum: {'; '.join(self.missing[:NAMED])}{more}"


def local_usage(clusters: Iterable[Cluster], project: str, *, before: ResourceDetails) -> LocalUsage:
    """`before` is what was written down last: where nothing has changed it comes back as it is, however it is written."""
    parts: list[Amounts] = []
    missing: list[str] = []
    for cluster in sorted(clusters, key=lambda one: one.metadata.name):
        if project_of(cluster) != project:
            continue
        found = cluster.status.resource_usage
        if found is None or not is_counted(found):
            missing.append(f"{cluster.metadata.name}: its machines are not counted yet")
            continue
        try:
            parts.append(amounts_of(found, field=USAGE_FIELD))
        except BadAmount as error:
            missing.append(f"{cluster.metadata.name}: {error}")
    usage = usage_of(Amounts.total(parts))
    return LocalUsage(before if is_counted(before) and same_limits(before, usage) else usage, tuple(missing))


def status_with(quota: ResourceQuota, found: LocalUsage, *, now: datetime) -> ResourceQuotaStatus:
    """The status of a seed's copy with what is used there; the very same value where nothing is new. All else in it is the
    master's."""
    old, meta = quota.status, quota.metadata
    conditions = set_condition(
        old.conditions,
        LOCAL_USAGE_FRESH,
        status=not found.missing,
        reason="ClustersNotCounted" if found.missing else "Fresh",
        message=found.message,
        generation=meta.generation,
        now=now,
    )
    if found.usage == old.local_usage and conditions is old.conditions:
        return old
    return msgspec.structs.replace(old, local_usage=found.usage, conditions=conditions)
