"""What becomes of a pod where nothing really runs: it gets a node, runs when its claims are bound, ends if a job made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.kube.builtin.batch import JOBS
from ullage.kube.builtin.core import Container, Pod
from ullage.kube.objects import Json, controller_of, is_deleting
from ullage.standalone.world.nodes import is_played
from ullage.times import timestamp

SCHEDULER: Final = "default-scheduler"
CANNOT_RUN: Final = 127  # what a shell says of a command that it does not find
FAILED: Final = 1
_NOT_BEGUN: Final[Json] = {"waiting": {"reason": "PodInitializing"}}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a container ended. The message says why it failed."""

    exit_code: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Ignore:
    """Not ours, over, or as it should be."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Asked to go: there is nothing to stop, so it goes."""


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """Cannot be placed yet."""

    message: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """Onto one of our nodes."""


@dataclass(frozen=True, slots=True)
class Start:
    """Say that it runs."""


@dataclass(frozen=True, slots=True)
class Run:
    """It runs, and is to do what its containers say, to the end."""


PodPlan = Ignore | Remove | Unschedulable | Schedule | Start | Run


def plan_pod(pod: Pod, *, bound: Mapping[str, bool | None], nodes: int = 1) -> PodPlan:
    """`bound` tells of each claim that the pod names whether it is bound; None: there is no such claim. `nodes` is how many
    there are."""
    if pod.spec.node_name and not is_played(pod.spec.node_name):
        return Ignore()
    if is_deleting(pod.metadata):
        return Remove() if pod.spec.node_name else Ignore()  # without a node the API server does it
    if pod.is_over:
        return Ignore()
    if not pod.spec.node_name and (pod.spec.scheduler_name != SCHEDULER or pod.spec.scheduling_gates):
        return Ignore()
    if missing := sorted(name for name, state in bound.items() if state is None):
        return Unschedulable(f'0/{nodes} nodes are available: persistentvolumeclaim "{missing[0]}" not found.')
    if not all(bound.values()):
        return Unschedulable(f"0/{nodes} nodes are available: pod has unbound immediate PersistentVolumeClaims.")
    if not pod.spec.node_name:
        return Schedule()
    if pod.status.phase != "Running":
        return Start()
    return Run() if ends(pod) else Ignore()


def ends(pod: Pod) -> bool:
    """Whether it is to come to an end by itself: a job's pod does."""
    owner = controller_of(pod.metadata)
    of_job = owner is not None and owner.kind == JOBS.kind and owner.api_version.startswith(f"{JOBS.group}/")
    return of_job and pod.spec.restart_policy != "Always"


# --- statuses, as merge patches --------------------------------------------------------------------------------------


def unschedulable(pod: Pod, message: str, *, now: datetime) -> Json:
    changes = {"PodScheduled": ("False", "Unschedulable", message)}
    return {"phase": "Pending", "conditions": _conditions(pod, changes, now=now)}


def running(pod: Pod, *, now: datetime) -> Json:
    """Every container has begun; those that go before the others are done."""
    began = timestamp(now)
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": began, "finishedAt": began}}
    first = _NOT_BEGUN if ends(pod) else done
    begun = {"running": {"startedAt": began}}
    changes = dict.fromkeys(("PodScheduled", "Initialized", "ContainersReady", "Ready"), ("True", "", ""))
    return {
        "phase": "Running",
        "startTime": began,
        "conditions": _conditions(pod, changes, now=now),
        **_container_statuses("initContainerStatuses", pod.spec.init_containers, lambda one: first),
        **_container_statuses("containerStatuses", pod.spec.containers, lambda one: begun),
    }


def finished(pod: Pod, outcomes: Mapping[str, Outcome], *, now: datetime) -> Json:
    """Each container with how it ended. One that is missing in `outcomes` was never begun."""
    failures = [outcome for outcome in outcomes.values() if outcome.exit_code]
    succeeded = not failures
    changes = dict.fromkeys(("ContainersReady", "Ready"), ("False", "PodCompleted" if succeeded else "PodFailed", ""))
    began = pod.status.start_time or timestamp(now)

    def state(one: Container) -> Json:
        outcome = outcomes.get(one.name)
        return {"terminated": _terminated(outcome, began=began, now=now)} if outcome else _NOT_BEGUN

    return {
        "phase": "Succeeded" if succeeded else "Failed",
        **({} if succeeded else {"message": failures[0].message}),
        "conditions": _conditions(pod, changes, now=now),
        **_container_statuses("initContainerStatuses", pod.spec.init_containers, state),
        **_container_statuses("containerStatuses", pod.spec.containers, state),
    }


def _terminated(outcome: Outcome, *, began: str, now: datetime) -> Json:
    reasons = {0: "Completed", CANNOT_RUN: "ContainerCannotRun"}
    found = {
        "exitCode": outcome.exit_code,
        "reason": reasons.get(outcome.exit_code, "Error"),
        "startedAt": began,
        "finishedAt": timestamp(now),
    }
    return {**found, "message": outcome.message} if outcome.message else found


def _container_statuses(field: str, containers: Sequence[Container], state: Callable[[Container], Json]) -> Json:
    def status(one: Container, now: Json) -> Json:
        runs = "running" in now
        ready = runs or (field == "initContainerStatuses" and now.get("terminated", {}).get("exitCode") == 0)
        common = {"name": one.name, "image": one.image, "imageID": "", "restartCount": 0}
        return {**common, "ready": ready, "started": runs, "state": now}

    return {field: [status(one, state(one)) for one in containers]} if containers else {}


def _conditions(pod: Pod, changes: Mapping[str, tuple[str, str, str]], *, now: datetime) -> list[Json]:
    """The pod's conditions with some set; the time of one moves only when its status does."""
    before = {str(one.get("type")): dict(one) for one in pod.status.conditions}
    for kind, (status, reason, message) in changes.items():
        old = before.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        said = {"type": kind, "status": status, "reason": reason, "message": message}
        kept = {key: value for key, value in said.items() if value}
        before[kind] = {**kept, "lastProbeTime": None, "lastTransitionTime": since or timestamp(now)}
    return list(before.values())
