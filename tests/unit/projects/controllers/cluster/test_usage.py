"""What the machines of a cluster take, as its status says it."""

from __future__ import annotations

import pytest

from tests.unit.projects.builders import cluster, details, usage
from ullage.ledger.amounts import Amounts
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import Cluster
from ullage.projects.controllers.cluster.usage.rules import ClusterUsage, cluster_usage, is_charged, unreachable

NONE = Amounts()
TWO = Amounts.parse({"cpu": "2", "memory": "4Gi"})
ONE = Amounts.parse({"cpu": "1", "memory": "1Gi", "storage": "10G"})


@pytest.mark.parametrize(
    ("machines", "vanished", "before", "said"),
    [
        pytest.param(NONE, NONE, None, usage("0", "0", "0"), id="no machine: zeros, not nothing"),
        pytest.param(TWO, NONE, None, usage("2", "4Gi", "0"), id="what its machines take"),
        pytest.param(TWO, ONE, None, usage("3", "5Gi", "10G"), id="and those that may still run"),
        pytest.param(ONE, NONE, usage("3", "5Gi", "10G"), usage("1", "1Gi", "10G"), id="a machine is deleted: less"),
        pytest.param(
            TWO,
            NONE,
            details(cpu="2000m", memory="4096Mi", storage=0),
            details(cpu="2000m", memory="4096Mi", storage=0),
            id="same",
        ),
        pytest.param(NONE, NONE, details(), usage("0", "0", "0"), id="a count that was never made"),
    ],
)
def test_what_a_cluster_uses(
    machines: Amounts, vanished: Amounts, before: ResourceDetails | None, said: ResourceDetails
) -> None:
    assert cluster_usage(machines, vanished=vanished, uncounted={}, before=before) == ClusterUsage(said)


KEPT = "and the usage is that of before"


@pytest.mark.parametrize(
    ("uncounted", "said"),
    [
        ({"b": "no stamp"}, f"this machine cannot be counted, {KEPT}: b: no stamp"),
        ({"b": "x", "a": "y"}, f"these machines cannot be counted, {KEPT}: a: y; b: x"),
        (
            {f"m{number}": "x" for number in range(8)},
            f"these machines cannot be counted, {KEPT}: m0: x; m1: x; m2: x; m3: x; m4: x; and 3 more",
        ),
    ],
)
@pytest.mark.parametrize("before", [None, usage("7")])
def test_where_machines_cannot_be_counted_the_figures_stay_and_they_are_named(
    uncounted: dict[str, str], said: str, before: ResourceDetails | None
) -> None:
    assert cluster_usage(TWO, vanished=NONE, uncounted=uncounted, before=before) == ClusterUsage(before, said)


def test_where_nobody_can_look_the_figures_stay() -> None:
    said = f"its machines cannot be read, {KEPT}: no route to host"
    assert unreachable("no route to host", usage("7")) == ClusterUsage(usage("7"), said)


@pytest.mark.parametrize(
    ("given", "charged"),
    [
        pytest.param(cluster("c"), True, id="one of a project"),
        pytest.param(cluster("c", deleting=True), True, id="one that is being deleted"),
        pytest.param(cluster("c", of=""), False, id="of no project"),
        pytest.param(cluster("c", of="No Id"), False, id="of none that can be"),
        pytest.param(cluster("c", provider="eks"), False, id="somebody else runs it"),
        pytest.param(cluster("c", labels={"external-cluster-id": "x"}), True, id="whatever other labels it has"),
    ],
)
def test_which_clusters_are_charged(given: Cluster, charged: bool) -> None:
    assert is_charged(given) is charged
