"""`ullage up` with the real server behind it: what a person does in the first five minutes, and what kills do to it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import ullage

from . import sample_app

pytestmark = pytest.mark.skipif("E2E_KUBECONFIG" in os.environ, reason="`ullage up` brings the embedded server, no other")

SOURCE = Path(ullage.__file__).parents[1]
PATIENCE = 60.0
SAMPLE = (sample_app.__file__ or "",)  # the command with a slice in it: barrels of at most 200 litres


class Up:
    """`ullage up` as a process, read up to the point where it serves."""

    def __init__(self, *options: str, program: tuple[str, ...] = ("-m", "ullage")) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *program, "up", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        assert self.process.stdout is not None
        self.lines: list[str] = []
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith("Ctrl-C stops it"):
                break

    @property
    def kubeconfig(self) -> Path:
        return Path(self._after("  kubeconfig   "))

    @property
    def command(self) -> list[str]:
        """The kubectl command that it printed to try."""
        return shlex.split(self._after("  try          "))

    @property
    def port(self) -> int:
        return int(self._after("Kubernetes API server on https://127.0.0.1:").split()[0])

    @property
    def server(self) -> int:
        """The API server's process; 0 while it writes that down."""
        told = self.kubeconfig.with_name("lock").read_text()
        return int(json.loads(told)["pid"]) if told.endswith("}") else 0

    def beside(self, name: str) -> int:
        """The process that runs the webhook or the controllers now; 0 while there is none."""
        pid = self.process.pid
        for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
            with suppress(FileNotFoundError):
                if name.encode() in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                    return child
        return 0

    def whoami(self, name: str) -> str:
        config = self.kubeconfig.with_name(f"{name}.kubeconfig")
        command = [self.command[0], "--kubeconfig", str(config), "auth", "whoami", "-o", "jsonpath={.status.userInfo}"]
        return str(json.loads(subprocess.check_output(command, text=True, timeout=PATIENCE))["username"])

    def _after(self, prefix: str) -> str:
        return next(line.removeprefix(prefix) for line in self.lines if line.startswith(prefix))

    def kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self.command[:3], *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


@pytest.fixture
def up() -> Iterator[Callable[..., Up]]:
    with ExitStack() as stack:

        def start(*options: str, **more: tuple[str, ...]) -> Up:
            running = Up(*options, **more)
            stack.callback(running.end, signal.SIGKILL)
            return running

        yield start


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_command_that_it_prints_works_and_the_kubeconfig_is_private(tmp_path: Path, up: Callable[..., Up]) -> None:
    running = up("--data-dir", str(tmp_path / "data"), "--port", "0")
    done = subprocess.run(running.command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()[1:]} >= {"default", "kube-system", "kube-public"}
    assert running.kubeconfig == tmp_path / "data" / "kubeconfig"
    assert stat.S_IMODE(running.kubeconfig.stat().st_mode) == 0o600
    assert running.end(signal.SIGINT) == 0


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_what_was_written_is_there_after_the_next_start(tmp_path: Path, up: Callable[..., Up], number: signal.Signals) -> None:
    first = up("--data-dir", str(tmp_path / "data"), "--port", "0")
    created = first.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    assert created.returncode == 0, created.stderr
    assert first.end(number) == (0 if number == signal.SIGTERM else -number)
    second = up("--data-dir", str(tmp_path / "data"), "--port", "0")
    assert second.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}").stdout == "b"


@pytest.mark.slow
def test_a_server_that_is_killed_comes_back_on_its_port_for_the_same_kubeconfig(tmp_path: Path, up: Callable[..., Up]) -> None:
    running = up("--data-dir", str(tmp_path / "data"), "--port", "0")
    before = running.server
    os.kill(before, signal.SIGKILL)
    eventually(lambda: running.server not in (0, before) and running.kubectl("get", "namespace", "default").returncode == 0)
    assert running.end(signal.SIGTERM) == 0


def test_a_second_one_names_the_holder_and_how_to_use_it_and_changes_nothing(tmp_path: Path, up: Callable[..., Up]) -> None:
    first = up("--data-dir", str(tmp_path / "data"), "--port", "0")
    before = first.kubeconfig.read_bytes()
    second = up("--data-dir", str(tmp_path / "data"), "--port", "0")
    _, err = second.process.communicate(timeout=PATIENCE)
    assert second.process.returncode == 1
    assert err.count("\n") == 1
    assert f"{tmp_path}/data is held by process {first.process.pid}, since " in err
    assert f"KUBECONFIG={first.kubeconfig}" in err
    assert second.lines == []
    assert first.kubeconfig.read_bytes() == before
    assert first.kubectl("get", "namespace", "default").returncode == 0


@pytest.mark.slow
def test_the_default_port_gives_way_when_it_is_taken(tmp_path: Path, up: Callable[..., Up]) -> None:
    both = [up("--data-dir", str(tmp_path / name)) for name in ("one", "two")]
    assert both[0].port != both[1].port
    assert "warning: port 7443 is taken by another program: taking a free one" in both[1].lines


@pytest.mark.slow
def test_an_ephemeral_one_leaves_nothing_behind(up: Callable[..., Up]) -> None:
    running = up("--ephemeral", "--port", "0", "--no-demo")
    directory = running.kubeconfig.parent
    assert directory.is_dir()
    assert running.end(signal.SIGTERM) == 0
    assert not directory.exists()


def ready_nodes(running: Up) -> set[str]:
    template = 'jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}'
    told = running.kubectl("get", "nodes", "-o", template).stdout.split()
    return {one.removesuffix("=True") for one in told if one.endswith("=True")}


