"""What becomes of a pod, and what its status says then."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.standalone.world.builders import container, pod
from ullage.kube.builtin.core import Pod
from ullage.standalone.world.controllers.pod.rules import (
    Ignore,
    Outcome,
    PodPlan,
    Remove,
    Run,
    Schedule,
    Start,
    Unschedulable,
    finished,
    plan_pod,
    running,
    unschedulable,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UNBOUND = Unschedulable("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.")


@pytest.mark.parametrize(
    ("found", "bound", "plan"),
    [
        pytest.param(pod(node=""), {}, Schedule(), id="a new one is placed"),
        pytest.param(pod(node=""), {"data": True}, Schedule(), id="one whose claims are bound is placed"),
        pytest.param(pod(node=""), {"data": True, "logs": False}, UNBOUND, id="one claim that is not bound holds it"),
        pytest.param(
            pod(node=""),
            {"data": None},
            Unschedulable('0/1 nodes are available: persistentvolumeclaim "data" not found.'),
            id="a claim that is not there holds it, by name",
        ),
        pytest.param(pod(), {"data": False}, UNBOUND, id="one that chose our node waits too"),
        pytest.param(pod(), {}, Start(), id="one that is placed starts"),
        pytest.param(pod(phase="Running"), {}, Ignore(), id="one that runs, runs"),
        pytest.param(pod(phase="Running", of_job=True), {}, Run(), id="one of a job does its work"),
        pytest.param(pod(phase="Running", restart_policy="Never"), {}, Ignore(), id="one of nobody's job just runs"),
        pytest.param(pod(phase="Succeeded", of_job=True), {}, Ignore(), id="one that is over is over"),
        pytest.param(pod(going=True, phase="Running"), {}, Remove(), id="one that is to go, goes"),
        pytest.param(pod(going=True, node=""), {}, Ignore(), id="one without a node is the server's to remove"),
        pytest.param(pod(node="elsewhere", going=True), {}, Ignore(), id="one on another node is not ours"),
        pytest.param(pod(node="ullage-3"), {}, Start(), id="one on any of our nodes starts"),
        pytest.param(pod(node="", scheduler_name="mine"), {}, Ignore(), id="one with a scheduler of its own is not ours"),
        pytest.param(pod(node="", scheduling_gates=({"name": "g"},)), {}, Ignore(), id="one behind a gate waits"),
    ],
)
def test_what_becomes_of_a_pod(found: Pod, bound: dict[str, bool | None], plan: PodPlan) -> None:
    assert plan_pod(found, bound=bound) == plan


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_a_pod_that_is_held_says_why() -> None:
    (condition,) = unschedulable(pod(node=""), "no room", now=NOW)["conditions"]
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
