"""What becomes of a pod, and what its status says then."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ullage.clock import SystemClock
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PODS, HostPathVolumeSource, Pod
from ullage.kube.cache.indexer import Key
from ullage.standalone.world.claims import Storage
from ullage.standalone.world.copying import CopyFailed
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.pods import Kubelet
from ullage.standalone.world.rules.pods import (
    Finish,
    Hold,
    Leave,
    Outcome,
    Perform,
    Place,
    PodPlan,
    Start,
    finished,
    held,
    plan_pod,
    running,
)
from ullage.standalone.world.runs import Runs

from .builders import OTHER_UID, UID, claim, container, pod, volume
from .fake_api import FakeApi, Told

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UNBOUND = Hold("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.")


@pytest.mark.parametrize(
    ("found", "bound", "plan"),
    [
        pytest.param(pod(node=""), {}, Place(), id="a new one is placed"),
        pytest.param(pod(node=""), {"data": True}, Place(), id="one whose claims are bound is placed"),
        pytest.param(pod(node=""), {"data": True, "logs": False}, UNBOUND, id="one claim that is not bound holds it"),
        pytest.param(
            pod(node=""),
            {"data": None},
            Hold('0/1 nodes are available: persistentvolumeclaim "data" not found.'),
            id="a claim that is not there holds it, by name",
        ),
        pytest.param(pod(), {"data": False}, UNBOUND, id="one that chose our node waits too"),
        pytest.param(pod(), {}, Start(), id="one that is placed starts"),
        pytest.param(pod(phase="Running"), {}, Leave(), id="one that runs, runs"),
        pytest.param(pod(phase="Running", of_job=True), {}, Perform(), id="one of a job does its work"),
        pytest.param(pod(phase="Running", restart_policy="Never"), {}, Leave(), id="one of nobody's job just runs"),
        pytest.param(pod(phase="Succeeded", of_job=True), {}, Leave(), id="one that is over is over"),
        pytest.param(pod(going=True, phase="Running"), {}, Finish(), id="one that is to go, goes"),
        pytest.param(pod(going=True, node=""), {}, Leave(), id="one without a node is the server's to remove"),
        pytest.param(pod(node="elsewhere", going=True), {}, Leave(), id="one on another node is not ours"),
        pytest.param(pod(node="", scheduler_name="mine"), {}, Leave(), id="one with a scheduler of its own is not ours"),
        pytest.param(pod(node="", scheduling_gates=({"name": "g"},)), {}, Leave(), id="one behind a gate waits"),
    ],
)
def test_what_becomes_of_a_pod(found: Pod, bound: dict[str, bool | None], plan: PodPlan) -> None:
    assert plan_pod(found, bound=bound) == plan


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_a_pod_that_is_held_says_why() -> None:
    (condition,) = held(pod(node=""), "no room", now=NOW)["conditions"]
    assert (condition["type"], condition["reason"], condition["message"]) == ("PodScheduled", "Unschedulable", "no room")


def test_a_pod_that_runs_is_ready_in_every_respect() -> None:
    status = running(pod(init_containers=(container("init", name="first"),)), now=NOW)
    assert (status["phase"], status["startTime"]) == ("Running", "2026-01-02T03:04:05Z")
    assert set(conditions(status).values()) == {"True"}
    assert (status["containerStatuses"][0]["ready"], status["initContainerStatuses"][0]["ready"]) == (True, True)
    assert status["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"


@pytest.mark.parametrize(
    ("outcomes", "phase", "reasons"),
    [
        pytest.param({"a": Outcome(), "b": Outcome()}, "Succeeded", ["Completed", "Completed"], id="all did well"),
        pytest.param({"a": Outcome(), "b": Outcome(1, "no")}, "Failed", ["Completed", "Error"], id="one failed"),
        pytest.param(
            {"a": Outcome(127, "what?"), "b": Outcome()}, "Failed", ["ContainerCannotRun", "Completed"], id="no such command"
        ),
    ],
)
def test_how_a_pod_ends(outcomes: dict[str, Outcome], phase: str, reasons: list[str]) -> None:
    status = finished(pod(container("x", name="a"), container("x", name="b"), of_job=True), outcomes, now=NOW)
    assert (status["phase"], conditions(status)["Ready"]) == (phase, "False")
    states = [one["state"]["terminated"] for one in status["containerStatuses"]]
    assert [state["reason"] for state in states] == reasons
    said = [outcome.message for outcome in outcomes.values() if outcome.message]
    assert [state["message"] for state in states if "message" in state] == said
    assert [status["message"]] == said if said else "message" not in status


# --- the work of a job's pod -----------------------------------------------------------------------------------------


async def outcomes_of(found: Pod, root: Path) -> dict[str, Outcome] | None:
    over: asyncio.Queue[Key] = asyncio.Queue()
    async with Runs() as runs, asyncio.timeout(20):
        runs.begin(found, lambda name: root / name, over=over.put_nowait)
        assert await over.get() == Key("default", "app")
        return runs.outcomes(found)


async def test_each_container_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "file").write_text("content")
    good = container("cp", "/src/file", "/src/copy", name="good", src="/src")
    bad = container("cp", "/src/none", "/src/copy", name="bad", src="/src")
    odd = container("mysqld", name="odd")
    found = await outcomes_of(pod(good, bad, odd, of_job=True), tmp_path)
    assert found is not None
    assert (tmp_path / "src" / "copy").read_text() == "content"
    assert {name: outcome.exit_code for name, outcome in found.items()} == {"good": 0, "bad": 1, "odd": 127}
    assert found["bad"].message == "/src/none: No such file or directory"


async def test_what_goes_before_must_succeed_first(tmp_path: Path) -> None:
    first = (container("true", name="one"), container("nonsense", name="two"))
    found = await outcomes_of(pod(container("true"), init_containers=first, of_job=True), tmp_path)
    assert found is not None
    assert {name: outcome.exit_code for name, outcome in found.items()} == {"one": 0, "two": 127}, "main was never begun"


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        pytest.param({"claimed_by": UID, "path": "{root}/pvc-x"}, Outcome(), id="a volume of ours"),
        pytest.param(
            {"claimed_by": OTHER_UID, "path": "{root}/pvc-x"},
            Outcome(1, "claim data: volume v belongs to another claim"),
            id="a volume that another claim has",
        ),
        pytest.param(
            {"claimed_by": UID, "path": "/etc"},
            Outcome(1, "claim data: hostPath /etc: not a volume below {root}"),
            id="the machine",
        ),
        pytest.param(
            {"claimed_by": UID, "path": ""}, Outcome(1, "claim data: its volume is no directory of this machine"), id="a disk"
        ),
    ],
)
async def test_only_the_claims_own_directory_is_copied_to(tmp_path: Path, found: dict[str, str], outcome: Outcome) -> None:
    (tmp_path / "pvc-x").mkdir()
    (tmp_path / "pvc-x" / "file").touch()
    api, woken, runs = FakeApi(), asyncio.Event(), Runs()
    api.put(CLAIMS, claim(bound=True, volume_name="v", phase="Bound"))
    source = HostPathVolumeSource(path=found["path"].format(root=tmp_path)) if found["path"] else None
    api.put(PERSISTENT_VOLUMES, volume("v", claimed_by=found["claimed_by"], phase="Bound", host_path=source))
    doing = pod(container("cp", "/data/file", "/data/copy", data="/data"), phase="Running", of_job=True, claims=("data",))
    api.put(PODS, doing)
    kubelet = Kubelet(
        api.client,
        Storage(api.wiring()),
        directories=Directories(tmp_path),
        recorder=Told().recorder,
        runs=runs,
        clock=SystemClock(),
    )
    kubelet.wake = lambda key: woken.set()
    async with runs, asyncio.timeout(20):
        await kubelet.reconcile(Key("default", "app"))
        await woken.wait()
        ended = runs.outcomes(doing)
    assert ended == {"main": Outcome(outcome.exit_code, outcome.message.format(root=tmp_path))}


async def test_a_volume_that_is_no_directory_fails_the_container(tmp_path: Path) -> None:
    def roots(name: str) -> Path:
        raise CopyFailed(f"volume {name}: only claims hold data here")

    over = asyncio.Event()
    found = pod(container("cp", "-a", "/tmp/.", "/tmp/x/", scratch="/tmp"), of_job=True)
    async with Runs() as runs, asyncio.timeout(20):
        runs.begin(found, roots, over=lambda key: over.set())
        await over.wait()
        assert runs.outcomes(found) == {"main": Outcome(1, "volume scratch: only claims hold data here")}


async def test_a_run_is_begun_once_and_a_new_pod_of_that_name_gets_its_own() -> None:
    over: asyncio.Queue[Key] = asyncio.Queue()
    first, second = (
        pod(container(*words), uid=uid, of_job=True) for uid, *words in ((OTHER_UID, "sleep", "inf"), ("new", "true"))
    )
    async with Runs() as runs, asyncio.timeout(20):
        for _ in range(2):
            runs.begin(first, lambda name: Path(), over=over.put_nowait)
        assert runs.outcomes(first) is None
        runs.begin(second, lambda name: Path(), over=over.put_nowait)
        await over.get()
        assert (runs.outcomes(first), runs.outcomes(second)) == (None, {"main": Outcome()})
        runs.end(Key("default", "app"))
        assert runs.outcomes(second) is None
