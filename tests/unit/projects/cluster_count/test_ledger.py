"""Which ledger a cluster counts in, and how many a quota allows on a seed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.projects.builders import cluster, quota
from ullage.projects.api.kkp import Cluster
from ullage.projects.api.quotas import ResourceQuota
from ullage.projects.cluster_count.ledger import CELL, allowed_here, elsewhere, ledger_of, limits_for, project_in, takes
from ullage.projects.names import project_of
from ullage.quantity import Quantity


def says(most: str | None = None, away: str | None = None, **more: Any) -> ResourceQuota:
    given = {"ullage.io/max-clusters": most, "ullage.io/clusters-elsewhere": away}
    return quota(annotations={key: value for key, value in given.items() if value is not None}, **more)


@pytest.mark.parametrize(
    ("given", "ledger"),
    [
        pytest.param(cluster("c"), "clusters-abc", id="that of its project"),
        pytest.param(cluster("c", deleting=True), "clusters-abc", id="until it is gone"),
        pytest.param(cluster("c", of=""), "", id="of no project"),
        pytest.param(cluster("c", of="No Id"), "", id="of none that can be"),
        pytest.param(cluster("c", provider="gke"), "", id="somebody else runs it"),
        pytest.param(cluster("c", labels={"external-cluster-id": "x"}), "", id="imported"),
    ],
)
def test_a_cluster_counts_in(given: Cluster, ledger: str) -> None:
    assert ledger_of(given) == ledger
    assert takes(given).cells == {CELL: Quantity.of(1)}


def test_the_ledger_of_clusters_is_not_that_of_machines() -> None:
    assert (project_in("clusters-abc"), project_in("project-abc"), project_in("ns-clusters-abc")) == ("abc", "", "")
    assert project_of("clusters-abc") == ""


@pytest.mark.parametrize(
    ("quotas", "allowed"),
    [
        pytest.param([], None, id="no quota: any number"),
        pytest.param([says()], None, id="nothing is said: any number"),
        pytest.param([says("many")], None, id="what cannot be read limits nothing"),
        pytest.param([says("3")], 3, id="a number"),
        pytest.param([says("0")], 0, id="none"),
        pytest.param([says("3", "2")], 1, id="less those on other seeds"),
        pytest.param([says("3", "5")], 0, id="and never less than none"),
        pytest.param([says("3", "some")], 3, id="what cannot be read there counts as none"),
        pytest.param([says(None, "2")], None, id="others alone limit nothing"),
        pytest.param([says("3"), says("2", name="by-hand")], 2, id="of two quotas both hold"),
    ],
)
def test_how_many_are_allowed_on_a_seed(quotas: list[ResourceQuota], allowed: int | None) -> None:
    assert allowed_here(quotas) == allowed
    assert limits_for(quotas) == ({} if allowed is None else {CELL: Quantity.of(allowed)})


def test_how_many_are_elsewhere() -> None:
    assert [elsewhere(one.metadata) for one in (says(), says("3", "2"), says("3", "-1"), says("3", ""))] == [0, 2, 0, 0]
