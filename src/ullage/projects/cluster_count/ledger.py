"""How many clusters a project has, in a ledger of its own: `clusters-<id>` on each seed, where every Cluster takes one.

So `maxClusters` is exact on a seed, with any number of replicas and of creates at once: what was admitted and is not there yet
is reserved. It is no account of the ledger `project-<id>`: the master tells the limits of that one, under numbers of its own.

A seed knows its own clusters. Where the master writes on a seed's copy of the quota how many the project has on others
(`ullage.io/clusters-elsewhere`), as many fewer are allowed here. Between two seeds that is as old as the copy; without it the
number holds for each seed by itself. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Amounts, Cell, Limits, Takings
from ullage.projects.api.kkp import Cluster
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.clusters import project_of
from ullage.projects.names import MAX_CLUSTERS, is_project_id
from ullage.projects.quota import max_clusters
from ullage.quantity import Quantity

ACCOUNT: Final = "clusters"
RESOURCE: Final = "clusters"
CELL: Final = Cell(ACCOUNT, RESOURCE)
CLUSTERS_ELSEWHERE: Final = "ullage.io/clusters-elsewhere"  # annotation on a seed's copy: how many there are on other seeds
_PREFIX: Final = "clusters-"
_ONE: Final = Takings.of({ACCOUNT: Amounts({RESOURCE: Quantity.of(1)})})


def ledger_name(project: str) -> str:
    return f"{_PREFIX}{project}"


def project_in(ledger: str) -> str:
    """The project whose clusters a ledger counts; empty: it counts none."""
    return ledger.removeprefix(_PREFIX) if ledger.startswith(_PREFIX) else ""


def ledger_of(cluster: Cluster) -> str:
    """Empty for one that was imported, or is of no project."""
    project = project_of(cluster)
    return ledger_name(project) if is_project_id(project) else ""


def takes(cluster: Cluster) -> Takings:
    return _ONE


def elsewhere(quota: Meta) -> int:
    """How many clusters the project has on other seeds, as the master says; 0 where it says nothing that can be read."""
    said = quota.annotations.get(CLUSTERS_ELSEWHERE, "")
    return (max_clusters(Meta(annotations={MAX_CLUSTERS: said})) if said else None) or 0


def allowed_here(quotas: Iterable[ResourceQuota]) -> int | None:
    """How many clusters a project may have on this seed; None: any number. Where there are several quotas all of them hold."""
    said = [(limit, elsewhere(one.metadata)) for one in quotas if (limit := max_clusters(one.metadata)) is not None]
    return min((max(0, limit - away) for limit, away in said), default=None)


def limits_for(quotas: Iterable[ResourceQuota]) -> Limits:
    allowed = allowed_here(quotas)
    return {} if allowed is None else {CELL: Quantity.of(allowed)}
