"""How many clusters a project may have. Pure.

The number is an annotation on the quota, which only administrators write, and which a definition of the kind that is not ours
does not drop.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.projects.api.kkp import Cluster
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.clusters import project_of
from ullage.projects.names import MAX_CLUSTERS
from ullage.projects.quota import max_clusters


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster that is written, the quota of the project that it would belong to, and how many clusters count for that
    project already, on all seeds: those that are being deleted, too, and this one, if it is among them, not."""

    new: Cluster
    old: Cluster | None
    quota: ResourceQuota | None
    others: int


def refusal(facts: ClusterFacts) -> str:
    """Why a cluster may not be made, or moved into the project; empty where it may. What is there may be changed."""
    project = project_of(facts.new)
    if not project or (facts.old is not None and project_of(facts.old) == project):
        return ""
    limit = max_clusters(facts.quota.metadata) if facts.quota is not None else None
    if facts.quota is None or limit is None or facts.others + 1 <= limit:
        return ""
    has = "1 cluster" if facts.others == 1 else f"{facts.others} clusters"
    where = f"ResourceQuota {facts.quota.metadata.name}, annotation {MAX_CLUSTERS}"
    return (
        f"project {project} has {has}, and may have {limit} ({where}). "
        "Next: delete a cluster of the project, or have an administrator raise the number"
    )
