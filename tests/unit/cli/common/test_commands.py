"""The habits of commands: their help, what a dry run may be given, the names of lists, what the shell completes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from tests.unit.cli.snapshot.cluster import Cluster
from ullage.app.commands import root
from ullage.cli.common import session, shell
from ullage.cli.common.arguments import At
from ullage.cli.common.commands import Application
from ullage.cli.common.options import DryRun
from ullage.errors import BadInput
from ullage.kube.builtin import core

assert root  # it adds the commands


def commands() -> Iterator[list[str]]:
    def below(command: Any, path: list[str]) -> Iterator[list[str]]:
        yield path
        for name, one in getattr(command, "commands", {}).items():
            yield from below(one, [*path, name])

    return below(get_command(shell.app), [])


@pytest.mark.parametrize("path", list(commands()), ids=lambda path: "ullage " + " ".join(path))
def test_help_shows_no_type_of_a_flag_or_an_argument(path: list[str]) -> None:
    result = CliRunner().invoke(shell.app, [*path, "--help"], env={"COLUMNS": "120", "TERM": "dumb"})
    assert result.exit_code == 0
    assert [line for line in result.stdout.splitlines() if "<bool>" in line or "<str>" in line or "{" in line] == []


@pytest.mark.parametrize("group", ["snapshot", "volume", "ledger"])
@pytest.mark.parametrize("name", ["list", "get", "ls"])
def test_lists_go_by_the_names_that_people_try(group: str, name: str) -> None:
    shown = CliRunner().invoke(shell.app, [group, name, "--help"], env={"COLUMNS": "120", "TERM": "dumb"}).stdout
    for option in ("--output", "-o", "--selector", "-l", "--watch", "-w", "[NAME...]" if group != "volume" else "VOLUME...]"):
        assert option in shown


dry = Application()


@dry.command()
def make(name: str, dry_run: DryRun = False) -> None:
    print(name, dry_run)


@dry.command()
def other(name: str) -> None:
    print(name)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["make", "a"], "a False", id="left out"),
        pytest.param(["make", "a", "--dry-run"], "a True", id="as a flag"),
        pytest.param(["make", "a", "--dry-run=server"], "a True", id="as kubectl has it"),
        pytest.param(["make", "--dry-run=client", "a"], "a True", id="the other way of kubectl"),
        pytest.param(["make", "a", "--dry-run=none"], "a False", id="none"),
    ],
)
def test_a_dry_run_may_have_the_values_of_kubectl(arguments: list[str], text: str) -> None:
    assert CliRunner().invoke(dry, arguments).stdout.strip() == text


def test_a_dry_run_of_another_sort_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^--dry-run maybe: client, server or none is allowed$"):
        CliRunner().invoke(dry, ["make", "a", "--dry-run=maybe"], catch_exceptions=False)
    assert CliRunner().invoke(dry, ["other", "a", "--dry-run=server"]).exit_code == 2, "a command that has none refuses it"


# --- completion ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()

    def connected(at: At, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(found.session(at.namespace or "shop", at.dialect))

        return asyncio.run(run())

    monkeypatch.setattr(session, "connected", connected)
    return found


def completed(line: str) -> list[str]:
    env = {"_ULLAGE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    result = CliRunner().invoke(shell.app, [], prog_name="ullage", env=env)
    return result.stdout.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        pytest.param("ullage snapshot describe ", ["nightly", "weekly"], id="snapshots"),
        pytest.param("ullage snapshot delete we", ["weekly"], id="those that begin so"),
        pytest.param("ullage snapshot describe -n office ", ["far"], id="of the namespace on the line"),
        pytest.param("ullage snapshot create x --pvc ", ["data"], id="claims"),
        pytest.param("ullage tree ", ["pvc/data"], id="claims of a tree"),
        pytest.param("ullage snapshot list -o js", ["json", "jsonpath="], id="formats"),
        pytest.param("ullage snapshot li", ["list"], id="commands"),
    ],
)
def test_names_complete(cluster: Cluster, line: str, names: list[str]) -> None:
    cluster.snapshot("nightly", "data")
    cluster.snapshot("weekly", "data")
    cluster.snapshot("far", "data", namespace="office")
    cluster.put(core.CLAIMS, {"metadata": {"name": "data"}})
    assert completed(line) == names


def test_a_cluster_that_cannot_be_asked_completes_nothing(cluster: Cluster) -> None:
    def refuse() -> None:
        raise ConnectionError("no route")

    cluster.before = refuse
    assert completed("ullage snapshot describe ") == []


def test_the_application_is_typer_s_own() -> None:
    assert isinstance(shell.app, typer.Typer)
