"""Leader election between real processes, one of which is stopped in mid-work. Who wrote when is asked of the API alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .api import Api
from .control_plane import ControlPlane
from .kinds import Json, configmap
from .lease_worker import LEASE, TIMING

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


class Worker:
    """`python -m tests.e2e.lease_worker`, which can be stopped and woken."""

    def __init__(self, plane: ControlPlane, namespace: str, *, name: str, out: Path, skew: float) -> None:
        self.name = name
        self._out = out / f"{name}.out"
        command = [sys.executable, "-m", "tests.e2e.lease_worker", namespace, name, "--skew", str(skew)]
        with self._out.open("wb") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)}, stdout=file
            )

    def said(self) -> list[str]:
        return self._out.read_text().split()

    def send(self, how: signal.Signals) -> None:
        self._process.send_signal(how)

    def wait(self) -> int:
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Scene:
    """A namespace with a Lease, and what the workers wrote into it, in the order of the API's own counter."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def written(self, worker: Worker) -> list[int]:
        found = self.api.get(f"{self.maps}?labelSelector=writer%3D{worker.name}").obj["items"]
        return sorted(int(one["metadata"]["resourceVersion"]) for one in found)

    def mark(self, name: str) -> int:
        """A moment in that order."""
        return int(self.api.create(self.maps, configmap(name))["metadata"]["resourceVersion"])

    def spec(self) -> Json:
        found: Json = self.api.get(f"{self.leases}/{LEASE}").obj.get("spec", {})
        return found

    def holder(self) -> str:
        return str(self.spec().get("holderIdentity", ""))


def until(happens: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:.0f} s"
        time.sleep(0.05)


@pytest.fixture
def scene(api: Api, namespace: str) -> Scene:
    return Scene(api, namespace)


@pytest.fixture
def workers(request: pytest.FixtureRequest, scene: Scene, namespace: str, tmp_path: Path) -> Iterator[tuple[Worker, Worker]]:
    """Two workers; the first one leads. The parameters are how far their clocks are off."""
    first_skew, second_skew = request.param
    first = Worker(scene.api.plane, namespace, name="first", out=tmp_path, skew=first_skew)
    try:
        until(lambda: scene.holder() == "first", "the first worker leads")
        second = Worker(scene.api.plane, namespace, name="second", out=tmp_path, skew=second_skew)
        try:
            until(lambda: len(scene.written(first)) > 20, "the first worker works")
            yield first, second
        finally:
            second.kill()
    finally:
        first.kill()


HOUR = 3600.0


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param((0.0, 0.0), id="clocks agree"),
        pytest.param((-HOUR, HOUR), id="the waiting one's clock is two hours ahead"),
        pytest.param((HOUR, -HOUR), id="the waiting one's clock is two hours behind"),
    ],
    indirect=True,
)
def test_a_leader_that_was_stopped_writes_nothing_after_it_wakes(scene: Scene, workers: tuple[Worker, Worker]) -> None:
    first, second = workers
    first.send(signal.SIGSTOP)
    stopped_at = time.monotonic()
    stopped = scene.mark("stopped")
    until(lambda: bool(scene.written(second)), "the second worker takes over")
    assert scene.spec()["leaseTransitions"] == 1
    until(lambda: time.monotonic() > stopped_at + 2 * TIMING.duration, "twice the lease is over")
    woken = scene.mark("woken")
    first.send(signal.SIGCONT)
    until(lambda: "lost" in first.said(), "the first worker notices")
    seen = len(scene.written(second))
    until(lambda: len(scene.written(second)) > seen + 20, "the second worker goes on")

    ours, theirs = scene.written(first), scene.written(second)
    assert max(ours) < min(theirs), "the first worker's last write came before the second worker's first"
    assert "refused" in first.said(), "the first worker tried to write when it woke"
    assert stopped < min(theirs) < woken, "the second worker took over while the first was stopped"
    assert "lost" not in second.said()

    second.send(signal.SIGTERM)
    assert second.wait() == 0
    assert second.said()[-1] == "released"
    assert "refused" not in second.said(), "what it wrote on its way out was still within its tenure"
    last = max(scene.written(second))
    until(lambda: max(scene.written(first)) > woken, "the first worker leads again")
    assert min(version for version in scene.written(first) if version > woken) > last
    assert (scene.holder(), scene.spec()["leaseTransitions"]) == ("first", 2)


@pytest.mark.parametrize("workers", [(0.0, 0.0)], ids=["two workers"], indirect=True)
def test_a_killed_leader_is_replaced_and_a_stopped_one_hands_over(scene: Scene, workers: tuple[Worker, Worker]) -> None:
    first, second = workers
    first.kill()
    until(lambda: bool(scene.written(second)), "the second worker takes over")
    assert max(scene.written(first)) < min(scene.written(second))
    second.send(signal.SIGTERM)
    assert second.wait() == 0
    assert scene.holder() == ""
