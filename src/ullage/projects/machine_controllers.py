"""The controllers of the Machines of user clusters, made of what a process of the seed shares."""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Wiring
from ullage.projects.charging import charged_clusters
from ullage.projects.controllers.machine.record import controller as record
from ullage.projects.controllers.machine.stamp import controller as stamp
from ullage.projects.keys import stamp_keys
from ullage.projects.presence import recorded_machines
from ullage.projects.settings import Settings
from ullage.projects.sizes.source import SizeSource

WATCHES: Final[tuple[Kind[Any], ...]] = tuple(dict.fromkeys((*stamp.WATCHES, *record.WATCHES)))
WRITES: Final = (*stamp.WRITES, *record.WRITES)
ELSEWHERE: Final[tuple[Kind[Any], ...]] = tuple(dict.fromkeys((*stamp.ELSEWHERE, *record.ELSEWHERE)))


def machine_controllers(wiring: Wiring, settings: Settings, *, sizes: SizeSource) -> list[Controller[Any]]:
    """To be made after the part `charging`. They write Events."""
    charged, keys, recorded = wiring.shared(charged_clusters), wiring.shared(stamp_keys), wiring.shared(recorded_machines)
    records = record.MachineRecords(
        wiring.client,
        wiring.clusters,
        record.RecordCaches(records=recorded.records, charged=charged),
        keys=keys,
        keep=settings.keep_vanished,
        clock=wiring.clock,
    )
    stamps = stamp.MachineStamps(
        wiring.clusters,
        charged,
        keys=keys,
        recorded=recorded,
        sizes=sizes,
        recorder=wiring.recorder("projects"),
        metrics=stamp.StampMetrics(wiring.metrics.registry),
        clock=wiring.clock,
    )
    return [records.controller(metrics=wiring.metrics), stamps.controller(metrics=wiring.metrics)]
