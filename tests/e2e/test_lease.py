"""Leader election between real processes, one of which is stopped in mid-work. Who wrote when is asked of the API alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
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

    def __init__(self, plane: ControlPlane, namespace: str, *, name: str, out: Path, options: Sequence[str]) -> None:
        self.name = name
        self._out = out / f"{name}.out"
        command = [sys.executable, "-m", "tests.e2e.lease_worker", namespace, name, *options]
        with self._out.open("wb") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)}, stdout=file
            )

    def said(self) -> list[str]:
        return self._out.read_text().split()

    def send(self, how: signal.Signals) -> None:
        self._process.send_signal(how)

    def stop(self) -> None:
        """Returns when it has stopped itself, at the place that its options name."""
        self.send(signal.SIGUSR1)
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{self.name} ended: {status}"

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
    """Two workers; the first one leads. The parameters are the options of each."""
    first_options, second_options = request.param
    first = Worker(scene.api.plane, namespace, name="first", out=tmp_path, options=first_options)
    try:
        until(lambda: scene.holder() == "first", "the first worker leads")
        second = Worker(scene.api.plane, namespace, name="second", out=tmp_path, options=second_options)
        try:
            until(lambda: len(scene.written(first)) > 20, "the first worker works")
            yield first, second
        finally:
            second.kill()
    finally:
        first.kill()


HOUR = 3600
AHEAD, BEHIND = ("--skew", f"{HOUR}"), ("--skew", f"-{HOUR}")
PAST_GUARD = ("--stop-past-guard",)


def stopped_and_woken(scene: Scene, workers: tuple[Worker, Worker]) -> tuple[int, int]:
    """The first worker is stopped for twice the lease, and the second takes over; the moments of the stop and of the waking."""
    first, second = workers
    first.stop()
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
    return stopped, woken


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param(((), ()), id="clocks agree"),
        pytest.param((BEHIND, AHEAD), id="the waiting one's clock is two hours ahead"),
        pytest.param((AHEAD, BEHIND), id="the waiting one's clock is two hours behind"),
    ],
    indirect=True,
)
@pytest.mark.slow
def test_a_leader_that_was_stopped_writes_nothing_after_it_wakes(scene: Scene, workers: tuple[Worker, Worker]) -> None:
    first, second = workers
    stopped, woken = stopped_and_woken(scene, workers)

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


@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param((PAST_GUARD, ()), id="stopped with a write past the guard")], indirect=True)
def test_a_lease_is_no_fence_but_only_the_one_write_past_the_guard_comes_late(
    scene: Scene, workers: tuple[Worker, Worker]
) -> None:
    """Nothing waits between a guard and its socket: however many write at once, one at most is there when a process stops."""
    first, second = workers
    stopped_and_woken(scene, workers)
    late = [version for version in scene.written(first) if version > min(scene.written(second))]
    # None at all where the server gives the request up: its client is cancelled, and hangs up, right after it has sent it.
    assert len(late) <= 1
    assert "refused" in first.said(), "the others were refused"


@pytest.mark.parametrize("workers", [((), ())], ids=["two workers"], indirect=True)
def test_a_killed_leader_is_replaced_and_a_stopped_one_hands_over(scene: Scene, workers: tuple[Worker, Worker]) -> None:
    first, second = workers
    first.kill()
    until(lambda: bool(scene.written(second)), "the second worker takes over")
    assert max(scene.written(first)) < min(scene.written(second))
    second.send(signal.SIGTERM)
    assert second.wait() == 0
    assert scene.holder() == ""
