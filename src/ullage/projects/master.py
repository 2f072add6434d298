"""The controllers of the master as one list: what a process with that role runs."""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.slices import Wiring, Write
from ullage.projects import seeds
from ullage.projects.api.kkp import PROJECTS, SETTINGS
from ullage.projects.controllers import quota_copy as copy
from ullage.projects.controllers import quota_default as default
from ullage.projects.controllers import quota_escrow as escrow
from ullage.projects.controllers import quota_label as label
from ullage.projects.controllers import quota_status as status
from ullage.projects.escrow.divisions import DIVISIONS
from ullage.projects.metrics import ProjectMetrics
from ullage.projects.settings import Settings
from ullage.projects.subjects import quota_lookup

_PARTS: Final = (label, default, status, copy, escrow)
WATCHES: Final[tuple[Kind[Any], ...]] = tuple(
    dict.fromkeys((*seeds.WATCHES, *(kind for part in _PARTS for kind in part.WATCHES)))
)
WRITES: Final[tuple[Write, ...]] = tuple(write for part in _PARTS for write in part.WRITES)
ELSEWHERE: Final = seeds.ELSEWHERE


def make_controllers(wiring: Wiring, settings: Settings) -> list[Controller[Any]]:
    client, clock, lookup = wiring.client, wiring.clock, wiring.shared(quota_lookup)
    projects, recorder = wiring.cache(PROJECTS), wiring.recorder("projects")
    found = seeds.Seeds(wiring, namespace=settings.seed_namespace)
    metrics = ProjectMetrics(wiring.metrics.registry)
    caches = default.DefaultCaches(lookup=lookup, projects=projects, settings=wiring.cache(SETTINGS))
    defaults = default.DefaultLimits(caches)
    made: tuple[Any, ...] = (
        label.QuotaLabels(client, lookup, projects, clock=clock),
        default.DefaultQuotas(client, caches, recorder=recorder),
        status.QuotaStatuses(
            client,
            status.StatusCaches(lookup=lookup, projects=projects, seeds=found, defaults=defaults),
            problem=label.problems(projects),
            recorder=recorder,
            metrics=metrics,
            clock=clock,
        ),
        copy.QuotaCopies(client, lookup, found, defaults=defaults, recorder=recorder, clock=clock),
        *(
            escrow.QuotaEscrow(client, lookup, found, defaults=defaults, metrics=metrics, clock=clock, division=one)
            for one in DIVISIONS
        ),
    )
    return [one.controller(metrics=wiring.metrics) for one in made]
