"""What the ledger tells Prometheus. Labels name results, never tenants: their number does not grow with the cluster."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The meters of one process, in a registry of its own unless another is given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.decisions = Counter(
            "ullage_ledger_decisions",
            "Answers: allowed, refused, unlimited (there is no ledger), again (budget spent or API away), error",
            ["result"],
            registry=self.registry,
        )
        self.decision_seconds = Histogram(
            "ullage_ledger_decision_seconds",
            "From the question to the answer",
            ["result"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.batch = Histogram("ullage_ledger_batch_size", "Decisions in one write", buckets=BATCHES, registry=self.registry)
        self.writes = Counter(
            "ullage_ledger_writes",
            "Writes by how they ended: written, conflict, lost (no answer came), failed",
            ["result"],
            registry=self.registry,
        )
        self.write_seconds = Histogram(
            "ullage_ledger_write_seconds", "How long the API took for a write", buckets=SECONDS, registry=self.registry
        )
        self.written_bytes = Counter(
            "ullage_ledger_written_bytes", "Bytes of the ledgers that were written", registry=self.registry
        )
        self.reads = Counter("ullage_ledger_reads", "Ledgers that were read from the API", registry=self.registry)
        self.folds = Counter(
            "ullage_ledger_folds", "Writes by the background fold, for lack of a booking", registry=self.registry
        )
        self.live_reads = Counter(
            "ullage_ledger_live_reads", "Reads of objects whose attempts are past expiry", registry=self.registry
        )