@pytest.mark.slow
def test_there_are_as_many_nodes_as_were_asked_for_and_those_of_before_stay(tmp_path: Path, up: Callable[..., Up]) -> None:
    first = up("--data-dir", str(tmp_path / "data"), "--port", "0", "--nodes", "3")
    eventually(lambda: ready_nodes(first) == {"ullage", "ullage-2", "ullage-3"})
    assert first.kubectl("delete", "node", "ullage-3").returncode == 0
    eventually(lambda: "ullage-3" in ready_nodes(first))
    assert first.end(signal.SIGTERM) == 0
    second = up("--data-dir", str(tmp_path / "data"), "--port", "0")
    eventually(lambda: ready_nodes(second) == {"ullage", "ullage-2", "ullage-3"})
    assert second.kubectl("delete", "node", "ullage-3").returncode == 0
    eventually(lambda: ready_nodes(second) == {"ullage", "ullage-2"})


def barrel(running: Up, name: str, litres: int) -> subprocess.CompletedProcess[str]:
    body = {"apiVersion": "app.example.com/v1", "kind": "Barrel", "metadata": {"name": name}, "spec": {"litres": litres}}
    command = [*running.command[:3], "create", "-f", "-"]
    return subprocess.run(
        command, input=json.dumps(body), capture_output=True, text=True, timeout=PATIENCE, check=False
    )  # fmt: skip


def filled(running: Up, name: str) -> bool:
    return running.kubectl("get", "barrel", name, "-o", "jsonpath={.status.litres}").stdout != ""


def hook_url(running: Up) -> str:
    path = "jsonpath={.webhooks[0].clientConfig.url}"
    return running.kubectl("get", "validatingwebhookconfiguration", "ullage", "-o", path).stdout


def test_webhook_and_controllers_run_beside_it_as_themselves(tmp_path: Path, up: Callable[..., Up]) -> None:
    running = up("--data-dir", str(tmp_path / "data"), "--port", "0", program=SAMPLE)
    told = [line.split(" on ")[0] for line in running.lines if " on http" in line]
    assert told == ["Kubernetes API server", "webhook", "controller", "API", "world"]
    assert "201 litres are more than 200" in barrel(running, "huge", 201).stderr
    assert barrel(running, "small", 10).returncode == 0
    eventually(lambda: filled(running, "small"))
    for name in ("controller", "webhook", "api", "world"):
        assert running.whoami(name) == f"system:serviceaccount:ullage-system:{name}"
        for file in (f"{name}.kubeconfig", f"{name}.token"):
            assert stat.S_IMODE((tmp_path / "data" / file).stat().st_mode) == 0o600
    assert running.end(signal.SIGTERM) == 0
    log = (tmp_path / "data" / "controller.log").read_text()
    assert "released the lease" in log, "stopped in order, before the API server"


@pytest.mark.parametrize("name", ["webhook", pytest.param("controller", marks=pytest.mark.slow)])
def test_one_that_is_killed_comes_back_and_does_its_work(tmp_path: Path, up: Callable[..., Up], name: str) -> None:
    running = up("--data-dir", str(tmp_path / "data"), "--port", "0", program=SAMPLE)
    before = running.beside(name)
    os.kill(before, signal.SIGKILL)
    eventually(lambda: running.beside(name) not in (0, before))
    eventually(lambda: "201 litres are more than 200" in barrel(running, "huge", 201).stderr)
    eventually(lambda: barrel(running, "after", 10).returncode == 0 or filled(running, "after"))
    eventually(lambda: filled(running, "after"))
    assert running.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_hooks_that_a_killed_one_left_behind_do_not_lock_the_next_one_out(tmp_path: Path, up: Callable[..., Up]) -> None:
    first = up("--data-dir", str(tmp_path / "data"), "--port", "0", program=SAMPLE)
    processes = [first.beside(name) for name in ("webhook", "controller")]
    left = hook_url(first)
    first.end(signal.SIGKILL)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes))
    second = up("--data-dir", str(tmp_path / "data"), "--port", "0", program=SAMPLE)
    installed = next(line for line in second.lines if line.startswith("installed: "))
    assert re.fullmatch(r"installed: \d+ unchanged", installed), "nothing was written, so no hook was asked"
    assert hook_url(second) not in ("", left)
    assert barrel(second, "small", 10).returncode == 0
    assert "201 litres are more than 200" in barrel(second, "huge", 201).stderr
    eventually(lambda: filled(second, "small"))


CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


@pytest.mark.slow
def test_claims_have_directories_below_the_data_directory_and_keep_them_over_a_restart(
    tmp_path: Path, up: Callable[..., Up]
) -> None:
    first = up("--data-dir", str(tmp_path / "data"), "--port", "0")
    command = [*first.command[:3], "create", "-f", "-"]
    subprocess.run(command, input=CLAIM, capture_output=True, text=True, timeout=PATIENCE, check=True)
    eventually(lambda: first.kubectl("get", "pvc", "data", "-o", "jsonpath={.status.phase}").stdout == "Bound")
    name = first.kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}").stdout
    (tmp_path / "data" / "volumes" / name / "file").write_text("content")
    world = first.beside("world")
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    eventually(lambda: not Path(f"/proc/{world}").exists())
    second = up("--data-dir", str(tmp_path / "data"), "--port", "0")
    assert (tmp_path / "data" / "volumes" / name / "file").read_text() == "content"
    assert second.kubectl("delete", "pvc", "data").returncode == 0
    eventually(lambda: not (tmp_path / "data" / "volumes" / name).exists())
    assert second.end(signal.SIGTERM) == 0
