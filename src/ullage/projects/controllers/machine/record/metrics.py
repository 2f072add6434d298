"""Machines that count without a stamp, in numbers: clusters where there are any have somebody who takes stamps off."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ullage.kube.cache.cache import Cache
from ullage.projects.api.records import MachineRecord


class RecordCollector(Collector):
    """What the records say, when somebody asks. Clusters without any are left out."""

    def __init__(self, records: Cache[MachineRecord]) -> None:
        self._records = records

    def collect(self) -> Iterator[Metric]:
        unstamped = GaugeMetricFamily(
            "ullage_project_machines_unstamped",
            "Machines of a cluster that count without a stamp that can be believed",
            labels=["cluster"],
        )
        beyond = GaugeMetricFamily(
            "ullage_project_machines_not_remembered",
            "Machines of a cluster beyond the number that is remembered",
            labels=["cluster"],
        )
        for one in sorted(self._records.items(), key=lambda record: record.metadata.name):
            if one.status.unstamped:
                unstamped.add_metric([one.metadata.name], one.status.unstamped)
            if one.status.not_remembered:
                beyond.add_metric([one.metadata.name], one.status.not_remembered)
        yield unstamped
        yield beyond
