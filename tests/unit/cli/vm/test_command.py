"""`ullage vm` as commands: what they take, what they refuse, what they ask for and print."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.unit.cli.vm.cluster import VmCluster
from ullage.cli.common import session, waiting
from ullage.cli.common.arguments import At
from ullage.cli.vm.command import app
from ullage.errors import UllageError
from ullage.kube.errors import Conflict
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES

WHERE = "[NAMESPACE/]NAME"
NAMES = "not a name; up to 253 lower case letters, digits, - and . are allowed, with a letter or digit at both ends"
SHOWN = "virtualmachine.kubevirt.io/db"


def at(found: VmCluster, monkeypatch: pytest.MonkeyPatch) -> VmCluster:
    def connected(where: At, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(found.session(where.namespace or "shop"))

        return asyncio.run(run())

    monkeypatch.setattr(session, "connected", connected)
    monkeypatch.setattr(waiting, "LOOKS", (0.0,))
    return found


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> VmCluster:
    return at(VmCluster(), monkeypatch)


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, UllageError), result.output
    return str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["start", "../x"], f"{WHERE} ..: {NAMES}", id="a path"),
        pytest.param(["start", "a/b/c"], f"{WHERE} a/b/c: a name, or NAMESPACE/NAME, is allowed", id="three parts"),
        pytest.param(["stop", "a/"], f"{WHERE} (empty): {NAMES}", id="no name"),
        pytest.param(
            ["stop", "a/b", "-n", "c"], f"{WHERE} a/b with --namespace c: only one namespace is allowed", id="two namespaces"
        ),
        pytest.param(
            ["pause", "a", "--timeout", "soon"],
            "--timeout soon: not a duration; allowed are hours, minutes and seconds, such as 90s or 1h30m",
            id="a time",
        ),
        pytest.param(
            ["list", "a", "-A"], f"{WHERE} a with --all-namespaces: only one of them is allowed", id="a name, and all"
        ),
        pytest.param(["list", "a", "-l", "x=y"], f"{WHERE} a with -l: only one of them is allowed", id="a name and labels"),
        pytest.param(
            ["list", "-A", "-n", "a"], "--all-namespaces with --namespace a: only one of them is allowed", id="all, and one"
        ),
        pytest.param(
            ["list", "-o", "csv"],
            "--output csv: table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=NAME:PATH is allowed",
            id="a format",
        ),
        pytest.param(
            ["fill", "a", "--bytes", "1Mi", "--percent", "5"],
            "--bytes, --percent 1Mi and 5: only one of them is allowed",
            id="two amounts",
        ),
        pytest.param(
            ["fill", "a", "--bytes", "0"],
            "--bytes 0: not a size; allowed are bytes, and units as in 500Mi or 10Gi",
            id="nothing",
        ),
        *(
            pytest.param(
                ["fill", "a", "--percent", given],
                f"--percent {given}: a whole number from 1 to 100 is allowed",
                id=f"{given} percent",
            )
            for given in ("0", "101", "1.5", "half", "-1", "²")
        ),
        pytest.param(["fill", "a", "--volume", "A"], f"--volume A: {NAMES}", id="a volume"),
    ],
)
def test_bad_input_is_refused_before_any_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    assert refused(*arguments) == text


# --- lists -----------------------------------------------------------------------------------------------------------


def test_vms_are_listed_with_what_they_do(cluster: VmCluster) -> None:
    cluster.machine("web", strategy="Halted", printableStatus="Stopped")
    failure = {"type": "Failure", "status": "True", "reason": "FailedCreate", "message": "no\x1b[2J room"}
    cluster.machine("db", "data", "log", printableStatus="Running", ready=True, conditions=[failure])
    lines = called("list").stdout.splitlines()
    assert [line.split()[:-1] for line in lines] == [
        ["NAME", "STATUS", "READY", "STRATEGY", "VOLUMES"],
        ["db", "Running", "True", "Always", "2"],
        ["web", "Stopped", "False", "Halted", "0"],
    ]
    wide = called("list", "-o", "wide", "-A").stdout.splitlines()
    assert wide[0].split()[0] == "NAMESPACE"
    assert wide[1].endswith("data,log   no?[2J room")
    assert called("get", "shop/db", "-o", "name").stdout == f"{SHOWN}\n"
    assert json.loads(called("get", "db", "-o", "json").stdout)["status"]["printableStatus"] == "Running"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["list"], "ullage: there are no VMs in namespace shop\n", id="here"),
        pytest.param(["list", "-A"], "ullage: there are no VMs in any namespace\n", id="anywhere"),
    ],
)
def test_no_vms(cluster: VmCluster, arguments: list[str], text: str) -> None:
    assert called(*arguments).stderr == text


@pytest.mark.parametrize("arguments", [["list"], ["get", "db"], ["start", "db"]], ids=" ".join)
def test_a_cluster_without_kubevirt(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    at(VmCluster(VIRTUAL_MACHINES, INSTANCES), monkeypatch)
    assert refused(*arguments) == "this cluster does not serve virtualmachines.kubevirt.io: it has no VMs"


def test_one_wrong_name_and_nothing_is_changed(cluster: VmCluster) -> None:
    cluster.machine(strategy="Halted")
    text = "VM dbb does not exist in namespace shop; nothing was changed"
    assert refused("start", "db", "dbb") == text
    assert not cluster.written


# --- where nobody serves subresources --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "runs", "action", "said", "written"),
    [
        pytest.param(
            "Halted",
            False,
            "start",
            "is starting",
            ("virtualmachines", {"spec": {"runStrategy": "Always"}}),
            id="a start changes the strategy",
        ),
        pytest.param(
            "Manual",
            True,
            "stop",
            "is stopping",
            ("virtualmachines/status", {"status": {"stateChangeRequests": [{"action": "Stop", "uid": "uid-instance"}]}}),
            id="a stop is asked for",
        ),
        pytest.param(
            "Always",
            True,
            "pause",
            "is being paused",
            ("virtualmachineinstances", {"metadata": {"annotations": {"ullage.io/paused": "true"}}}),
            id="a pause is noted at the instance",
        ),
    ],
)
@pytest.mark.parametrize("dry", [False, True], ids=["really", "dry"])
def test_what_kubevirt_would_write_is_written(
    cluster: VmCluster, strategy: str, runs: bool, action: str, said: str, written: Any, dry: bool
) -> None:
    cluster.machine(strategy=strategy)
    if runs:
        cluster.instance()
    result = called(action, "db", *(["--dry-run"] if dry else []))
    would = {"start": "would be started", "stop": "would be stopped", "pause": "would be paused"}[action]
    assert result.stdout == f"{SHOWN} {f'{would} (dry run)' if dry else said}\n"
    place, change = written
    assert cluster.written == [(place, "db", change, dry)]


def test_what_makes_no_sense_is_said_and_the_others_are_done(cluster: VmCluster) -> None:
    cluster.machine("db")
    cluster.instance("db")
    cluster.machine("web", strategy="Halted")
    result = CliRunner().invoke(app, ["start", "db", "web"])
    assert str(result.exception) == "VM shop/db runs already"
    assert result.stdout == "virtualmachine.kubevirt.io/web is starting\n"


@pytest.mark.parametrize("late", [1, 4], ids="{} writes come too late".format)
def test_who_comes_too_late_looks_again(cluster: VmCluster, late: int) -> None:
    cluster.machine(strategy="Halted")
    cluster.conflicts = late
    assert called("start", "db").stdout == f"{SHOWN} is starting\n"


def test_who_always_comes_too_late_is_told(cluster: VmCluster) -> None:
    cluster.machine(strategy="Halted")
    cluster.conflicts = 5
    assert refused("start", "db") == "virtualmachines.kubevirt.io db: somebody else wrote first"


@pytest.mark.parametrize(
    ("arguments", "served", "looks"),
    [
        pytest.param(["get", "db"], False, 0, id="whoever lists VMs wants no instances"),
        pytest.param(["backup", "db"], False, 0, id="nor does a backup"),
        pytest.param(["start", "db", "--wait"], True, 0, id="nor do KubeVirt's own actions"),
        pytest.param(["restart", "db"], True, 1, id="but to tell whether another one runs after a restart"),
        pytest.param(["start", "db"], False, 1, id="and to decide what KubeVirt would"),
    ],
)
def test_the_instance_is_read_where_it_matters(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], served: bool, looks: int
) -> None:
    cluster = at(VmCluster(served=served), monkeypatch)
    cluster.machine(strategy="Halted", printableStatus="Running")
    called(*arguments)
    assert [kind for _, kind, _ in cluster.asked].count(INSTANCES.name) == looks


# --- where KubeVirt does ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "plural"),
    [
        ("start", "virtualmachines"),
        ("stop", "virtualmachines"),
        ("restart", "virtualmachines"),
        ("pause", "virtualmachineinstances"),
        ("unpause", "virtualmachineinstances"),
    ],
)
def test_kubevirt_is_asked_where_it_runs(monkeypatch: pytest.MonkeyPatch, action: str, plural: str) -> None:
    cluster = at(VmCluster(served=True), monkeypatch)
    cluster.machine()
    path = f"/apis/subresources.kubevirt.io/v1/namespaces/shop/{plural}/db/{action}"
    called(action, "db")
    called(action, "db", "--dry-run")
    assert cluster.put_to == [(path, {}), (path, {"dryRun": ["All"]})]
    assert not cluster.written


def test_kubevirt_s_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = at(VmCluster(served=True), monkeypatch)
    cluster.machine()

    def answer(path: str) -> None:
        raise Conflict("VM is already running", code=409)

    cluster.answers = answer
    assert refused("start", "db") == "VM is already running"


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_a_start_is_waited_for(cluster: VmCluster) -> None:
    cluster.machine(strategy="Halted", printableStatus="Stopped")
    words = iter(["Starting", "WaitingForVolumeBinding", "Running"])

    def go_on() -> None:
        if cluster.written and (word := next(words, None)):
            cluster.objects[VIRTUAL_MACHINES.name, "shop", "db"]["status"] = {"printableStatus": word}

    cluster.before = go_on
    out = called("start", "db", "--wait").stdout.splitlines()
    assert out[0] == f"{SHOWN} is starting"
    assert out[-1] == "shop/db: Running"


def test_a_restart_has_come_when_another_instance_runs(cluster: VmCluster) -> None:
    cluster.machine(printableStatus="Running")
    cluster.instance()
    looks = 0

    def go_on() -> None:
        nonlocal looks
        looks += bool(cluster.written)
        if looks == 8:
            cluster.instance(uid="uid-another")

    cluster.before = go_on
    assert called("restart", "db", "--wait").stdout.splitlines() == [f"{SHOWN} is restarting", "shop/db: Running"]
    assert looks >= 8


def test_who_waits_too_long_learns_why(cluster: VmCluster) -> None:
    failure = {"type": "Failure", "status": "True", "reason": "FailedCreate", "message": "the instance was refused: no room"}
    cluster.machine(strategy="Halted", printableStatus="Stopped", conditions=[failure])
    assert refused("start", "db", "--wait", "--timeout", "0") == (
        "not Running within 0 s: VM shop/db is Stopped: the instance was refused: no room; "
        "nothing was stopped, look at it with: ullage vm list shop/db -o wide"
    )
