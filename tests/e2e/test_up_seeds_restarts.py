"""The real `ullage up --seeds 2`, with its fail-closed webhooks, ended in every way and started again on the same data.

A Machine is made in each user cluster after each start. At the end the project's quota has counted each of them once.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .test_up_seeds import Planes

pytestmark = [
    pytest.mark.skipif("E2E_KUBECONFIG" in os.environ, reason="`ullage up` brings the embedded server, no other"),
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

PATIENCE = 180.0  # seconds, for what some twenty processes on a busy machine have to do first
STOP, KILL = signal.SIGTERM, signal.SIGKILL
# A start of everything takes 15 to 30 seconds on two busy cores, and one of a seed takes 6 to 11. All ten took 206 seconds.
ENDS: tuple[signal.Signals | int, ...] = (STOP, 1, 2, KILL, 1, 2, KILL, 1, 2, STOP)
USERS = ("u1", "u2")


def _machine(name: str) -> str:
    value = {"cloudProvider": "fake", "cloudProviderSpec": {"cpu": "1", "memory": "1Gi", "storage": "1Gi"}}
    body = {
        "apiVersion": "cluster.k8s.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"providerSpec": {"value": value}},
    }
    return json.dumps(body)


def _quota(cpu: int) -> str:
    body = {
        "apiVersion": "kubermatic.k8c.io/v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "project-demo"},
        "spec": {"subject": {"kind": "project", "name": "demo"}, "quota": {"cpu": str(cpu)}},
    }
    return json.dumps(body)


class Platform:
    """One data directory, and `ullage up` on it from start to start."""

    def __init__(self, data: Path, stack: ExitStack) -> None:
        self._data = data
        self._stack = stack
        self.planes: Planes
        self.start()

    def start(self) -> None:
        began = time.monotonic()
        self.planes = Planes(self._data, 2, program=("-m", "ullage"))
        self._stack.callback(self.planes.up.end, KILL)
        print(f"started in {time.monotonic() - began:.1f} s")
        assert any(line.startswith("Ctrl-C stops it") for line in self.planes.up.lines), self.planes.up.lines

    def end(self, how: signal.Signals | int) -> None:
        """Ends everything with a signal and starts it again, or kills one seed, which its master starts again."""
        if isinstance(how, signal.Signals):
            code = self.planes.up.end(how)
            assert code == (0 if how is STOP else -how)
            self.start()
            return
        seed = f"seed-{how}"
        before = self.planes.pid("seeds", seed)
        os.kill(before, KILL)
        self.until(f"{seed} is started again", lambda: self.planes.pid("seeds", seed) != before)

    def until(self, what: str, holds: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {what}"
            time.sleep(0.2)

    def create(self, user: str, name: str) -> None:
        """Makes a Machine, as often as it takes: what answers for it may have just been started."""
        told: list[str] = []

        def made() -> bool:
            done = self.planes.kubectl(user, "create", "-f", "-", text=_machine(name))
            told[:] = [done.stderr]
            return done.returncode == 0 or "AlreadyExists" in done.stderr

        try:
            self.until(f"{name} is made in {user}", made)
        except AssertionError as error:
            raise AssertionError(f"{error}; the last answer: {told}") from None

    def used(self) -> str:
        status = self.planes.get("master", "resourcequotas.kubermatic.k8c.io", "project-demo").get("status", {})
        return str(status.get("globalUsage", {}).get("cpu", ""))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Platform]:
    with ExitStack() as stack:
        yield Platform(tmp_path / "data", stack)


def test_it_comes_back_from_every_end_and_counts_each_machine_once(running: Platform) -> None:
    most = 2 * (1 + len(ENDS))
    done = running.planes.kubectl("master", "apply", "-f", "-", text=_quota(most))
    assert done.returncode == 0, done.stderr
    for user in USERS:
        running.create(user, "first")
    for number, how in enumerate(ENDS):
        began = time.monotonic()
        running.end(how)
        for user in USERS:
            running.create(user, f"after-{number}")
        print(f"end {how!r}: machines in all user clusters after {time.monotonic() - began:.1f} s")
    running.until(f"{most} machines are counted", lambda: running.used() == str(most))

    refused = running.planes.kubectl("u1", "create", "-f", "-", text=_machine("one-too-many"))
    assert refused.returncode != 0
    assert "cpu" in refused.stderr.lower()
    assert running.planes.up.end(STOP) == 0
