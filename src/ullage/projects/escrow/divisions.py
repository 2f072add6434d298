"""What of a project is divided over the seeds: what its machines take, and how many clusters it has. Pure.

Each is a ledger on every seed and a record on the quota, under numbers of its own: a ledger is within all of its limits or
none, and a project with a cluster too many is to get machines all the same. The steps are the same, in the terms of machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import Cell, Limits
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.cluster_count import ledger as clusters
from ullage.projects.escrow.steps import Quota
from ullage.projects.names import ACCOUNT, CLUSTER_ESCROW, ESCROW, project_of, quota_name
from ullage.projects.quota import cluster_limit, limits_of
from ullage.quantity import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """`name` is that of the controller, `annotation` where the record is, `account` the one in the seeds' ledgers."""

    name: str
    annotation: str
    account: str
    ledger_name: Callable[[str], str]  # by project
    project_in: Callable[[str], str]  # by ledger; empty: it is none of these
    limits: Callable[[ResourceQuota], Quota]
    keeps_taken: bool = False  # in the record: of machines the status has that, and it moves all the time

    def wanted(self, quota: ResourceQuota, heir: ResourceQuota | None = None) -> Quota:
        """What there is to divide; of a quota that is being deleted what its heir allows, or nothing where it has none."""
        holds = heir if is_deleting(quota.metadata) else quota
        return {} if holds is None else self.limits(holds)

    def carried(self, limits: Limits) -> Limits:
        """As the seed's ledger is told them."""
        return {Cell(self.account, cell.resource): limit for cell, limit in limits.items()}


def _number(quota: ResourceQuota) -> Quota:
    most = cluster_limit(quota.metadata)
    return {} if most is None else {clusters.RESOURCE: Quantity.of(most)}


OF_MACHINES: Final = Division(
    name="project-quota-escrow",
    annotation=ESCROW,
    account=ACCOUNT,
    ledger_name=quota_name,
    project_in=project_of,
    limits=lambda quota: limits_of(quota.spec.quota),
)
OF_CLUSTERS: Final = Division(
    name="project-cluster-escrow",
    annotation=CLUSTER_ESCROW,
    account=clusters.ACCOUNT,
    ledger_name=clusters.ledger_name,
    project_in=clusters.project_in,
    limits=_number,
    keeps_taken=True,
)
DIVISIONS: Final = (OF_MACHINES, OF_CLUSTERS)
