"""`ullage quota` about the number of snapshots: what the options stand for, what is written, shown and said."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.unit.cli import project_cluster
from tests.unit.cli.project_cluster import answering, merged
from tests.unit.cli.snapshot.cluster import forbidden
from tests.unit.cli.space_cluster import GIB, SpaceCluster
from tests.unit.cli.watching import Watcher
from ullage.cli.common.session import NotInstalled
from ullage.cli.quota.command import app
from ullage.cli.quota.counts import NAME, change_of
from ullage.errors import BadInput
from ullage.kube.errors import Conflict
from ullage.kube.kinds import Kind
from ullage.policies.counts.api import SNAPSHOT_LIMITS

WHOSE = "the number of snapshots of namespace shop"


class CountCluster(SpaceCluster):
    """`conflicts`: so many writes find that somebody else wrote first."""

    conflicts = 0

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict("somebody else wrote first", code=409)
        key = kind.name, namespace, name
        assert self.objects[key]["metadata"]["uid"] == given["uid"]
        made = merged(self.objects[key], given["merge"])
        if not given["dry_run"]:
            self.objects[key] = made
        return msgspec.convert(made, kind.type)

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        dry_run: bool = False,
        resource_version: str = "",
        **_: Any,
    ) -> None:
        assert self.objects[kind.name, namespace, name]["metadata"].get("resourceVersion", "") == resource_version
        await super().delete(kind, name, namespace, uid=uid, dry_run=dry_run)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> CountCluster:
    made = CountCluster()
    answering(made, monkeypatch)  # type: ignore[arg-type] # a cluster of another sort answers as well
    return made


def said(*arguments: str) -> list[str]:
    return project_cluster.called(app, *arguments).stdout.splitlines()


def limit(cluster: SpaceCluster, name: str = NAME, *, status: Any = None, namespace: str = "shop", **spec: Any) -> None:
    body = {"metadata": {"name": name, "resourceVersion": "7"}, "spec": spec, "status": status or {}}
    cluster.put(SNAPSHOT_LIMITS, body, namespace=namespace)


def spec(cluster: SpaceCluster) -> Any:
    found = cluster.objects.get((SNAPSHOT_LIMITS.name, "shop", NAME))
    return None if found is None else found["spec"]


# --- set, delete -----------------------------------------------------------------------------------------------------


def test_numbers_are_set_and_only_what_is_said_changes(cluster: CountCluster) -> None:
    numbers = ["--snapshot-count", "20", "--snapshots-per-claim", "5"]
    assert said("set", "ns/shop", *numbers, "--delete-oldest") == [
        f"{WHOSE} is limited to 20 snapshots in the namespace, 5 of each claim; the oldest makes room for a new one"
    ]
    assert spec(cluster) == {"snapshots": 20, "snapshotsPerClaim": 5, "deleteOldest": True}
    assert said("set", "ns/shop", "--no-delete-oldest", "--snapshot-count", "1") == [
        f"{WHOSE} is limited to 1 snapshot in the namespace, 5 of each claim; one more is refused"
    ]
    assert spec(cluster) == {"snapshots": 1, "snapshotsPerClaim": 5, "deleteOldest": False}
    assert said("set", "ns/shop", "--snapshot-count", "none", "--dry-run") == [
        f"{WHOSE} would be limited to 5 snapshots of each claim; one more is refused"
    ]
    assert spec(cluster)["snapshots"] == 1


def test_with_the_last_number_the_object_goes(cluster: CountCluster) -> None:
    limit(cluster, snapshots=3, deleteOldest=True)
    assert said("set", "ns/shop", "--snapshot-count", "none", "--dry-run") == [f"{WHOSE} would be without a limit"]
    assert spec(cluster) is not None
    assert said("set", "ns/shop", "--snapshot-count", "none") == [f"{WHOSE} is without a limit"]
    assert spec(cluster) is None


def test_zero_is_a_limit_and_one_below_what_is_there_says_so(cluster: CountCluster) -> None:
    limit(cluster, snapshots=30, status={"used": 7})
    assert said("set", "ns/shop", "--snapshot-count", "0") == [
        f"{WHOSE} is limited to 0 snapshots in the namespace; one more is refused",
        "there are 7 snapshots now: none is deleted for that, and no new one is admitted until there are fewer",
    ]
    assert spec(cluster)["snapshots"] == 0


def test_those_that_others_wrote_stay_and_are_named(cluster: CountCluster) -> None:
    limit(cluster, "by-hand", snapshots=2)
    beside = (
        "other SnapshotLimits are there, too (by-hand): the smallest number of each counts, and the oldest is deleted only"
        " where all of them say so; see: kubectl get snapshotlimits -n shop"
    )
    assert said("set", "ns/shop", "--snapshot-count", "4")[1:] == [beside]
    assert said("delete", "ns/shop", "--snapshot-count") == [f"{WHOSE} is without a limit by this command", beside]
    assert said("delete", "ns/shop", "--snapshot-count") == [f"{WHOSE} has no limit by this command: nothing to remove", beside]
    assert (SNAPSHOT_LIMITS.name, "shop", "by-hand") in cluster.objects


def test_a_limit_on_space_and_one_on_the_number_are_removed_by_themselves(cluster: CountCluster) -> None:
    cluster.quota(limit=1)
    limit(cluster, snapshots=3)
    assert said("delete", "ns/shop", "--snapshot-count", "--dry-run") == [f"{WHOSE} would be without a limit"]
    assert said("delete", "ns/shop", "--snapshot-count") == [f"{WHOSE} is without a limit"]
    assert [row.split()[:4] for row in said("get", "ns/shop")[1:]] == [["shop", "all", "snapshots", "1Gi"]]


def test_who_was_overtaken_tries_again(cluster: CountCluster) -> None:
    limit(cluster, snapshots=3)
    cluster.conflicts = 2
    said("set", "ns/shop", "--snapshot-count", "4")
    assert spec(cluster)["snapshots"] == 4


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(
            ["ns/shop", "--snapshot-count", "many"],
            "--snapshot-count many: not a number of snapshots; a whole number from 0 to 1000000 is allowed, or none",
            id="a word",
        ),
        pytest.param(["ns/shop", "--snapshots-per-claim", "-1"], "--snapshots-per-claim -1: not a number", id="negative"),
        pytest.param(["ns/shop", "--snapshot-count", "1000001"], "--snapshot-count 1000001: not a number", id="too many"),
        pytest.param(["ns/shop", "--snapshot-count", "9" * 5000], "--snapshot-count 999", id="a very long number"),
        pytest.param(["ns/shop", "--snapshot-count", "10Gi"], "--snapshot-count 10Gi: not a number", id="bytes"),
        pytest.param(["vm/shop/db", "--snapshot-count", "3"], "for a whole namespace: ns/NAME is allowed", id="of a machine"),
        pytest.param(["ns/shop"], "--snapshots, --snapshot-count, --snapshots-per-claim, --cpu", id="nothing"),
        pytest.param(["project/abc", "--snapshot-count", "3"], "--snapshot-count 3: not of a project", id="of a project"),
        pytest.param(
            ["ns/shop", "--delete-oldest"],
            "--delete-oldest ns/shop: no number is limited there yet; --snapshot-count or --snapshots-per-claim is needed",
            id="the oldest of nothing",
        ),
    ],
)
def test_what_cannot_be_is_named_and_nothing_changes(cluster: CountCluster, arguments: list[str], problem: str) -> None:
    assert problem in project_cluster.refused(app, "set", *arguments)
    assert spec(cluster) is None


def test_a_machine_and_a_project_have_no_such_limit_to_remove(cluster: CountCluster) -> None:
    for target in ("vm/shop/db", "project/abc"):
        assert "ns/NAME is allowed" in project_cluster.refused(app, "delete", target, "--snapshot-count")


def test_who_may_not_write_them_is_told_who_may(cluster: CountCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def create(kind: Kind[Any], obj: Any, *, dry_run: bool = False) -> Any:
        raise forbidden(kind)

    monkeypatch.setattr(cluster, "create", create)
    told = project_cluster.refused(app, "set", "ns/shop", "--snapshot-count", "3")
    assert told.startswith(
        "only an administrator, or who is bound to the role ullage-snapshotlimits-admin, may limit the number"
    )
    assert 'User "eve" cannot' in told


def test_without_the_kind_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(CountCluster(SNAPSHOT_LIMITS), monkeypatch)  # type: ignore[arg-type] # so does this one
    with pytest.raises(NotInstalled, match=r"the cluster has no SnapshotLimits .*Next: ullage install"):
        project_cluster.called(app, "set", "ns/shop", "--snapshot-count", "3")


def test_nothing_said_is_nothing() -> None:
    assert change_of({}, delete_oldest=None) is None
    with pytest.raises(BadInput):
        change_of({"--snapshot-count": ""}, delete_oldest=None)


# --- list, get -------------------------------------------------------------------------------------------------------


@pytest.fixture
def limited(cluster: CountCluster) -> CountCluster:
    cluster.quota(limit=10, usage={"namespaceTotalSnapshotSizeUsage": 2 * GIB})
    claims = [{"claim": "data", "used": 6}, {"claim": "logs", "used": 1}]
    limit(cluster, snapshots=20, snapshotsPerClaim=5, deleteOldest=True, status={"used": 7, "claims": claims})
    limit(cluster, "by-hand", snapshots=30)
    limit(cluster, namespace="lab", snapshotsPerClaim=3)
    return cluster


def test_numbers_are_listed_beside_space_the_strictest_of_each(limited: CountCluster) -> None:
    assert said("list", "-A") == [
        "NAMESPACE   OF                    LIMIT   USED             FREE",
        "lab         all snapshots         none    -                -",
        "lab         number per claim      3       -                -",
        "shop        all snapshots         10Gi    2Gi              8Gi",
        "shop        number of snapshots   20      7                13",
        "shop        number per claim      5       6 (claim data)   1 over",
    ]
    assert said("list", "-A", "-o", "name") == ["ns/lab", "ns/shop"]


def test_for_programs_one_namespace_is_one_object(limited: CountCluster) -> None:
    assert json.loads("\n".join(said("get", "ns/shop", "-o", "json"))) == {
        "namespace": "shop",
        "limit": 10 * GIB,
        "used": 2 * GIB,
        "free": 8 * GIB,
        "snapshotCount": {
            "limit": 20,
            "used": 7,
            "free": 13,
            "limitPerClaim": 5,
            "fullestClaim": {"claim": "data", "used": 6},
            "deleteOldest": False,
        },
    }


def test_of_a_machine_and_where_they_may_not_be_read_there_is_space_alone(limited: CountCluster) -> None:
    assert [row.split()[1] for row in said("get", "vm/shop/db")[1:]] == ["vm/db"]
    limited.hidden.add(SNAPSHOT_LIMITS.name)
    assert [row.split()[1] for row in said("get", "ns/shop")[1:]] == ["all"]


def test_labels_choose_among_them(limited: CountCluster) -> None:
    limited.objects[SNAPSHOT_LIMITS.name, "lab", NAME]["metadata"]["labels"] = {"team": "b"}
    assert said("list", "-A", "-l", "team=b", "-o", "name") == ["ns/lab"]


def test_a_watch_shows_a_number_that_changes_and_that_it_goes(
    limited: CountCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = Watcher(limited, monkeypatch, capsys).called(
        app,
        "get",
        "ns/shop",
        "-w",
        steps=[
            lambda: limit(limited, snapshots=20, status={"used": 8}),
            lambda: limited.objects.pop((SNAPSHOT_LIMITS.name, "shop", NAME)),
        ],
    )
    assert [row.split()[1:] for row in told[1].splitlines()] == [
        ["number", "of", "snapshots", "20", "8", "12"],
        ["number", "per", "claim", "5", "6", "(claim", "data)", "gone"],
    ]
    assert [row.split()[4:] for row in told[2].splitlines()] == [["30", "-", "-"]]
