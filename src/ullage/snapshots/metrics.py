"""How long snapshots take, how many there are in which state, and how old the oldest is that is not ready. No label has a
snapshot's name."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ullage.clock import Clock
from ullage.snapshots.model import Snapshot, State
from ullage.times import read_time

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)


class Metrics:
    """One for each process; `seen` is to be told of every change of a snapshot."""

    def __init__(self, registry: CollectorRegistry | None = None, *, clock: Clock) -> None:
        registry = registry or CollectorRegistry()

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"ullage_snapshot_{name}_seconds", text, ["driver"], registry=registry, buckets=_BUCKETS)

        self._clock = clock
        self._cut = histogram("requested_to_cut", "From the request of a snapshot to the moment whose data it has")
        self._uploaded = histogram("cut_to_uploaded", "From the cut of a snapshot until it is ready to use")
        self._deleted = Histogram(
            "ullage_snapshot_requested_to_deleted_seconds",
            "From the request to delete a snapshot until it is gone",
            ["dialect"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._ready = histogram("requested_to_ready", "From the request of a snapshot until it is ready to use")
        self._states: dict[str, tuple[str, str, datetime | None]] = {}  # by uid: dialect, state, requested
        registry.register(_Gauges(lambda: self._states, clock))

    def moved(self, snapshot: Snapshot, new: State, *, driver: str) -> None:
        """A state was written: what took how long. The three are those that the seed asks for."""
        requested, now = read_time(snapshot.meta.creation_timestamp), self._clock.now()
        old = snapshot.state
        if requested is None or snapshot.imported_record or old.lost:  # an import was cut whenever it was; a lost one is back
            return
        if new.cut is not None and old.cut is None:
            self._cut.labels(driver).observe(_seconds(requested, new.cut))
        if new.ready and not old.ready:
            self._ready.labels(driver).observe(_seconds(requested, now))
            if new.cut is not None:
                self._uploaded.labels(driver).observe(_seconds(new.cut, now))

    def seen(self, dialect: str, old: Snapshot | None, new: Snapshot | None) -> None:
        if new is not None:
            self._states[new.meta.uid] = (dialect, state_of(new), read_time(new.meta.creation_timestamp))
        elif old is not None and self._states.pop(old.meta.uid, None) is not None:
            asked = read_time(old.meta.deletion_timestamp) if old.meta.deletion_timestamp else None
            if asked is not None:
                self._deleted.labels(dialect).observe(_seconds(asked, self._clock.now()))


def operation_meter(registry: CollectorRegistry) -> Callable[[str, str, str, float], None]:
    """For the calls to drivers: told driver, operation, outcome and seconds of each."""
    seconds = Histogram(
        "ullage_snapshot_operation_seconds",
        "How long calls to drivers took, by how they ended",
        ["driver", "operation", "outcome"],
        registry=registry,
        buckets=_BUCKETS,
    )
    return lambda driver, operation, outcome, took: seconds.labels(driver, operation, outcome).observe(took)


def state_of(snapshot: Snapshot) -> str:
    """One word for people and gauges: deleting, error, ready, uploading, creating."""
    state = snapshot.state
    if snapshot.meta.deletion_timestamp is not None:
        return "deleting"
    if state.problem is not None:
        return "error"
    return "ready" if state.ready else "uploading" if state.cut is not None else "creating"


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())


class _Gauges(Collector):
    def __init__(self, states: Callable[[], dict[str, tuple[str, str, datetime | None]]], clock: Clock) -> None:
        self._states = states
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        states = list(self._states().values())
        count = GaugeMetricFamily("ullage_snapshots", "Snapshots by state", labels=["dialect", "state"])
        for (dialect, state), number in sorted(Tally((one[0], one[1]) for one in states).items()):
            count.add_metric([dialect, state], number)
        yield count
        waiting = [moment for _, state, moment in states if state in {"creating", "uploading", "error"} and moment]
        age = _seconds(min(waiting), self._clock.now()) if waiting else 0.0
        yield GaugeMetricFamily("ullage_snapshot_oldest_unready_seconds", "Age of the oldest that is not ready", value=age)
