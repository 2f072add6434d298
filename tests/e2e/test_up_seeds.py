"""`ullage up --seeds N`: a master, seeds and user clusters on one machine, each with an API server of its own.

What runs in them does nothing here (`seeds_app.py`): this is about how they come, know each other, and go.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from . import seeds_app
from .test_up import PATIENCE, Up, eventually

pytestmark = [
    pytest.mark.skipif("E2E_KUBECONFIG" in os.environ, reason="`ullage up` brings the embedded server, no other"),
    pytest.mark.slow,
]

PROGRAM = (seeds_app.__file__ or "",)
POOL: dict[str, Any] = {
    "apiVersion": "cluster.k8s.io/v1alpha1",
    "kind": "MachineDeployment",
    "metadata": {"name": "pool", "namespace": "kube-system"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"pool": "a"}},
        "template": {
            "metadata": {"labels": {"pool": "a"}},
            "spec": {"providerSpec": {"value": {"cloudProvider": "fake", "cloudProviderSpec": {"cpu": "1"}}}},
        },
    },
}


class Planes:
    """`ullage up --seeds`, and kubectl in each of its control planes."""

    def __init__(self, data: Path, seeds: int, *, program: tuple[str, ...] = PROGRAM) -> None:
        self.data = data
        self.up = Up("--data-dir", str(data), "--port", "0", "--seeds", str(seeds), program=program)

    def kubeconfig(self, name: str) -> Path:
        prefix = f"  {name:<12} "
        return Path(next(line.removeprefix(prefix) for line in self.up.lines if line.startswith(prefix)))

    def kubectl(self, plane: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        config = self.up.kubeconfig if plane == "master" else self.kubeconfig(plane)
        return self.run(config, *arguments, text=text)

    def run(self, config: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [self.up.command[0], "--kubeconfig", str(config), *arguments]
        return subprocess.run(command, capture_output=True, text=True, input=text, timeout=PATIENCE, check=False)

    def get(self, plane: str, *what: str) -> Any:
        done = self.kubectl(plane, "get", *what, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def handed(self, seed: str) -> bytes:
        """The kubeconfig of a seed that the master has."""
        found = self.get("master", "secret", "-n", "kubermatic", f"kubeconfig-{seed}")
        return base64.b64decode(found["data"]["kubeconfig"])

    def pid(self, *below: str) -> int:
        """Of the `ullage up` of a control plane."""
        return int(json.loads(self.data.joinpath(*below, "up.lock").read_text())["pid"])

    def server(self, *below: str) -> int:
        told = self.data.joinpath(*below, "lock").read_text()
        return int(json.loads(told)["pid"]) if told.endswith("}") else 0


@pytest.fixture
def planes(tmp_path: Path) -> Iterator[Callable[[int], Planes]]:
    with ExitStack() as stack:

        def start(seeds: int) -> Planes:
            running = Planes(tmp_path / "data", seeds)
            stack.callback(running.up.end, signal.SIGKILL)
            return running

        yield start


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_each_control_plane_is_reached_and_the_master_knows_its_seeds_with_no_more_rights_than_it_needs(
    tmp_path: Path, planes: Callable[[int], Planes]
) -> None:
    running = planes(2)
    assert running.get("master", "project.kubermatic.k8c.io", "demo")["spec"]["name"] == "Demonstration"
    seeds = running.get("master", "seeds", "-n", "kubermatic")["items"]
    assert [one["spec"]["kubeconfig"]["name"] for one in seeds] == ["kubeconfig-seed-1", "kubeconfig-seed-2"]
    for number in (1, 2):
        cluster = running.get(f"seed-{number}", "clusters.kubermatic.k8c.io", f"u{number}")
        assert cluster["metadata"]["labels"] == {"project-id": "demo"}
        assert cluster["status"]["namespaceName"] == f"cluster-u{number}"
        secret = running.get(f"seed-{number}", "secret", "-n", f"cluster-u{number}", "admin-kubeconfig")
        assert base64.b64decode(secret["data"]["kubeconfig"]) == running.kubeconfig(f"u{number}").read_bytes()

    given = tmp_path / "given"
    given.write_bytes(running.handed("seed-2"))
    who = running.run(given, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").stdout
    assert who == "system:serviceaccount:ullage-system:master"
    may = {
        ("create", "resourcequotas.kubermatic.k8c.io", ""): "yes",
        ("patch", "ledgers.ullage.io", "ullage-system"): "yes",
        ("patch", "ledgers.ullage.io", "default"): "no",
        ("get", "secrets", "ullage-system"): "no",
        ("update", "clusters.kubermatic.k8c.io", ""): "no",
    }
    for (verb, resource, namespace), answer in may.items():
        done = running.run(given, "auth", "can-i", verb, resource, *(["-n", namespace] if namespace else []))
        assert done.stdout.strip() == answer, (verb, resource, namespace)

    pids = [running.pid(), running.pid("seeds", "seed-1"), running.server("seeds", "seed-2", "clusters", "u2")]
    assert all(map(_lives, pids))
    assert running.up.end(signal.SIGINT) == 0
    assert not any(map(_lives, pids))


def test_machines_of_a_user_cluster_come_are_scaled_and_replaced_and_go(planes: Callable[[int], Planes]) -> None:
    running = planes(1)

    def machines() -> list[dict[str, Any]]:
        return list(running.get("u1", "machines", "-n", "kube-system")["items"])

    def joined(count: int, cpu: str = "1") -> bool:
        found = [
            one["spec"]["providerSpec"]["value"]["cloudProviderSpec"]["cpu"]
            for one in machines()
            if one.get("status", {}).get("nodeRef", {}).get("name") == one["metadata"]["name"]
        ]
        return found == [cpu] * count and len(machines()) == count

    done = running.kubectl("u1", "apply", "-f", "-", text=json.dumps(POOL))
    assert done.returncode == 0, done.stderr
    eventually(lambda: joined(2))
    assert running.kubectl("u1", "-n", "kube-system", "scale", "machinedeployment/pool", "--replicas=3").returncode == 0
    eventually(lambda: joined(3))
    larger = {"spec": {"template": {"spec": {"providerSpec": {"value": {"cloudProviderSpec": {"cpu": "2"}}}}}}}
    patch = ["patch", "machinedeployment", "pool", "-n", "kube-system", "--type=merge", "-p", json.dumps(larger)]
    assert running.kubectl("u1", *patch).returncode == 0
    eventually(lambda: joined(3, "2"))
    sets = running.get("u1", "machinesets", "-n", "kube-system")["items"]
    revisions = {
        one["metadata"]["annotations"]["machinedeployment.clusters.k8s.io/revision"]: one["spec"]["replicas"] for one in sets
    }
    assert revisions == {"1": 0, "2": 3}
    assert running.kubectl("u1", "delete", "machinedeployment", "pool", "-n", "kube-system").returncode == 0
    eventually(lambda: machines() == [])


def test_a_seed_that_is_killed_comes_back_with_its_data_and_its_master_finds_it(planes: Callable[[int], Planes]) -> None:
    running = planes(1)
    assert running.kubectl("seed-1", "create", "configmap", "kept").returncode == 0
    before, server = running.pid("seeds", "seed-1"), running.server("seeds", "seed-1")
    os.kill(before, signal.SIGKILL)
    eventually(lambda: running.pid("seeds", "seed-1") != before and running.server("seeds", "seed-1") not in (0, server))
    eventually(lambda: running.kubectl("seed-1", "get", "configmap", "kept").returncode == 0)

    def address(config: bytes) -> str:
        return next(line.strip() for line in config.decode().splitlines() if "server:" in line)

    eventually(lambda: address(running.handed("seed-1")) == address(running.kubeconfig("seed-1").read_bytes()))
    eventually(lambda: running.kubectl("u1", "get", "machines", "-A").returncode == 0)
    assert running.up.end(signal.SIGTERM) == 0


def test_after_a_kill_of_all_a_second_start_finds_everything(planes: Callable[[int], Planes]) -> None:
    first = planes(1)
    assert first.kubectl("u1", "create", "configmap", "kept").returncode == 0
    assert first.kubectl("master", "delete", "seed", "seed-1", "-n", "kubermatic").returncode == 0
    leftover = [first.pid("seeds", "seed-1"), first.server("seeds", "seed-1", "clusters", "u1")]
    assert first.up.end(signal.SIGKILL) == -signal.SIGKILL
    eventually(lambda: not any(map(_lives, leftover)))
    second = planes(1)
    assert second.kubectl("u1", "get", "configmap", "kept").returncode == 0
    assert second.get("master", "seed", "-n", "kubermatic", "seed-1")["spec"]["kubeconfig"]["name"] == "kubeconfig-seed-1"
    assert second.up.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("seeds", ["0", "6", "two", ""])
def test_a_number_of_seeds_that_cannot_be_is_refused(tmp_path: Path, seeds: str) -> None:
    command = [sys.executable, "-m", "ullage", "up", "--data-dir", str(tmp_path / "data"), "--seeds", seeds]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert done.stderr == f"ullage: --seeds {seeds or repr(seeds)}: a whole number from 1 to 5 is allowed\n"
    assert not (tmp_path / "data").exists()
