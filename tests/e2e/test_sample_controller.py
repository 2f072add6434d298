"""A controller of sixty lines, as a process of its own, does its work on any control plane, also after it was killed."""

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
from .kinds import gauge

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


class Sample:
    """`python -m tests.e2e.sample_controller`, stopped and started at will."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
        self.namespace = namespace
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.e2e.sample_controller", self.namespace]
        self.process = subprocess.Popen(command, cwd=ROOT, env=self.environ)

    def end(self, how: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process = None


@pytest.fixture
def sample(control_plane: ControlPlane, namespace: str) -> Iterator[Sample]:
    made = Sample(control_plane, namespace)
    made.start()
    yield made
    if made.process is not None:
        made.end(signal.SIGKILL)


@pytest.fixture
def gauges(namespace: str) -> str:
    return f"/apis/e2e.example.com/v1/namespaces/{namespace}/gauges"


@pytest.fixture
def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def eventually(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {what}"
        time.sleep(0.05)


def told(api: Api, maps: str, name: str) -> str | None:
    """The capacity that the gauge's ConfigMap tells."""
    answer = api.get(f"{maps}/{name}")
    return str(answer.obj["data"]["capacity"]) if answer.code == 200 else None


def level(api: Api, gauges: str, name: str) -> int | None:
    found: int | None = api.get(f"{gauges}/{name}").obj.get("status", {}).get("level")
    return found


@pytest.mark.usefixtures("sample")
def test_it_keeps_what_it_makes_as_it_should_be(api: Api, gauges: str, maps: str) -> None:
    api.create(gauges, gauge("a", capacity=5))
    eventually("the ConfigMap is made", lambda: told(api, maps, "a") == "5")
    eventually("the status says so", lambda: level(api, gauges, "a") == 5)
    api.merge(f"{gauges}/a", {"spec": {"capacity": 6}})
    eventually("the ConfigMap follows", lambda: told(api, maps, "a") == "6")
    eventually("the status follows", lambda: level(api, gauges, "a") == 6)
    first = api.get(f"{maps}/a").obj["metadata"]["uid"]
    api.delete(f"{maps}/a")
    eventually("a ConfigMap that was deleted is made again", lambda: told(api, maps, "a") == "6")
    assert api.get(f"{maps}/a").obj["metadata"]["uid"] != first
    api.merge(f"{maps}/a", {"data": {"capacity": "wrong"}})
    eventually("a ConfigMap that was changed is put right", lambda: told(api, maps, "a") == "6")
    api.delete(f"{gauges}/a")
    eventually("the ConfigMap goes with its owner", lambda: told(api, maps, "a") is None)


def test_what_happened_while_it_was_away_is_made_up_for(api: Api, sample: Sample, gauges: str, maps: str) -> None:
    for name in ("changed", "gone"):
        api.create(gauges, gauge(name, capacity=1))
    for name in ("changed", "gone"):
        eventually("it works", lambda name=name: told(api, maps, name) == "1")  # type: ignore[misc]  # a default binds it
    sample.end(signal.SIGKILL)
    api.merge(f"{gauges}/changed", {"spec": {"capacity": 2}})
    api.delete(f"{gauges}/gone")
    api.create(gauges, gauge("new", capacity=3))
    sample.start()
    eventually("what was changed is changed", lambda: told(api, maps, "changed") == "2")
    eventually("what was made is made", lambda: told(api, maps, "new") == "3")
    eventually("what is gone is gone", lambda: told(api, maps, "gone") is None)


def test_it_goes_quietly_when_it_is_told_to(api: Api, sample: Sample, gauges: str, maps: str) -> None:
    api.create(gauges, gauge("a", capacity=5))
    eventually("it works", lambda: told(api, maps, "a") == "5")
    assert sample.end(signal.SIGTERM) == 0
