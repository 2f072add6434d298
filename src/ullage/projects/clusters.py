"""Which clusters count for a project. Pure.

Clusters that were imported are objects of another kind (ExternalCluster), which nobody here reads. No label on a Cluster makes
it one: whoever may write labels would take its machines out of the quota with that. Beside the project it is decided by the
provider, which cannot be changed: KKP's webhook keeps it as it is, and where the definition is ours, that does.
"""

from __future__ import annotations

from typing import Final

from ullage.projects.api.kkp import Cluster
from ullage.projects.names import PROJECT_ID

# Clusters that somebody else runs: their nodes are no machines of ours.
MANAGED_ELSEWHERE: Final = frozenset({"aks", "eks", "gke"})


def project_of(cluster: Cluster) -> str:
    """The project that a cluster counts for; empty: none."""
    return "" if is_run_elsewhere(cluster) else cluster.metadata.labels.get(PROJECT_ID, "")


def is_run_elsewhere(cluster: Cluster) -> bool:
    """Whether somebody else makes its nodes: such a cluster is neither counted nor limited."""
    return cluster.spec.cloud.provider_name in MANAGED_ELSEWHERE
