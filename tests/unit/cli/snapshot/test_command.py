"""`ullage snapshot` as a command: what it takes, what it refuses before any cluster is asked, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.unit.cli.snapshot.cluster import GA, PROTOTYPE, Cluster
from ullage.cli.common import arguments, session
from ullage.cli.common.arguments import At
from ullage.cli.snapshot import options
from ullage.cli.snapshot.command import app
from ullage.errors import BadInput, UllageError
from ullage.kube.builtin import core

NAMES = "not a name; up to 253 lower case letters, digits, - and . are allowed, with a letter or digit at both ends"


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, BadInput), result.output
    return str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["create", "A", "--pvc", "data"], f"NAME A: {NAMES}", id="a name in upper case"),
        pytest.param(["create", "a", "--pvc", "../x"], f"--pvc ../x: {NAMES}", id="a path as a claim"),
        pytest.param(["create", "a", "--pvc", ""], f"--pvc (empty): {NAMES}", id="an empty claim"),
        pytest.param(["list", "--pvc", "a),b in (c"], f"--pvc a),b in (c: {NAMES}", id="a selector as a claim"),
        pytest.param(["list", "-n", "a/b"], f"--namespace a/b: {NAMES}", id="a path as a namespace"),
        pytest.param(["restore", "a", "--to", "ä"], f"--to ä: {NAMES}", id="letters that names may not have"),
        pytest.param(
            ["list", "-o", "xml"],
            "--output xml: table, wide, json, yaml, name, csv, jsonpath=TEMPLATE or custom-columns=NAME:PATH is allowed",
            id="an unknown format",
        ),
        pytest.param(
            ["create", "a", "--pvc", "b", "--dialect", "v2"], "--dialect v2: ga or prototype is allowed", id="an unknown API"
        ),
        pytest.param(["wait", "a", "--for", "done"], "--for done: ready, cut or deleted is allowed", id="an unknown goal"),
        pytest.param(
            ["list", "--pvc", "a", "--pod", "b"],
            "--pvc and --pod a b: only one of --pvc, --pv, --pod and --statefulset is allowed",
            id="two filters",
        ),
        pytest.param(
            ["list", "-A", "--pod", "web"],
            "--all-namespaces with --pod web: that is in one namespace: name it with -n",
            id="a pod of all namespaces",
        ),
        pytest.param(
            ["list", "-A", "-n", "shop"],
            "--all-namespaces with --namespace shop: only one of them is allowed",
            id="all namespaces, and one",
        ),
        pytest.param(["get", "a", "--pvc", "b"], "NAME a with --pvc: only one of them is allowed", id="a name and a filter"),
        pytest.param(["get", "a", "-l", "x=y"], "NAME a with -l: only one of them is allowed", id="a name and a selector"),
        pytest.param(["get", "a", "-A"], "NAME a with --all-namespaces: only one of them is allowed", id="a name everywhere"),
        pytest.param(
            ["list", "-w", "-o", "csv"],
            "--watch with -o csv: a table, json, yaml, name or a template is allowed",
            id="a spreadsheet that grows",
        ),
        pytest.param(
            ["wait", "a", "--timeout", "soon"],
            "--timeout soon: not a duration; allowed are hours, minutes and seconds, such as 90s or 1h30m",
            id="a timeout that is a word",
        ),
        pytest.param(
            ["restore", "a", "--to", "b", "--size", "-1Gi"],
            "--size -1Gi: not a size; allowed are bytes, and units as in 500Mi or 10Gi",
            id="a size below zero",
        ),
    ],
)
def test_bad_input_is_refused_before_any_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    assert refused(*arguments) == text


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("5m", 300.0), ("1h30m", 5400.0), ("90s", 90.0), ("45", 45.0), ("0", 0.0), ("1.5s", 1.5), ("1h0m1s", 3601.0)],
)
def test_durations(given: str, seconds: float) -> None:
    assert arguments.seconds("--timeout", given) == seconds


@pytest.mark.parametrize("given", ["", "s", "5x", "-1s", "1m1h", "1e9", "99999999h", ".", "m5"])
def test_what_is_no_duration(given: str) -> None:
    with pytest.raises(BadInput, match="not a duration"):
        arguments.seconds("--timeout", given)


def test_a_name_that_is_given_twice_counts_once() -> None:
    assert options.names(["a", "b", "a"]) == ["a", "b"]


# --- with a cluster --------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()

    def connected(at: At, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(found.session(at.namespace or "shop", at.dialect))

        return asyncio.run(run())

    monkeypatch.setattr(session, "connected", connected)
    return found


def test_a_list_names_the_api_only_where_both_are_served(cluster: Cluster) -> None:
    cluster.snapshot("a", "data")
    assert "DIALECT" in CliRunner().invoke(app, ["list"]).stdout
    cluster.absent = {PROTOTYPE.snapshots.name}
    assert "DIALECT" not in CliRunner().invoke(app, ["list"]).stdout
    assert "DIALECT" not in CliRunner().invoke(app, ["list", "--dialect", "ga"]).stdout


@pytest.mark.parametrize(
    ("arguments", "out", "err"),
    [
        pytest.param(["list"], "", "ullage: there are no snapshots in namespace shop\n", id="none in the namespace"),
        pytest.param(["list", "-A"], "", "ullage: there are no snapshots in any namespace\n", id="none at all"),
        pytest.param(
            ["list", "--pvc", "data"],
            "",
            "ullage: there are no snapshots of pvc data in namespace shop\n",
            id="none of a claim",
        ),
        pytest.param(["list", "-o", "name"], "", "", id="names for a pipe"),
        pytest.param(
            ["list", "-o", "csv"],
            "namespace,name,dialect,claim,state,ready,restoreSizeBytes,cut,requested,class,record,error\n",
            "",
            id="csv still has its head",
        ),
    ],
)
def test_an_empty_list_is_no_failure(cluster: Cluster, arguments: list[str], out: str, err: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, out, err)


def test_an_api_that_may_not_be_read_is_a_note_and_not_in_the_way_of_a_pipe(cluster: Cluster) -> None:
    cluster.snapshot("a", "data")
    cluster.hidden = {PROTOTYPE.snapshots.name}
    result = CliRunner().invoke(app, ["list", "-o", "name"])
    assert result.stdout == "volumesnapshot.snapshot.storage.k8s.io/a\n"
    assert result.stderr.startswith("ullage: note: volumesnapshots.volumesnapshot.external-storage.k8s.io is forbidden")


def test_one_that_is_named_is_printed_by_itself(cluster: Cluster) -> None:
    cluster.snapshot("a", "data")
    cluster.snapshot("b", "data")
    assert CliRunner().invoke(app, ["get", "a", "-o", "jsonpath={.metadata.name}"]).stdout == "a\n"
    assert CliRunner().invoke(app, ["get", "a", "b", "-o", "jsonpath={.items[*].metadata.name}"]).stdout == "a b\n"
    ghost = CliRunner().invoke(app, ["get", "a", "ghost"])
    assert (ghost.stdout, str(ghost.exception).split(",")[0]) == ("", "snapshot ghost does not exist in namespace shop")


def test_labels_narrow_a_list(cluster: Cluster) -> None:
    cluster.snapshot("a", "data", labels={"app": "db"})
    cluster.snapshot("b", "data")
    assert CliRunner().invoke(app, ["list", "-l", "app=db", "-o", "name"]).stdout.split("/")[-1] == "a\n"
    assert CliRunner().invoke(app, ["list", "-l", "app=db", "--pvc", "data", "-o", "name"]).stdout.split("/")[-1] == "a\n"


def test_a_dry_run_can_print_the_object_and_nothing_else(cluster: Cluster) -> None:
    cluster.hidden = {core.CLAIMS.name}
    result = CliRunner().invoke(app, ["create", "a", "--pvc", "data", "--dry-run=server", "-o", "yaml"])
    assert yaml.safe_load(result.stdout)["spec"]["source"] == {"persistentVolumeClaimName": "data"}
    assert cluster.objects == {}


def test_who_wants_the_object_has_the_progress_on_the_other_output(cluster: Cluster) -> None:
    def ready() -> None:
        if (GA.snapshots.name, "shop", "a") in cluster.objects:
            cluster.snapshot("a", "data", status={"readyToUse": True})

    cluster.hidden, cluster.before = {core.CLAIMS.name}, ready
    result = CliRunner().invoke(app, ["create", "a", "--pvc", "data", "--wait", "-o", "jsonpath={.status.readyToUse}"])
    assert result.stdout == "true\n"
    assert "a: ready" in result.stderr


def test_describe_prints_the_snapshot(cluster: Cluster) -> None:
    cluster.snapshot("a", "data")
    assert "Name:       a\n" in CliRunner().invoke(app, ["describe", "a"]).stdout


def test_delete_waits_until_they_are_gone(cluster: Cluster) -> None:
    cluster.snapshot("a", "data")
    cluster.snapshot("b", "data", dialect=PROTOTYPE)
    result = CliRunner().invoke(app, ["delete", "a", "b", "--wait"])
    assert result.stdout.splitlines() == [
        "volumesnapshot.snapshot.storage.k8s.io/a deleted",
        "volumesnapshot.volumesnapshot.external-storage.k8s.io/b deleted",
        "a: gone",
        "b: gone",
    ]


def test_a_failure_is_an_error_with_a_sentence(cluster: Cluster) -> None:
    result = CliRunner().invoke(app, ["describe", "ghost"])
    assert isinstance(result.exception, UllageError)
    assert "snapshot ghost does not exist in namespace shop" in str(result.exception)


def test_ctrl_c_says_that_the_snapshot_goes_on(cluster: Cluster) -> None:
    def interrupt() -> None:
        if (GA.snapshots.name, "shop", "a") in cluster.objects:
            raise KeyboardInterrupt

    cluster.hidden = {core.CLAIMS.name}
    cluster.before = interrupt
    result = CliRunner().invoke(app, ["create", "a", "--pvc", "data", "--wait"])
    assert result.exit_code == 130
    assert result.stderr == "\nullage: stopped waiting; snapshot a goes on: ullage snapshot wait a\n"


@pytest.mark.parametrize("command", ["create", "list", "describe", "delete", "restore", "wait"])
def test_help_shows_how_it_is_used(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80", "TERM": "dumb"}).stdout
    assert f"ullage snapshot {command} " in shown


def test_the_connection_is_that_of_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u, namespace: office}}]\n"
        "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n"
    )

    async def place(session: session.Session) -> tuple[str, list[str]]:
        return session.namespace, [one.name for one in session.among]

    assert session.connected(At(str(config), None, None, None), place) == ("office", ["ga", "prototype"])
    assert session.connected(At(str(config), "c", "shop", "ga"), place) == ("shop", ["ga"])
