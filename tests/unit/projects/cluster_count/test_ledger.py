"""Which ledger a cluster counts in, and what it takes there."""

from __future__ import annotations

import pytest

from tests.unit.projects.builders import cluster
from ullage.projects.api.kkp import Cluster
from ullage.projects.cluster_count.ledger import CELL, ledger_of, project_in, takes
from ullage.projects.names import project_of
from ullage.quantity import Quantity


@pytest.mark.parametrize(
    ("given", "ledger"),
    [
        pytest.param(cluster("c"), "clusters-abc", id="that of its project"),
        pytest.param(cluster("c", deleting=True), "clusters-abc", id="until it is gone"),
        pytest.param(cluster("c", of=""), "", id="of no project"),
        pytest.param(cluster("c", of="No Id"), "", id="of none that can be"),
        pytest.param(cluster("c", provider="gke"), "", id="somebody else runs it"),
        pytest.param(cluster("c", labels={"external-cluster-id": "x"}), "clusters-abc", id="whatever other labels it has"),
    ],
)
def test_a_cluster_counts_in(given: Cluster, ledger: str) -> None:
    assert ledger_of(given) == ledger
    assert takes(given).cells == {CELL: Quantity.of(1)}


def test_the_ledger_of_clusters_is_not_that_of_machines() -> None:
    assert (project_in("clusters-abc"), project_in("project-abc"), project_in("ns-clusters-abc")) == ("abc", "", "")
    assert project_of("clusters-abc") == ""
