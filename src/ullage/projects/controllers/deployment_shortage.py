"""Tells the users of a cluster which MachineDeployments have fewer machines than they want for longer than a moment: an Event
on each, and a metric, where the metrics of the seed are not for them to see. Keys are deployments.

A refusal is told by the seed when it refuses. This one tells what lasts, also when nobody asks for a machine any more, or the
seed cannot write here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.objects import is_deleting
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MachineDeployment

# How many machines a MachineDeployment lacks, and what its owner is told.


def lacks(deployment: MachineDeployment) -> int:
    """Machines that are wanted and were not made. None while nothing is done about it, or was looked at since it changed."""
    meta, spec, status = deployment.metadata, deployment.spec, deployment.status
    if is_deleting(meta) or spec.paused or status.observed_generation < meta.generation:
        return 0
    wanted = 1 if spec.replicas is None else spec.replicas
    return max(0, wanted - status.replicas)


def note(deployment: MachineDeployment, *, lacking: int) -> str:
    meta, replicas = deployment.metadata, deployment.spec.replicas
    wanted = 1 if replicas is None else replicas
    return (
        f"{lacking} of {wanted} machines were not made for more than a minute. Where the project's quota is"
        f" the reason, Events MachineRefused say so: kubectl describe machinedeployment -n {meta.namespace} {meta.name}. Then"
        " scale down here or in another cluster of the project, or have the quota raised"
    )


NAME: Final = "machine-shortage"
WATCHES: Final[tuple[Kind[Any], ...]] = (MACHINE_DEPLOYMENTS,)
AFTER: Final = 60.0  # seconds: machine-controller makes them one after the other
MOST_SHOWN: Final = 1000  # deployments that the metric has a line for
MISSING: Final = Reason("MachinesMissing", type="Warning")


class MachineShortages:
    """The controller."""

    def __init__(
        self,
        deployments: Cache[MachineDeployment],
        *,
        recorder: EventRecorder,
        clock: Clock,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._deployments = deployments
        self._recorder = recorder
        self._clock = clock
        self._since: dict[Key, float] = {}  # when one was first seen to lack some
        self._told: set[Key] = set()
        (registry or CollectorRegistry()).register(_Shortages(deployments))

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        source = Source(self._deployments, lambda one: (key_of(one),), when=_otherwise)
        return Controller(NAME, [source], self.reconcile, clock=self._clock, metrics=metrics)

    async def reconcile(self, key: Key) -> Requeue | None:
        found = self._deployments.get(key)
        lacking = 0 if found is None else lacks(found)
        if found is None or not lacking:
            self._since.pop(key, None)
            self._told.discard(key)
            return None
        now = self._clock.monotonic()
        wait = self._since.setdefault(key, now) + AFTER - now
        if wait > 0:
            return Requeue(wait)
        if key not in self._told:
            self._told.add(key)
            self._recorder.record(MACHINE_DEPLOYMENTS, found, MISSING, note=note(found, lacking=lacking))
        return None


class _Shortages(Collector):
    def __init__(self, deployments: Cache[MachineDeployment]) -> None:
        self._deployments = deployments

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "ullage_machine_deployment_missing",
            "Machines that a MachineDeployment wants and that were not made",
            labels=["namespace", "name"],
        )
        lacking = ((key_of(one), number) for one in self._deployments.items() if (number := lacks(one)))
        for key, number in sorted(lacking)[:MOST_SHOWN]:
            family.add_metric([key.namespace, key.name], number)
        yield family


def _otherwise(old: MachineDeployment | None, new: MachineDeployment | None) -> bool:
    return old is None or new is None or lacks(old) != lacks(new)
