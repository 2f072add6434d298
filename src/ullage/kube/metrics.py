"""What the runtime tells Prometheus: one place for names, labels and buckets.

Depths, counts and ages are read when somebody scrapes, so an event costs no bookkeeping. Labels name controllers and kinds,
never objects: their number does not grow with the cluster. `cluster` is empty for our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

LATENCY_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
WORK_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


@dataclass(frozen=True, slots=True)
class QueueGauges:
    """What can be asked of a controller's queue at any time."""

    controller: str
    depth: Callable[[], int]
    waiting: Callable[[], int]
    running: Callable[[], int]


@dataclass(frozen=True, slots=True)
class CacheGauges:
    """What can be asked of a cache at any time. Caches of one kind in one cluster with different selectors show as one."""

    kind: str
    cluster: str  # empty: our own
    objects: Callable[[], int]
    age: Callable[[], float | None]  # seconds since the server was last heard; None: the kind is not served
    synced: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class ClusterGauges:
    """What can be asked of another cluster that we hold only so much of."""

    cluster: str
    held: Callable[[], int]  # bytes, of all of its caches
    limit: int
    current: Callable[[], bool]  # whether all that is watched there can be read


class Metrics:
    """The meters of one process, in a registry of its own unless another is given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.reconciles = Counter(
            "ullage_reconcile", "Runs of reconcile by how they ended", ["controller", "result"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            "ullage_reconcile_seconds", "How long a run took", ["controller"], buckets=WORK_BUCKETS, registry=self.registry
        )
        self.queue_latency = Histogram(
            "ullage_queue_latency_seconds",
            "How long a key was ready before a worker took it",
            ["controller"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.cache_events = Counter(
            "ullage_cache_events", "Changes that a watch brought", ["kind", "cluster"], registry=self.registry
        )
        self.cache_syncs = Counter(
            "ullage_cache_syncs",
            "Times that a kind was read whole: once, unless history was lost",
            ["kind", "cluster"],
            registry=self.registry,
        )
        self.cache_failures = Counter(
            "ullage_cache_failures",
            "Lists and watches that failed and were tried again",
            ["kind", "cluster"],
            registry=self.registry,
        )
        self.handler_errors = Counter(
            "ullage_cache_handler_errors", "Exceptions that a handler raised", ["kind", "cluster"], registry=self.registry
        )
        self._live = _Live()
        self.registry.register(self._live)

    def show_queue(self, gauges: QueueGauges) -> None:
        self._live.queues.append(gauges)

    def show_cache(self, gauges: CacheGauges) -> None:
        self._live.caches.append(gauges)

    def show_cluster(self, gauges: ClusterGauges) -> None:
        self._live.clusters.append(gauges)

    def forget(self, cluster: str) -> None:
        """A cluster is not followed any more, or is followed anew."""
        self._live.clusters = [one for one in self._live.clusters if one.cluster != cluster]
        kinds = {cache.kind for cache in self._live.caches if cache.cluster == cluster}
        self._live.caches = [cache for cache in self._live.caches if cache.cluster != cluster]
        for counter in (self.cache_events, self.cache_syncs, self.cache_failures, self.handler_errors):
            for kind in kinds:
                counter.remove(kind, cluster)


class _Live(Collector):
    def __init__(self) -> None:
        self.queues: list[QueueGauges] = []
        self.caches: list[CacheGauges] = []
        self.clusters: list[ClusterGauges] = []

    def describe(self) -> Iterator[Metric]:
        """Registering asks for the names: they are the same with nothing to show."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        yield from self._collect_queues()
        yield from self._collect_caches()
        yield from self._collect_clusters()

    def _collect_queues(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily("ullage_queue_depth", "Keys that are ready and not taken", labels=["controller"])
        waiting = GaugeMetricFamily("ullage_queue_waiting", "Keys that wait for a moment", labels=["controller"])
        running = GaugeMetricFamily("ullage_queue_running", "Keys that are worked on", labels=["controller"])
        for queue in self.queues:
            depth.add_metric([queue.controller], queue.depth())
            waiting.add_metric([queue.controller], queue.waiting())
            running.add_metric([queue.controller], queue.running())
        yield from (depth, waiting, running)

    def _collect_caches(self) -> Iterator[Metric]:
        labels = ["kind", "cluster"]
        objects = GaugeMetricFamily("ullage_cache_objects", "Objects held", labels=labels)
        synced = GaugeMetricFamily("ullage_cache_synced", "1 once everything was read", labels=labels)
        age = GaugeMetricFamily("ullage_cache_age_seconds", "Since the server was last heard of", labels=labels)
        found: dict[tuple[str, str], list[CacheGauges]] = {}
        for cache in self.caches:
            found.setdefault((cache.kind, cache.cluster), []).append(cache)
        for place, same in sorted(found.items()):
            objects.add_metric(place, sum(cache.objects() for cache in same))
            synced.add_metric(place, float(all(cache.synced() for cache in same)))
            ages = [seconds for cache in same if (seconds := cache.age()) is not None]
            if ages:
                age.add_metric(place, max(ages))
        yield from (objects, synced, age)

    def _collect_clusters(self) -> Iterator[Metric]:
        held = GaugeMetricFamily(
            "ullage_cluster_held_bytes", "What all objects held of another cluster take", labels=["cluster"]
        )
        limit = GaugeMetricFamily("ullage_cluster_held_limit_bytes", "What they may take", labels=["cluster"])
        current = GaugeMetricFamily(
            "ullage_cluster_current", "1 while all that is watched in another cluster can be read", labels=["cluster"]
        )
        for one in self.clusters:
            held.add_metric([one.cluster], one.held())
            limit.add_metric([one.cluster], one.limit)
            current.add_metric([one.cluster], float(one.current()))
        yield from (held, limit, current)
