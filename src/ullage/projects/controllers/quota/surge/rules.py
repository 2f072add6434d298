"""What a seed's copy of a quota says while a replacement of machines has passed the limit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from ullage.kube.objects import drop_condition, set_condition
from ullage.ledger.book import Over
from ullage.projects.api.quotas import REPLACING, ResourceQuota, ResourceQuotaStatus
from ullage.projects.machines.surge import SurgeAllowance
from ullage.projects.machines.texts import surge_text

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
