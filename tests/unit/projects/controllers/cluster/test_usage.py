"""What the machines of a cluster take, as its status says it."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from tests.unit.projects.builders import NOW, cluster, details, meta, usage
from ullage.ledger.amounts import Amounts
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import Cluster
from ullage.projects.api.records import MachineRecord
from ullage.projects.controllers.cluster_usage_rules import (
    ClusterUsage,
    Stale,
    cluster_usage,
    is_charged,
    record_conditions,
    unreachable,
)

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
    assert cluster_usage(TWO, vanished=NONE, uncounted=uncounted, before=before) == ClusterUsage(
        before, said, "MachinesNotCounted"
    )


def test_where_nobody_can_look_the_figures_stay() -> None:
    said = f"its machines cannot be read, {KEPT}: no route to host"
    assert unreachable("no route to host", usage("7")) == ClusterUsage(usage("7"), said, "MachinesNotRead")


def test_the_record_says_since_when_figures_are_not_of_now_and_that_they_are_again() -> None:
    def with_record(of: MachineRecord, found: Stale | None, *, now: datetime) -> MachineRecord:
        conditions = record_conditions(of, found, now=now)
        return msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, conditions=conditions))

    new = MachineRecord(metadata=meta("c-1", annotations={"ullage.io/cluster-uid": "u"}))
    assert record_conditions(new, None, now=NOW) is new.status.conditions, "one that was always well is not written"
    stale = Stale("MachinesNotRead", "its machines cannot be read", since=NOW - timedelta(minutes=1))
    once = with_record(new, stale, now=NOW)
    (condition,) = once.status.conditions
    assert (condition.type, condition.status, condition.reason, condition.message, condition.last_transition_time) == (
        "UsageFresh",
        "False",
        "MachinesNotRead",
        "its machines cannot be read",
        "2026-05-01T11:59:00Z",
    )
    later = Stale("MachinesNotRead", "its machines cannot be read", since=NOW + timedelta(hours=1))
    assert record_conditions(once, later, now=NOW) is once.status.conditions, "a process that began later knows no better"
    (condition,) = record_conditions(once, None, now=NOW)
    assert (condition.status, condition.reason, condition.message) == ("True", "Fresh", "what its machines take is of now")


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
