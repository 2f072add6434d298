"""What is said beside the usage of quotas where that is not of now. Pure.

It is a warning, since the fields of an answer are the peer's. Where the API drops conditions, as KKP's definition does, nobody
says how old figures are, and nothing is warned of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.kube.objects import find_condition
from ullage.projects.api.quotas import USAGE_FRESH, ResourceQuota
from ullage.projects.quota import is_counted

NOT_COUNTED: Final = "nobody has counted yet"
NAMED: Final = 5  # quotas that a warning spells out


def usage_warnings(quota: ResourceQuota) -> tuple[str, ...]:
    """Of one quota; none where its figures are of now."""
    name, fresh = quota.metadata.name, find_condition(quota.status.conditions, USAGE_FRESH)
    if not is_counted(quota.status.global_usage):
        return (f"ResourceQuota {name}: its usage is not known: {NOT_COUNTED}",)
    if fresh is not None and fresh.status != "True":
        return (f"ResourceQuota {name}: its usage is not of now: {fresh.message}",)
    return ()


def list_warnings(quotas: Iterable[ResourceQuota]) -> tuple[str, ...]:
    """Of many, or of their sum: one that names them."""
    names = [one.metadata.name for one in quotas if usage_warnings(one)]
    if not names:
        return ()
    more = f"; and {len(names) - NAMED} more" if len(names) > NAMED else ""
    step = f"GET /api/v2/quotas/{names[0]} says more"
    return (f"the usage of these quotas is not of now, or not known: {'; '.join(names[:NAMED])}{more}. Next: {step}",)
