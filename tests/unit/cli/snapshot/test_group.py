"""`ullage snapshot group`: what it refuses before any cluster is asked, what it asks of one, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.cli.snapshot.cluster import Cluster
from ullage.cli.common.options import output_format
from ullage.cli.common.session import Missing, NotInstalled
from ullage.cli.common.waiting import Failed
from ullage.cli.snapshot.group import actions
from ullage.cli.snapshot.group.choosing import GroupChoice, selector_of
from ullage.cli.snapshot.group.command import app
from ullage.cli.snapshot.group.restoring import GroupRestoreOptions, new_names, restore
from ullage.errors import BadInput
from ullage.kube.builtin.apps import STATEFUL_SETS
from ullage.kube.builtin.core import CLAIMS, PODS
from ullage.policies.groups.api import GROUPS

Json = dict[str, Any]
NAMES = "not a name; up to 253 lower case letters, digits, - and . are allowed, with a letter or digit at both ends"
LABEL = "group.ullage.io/one"


def shop(*, replicas: int = 2) -> Cluster:
    """With a StatefulSet and its claims, and a claim of a group of the same name that was deleted."""
    cluster = Cluster()
    template = {"metadata": {"name": "data"}}
    spec = {"replicas": replicas, "volumeClaimTemplates": [template]}
    cluster.put(STATEFUL_SETS, {"metadata": {"name": "db"}, "spec": spec})
    for number in range(2):
        cluster.put(CLAIMS, claim(f"data-db-{number}"))
    cluster.put(CLAIMS, claim("old", labels={LABEL: "member"}))
    return cluster


def claim(name: str, **meta: Any) -> Json:
    return {"metadata": {"name": name, **meta}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}


def labelled(cluster: Cluster) -> list[str]:
    bodies = [body for (kind, _, _), body in cluster.objects.items() if kind == CLAIMS.name]
    return [one["metadata"]["name"] for one in bodies if LABEL in one["metadata"].get("labels", {})]


def writes(cluster: Cluster) -> list[str]:
    return [verb for verb, _, _ in cluster.asked if verb in ("create", "patch", "delete")]


def group(cluster: Cluster, *, ready: bool = True, error: str = "", **meta: Any) -> None:
    """With two members, unless it is not ready."""
    status: Json = {"readyToUse": ready, **({"error": {"message": error}} if error else {})}
    spec = {"source": {"selector": {"matchLabels": {LABEL: "member"}}}, "volumeGroupSnapshotClassName": "together"}
    cluster.put(GROUPS, {"metadata": {"name": "one", **meta}, "spec": spec, "status": status})
    owner = {"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot", "name": "one", "uid": "uid-one"}
    for number in range(2) if ready else ():
        cluster.snapshot(
            f"member-{number}", f"data-db-{number}", status={"readyToUse": True, "restoreSize": "1Gi"}, ownerReferences=[owner]
        )


# --- before a cluster is asked ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(
            ["create", "a"],
            "--pod, --statefulset, --selector (absent): exactly one of them is allowed",
            id="of nothing",
        ),
        pytest.param(
            ["create", "a", "--pod", "p", "-l", "x=y"],
            "--pod, --statefulset, --selector p x=y: exactly one of them is allowed",
            id="of two things",
        ),
        pytest.param(["create", "A_b", "-l", "x=y"], f"NAME A_b: {NAMES}", id="a name that is none"),
        pytest.param(["create", "a", "-l", "x=y", "-o", "table"], "--output table", id="a list of what is made"),
        pytest.param(["create", "a", "-l", "x=y", "--timeout", "soon"], "--timeout soon", id="a time that is none"),
        pytest.param(
            ["list", "-A", "-n", "shop"],
            "--all-namespaces with a name or a namespace: only one of them is allowed",
            id="all namespaces, and one",
        ),
        pytest.param(["get", "a", "-l", "x=y"], "NAME a with -l: only one of them is allowed", id="a name and a selector"),
        pytest.param(
            ["restore", "a"], "--to-claims, --to-statefulset (absent): exactly one of them is allowed", id="to nowhere"
        ),
        pytest.param(
            ["restore", "a", "--to-claims", "b", "--to-statefulset", "c"],
            "--to-claims, --to-statefulset b c: exactly one of them is allowed",
            id="to two places",
        ),
        pytest.param(
            ["restore", "a", "--to-claims", "b", "--from-statefulset", "c"],
            "--from-statefulset c: it is allowed with --to-statefulset only",
            id="of a set, to claims",
        ),
        pytest.param(["restore", "a", "--to-claims", "../b"], f"--to-claims ../b: {NAMES}", id="a path as a prefix"),
        pytest.param(["delete", "../a"], f"NAME ../a: {NAMES}", id="a path as a name"),
    ],
)
def test_bad_input_is_refused_with_the_field_the_value_and_what_is_allowed(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, BadInput), result.output
    assert str(result.exception).startswith(text)


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        pytest.param("app=db,tier==data", {"matchLabels": {"app": "db", "tier": "data"}}, id="labels with values"),
        pytest.param(
            "app=db,app=web",
            {"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
            id="a contradiction stays one",
        ),
        pytest.param(
            "app in (b,a),!old,new,tier!=x",
            {
                "matchExpressions": [
                    {"key": "app", "operator": "In", "values": ["a", "b"]},
                    {"key": "new", "operator": "Exists"},
                    {"key": "old", "operator": "DoesNotExist"},
                    {"key": "tier", "operator": "NotIn", "values": ["x"]},
                ]
            },
            id="every other sort",
        ),
    ],
)
def test_a_selector_is_written_as_the_api_has_it(text: str, selector: Json) -> None:
    assert selector_of(text) == selector


def test_a_selector_that_the_api_does_not_have_is_refused() -> None:
    with pytest.raises(BadInput, match="--selector app>3: a group's selector has =, !=, in, notin, KEY and !KEY"):
        selector_of("app>3")


# --- create ----------------------------------------------------------------------------------------------------------


async def test_the_claims_of_a_stateful_set_get_the_label_and_no_others_keep_it() -> None:
    cluster = shop()
    choice = GroupChoice(stateful_set="db")
    made, claims = await actions.create(cluster.session(), "one", choice, class_name="together", dry_run=False)
    assert claims == labelled(cluster) == ["data-db-0", "data-db-1"]
    assert made.metadata.annotations == {"ullage.io/statefulset": "db"}
    body = cluster.objects[GROUPS.name, "shop", "one"]["spec"]
    assert body == {"source": {"selector": {"matchLabels": {LABEL: "member"}}}, "volumeGroupSnapshotClassName": "together"}


async def test_a_dry_run_changes_nothing() -> None:
    cluster = shop()
    await actions.create(cluster.session(), "one", GroupChoice(stateful_set="db"), class_name="", dry_run=True)
    assert writes(cluster) == []
    assert labelled(cluster) == ["old"]


@pytest.mark.parametrize(
    ("choice", "error", "text"),
    [
        pytest.param(GroupChoice(pod="p"), Missing, "pod p does not exist in namespace shop", id="no such pod"),
        pytest.param(
            GroupChoice(stateful_set="web"), Missing, "StatefulSet web does not exist in namespace shop", id="no such set"
        ),
        pytest.param(
            GroupChoice(stateful_set="db"),
            Failed,
            "StatefulSet db: claim data-db-2 does not exist yet; nothing was created",
            id="a claim that is to come",
        ),
        pytest.param(
            GroupChoice(pod="bare"), Failed, "pod bare uses no claims: there is nothing to take a snapshot of", id="no claims"
        ),
    ],
)
async def test_what_cannot_be_taken_is_said_and_nothing_is_changed(
    choice: GroupChoice, error: type[Exception], text: str
) -> None:
    cluster = shop(replicas=3)
    cluster.put(PODS, {"metadata": {"name": "bare"}, "spec": {}})
    with pytest.raises(error) as refused:
        await actions.create(cluster.session(), "one", choice, class_name="", dry_run=False)
    assert str(refused.value) == text
    assert writes(cluster) == []


async def test_a_group_that_is_there_keeps_its_claims() -> None:
    cluster = shop()
    group(cluster)
    with pytest.raises(Failed, match="group one exists already in namespace shop; nothing was changed"):
        await actions.create(cluster.session(), "one", GroupChoice(stateful_set="db"), class_name="", dry_run=False)
    assert labelled(cluster) == ["old"]


async def test_a_cluster_without_the_kind_is_told_what_to_do() -> None:
    with pytest.raises(NotInstalled, match=r"the cluster has no VolumeGroupSnapshots .* Next: ullage install"):
        await actions.create(Cluster(GROUPS).session(), "one", GroupChoice(selector="a=b"), class_name="", dry_run=False)


# --- looking, deleting -----------------------------------------------------------------------------------------------


async def test_a_list_as_a_table_by_name_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = shop()
    group(cluster, ready=False, error="NoClaims: no claim has the labels")
    for how in ("wide", "name", "json"):
        await actions.show(cluster.session(), ["one"], output_format(how), labels="", everywhere=False)
    table, _, rest = capsys.readouterr().out.partition("volumegroupsnapshot.groupsnapshot.storage.k8s.io/one\n")
    assert table.splitlines()[0].split() == ["NAME", "STATE", "CLASS", "CUT", "AGE", "CONTENT", "ERROR"]
    assert table.splitlines()[1].split()[:3] == ["one", "waiting", "together"]
    assert table.rstrip().endswith("NoClaims: no claim has the labels")
    assert json.loads(rest)["kind"] == "VolumeGroupSnapshot"


async def test_where_one_of_several_is_missing_none_is_deleted() -> None:
    cluster = shop()
    group(cluster)
    with pytest.raises(Missing, match="there is no group two in namespace shop; list them: ullage snapshot group list"):
        await actions.delete(cluster.session(), ["one", "two"], dry_run=False)
    assert writes(cluster) == []


async def test_a_deletion_takes_the_label_off_the_claims() -> None:
    cluster = shop()
    group(cluster)
    await actions.delete(cluster.session(), ["one"], dry_run=True)
    assert writes(cluster) == []
    await actions.delete(cluster.session(), ["one"], dry_run=False)
    assert labelled(cluster) == []
    assert (GROUPS.name, "shop", "one") not in cluster.objects


# --- restore ---------------------------------------------------------------------------------------------------------


async def restored(cluster: Cluster, given: GroupRestoreOptions, *, dry_run: bool = False) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []

    def tell(claim: str, source: str) -> None:
        told.append((claim, source))

    await restore(cluster.session(), "one", given, dry_run=dry_run, timeout=None, tell=tell)
    return told


async def test_the_claims_of_a_new_stateful_set_are_made_from_all_members() -> None:
    cluster = shop()
    group(cluster, annotations={"ullage.io/statefulset": "db"})
    wanted = [("data-copy-0", "data-db-0"), ("data-copy-1", "data-db-1")]
    assert await restored(cluster, GroupRestoreOptions(stateful_set="copy"), dry_run=True) == wanted
    assert writes(cluster) == []
    assert await restored(cluster, GroupRestoreOptions(stateful_set="copy")) == wanted
    made = cluster.objects[CLAIMS.name, "shop", "data-copy-1"]["spec"]
    assert (made["dataSourceRef"]["kind"], made["dataSourceRef"]["name"]) == ("VolumeSnapshot", "member-1")


async def test_where_one_claim_is_there_already_none_is_made() -> None:
    cluster = shop()
    group(cluster)
    cluster.put(CLAIMS, claim("copy-data-db-1"))
    with pytest.raises(Failed, match="claim copy-data-db-1 exists already in namespace shop; nothing was created"):
        await restored(cluster, GroupRestoreOptions(prefix="copy"))
    assert writes(cluster) == []


async def test_a_group_that_is_not_ready_says_why() -> None:
    cluster = shop()
    group(cluster, ready=False, error="MemberNotReady: the array is busy")
    with pytest.raises(Failed, match="group one is not ready: MemberNotReady: the array is busy; nothing was created"):
        await restored(cluster, GroupRestoreOptions(prefix="copy"))


@pytest.mark.parametrize(
    ("given", "known", "text"),
    [
        pytest.param(
            GroupRestoreOptions(stateful_set="copy"),
            "",
            r"--from-statefulset \(absent\): the group does not say whose claims it is of: name the StatefulSet",
            id="nobody says whose claims they are",
        ),
        pytest.param(
            GroupRestoreOptions(stateful_set="copy"),
            "web",
            r"--to-statefulset copy: claim data-db-0 is none of StatefulSet web's \(TEMPLATE-web-NUMBER\); use --to-claims",
            id="they are another set's",
        ),
        pytest.param(
            GroupRestoreOptions(prefix="a" * 250),
            "",
            "--to-claims a{250}-data-db-0: no claim may have that name",
            id="a name that is too long",
        ),
    ],
)
def test_names_that_cannot_be_are_refused(given: GroupRestoreOptions, known: str, text: str) -> None:
    with pytest.raises(BadInput, match=text):
        new_names(["data-db-0"], given, known=known)
