"""The commands that start and install, as far as they go without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import ullage
from tests.e2e import sample_app

SOURCE = Path(ullage.__file__).parents[1]
NOWHERE = "/nonexistent/kubeconfig"


def call(*arguments: str, program: tuple[str, ...] = ("-m", "ullage")) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "200", "KUBECONFIG": NOWHERE, "HOME": "/nonexistent"}
    return subprocess.run(
        [sys.executable, *program, *arguments], capture_output=True, text=True, env=environ, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (
            "controller",
            ("--kubeconfig", "--context", "--no-leader-elect", "--metrics-port", "--log-format", "--role", "--surge"),
        ),
        ("webhook", ("--kubeconfig", "--port", "--bind", "--url", "--service", "--log-format", "--role", "--url-elsewhere")),
        ("install", ("--kubeconfig", "--dry-run", "--output", "--role")),
        ("uninstall", ("--kubeconfig", "--purge", "--dry-run")),
    ],
)
def test_help_explains_each_option_and_hides_what_is_between_processes(command: str, options: tuple[str, ...]) -> None:
    shown = call(command, "--help").stdout
    assert [option for option in options if option not in shown] == []
    assert "-fd" not in shown


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["controller", "--log-format", "xml"], "--log-format xml: one of text, json", id="a log format"),
        pytest.param(["up", "--log-level", "loud", "--ephemeral"], "--log-level loud: one of debug", id="a log level"),
        pytest.param(["controller", "--metrics-port", "70000"], "--metrics-port 70000: a whole number", id="a port"),
        pytest.param(["webhook", "--url", "http://a"], "--url http://a: something like https://host:9443", id="plain HTTP"),
        pytest.param(["webhook", "--service", "a"], "--service a: NAMESPACE/NAME", id="a service without its namespace"),
        pytest.param(
            ["webhook", "--service", "a/b", "--url", "https://a"],
            "--url https://a: not allowed with --service",
            id="two addresses",
        ),
        pytest.param(
            ["up", "--data-dir", f"/nonexistent/{'x' * 100}"],
            f"--data-dir /nonexistent/{'x' * 100}: too long: the path of engines.sock in it would have 126 bytes",
            id="a data directory without room for a socket",
        ),
        pytest.param(["install"], f"kubeconfig {NOWHERE}: there is no such file", id="no cluster to install into"),
        pytest.param(["install", "-o", "xml"], "--output xml: yaml is allowed", id="an output format"),
        pytest.param(["uninstall"], "--yes (absent): nobody can be asked here whether", id="an end that nobody agreed to"),
        pytest.param(["uninstall", "--purge"], "--yes (absent): nobody can be asked here", id="a purge without a yes"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(arguments: list[str], text: str) -> None:
    if arguments[0] == "controller" and "--metrics-port" in arguments:
        arguments = [*arguments, "--kubeconfig", kubeconfig()]
    done = call(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith(f"ullage: {text}"), done.stderr
    assert done.stderr.count("\n") == 1


def kubeconfig() -> str:
    return str(Path(__file__).with_name("kubeconfig.yaml"))


def test_install_prints_what_it_would_apply_without_any_cluster() -> None:
    done = call("install", "-o", "yaml", program=(sample_app.__file__ or "",))
    assert done.returncode == 0, done.stderr
    found = [(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(done.stdout)]
    assert ("CustomResourceDefinition", "barrels.app.example.com") in found
    assert ("CustomResourceDefinition", "casks.other.example.com") not in found, "it belongs to another product"
    assert found[0] == ("Namespace", "ullage-system")


@pytest.mark.parametrize("command", ["controller", "webhook", "api", "install"])
def test_a_role_that_is_none_is_refused_before_anything_is_asked_for(command: str) -> None:
    done = call(command, "--role", "tenant")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ullage: --role tenant: cluster, master, seed or user-cluster is allowed\n"


@pytest.mark.parametrize(
    ("options", "given"),
    [pytest.param((), "(absent)", id="none"), pytest.param(("--user-cluster", "--volumes", "v"), "v", id="both")],
)
def test_the_world_has_volumes_or_the_machines_of_a_user_cluster(options: tuple[str, ...], given: str) -> None:
    done = call("world", *options)
    assert done.returncode == 2
    assert done.stderr == f"ullage: --volumes {given}: is needed, except with --user-cluster, where there are none\n"
