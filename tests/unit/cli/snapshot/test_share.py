"""`ullage snapshot share`, `shares` and `unshare`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from tests.unit.cli import project_cluster
from tests.unit.cli.project_cluster import merged
from tests.unit.cli.snapshot.cluster import GA, PROTOTYPE, Cluster
from ullage.cli.common import session
from ullage.cli.common.arguments import At
from ullage.cli.common.session import Missing, NotInstalled
from ullage.cli.snapshot.command import app
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.errors import Conflict
from ullage.kube.kinds import Kind
from ullage.policies.sharing.api import SHARES

GIVEN = "share-shop-nightly-ga-nightly-"


class ShareCluster(Cluster):
    """`settles`: what comes of a share, as soon as it is read. `conflicts`: so many writes find that another wrote first."""

    settles: dict[str, str]
    conflicts = 0

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        found = await super().find(kind, name, namespace)
        if kind is SHARES and found is not None:
            states = [{"namespace": one, "state": state, "message": "said"} for one, state in self.settles.items()]
            self.objects[kind.name, "", name]["status"] = {"targets": states, "sourceUID": "uid-nightly"}
        return found

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        key = kind.name, namespace, name
        assert given["uid"] == self.objects[key]["metadata"]["uid"]
        assert given["resource_version"] == self.objects[key]["metadata"].get("resourceVersion", "")
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict("somebody else wrote first", code=409)
        made = merged(self.objects[key], given["merge"])
        if not given["dry_run"]:
            self.objects[key] = made
        return msgspec.convert(made, kind.type)

    async def delete(
        self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "", dry_run: bool = False, **_: Any
    ) -> None:
        await super().delete(kind, name, namespace, uid=uid, dry_run=dry_run)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ShareCluster:
    made = ShareCluster()
    made.settles = {}
    made.snapshot("nightly", "data")
    for name in ("shop", "lab", "qa"):
        made.put(NAMESPACES, {"metadata": {"name": name}})
    answer(made, monkeypatch)
    return made


def answer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def connected(at: At, work: Any) -> Any:
        return asyncio.run(work(cluster.session(at.namespace or "shop", at.dialect)))

    monkeypatch.setattr(session, "connected", connected)


def said(*arguments: str) -> str:
    return project_cluster.called(app, *arguments).stdout


def refused(*arguments: str) -> str:
    return project_cluster.refused(app, *arguments)


def specs(cluster: Cluster) -> list[Any]:
    return [body["spec"] for (kind, *_), body in sorted(cluster.objects.items()) if kind == SHARES.name]


def shared(cluster: Cluster, name: str, *targets: str, labels: Any = None, **status: str) -> None:
    wanted = {"namespaces": list(targets), **({"matchLabels": labels} if labels else {})}
    spec = {"source": {"namespace": "shop", "name": "nightly"}, "targets": wanted}
    entries = [{"namespace": one, "state": state, "message": ""} for one, state in status.items()]
    cluster.put(SHARES, {"metadata": {"name": name}, "spec": spec, "status": {"targets": entries}})


# --- share -----------------------------------------------------------------------------------------------------------


def test_a_share_is_made_once_and_later_namespaces_are_added_to_it(cluster: ShareCluster) -> None:
    assert said("share", "nightly", "--to", "lab,qa", "--dry-run").startswith("snapshot nightly would be given to lab, qa (")
    assert specs(cluster) == []
    assert said("share", "nightly", "--to", "lab").startswith(f"snapshot nightly is given to lab (snapshotshare/{GIVEN}")
    cluster.conflicts = 2
    said("share", "nightly", "--to", "qa", "--to", "qa")
    [spec] = specs(cluster)
    assert spec["source"] == {"namespace": "shop", "name": "nightly"}
    assert spec["targets"]["namespaces"] == ["lab", "qa"]


def test_under_another_name_and_of_the_other_api_it_is_another_share(cluster: ShareCluster) -> None:
    cluster.snapshot("nightly", "data", dialect=PROTOTYPE)
    said("share", "nightly", "--to", "lab")
    assert " as copy (" in said("share", "nightly", "--to", "lab", "--as", "copy")
    said("share", "nightly", "--to", "lab", "--dialect", "prototype")
    assert sorted((one.get("dialect", "ga"), one.get("name", "")) for one in specs(cluster)) == [
        ("ga", ""),
        ("ga", "copy"),
        ("prototype", ""),
    ]


def test_who_waits_is_told_of_each_namespace_and_one_that_is_not_there_is_not_waited_for(cluster: ShareCluster) -> None:
    cluster.settles = {"lab": "Shared"}
    done = project_cluster.called(app, "share", "nightly", "--to", "lab,later", "--wait")
    assert done.stdout.splitlines()[1:] == ["namespace lab: Shared: said"]
    assert done.stderr == "ullage: there is no namespace later: it gets the snapshot once it is there\n"


def test_a_namespace_that_refuses_it_ends_the_wait_with_its_reason(cluster: ShareCluster) -> None:
    cluster.settles = {"lab": "Refused", "qa": "Shared"}
    assert refused("share", "nightly", "--to", "lab,qa", "--wait") == "not every namespace has it: namespace lab: Refused: said"


def test_what_does_not_come_in_time_names_the_command_that_shows_it(cluster: ShareCluster) -> None:
    cluster.settles = {"lab": "Preparing"}
    told = refused("share", "nightly", "--to", "lab", "--wait", "--timeout", "0s")
    assert told == "not every namespace has snapshot nightly within 0 s; it is tried on: ullage snapshot shares nightly -n shop"


def test_one_that_a_namespace_has_deleted_is_not_said_to_be_given(cluster: ShareCluster) -> None:
    said("share", "nightly", "--to", "lab")
    cluster.settles = {"lab": "Removed"}
    said("share", "nightly", "--to", "qa")
    assert refused("share", "nightly", "--to", "lab") == (
        "lab had it, and has deleted it; to give it again, take it back first: ullage snapshot unshare nightly -n shop --from"
        " lab"
    )


def test_another_snapshot_of_the_name_is_not_given_by_the_old_share(cluster: ShareCluster) -> None:
    said("share", "nightly", "--to", "lab")
    cluster.settles = {"lab": "Shared"}
    said("share", "nightly", "--to", "lab")
    cluster.snapshot("nightly", "data", uid="another")
    assert "gives an earlier snapshot of that name; take that back first" in refused("share", "nightly", "--to", "qa")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(["nightly", "--to", "shop"], "snapshot nightly is in namespace shop already", id="to itself"),
        pytest.param(["nightly", "--to", "Lab"], "--to Lab: not the name of a namespace", id="no name"),
        pytest.param(["nightly", "--to", "lab,,qa"], "--to (empty): not the name of a namespace", id="an empty one"),
        pytest.param(["nightly", "--to", "lab", "--as", "A"], "--as A: not a name", id="called badly"),
        pytest.param(["weekly", "--to", "lab"], "snapshot weekly does not exist in namespace shop", id="no such snapshot"),
        pytest.param(
            ["nightly", "--to", ",".join(f"n{number}" for number in range(101))],
            "a share names 100 namespaces at most, and these would be 101: choose them by their labels",
            id="too many",
        ),
    ],
)
def test_what_cannot_be_is_named_and_nothing_is_shared(cluster: ShareCluster, arguments: list[str], problem: str) -> None:
    assert problem in refused("share", *arguments)
    assert specs(cluster) == []


@pytest.mark.parametrize("command", [["share", "nightly", "--to", "lab"], ["shares"], ["unshare", "nightly"]])
def test_a_tenant_is_told_that_it_takes_an_administrator(cluster: ShareCluster, command: list[str]) -> None:
    cluster.hidden.add(SHARES.name)
    told = refused(*command)
    assert told.startswith("only administrators may give snapshots to other namespaces, and no role of a namespace has that")
    assert 'User "eve" cannot' in told


def test_without_the_kind_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = ShareCluster(SHARES)
    bare.snapshot("nightly", "data")
    answer(bare, monkeypatch)
    with pytest.raises(NotInstalled, match=r"the cluster has no SnapshotShares .*Next: ullage install"):
        project_cluster.called(app, "share", "nightly", "--to", "lab")


# --- shares ----------------------------------------------------------------------------------------------------------


def test_shares_are_listed_by_namespace_with_how_far_they_are(cluster: ShareCluster) -> None:
    shared(cluster, "a", "lab", "qa", lab="Shared")
    shared(cluster, "b", labels={"team": "x"})
    assert [row.split()[:6] for row in said("shares").splitlines()] == [
        ["NAMESPACE", "SNAPSHOT", "TO", "AS", "STATE", "SHARE"],
        ["shop", "nightly", "lab", "nightly", "Shared", "a"],
        ["shop", "nightly", "qa", "nightly", "Waiting", "a"],
        ["shop", "nightly", "(none)", "nightly", "-", "b"],
    ]
    assert json.loads(said("shares", "nightly", "-o", "json"))["items"][0] == {
        "share": "a",
        "source": {"namespace": "shop", "name": "nightly"},
        "dialect": "ga",
        "namespace": "lab",
        "name": "nightly",
        "state": "Shared",
    }
    for others in (["weekly"], ["-n", "lab"], ["--dialect", "prototype"]):
        assert said("shares", *others) == ""
    assert len(said("shares", "-A").splitlines()) == 4


# --- unshare ---------------------------------------------------------------------------------------------------------


def test_it_is_taken_back_from_some_and_with_the_last_the_share_goes(cluster: ShareCluster) -> None:
    shared(cluster, "a", "lab", "qa")
    assert said("unshare", "nightly", "--from", "lab", "--dry-run") == (
        "snapshot nightly would be taken back from lab (snapshotshare/a)\n"
    )
    assert said("unshare", "nightly", "--from", "lab") == "snapshot nightly is taken back from lab (snapshotshare/a)\n"
    assert specs(cluster)[0]["targets"]["namespaces"] == ["qa"]
    said("unshare", "nightly", "--from", "qa")
    assert specs(cluster) == []


def test_it_is_taken_back_from_all_when_none_is_named_though_the_snapshot_is_gone(cluster: ShareCluster) -> None:
    shared(cluster, "a", "lab")
    shared(cluster, "b", labels={"team": "x"})
    del cluster.objects[GA.snapshots.name, "shop", "nightly"]
    assert said("unshare", "nightly").splitlines() == [
        "snapshot nightly is taken back from every namespace (snapshotshare/a)",
        "snapshot nightly is taken back from every namespace (snapshotshare/b)",
    ]
    assert specs(cluster) == []


def test_one_that_has_not_got_it_by_name_changes_nothing(cluster: ShareCluster) -> None:
    with pytest.raises(Missing, match="snapshot nightly of namespace shop is given to nobody"):
        project_cluster.called(app, "unshare", "nightly")
    shared(cluster, "a", "lab", labels={"team": "x"})
    assert refused("unshare", "nightly", "--from", "lab,qa") == (
        "no share of snapshot nightly names qa; share a chooses by labels: nothing was changed"
    )
    assert specs(cluster)[0]["targets"]["namespaces"] == ["lab"]
    said("unshare", "nightly", "--from", "lab")
    assert specs(cluster)[0]["targets"] == {"namespaces": [], "matchLabels": {"team": "x"}}
