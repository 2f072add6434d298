"""How many pods a job has, and what it says of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.standalone.world.builders import GOING, pod
from ullage.kube.builtin.batch import Job, JobSpec, JobStatus
from ullage.kube.builtin.core import Pod
from ullage.kube.kinds import Meta
from ullage.standalone.world.controllers.job_rules import JobPlan, plan_job, pod_for, pod_name

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
THEN = "2026-01-01T00:00:00Z"


def job(*, status: JobStatus | None = None, going: bool = False, **spec: Any) -> Job:
    meta = Meta(name="copy", namespace="default", uid="u", deletion_timestamp=GOING if going else None)
    template = {"metadata": {"labels": {"job-name": "copy"}}, "spec": {"restartPolicy": "Never"}}
    wanted = {"completions": 1, "template": template, **spec}
    return Job(metadata=meta, spec=JobSpec(**wanted), status=status or JobStatus())


def attempt(number: int, phase: str = "Running", *, ready: bool = True, going: bool = False) -> Pod:
    return pod(name=pod_name(job(), number), phase=phase, of_job=True, ready=ready and phase == "Running", going=going)


def planned(found: Job, *pods: Pod) -> JobPlan:
    plan = plan_job(found, pods, now=NOW)
    assert plan is not None
    return plan


def types(plan: JobPlan) -> list[str]:
    return [str(one["type"]) for one in plan.status.conditions]


@pytest.mark.parametrize(
    ("spec", "pods", "create"),
    [
        pytest.param({}, [], [0], id="the first"),
        pytest.param({}, [attempt(0)], [], id="one is enough"),
        pytest.param({}, [attempt(0, "Failed")], [1], id="another try"),
        pytest.param({"parallelism": 2, "completions": 3}, [], [0, 1], id="two at once"),
        pytest.param({"parallelism": 2, "completions": 3}, [attempt(0, "Succeeded"), attempt(1)], [2], id="the third"),
        pytest.param(
            {"parallelism": 2, "completions": 3},
            [attempt(0, "Succeeded"), attempt(1, "Succeeded")],
            [2],
            id="no more than are needed",
        ),
        pytest.param({}, [attempt(0, going=True)], [1], id="one that goes does not count"),
        pytest.param({"parallelism": 2, "completions": 2}, [attempt(1)], [2], id="a name that is taken is not used twice"),
        pytest.param(
            {"completions": None, "parallelism": 2},
            [attempt(0, "Succeeded"), attempt(1)],
            [],
            id="a shared queue that is empty",
        ),
        pytest.param({"suspend": True}, [], [], id="none while it is suspended"),
    ],
)
def test_which_pods_are_made(spec: dict[str, Any], pods: list[Pod], create: list[int]) -> None:
    assert planned(job(**spec), *pods).create == tuple(pod_name(job(), number) for number in create)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(job(going=True), id="it is going"),
        pytest.param(job(status=JobStatus(conditions=({"type": "Complete", "status": "True"},))), id="it is complete"),
        pytest.param(job(status=JobStatus(conditions=({"type": "Failed", "status": "True"},))), id="it has failed"),
        pytest.param(job(managed_by="somebody.example.com/else"), id="somebody else does it"),
        pytest.param(job(completion_mode="Indexed"), id="it counts by index"),
    ],
)
def test_what_is_left_alone(found: Job) -> None:
    assert plan_job(found, [attempt(0)], now=NOW) is None


def test_a_job_that_runs_says_how_many() -> None:
    status = planned(job(parallelism=2, completions=2), attempt(0), attempt(1, ready=False)).status
    assert (status.active, status.ready, status.succeeded, status.start_time) == (2, 1, 0, "2026-01-02T03:04:05Z")
    assert planned(job(status=JobStatus(start_time=THEN)), attempt(0)).status.start_time == THEN


def test_a_job_that_is_complete_says_so_as_clusters_do() -> None:
    plan = planned(job(status=JobStatus(start_time=THEN, active=1)), attempt(0, "Succeeded"))
    assert types(plan) == ["SuccessCriteriaMet", "Complete"]
    assert {one["reason"] for one in plan.status.conditions} == {"CompletionsReached"}
    status = plan.status
    assert (status.succeeded, status.active, status.completion_time) == (1, 0, "2026-01-02T03:04:05Z")


def test_a_job_that_failed_too_often_says_so_once_its_pods_are_gone() -> None:
    found = job(backoff_limit=0, parallelism=2, completions=2)
    first = planned(found, attempt(0, "Failed"), attempt(1))
    assert (types(first), [one.metadata.name for one in first.delete]) == (["FailureTarget"], [pod_name(found, 1)])
    again = job(backoff_limit=0, status=JobStatus(failed=1, conditions=first.status.conditions))
    second = plan_job(again, [attempt(0, "Failed")], now=datetime(2027, 1, 1, tzinfo=UTC))
    assert second is not None
    assert types(second) == ["FailureTarget", "Failed"]
    assert second.status.conditions[0] == first.status.conditions[0], "said before: its time stays"
    assert second.status.completion_time is None


def test_a_failure_that_was_written_down_counts_after_its_pod_is_gone() -> None:
    assert types(planned(job(backoff_limit=0, status=JobStatus(failed=1)))) == ["FailureTarget", "Failed"]


def test_a_suspended_job_loses_its_pods_and_its_start() -> None:
    plan = planned(job(suspend=True, status=JobStatus(start_time=THEN)), attempt(0))
    assert (types(plan), len(plan.delete), plan.status.start_time) == (["Suspended"], 1, None)
    resumed = planned(job(status=plan.status))
    assert (types(resumed), len(resumed.create)) == ([], 1)


def test_the_pod_is_the_template_with_an_owner() -> None:
    made = pod_for(job(), "copy-x")
    assert made["metadata"]["labels"] == {"job-name": "copy"}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner.kind, owner.uid, owner.controller) == ("Job", "u", True)
    assert made["spec"] == {"restartPolicy": "Never"}


def test_names_of_pods_differ_by_attempt_and_by_job_and_fit() -> None:
    long = Job(metadata=Meta(name="x" * 63, uid="v"))
    names = {pod_name(found, number) for found in (job(), long) for number in range(20)}
    assert len(names) == 40
    assert max(len(name) for name in names) == 63
