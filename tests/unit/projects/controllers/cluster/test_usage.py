"""What the machines of a cluster take, as its status says it."""

from __future__ import annotations

import pytest

from tests.unit.projects.builders import details, usage
from ullage.ledger.amounts import Amounts
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.controllers.cluster.usage.rules import ClusterUsage, cluster_usage

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
    assert cluster_usage(machines, vanished=vanished, unsized=(), before=before) == ClusterUsage(said)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"b"}, "the size of this machine is not known, and not in the sum: b"),
        ({"b", "a"}, "the sizes of these machines are not known, and not in the sum: a, b"),
        (
            {f"m{number}" for number in range(8)},
            "the sizes of these machines are not known, and not in the sum: m0, m1, m2, m3, m4 and 3 more",
        ),
    ],
)
def test_machines_that_nobody_can_size_are_named_and_the_others_count(names: set[str], said: str) -> None:
    assert cluster_usage(TWO, vanished=NONE, unsized=names, before=None) == ClusterUsage(usage("2", "4Gi", "0"), said)
