"""What is said of a cluster that a project may not have. Pure.

The number is an annotation on the quota, which only administrators write, and which a definition of the kind that is not ours
does not drop. Whether there is room is decided by the ledger (`cluster_count`).
"""

from __future__ import annotations

from collections.abc import Iterable

from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.cluster_count.ledger import elsewhere
from ullage.projects.names import MAX_CLUSTERS
from ullage.projects.quota import max_clusters

NEXT = "Next: delete a cluster of the project, or have an administrator raise the number"


def refusal(project: str, *, here: int, allowed: int, quotas: Iterable[ResourceQuota]) -> str:
    """`here` is how many clusters count on this seed, those that are being made or deleted among them, and `allowed` how many
    may, as the ledger has it; the quotas of the project say where that comes from. They may say something else by now."""
    for quota in quotas:
        limit, away = max_clusters(quota.metadata), elsewhere(quota.metadata)
        if limit is not None and max(0, limit - away) == allowed:
            where = f"ResourceQuota {quota.metadata.name}, annotation {MAX_CLUSTERS}"
            others = f", {away} of them on other seeds" if away else ""
            return f"project {project} has {_clusters(here + away)}{others}, and may have {limit} ({where}). {NEXT}"
    return f"project {project} has {_clusters(here)} on this seed, and may have {allowed} there. {NEXT}"


def _clusters(count: int) -> str:
    return "1 cluster" if count == 1 else f"{count} clusters"
