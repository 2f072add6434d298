"""What `ullage usage` says of the number of snapshots."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from tests.unit.cli import project_cluster
from tests.unit.cli.project_cluster import answering
from tests.unit.cli.space_cluster import GIB, SpaceCluster
from ullage.cli.usage.command import usage
from ullage.kube.builtin.core import NAMESPACES
from ullage.ledger.api import LEDGERS
from ullage.policies.counts.api import SNAPSHOT_LIMITS

NS, ALL, EACH, DATA, LOGS = (
    "snapshots/namespace",
    *(f"snapshot-count/{one}" for one in ("namespace", "claim/*", "claim/data", "claim/logs")),
)
app = typer.Typer()
app.command()(usage)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SpaceCluster:
    made = SpaceCluster()
    answering(made, monkeypatch)  # type: ignore[arg-type] # a cluster of another sort answers as well
    return made


def counted(cluster: SpaceCluster, counts: dict[str, int], most: dict[str, int], namespace: str = "shop") -> None:
    cluster.ledger(namespace, used={NS: 1}, limits={}, reserved={}, counts=counts, most=most)


def printed(*arguments: str) -> list[str]:
    return project_cluster.called(app, *arguments).stdout.splitlines()


def items(*arguments: str) -> list[Any]:
    found: list[Any] = json.loads(project_cluster.called(app, *arguments, "-o", "json").stdout)["items"]
    return found


def limit(cluster: SpaceCluster, name: str, *, namespace: str = "shop", status: Any = None, **spec: int) -> None:
    cluster.put(SNAPSHOT_LIMITS, {"metadata": {"name": name}, "spec": spec, "status": status or {}}, namespace=namespace)


def test_the_namespace_and_its_fullest_claims_are_shown_with_their_limits(cluster: SpaceCluster) -> None:
    counted(cluster, {ALL: 9, LOGS: 2, DATA: 7}, {ALL: 20, EACH: 5})
    assert printed() == [
        "NAMESPACE   USED   RESERVED   LIMIT   FREE   %",
        "shop        1Gi    0          none    -      -",
        "",
        "NAMESPACE   NUMBER OF SNAPSHOTS   USED   RESERVED   LIMIT   FREE     %",
        "shop        of the namespace      9      0          20      11       45",
        "shop        of claim data         7      0          5       2 over   140",
        "shop        of claim logs         2      0          5       3        40",
    ]
    assert items() == [
        {
            "namespace": "shop",
            "used": GIB,
            "reserved": 0,
            "snapshotCount": {
                "used": 9,
                "reserved": 0,
                "limit": 20,
                "free": 11,
                "claims": [
                    {"claim": "data", "used": 7, "reserved": 0, "limit": 5, "free": -2},
                    {"claim": "logs", "used": 2, "reserved": 0, "limit": 5, "free": 3},
                ],
            },
        }
    ]


def test_of_claims_without_a_limit_and_of_many_namespaces_the_whole_is_shown(cluster: SpaceCluster) -> None:
    counted(cluster, {ALL: 9, DATA: 9}, {ALL: 20})
    assert printed()[4:] == ["shop        of the namespace      9      0          20      11     45"]
    counted(cluster, {ALL: 0, DATA: 1}, {ALL: 0, EACH: 0}, namespace="lab")
    assert printed("-A")[5:] == [
        "lab         of the namespace      0      0          0       0      -",
        "shop        of the namespace      9      0          20      11     45",
    ]


def test_of_many_claims_the_fullest_ten_are_shown_and_the_others_counted(cluster: SpaceCluster) -> None:
    claims = {f"snapshot-count/claim/c{number:02}": number for number in range(1, 14)}
    counted(cluster, {ALL: sum(claims.values()), **claims}, {EACH: 50})
    lines = printed()[5:]
    assert [line.split()[3] for line in lines[:10]] == [f"c{number:02}" for number in range(13, 3, -1)]
    assert lines[10:] == ["3 claims have fewer, and are not shown: -o json has all"]
    assert len(items()[0]["snapshotCount"]["claims"]) == 13


def test_who_may_not_read_ledgers_is_told_what_the_limits_say_the_strictest_of_each(cluster: SpaceCluster) -> None:
    cluster.hidden.add(LEDGERS.name)
    limit(cluster, "old", snapshots=20, snapshotsPerClaim=5, status={"used": 3, "claims": [{"claim": "data", "used": 2}]})
    limit(cluster, "new", snapshots=4)  # nobody has counted for it yet
    assert printed()[3:] == [
        "NAMESPACE   NUMBER OF SNAPSHOTS   USED   RESERVED   LIMIT   FREE   %",
        "shop        of the namespace      3      -          4       1      75",
        "shop        of claim data         2      -          5       3      40",
    ]
    limit(cluster, "theirs", namespace="lab", snapshots=1, status={"used": 1})
    cluster.put(NAMESPACES, {"metadata": {"name": "lab", "labels": {"team": "b"}}})
    assert [one["namespace"] for one in items("-l", "team=b")] == ["lab"]


def test_where_nothing_is_limited_there_is_no_ledger_and_what_is_there_is_shown_all_the_same(cluster: SpaceCluster) -> None:
    cluster.taking("a", "data", 3)
    cluster.taking("b", "logs", 1)
    assert printed() == [
        "NAMESPACE   USED   RESERVED   LIMIT   FREE   %",
        "shop        4Gi    -          none    -      -",
        "",
        "NAMESPACE   NUMBER OF SNAPSHOTS   USED   RESERVED   LIMIT   FREE   %",
        "shop        of the namespace      2      -          none    -      -",
    ]
    counted(cluster, {ALL: 1}, {ALL: 2}, namespace="lab")
    assert [(one["namespace"], one["snapshotCount"]["used"]) for one in items("-A")] == [("lab", 1), ("shop", 2)]


def test_where_there_is_a_ledger_no_snapshots_are_listed_for_it(cluster: SpaceCluster) -> None:
    counted(cluster, {ALL: 1}, {ALL: 2})
    cluster.taking("a", "data", 3)
    assert items()[0]["snapshotCount"]["used"] == 1
