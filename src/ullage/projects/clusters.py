"""Which clusters count for a project. Pure."""

from __future__ import annotations

from typing import Final

from ullage.projects.api.kkp import Cluster
from ullage.projects.names import EXTERNAL_CLUSTER, PROJECT_ID

# Clusters that somebody else runs: their nodes are no machines of ours.
MANAGED_ELSEWHERE: Final = frozenset({"aks", "eks", "gke"})


def project_of(cluster: Cluster) -> str:
    """The project that a cluster counts for; empty: none."""
    return "" if is_external(cluster) else cluster.metadata.labels.get(PROJECT_ID, "")


def is_external(cluster: Cluster) -> bool:
    """Whether it was imported: such a cluster is neither counted nor limited."""
    return EXTERNAL_CLUSTER in cluster.metadata.labels or cluster.spec.cloud.provider_name in MANAGED_ELSEWHERE
