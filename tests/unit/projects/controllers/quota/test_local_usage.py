"""What the clusters of a project use on one seed."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.projects.builders import NOW, cluster, details, quota, usage
from ullage.kube.objects import Condition
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import Cluster
from ullage.projects.api.quotas import ResourceQuotaStatus
from ullage.projects.controllers.quota_local_usage_rules import local_usage, status_with

NOBODY = details()


@pytest.mark.parametrize(
    ("clusters", "total"),
    [
        pytest.param([], usage("0", "0", "0"), id="no cluster: zeros, not nothing"),
        pytest.param([cluster("a", usage())], usage("0", "0", "0"), id="a cluster without machines"),
        pytest.param(
            [cluster("a", usage("2", "4Gi", "10Gi")), cluster("b", usage("1500m", "1Gi"))],
            usage("3500m", "5Gi", "10Gi"),
            id="the sum of its clusters",
        ),
        pytest.param(
            [cluster("a", usage("2")), cluster("b", usage("8"), of="other"), cluster("c", usage("8"), of="")],
            usage("2"),
            id="clusters of others do not count",
        ),
        pytest.param(
            [cluster("a", usage("2"), deleting=True)], usage("2"), id="one that is being deleted counts until it is gone"
        ),
        pytest.param(
            [cluster("a", usage("2")), cluster("b", usage("8"), labels={"external-cluster-id": "b"})],
            usage("10"),
            id="no label but that of its project keeps a cluster from being counted",
        ),
        pytest.param([cluster("a", usage("2"), provider="gke")], usage("0"), id="nor those that somebody else runs"),
        pytest.param([cluster("a", details(cpu="2"))], usage("2"), id="what a count does not name is none"),
        pytest.param([cluster("a", usage("1", "1G")), cluster("b", usage("1", "24"))], usage("2", "1000000024"), id="exact"),
    ],
)
def test_local_usage_is_the_sum_over_the_clusters_of_the_project(clusters: list[Cluster], total: ResourceDetails) -> None:
    found = local_usage(clusters, "abc", before=NOBODY)
    assert (found.usage, found.missing, found.message) == (total, (), "all clusters are counted")


def test_when_a_machine_is_deleted_the_usage_decreases() -> None:
    before = local_usage([cluster("a", usage("3"))], "abc", before=NOBODY).usage
    assert local_usage([cluster("a", usage("1"))], "abc", before=before).usage == usage("1")


def test_a_cluster_that_cannot_be_counted_is_named_and_not_taken_for_empty() -> None:
    found = local_usage(
        [cluster("new"), cluster("odd", usage("-90")), cluster("silent", details()), cluster("a", usage("2"))],
        "abc",
        before=NOBODY,
    )
    assert found.usage == usage("2")
    assert found.message == (
        "these clusters are not in the sum: new: its machines are not counted yet; odd: status.resourceUsage.cpu -90: an amount"
        " is not negative; silent: its machines are not counted yet"
    )


def stale(reason: str = "MachinesNotRead", since: str = "2026-05-01T09:00:00Z") -> Condition:
    return Condition(type="UsageFresh", status="False", reason=reason, message="long", last_transition_time=since)


def test_a_cluster_whose_figures_are_not_of_now_counts_with_them_and_is_named_with_since_when() -> None:
    found = local_usage(
        [cluster("a", usage("2")), cluster("b", usage("3")), cluster("c", usage("4")), cluster("new")],
        "abc",
        before=NOBODY,
        stale={"b": stale("MachinesNotCounted"), "c": stale(), "new": stale(), "another": stale()},
    )
    assert (found.usage, found.is_fresh) == (usage("9"), False)
    assert found.message == (
        "these clusters are not in the sum: new: its machines are not counted yet; the figures of these clusters are not of"
        " now, and their MachineRecords on the seed say why: b: not all of its machines can be counted since"
        " 2026-05-01T09:00:00Z; c: its machines cannot be read since 2026-05-01T09:00:00Z"
    )


def test_that_figures_are_not_of_now_is_a_reason_of_its_own() -> None:
    found = local_usage([cluster("a", usage("2"))], "abc", before=NOBODY, stale={"a": stale()})
    (condition,) = status_with(quota(), found, now=NOW).conditions
    assert (condition.type, condition.status, condition.reason) == ("LocalUsageFresh", "False", "ClustersNotOfNow")
    assert condition.message == (
        "the figures of these clusters are not of now, and their MachineRecords on the seed say why: a: its machines cannot be"
        " read since 2026-05-01T09:00:00Z"
    )


def test_a_thousand_clusters_that_are_not_of_now_make_a_short_message() -> None:
    names = [f"c{number:04}" for number in range(1000)]
    found = local_usage([cluster(one, usage("1")) for one in names], "abc", before=NOBODY, stale=dict.fromkeys(names, stale()))
    assert found.message.endswith("c0004: its machines cannot be read since 2026-05-01T09:00:00Z; and 995 more")


def test_a_thousand_clusters_that_are_not_counted_make_a_short_message() -> None:
    found = local_usage([cluster(f"c{number:04}") for number in range(1000)], "abc", before=NOBODY)
    assert len(found.missing) == 1000
    assert found.message.endswith("c0004: its machines are not counted yet; and 995 more")


def test_the_same_sum_is_written_once_in_whatever_order_the_clusters_come() -> None:
    one, two = cluster("a", usage("1", "1Gi")), cluster("b", usage("1", "1G"))
    first = local_usage([one, two], "abc", before=NOBODY).usage
    assert local_usage([two, one], "abc", before=NOBODY).usage == first
    written = details(cpu="2000m", memory="2073741824", storage="0")
    assert local_usage([one, two], "abc", before=written).usage is written


def test_the_status_of_a_copy_says_what_is_used_there_and_nothing_of_the_master_s_is_touched() -> None:
    copy = quota(status=ResourceQuotaStatus(global_usage=usage("9")))
    found = status_with(copy, local_usage([cluster("a", usage("2")), cluster("b")], "abc", before=NOBODY), now=NOW)
    assert (found.local_usage, found.global_usage) == (usage("2"), usage("9"))
    (condition,) = found.conditions
    assert (condition.type, condition.status, condition.reason) == ("LocalUsageFresh", "False", "ClustersNotCounted")
    assert condition.message == "these clusters are not in the sum: b: its machines are not counted yet"
    again = msgspec.structs.replace(copy, status=found)
    whole = status_with(again, local_usage([cluster("a", usage("2"))], "abc", before=found.local_usage), now=NOW)
    assert [(one.status, one.reason) for one in whole.conditions] == [("True", "Fresh")]


def test_where_nothing_is_new_on_a_seed_nothing_is_written() -> None:
    copy = quota()
    once = msgspec.structs.replace(copy, status=status_with(copy, local_usage([], "abc", before=NOBODY), now=NOW))
    again = local_usage([], "abc", before=once.status.local_usage)
    assert status_with(once, again, now=NOW) is once.status
