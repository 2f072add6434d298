"""In which namespaces more runs than their share. What is used of which share, the ledgers show."""

from __future__ import annotations

from collections.abc import Iterator, Set

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ullage.headroom.namespaces import EXCEEDED, EXCEEDS, HEADROOM_LABEL, ON
from ullage.kube.kinds import Object


class ShareMetrics:
    """One for each process; `seen` is to be told of every change of a Namespace."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.changes = Counter(
            "ullage_headroom_exceeds_changes",
            "Times that a namespace came to run more than its share, or to fit it again",
            labelnames=["to"],
            registry=registry,
        )
        self._divided: set[str] = set()
        self._exceeded: set[str] = set()
        registry.register(_Gauges(self._divided, self._exceeded))

    def seen(self, old: Object | None, new: Object | None) -> None:
        if old is not None:
            self._divided.discard(old.metadata.name)
            self._exceeded.discard(old.metadata.name)
        if new is not None and new.metadata.labels.get(HEADROOM_LABEL) == ON:
            self._divided.add(new.metadata.name)
            if new.metadata.annotations.get(EXCEEDS) == EXCEEDED:
                self._exceeded.add(new.metadata.name)


class _Gauges(Collector):
    def __init__(self, divided: Set[str], exceeded: Set[str]) -> None:
        self._divided = divided
        self._exceeded = exceeded

    def collect(self) -> Iterator[Metric]:
        count = GaugeMetricFamily("ullage_headroom_namespaces", "Namespaces whose quota keeps something for maintenance")
        count.add_metric([], len(self._divided))
        yield count
        exceeded = GaugeMetricFamily(
            "ullage_headroom_exceeded", "1 for each namespace that runs more than its share", labels=["namespace"]
        )
        for namespace in sorted(self._exceeded):
            exceeded.add_metric([namespace], 1)
        yield exceeded
