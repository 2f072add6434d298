"""A job: how many pods it should have now, and what its status says, written as the job controller of a cluster writes it.

Pods are named by the job's uid and the number of the attempt, so that an attempt that is begun twice is one pod.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ullage.kube.builtin.batch import JOBS, Job, JobStatus
from ullage.kube.builtin.core import Pod
from ullage.kube.objects import Json, is_deleting, owner_reference
from ullage.times import timestamp

CONTROLLER: Final = "kubernetes.io/job-controller"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: a name should not be a word
_NAME_ROOM: Final = 63 - 6  # of a pod's name for the job's: with what follows it stays a hostname

Condition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobPlan:
    status: JobStatus
    create: tuple[str, ...] = ()  # names of pods
    delete: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class _Count:
    active: tuple[Pod, ...]
    succeeded: int
    failed: int


def plan_job(job: Job, pods: Sequence[Pod], *, now: datetime) -> JobPlan | None:
    """None: it is over, or not ours to do. `pods` are those that it controls."""
    others = job.spec.managed_by not in ("", CONTROLLER)
    if job.is_over or is_deleting(job.metadata) or others or job.spec.completion_mode != "NonIndexed":
        return None
    count = _count(job, pods)
    if job.spec.suspend:
        suspended = _condition("Suspended", "JobSuspended", "Job suspended", now=now)
        return JobPlan(_status(job, count, conditions=(suspended,)), delete=count.active)
    started = job.status.start_time or timestamp(now)
    if count.failed > job.spec.backoff_limit:
        return _failed(job, count, started=started, now=now)
    if _is_complete(job, count):
        return _completed(job, count, started=started, now=now)
    resumed = tuple(one for one in job.status.conditions if one.get("type") != "Suspended")
    names = tuple(_new_names(job, pods, count))
    return JobPlan(_status(job, count, started=started, conditions=resumed), create=names)


def _count(job: Job, pods: Sequence[Pod]) -> _Count:
    """A pod that was deleted after it ended still counts, as far as it was written down."""
    ended = [pod.status.phase for pod in pods]
    return _Count(
        tuple(pod for pod in pods if not pod.is_over and not is_deleting(pod.metadata)),
        max(job.status.succeeded, ended.count("Succeeded")),
        max(job.status.failed, ended.count("Failed")),
    )


def _is_complete(job: Job, count: _Count) -> bool:
    if job.spec.completions is None:  # pods that share a queue: one that succeeds says that it is empty
        return count.succeeded > 0 and not count.active
    return count.succeeded >= job.spec.completions


def _new_names(job: Job, pods: Sequence[Pod], count: _Count) -> Iterator[str]:
    left = job.spec.parallelism
    if job.spec.completions is not None:
        left = min(left, job.spec.completions - count.succeeded)
    elif count.succeeded:
        left = 0
    taken = {pod.metadata.name for pod in pods}
    attempt = count.succeeded + count.failed + len(count.active)
    for _ in range(left - len(count.active)):
        while (name := pod_name(job, attempt)) in taken:
            attempt += 1
        taken.add(name)
        yield name


def _completed(job: Job, count: _Count, *, started: str, now: datetime) -> JobPlan:
    if count.active:  # more than were needed: they go first, a job that is over has none
        return JobPlan(_status(job, count, started=started), delete=count.active)
    told = ("CompletionsReached", "Reached expected number of succeeded pods")
    conditions = tuple(_condition(type, *told, now=now) for type in ("SuccessCriteriaMet", "Complete"))
    return JobPlan(_status(job, count, started=started, completed=timestamp(now), conditions=conditions))


def _failed(job: Job, count: _Count, *, started: str, now: datetime) -> JobPlan:
    told = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    wanted = ("FailureTarget",) if count.active else ("FailureTarget", "Failed")
    kept = {str(one.get("type")): one for one in job.status.conditions}
    conditions = tuple(kept.get(type) or _condition(type, *told, now=now) for type in wanted)
    return JobPlan(_status(job, count, started=started, conditions=conditions), delete=count.active)


def _status(
    job: Job, count: _Count, *, started: str | None = None, completed: str | None = None, conditions: tuple[Condition, ...] = ()
) -> JobStatus:
    """A condition that is said again keeps its times: nothing has happened."""
    said = {one.get("type"): one for one in job.status.conditions}
    kept = tuple(said.get(one.get("type")) or one for one in conditions)
    return JobStatus(
        active=len(count.active),
        ready=sum(pod.is_ready for pod in count.active),
        succeeded=count.succeeded,
        failed=count.failed,
        start_time=started,
        completion_time=completed,
        conditions=kept,
    )


def _condition(type: str, reason: str, message: str, *, now: datetime) -> Condition:
    moment = timestamp(now)
    times = {"lastProbeTime": moment, "lastTransitionTime": moment}
    return {"type": type, "status": "True", **times, "reason": reason, "message": message}


def pod_name(job: Job, attempt: int) -> str:
    digest = hashlib.sha256(f"{job.metadata.uid}/{attempt}".encode()).digest()
    return f"{job.metadata.name[:_NAME_ROOM]}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:5])}"


def pod_for(job: Job, name: str) -> Json:
    """The pod of one attempt, from the job's template."""
    meta = job.spec.template.get("metadata") or {}
    owner = owner_reference(JOBS, job.metadata, controller=True)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": meta.get("labels") or {},
            "annotations": meta.get("annotations") or {},
            "ownerReferences": [owner],
        },
        "spec": job.spec.template.get("spec") or {},
    }
