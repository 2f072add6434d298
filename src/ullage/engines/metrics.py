"""How many snapshots there are in which state, and what polling engines costs. No label names a snapshot or a volume."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ullage.engines.api import Snapshot
from ullage.engines.model import blocked_before, has_failed

_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class Metrics:
    """One for each process; `seen` is to be told of every change of a snapshot."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.polls = Counter("ullage_engine_polls", "Looks at engines by how they ended", ["result"], registry=registry)
        self.poll_seconds = Histogram(
            "ullage_engine_poll_seconds", "How long a look at an engine took", buckets=_BUCKETS, registry=registry
        )
        self.operation_seconds = Histogram(
            "ullage_engine_operation_seconds",
            "How long calls to engines took, by how they ended; polls aside",
            ["operation", "outcome"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.objects = Counter(
            "ullage_engine_snapshot_objects", "Snapshot objects made for, or removed with, entries", ["done"], registry=registry
        )
        self._states: Tally[str] = Tally()
        registry.register(_Gauges(self._states))

    def operated(self, operation: str, outcome: str, seconds: float) -> None:
        self.operation_seconds.labels(operation, outcome).observe(seconds)

    def seen(self, old: Snapshot | None, new: Snapshot | None) -> None:
        if old is not None:
            self._states[state_of(old)] -= 1
        if new is not None:
            self._states[state_of(new)] += 1


def state_of(snapshot: Snapshot) -> str:
    """One word for people and gauges: removed, deleting, failed, ready, error, creating."""
    status = snapshot.status
    if snapshot.metadata.deletion_timestamp is not None:
        return "removed" if blocked_before(status) else "deleting"
    if has_failed(status):
        return "failed"
    if status.ready_to_use is True:
        return "ready"
    return "error" if status.error else "creating"


class _Gauges(Collector):
    def __init__(self, states: Mapping[str, int]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        count = GaugeMetricFamily("ullage_engine_snapshots", "Snapshots inside engines by state", labels=["state"])
        for state, number in sorted(self._states.items()):
            count.add_metric([state], number)
        yield count
