"""The command `ullage` as a process: help, version, and what bad input gets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import ullage

SOURCE = Path(ullage.__file__).parents[1]
HEAVY = ("cryptography", "aiohttp", "uvicorn", "msgspec", "kubernetes_validate", "cel_expr_python")


def call(*arguments: str, program: tuple[str, ...] = ("-m", "ullage")) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, *program, *arguments], capture_output=True, text=True, env=environ, timeout=60, check=False
    )


@pytest.mark.parametrize("arguments", [("version",), ("--version",)], ids=["as a command", "as an option"])
def test_the_version_is_one_line(arguments: tuple[str, ...]) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ullage {ullage.__version__}\n", "")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_the_commands(option: str) -> None:
    done = call(option)
    assert done.returncode == 0
    assert "up" in done.stdout
    assert "Serve a Kubernetes API on this machine" in done.stdout


@pytest.mark.parametrize("option", ["--data-dir", "--port", "--ephemeral", "--no-demo"])
def test_help_of_up_explains_each_option(option: str) -> None:
    assert option in call("up", "--help").stdout


def test_help_imports_nothing_heavy() -> None:
    script = "import sys, ullage.app; print([name for name in sys.argv[1:] if name in sys.modules])"
    assert call(*HEAVY, program=("-c", script)).stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--port", "65536"], "--port 65536: not a port; a whole number from 0 to 65535", id="a port out of range"),
        pytest.param(
            ["--port", "https"], "--port https: not a port; a whole number from 0 to 65535", id="a port that is a word"
        ),
        pytest.param(
            ["--data-dir", "HERE/file"], "--data-dir HERE/file: a file, or below a file", id="a file as the directory"
        ),
        pytest.param(["--data-dir", "HERE"], "--data-dir HERE: holds files of something else", id="somebody else's directory"),
        pytest.param(["--data-dir", "/proc/x"], "--data-dir /proc/x: cannot be used (", id="a directory that cannot be made"),
        pytest.param(
            ["--data-dir", "x", "--ephemeral"], "--data-dir x: not allowed with --ephemeral", id="a directory for nothing"
        ),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], text: str) -> None:
    (tmp_path / "file").write_text("x")
    done = call("up", *(argument.replace("HERE", str(tmp_path)) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ullage: {text.replace('HERE', str(tmp_path))}")
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["file"]


def test_a_taken_port_gets_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = call("up", "--data-dir", str(tmp_path / "d"), "--port", str(port))
    assert done.returncode == 2
    assert done.stderr.startswith(f"ullage: --port {port}: taken by another program; ")
    assert not (tmp_path / "d").exists(), "nothing was made"


def test_an_option_that_does_not_exist_is_named() -> None:
    done = call("up", "--colour")
    assert done.returncode == 2
    assert "--colour" in done.stderr
    assert "Traceback" not in done.stderr
