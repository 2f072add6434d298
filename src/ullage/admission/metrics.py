"""What the admission server tells Prometheus. Labels name hooks, results and reasons, never objects or tenants."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The meters of one server, in a registry of its own unless another is given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.reviews = Counter(
            "ullage_admission_reviews",
            "Reviews by how they ended: allowed, refused, again (try later), throttled (a cluster asks for too much), error",
            ["hook", "result"],
            registry=self.registry,
        )
        self.denied = Counter("ullage_admission_denied", "Refusals by reason", ["hook", "reason"], registry=self.registry)
        self.seconds = Histogram(
            "ullage_admission_duration_seconds", "How long a review took", ["hook"], buckets=BUCKETS, registry=self.registry
        )
        self.running = Gauge("ullage_admission_running", "Reviews under way", registry=self.registry)
        self.arriving = Gauge(
            "ullage_webhook_arriving",
            "1 while the API server calls this webhook, 0 when it does not, NaN before the first self-test",
            registry=self.registry,
        )
        self.arriving.set(float("nan"))
        self.selftests = Counter("ullage_webhook_selftests", "Self-tests by result", ["result"], registry=self.registry)
        self.restored = Counter(
            "ullage_webhook_restored",
            "How often hooks were put back that somebody took out of another cluster, or changed there",
            registry=self.registry,
        )
        self.expires = Gauge(
            "ullage_webhook_certificate_expires_timestamp_seconds", "End of the certificate in use", registry=self.registry
        )
