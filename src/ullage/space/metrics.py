"""How many quotas are kept, and what it costs to show that. What is used of which limit, the ledgers show."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ullage.kube.objects import find_condition
from ullage.space.api import WITHIN_QUOTA, ResourceQuota

_STATES = {"True": "within", "False": "passed"}


class QuotaMetrics:
    """One for each process; `seen` is to be told of every change of a quota."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.writes = Counter("ullage_space_quota_writes", "Statuses of quotas that were written", registry=registry)
        self._states: Tally[str] = Tally()
        registry.register(_Gauges(self._states))

    def seen(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if old is not None:
            self._states[state_of(old)] -= 1
        if new is not None:
            self._states[state_of(new)] += 1


def state_of(quota: ResourceQuota) -> str:
    """within, passed or unknown."""
    found = find_condition(quota.status.conditions, WITHIN_QUOTA)
    return _STATES.get(found.status, "unknown") if found is not None else "unknown"


class _Gauges(Collector):
    def __init__(self, states: Mapping[str, int]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        count = GaugeMetricFamily("ullage_space_quotas", "Quotas by whether a limit is passed", labels=["state"])
        for state, number in sorted(self._states.items()):
            count.add_metric([state], number)
        yield count
