"""Deployments and their like: nobody here makes pods for them, and they say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from ullage.clock import Clock
from ullage.kube.builtin.apps import DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS
from ullage.kube.builtin.batch import CRON_JOBS
from ullage.kube.builtin.core import REPLICATION_CONTROLLERS, Workload, WorkloadStatus
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_status
from ullage.kube.controller.controller import Controller, own
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Kind
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Wiring
from ullage.times import timestamp

# Workloads that nobody here makes pods for: what their status says, so that whoever waits for one learns why.


REASON: Final = "NotSupported"


@dataclass(frozen=True, slots=True)
class UnsupportedCondition:
    """The condition of a kind that its users know, at the value that means trouble."""

    type: str
    status: Literal["True", "False"]


# A CronJob has no conditions: it gets the Event alone.
CONDITIONS: Final[Mapping[Kind[Workload], UnsupportedCondition | None]] = {
    DEPLOYMENTS: UnsupportedCondition("Progressing", "False"),
    REPLICA_SETS: UnsupportedCondition("ReplicaFailure", "True"),
    REPLICATION_CONTROLLERS: UnsupportedCondition("ReplicaFailure", "True"),
    DAEMON_SETS: UnsupportedCondition("Progressing", "False"),
    CRON_JOBS: None,
}


def message(kind: Kind[Workload]) -> str:
    return (
        f"No pods are made for a {kind.kind} on this machine, and none will be: "
        "it plays Pods, Jobs and StatefulSets only. On a cluster the rest works."
    )


def is_idle(found: Workload) -> bool:
    """Whether it asks for nothing, or for nothing any more."""
    return is_deleting(found.metadata) or found.spec.replicas == 0 or found.spec.suspend


def status_of(kind: Kind[Workload], found: Workload, *, now: datetime) -> WorkloadStatus:
    """The status with our condition in it, other people's left alone; as it was where there is nothing to say."""
    condition = CONDITIONS[kind]
    if condition is None or is_idle(found):
        return found.status
    said: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": REASON,
        "message": message(kind),
        "lastTransitionTime": timestamp(now),
    }
    old = next((one for one in found.status.conditions if one.get("type") == condition.type), None)
    if old is not None and all(old.get(key) == said[key] for key in ("status", "reason", "message")):
        conditions = found.status.conditions
    else:
        conditions = (*(one for one in found.status.conditions if one is not old), said)
    return WorkloadStatus(observed_generation=found.metadata.generation, conditions=conditions)


NOT_SUPPORTED = Reason(REASON, action="Reconcile", type="Warning")


class UnsupportedController:
    """One kind of workload."""

    def __init__(
        self, client: Client, recorder: Recorder, *, clock: Clock, kind: Kind[Workload], workloads: Cache[Workload]
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._kind = kind
        self._workloads = workloads

    async def reconcile(self, key: Key) -> None:
        found = self._workloads.get(key)
        if found is None or is_idle(found):
            return
        status = status_of(self._kind, found, now=self._clock.now())
        await patch_status(self._client, self._kind, found, old=found.status, new=status)
        if status.conditions != found.status.conditions or CONDITIONS[self._kind] is None:
            self._recorder.record(self._kind, found, NOT_SUPPORTED, note=message(self._kind))


def unsupported_controllers(wiring: Wiring, recorder: Recorder) -> list[Controller[Key]]:
    made = []
    for kind in CONDITIONS:
        cache = wiring.cache(kind)
        one = UnsupportedController(wiring.client, recorder, clock=wiring.clock, kind=kind, workloads=cache)
        made.append(Controller(kind.plural, [own(cache)], one.reconcile, metrics=wiring.metrics))
    return made
