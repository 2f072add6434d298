"""What the API server tells Prometheus. Labels name routes and codes, never objects, tenants or users."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The meters of one server, in a registry of its own unless another is given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.requests = Counter(
            "ullage_api_requests", "Requests to routes by how they were answered", ["route", "code"], registry=self.registry
        )
        self.seconds = Histogram(
            "ullage_api_duration_seconds", "How long a request took", ["route"], buckets=BUCKETS, registry=self.registry
        )
        self.running = Gauge("ullage_api_running", "Requests to routes under way", registry=self.registry)
        self.expires = Gauge(
            "ullage_api_certificate_expires_timestamp_seconds", "End of the certificate in use", registry=self.registry
        )
