"""Finding the `ullage up` that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ullage.cli.common import session
from ullage.errors import BadInput
from ullage.kube.client.config import BadConfig
from ullage.local_servers import announced, running

CONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d"}}]
users: [{name: u, user: {token: t}}]
"""


def data(directory: Path, *, pid: int | None = None, port: int = 7443) -> Path:
    directory.mkdir(parents=True)
    (directory / "up.lock").write_text(json.dumps({"pid": pid or os.getpid(), "started": "2026-05-01T12:00:00Z"}))
    (directory / "kubeconfig").write_text(CONFIG % port)
    return directory


def dead() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("KUBECONFIG", "XDG_STATE_HOME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return {"HOME": str(tmp_path)}


def test_it_is_found_while_it_runs(tmp_path: Path, home: dict[str, str]) -> None:
    directory = data(tmp_path / "somewhere")
    with announced(directory, home):
        assert running(home) == [directory / "kubeconfig"]
    assert running(home) == []


def test_one_that_was_killed_is_not_found(tmp_path: Path, home: dict[str, str]) -> None:
    with announced(data(tmp_path / "killed", pid=dead()), home):
        assert running(home) == []


def test_a_directory_that_is_gone_is_not_found(tmp_path: Path, home: dict[str, str]) -> None:
    with announced(tmp_path / "never", home):
        assert running(home) == []


@pytest.mark.parametrize("environ", [{}, {"XDG_STATE_HOME": "/proc/nonexistent"}], ids=["no home", "nowhere to write"])
def test_where_no_note_can_be_left_nobody_finds_it(environ: dict[str, str], tmp_path: Path) -> None:
    with announced(tmp_path, environ):
        assert running(environ) == []


def test_commands_use_it_where_nothing_else_is_said(tmp_path: Path, home: dict[str, str]) -> None:
    with pytest.raises(BadConfig, match="there is no such file; name one, or set KUBECONFIG, or start `ullage up`"):
        session.load_config(None, None)
    with announced(data(tmp_path / "up", port=7001), home):
        assert session.load_config(None, None).server == "https://127.0.0.1:7001"


def test_a_kubeconfig_of_the_user_counts_for_more(
    tmp_path: Path, home: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with announced(data(tmp_path / "up", port=7001), home):
        (tmp_path / ".kube").mkdir()
        (tmp_path / ".kube" / "config").write_text(CONFIG % 6443)
        assert session.load_config(None, None).server == "https://127.0.0.1:6443"
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "ghost"))
        with pytest.raises(BadConfig, match="there is no such file"):
            session.load_config(None, None)


def test_two_of_them_are_named(tmp_path: Path, home: dict[str, str]) -> None:
    one, two = data(tmp_path / "a"), data(tmp_path / "b")
    with announced(one, home), announced(two, home), pytest.raises(BadInput) as caught:
        session.load_config(None, None)
    assert str(caught.value) == (
        f"kubeconfig (none given): 2 `ullage up` run here; name one with --kubeconfig: {one}/kubeconfig, {two}/kubeconfig"
    )
