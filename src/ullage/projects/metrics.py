"""Quotas of projects in numbers, on the master: limits and usage, who uses more than he may, and what keeping that costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ullage.kube.cache.cache import Cache
from ullage.kube.objects import find_condition
from ullage.projects.api.quotas import WITHIN_QUOTA, ResourceQuota
from ullage.projects.quota import limits_of, readable_of
from ullage.quantity import Quantity

STATES: Final = {"True": "within", "False": "over"}
UNKNOWN: Final = "unknown"


class ProjectMetrics:
    """One for each process that leads a master."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry or CollectorRegistry()
        self.changes = Counter(
            "ullage_project_quota_changes",
            "Times that a project came to use more than its quota, or to fit it again",
            labelnames=["to"],
            registry=self._registry,
        )
        self.writes = Counter("ullage_project_quota_writes", "Statuses of quotas that were written", registry=self._registry)
        self.steps = Counter(
            "ullage_project_escrow_steps",
            "Records of what the seeds may have, and limits that were carried to them",
            labelnames=["step"],
            registry=self._registry,
        )

    def show(self, quotas: Cache[ResourceQuota]) -> None:
        """What the quotas say, when somebody asks."""
        self._registry.register(_Gauges(quotas))


class _Gauges(Collector):
    def __init__(self, quotas: Cache[ResourceQuota]) -> None:
        self._quotas = quotas

    def collect(self) -> Iterator[Metric]:
        quotas = sorted(self._quotas.items(), key=lambda one: one.metadata.name)
        yield _states(quotas)
        yield _amounts(
            "ullage_project_quota_limit",
            "What the machines of a project may take: cores or bytes",
            ((one.spec.subject.name, limits_of(one.spec.quota)) for one in quotas),
        )
        yield _amounts(
            "ullage_project_quota_used",
            "What the machines of a project take on all seeds: cores or bytes",
            ((one.spec.subject.name, readable_of(one.status.global_usage)) for one in quotas),
        )
        over = GaugeMetricFamily(
            "ullage_project_over_quota", "1 for each project that uses more than it may", labels=["project"]
        )
        for one in quotas:
            if _state(one) == STATES["False"]:
                over.add_metric([one.spec.subject.name], 1)
        yield over


def _states(quotas: Iterable[ResourceQuota]) -> Metric:
    found = dict.fromkeys((*STATES.values(), UNKNOWN), 0)
    for one in quotas:
        found[_state(one)] += 1
    family = GaugeMetricFamily("ullage_project_quotas", "Quotas of projects, by what their projects use", labels=["state"])
    for state, count in found.items():
        family.add_metric([state], count)
    return family


def _state(quota: ResourceQuota) -> str:
    found = find_condition(quota.status.conditions, WITHIN_QUOTA)
    return UNKNOWN if found is None else STATES.get(found.status, UNKNOWN)


def _amounts(name: str, text: str, found: Iterable[tuple[str, Mapping[str, Quantity]]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["project", "resource"])
    for project, amounts in found:
        for resource, amount in amounts.items():
            family.add_metric([project, resource], amount.nanos / 10**9)
    return family
