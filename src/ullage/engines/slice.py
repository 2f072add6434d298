"""The slice as one value: Longhorn's kinds, the three controllers, and the hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES, KINDS, VOLUMES
from ullage.engines.client.interface import EngineClients
from ullage.engines.client.metered import MeteredEngines
from ullage.engines.controllers.engine import EngineMonitor
from ullage.engines.controllers.snapshot import SnapshotController
from ullage.engines.controllers.snapshot_rules import needs_attachment
from ullage.engines.controllers.volume import VolumeController
from ullage.engines.lookup import lookup_of
from ullage.engines.metrics import Metrics
from ullage.engines.policy import POLICY
from ullage.engines.settings import Settings
from ullage.engines.webhook import hooks as webhook
from ullage.kube.controller.controller import Controller
from ullage.kube.slices import Part, Slice, Wiring, Write

WRITES: Final = (
    Write(ENGINE_SNAPSHOTS, ("create", "delete")),
    Write(ENGINE_SNAPSHOTS, ("patch",), ("", "status")),
    Write(VOLUMES, ("patch",), ("", "status")),
    Write(ENGINES, ("patch",), ("status",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`engines` tells where engines are found; what has to be closed again it leaves with the wiring. Without it this process
    reaches none, and looks after nothing."""

    settings: Settings = field(default_factory=Settings)
    engines: Callable[[Wiring], EngineClients] | None = None


def engines(options: Options | None = None) -> Slice:
    """The kinds are Longhorn's: where it runs nothing is done about them, and nothing is asked of their definitions. With
    `manage` they are brought along, and what ties their objects together is guarded."""
    chosen = options or Options()
    if not chosen.settings.manage:
        return Slice(name="engines")
    return Slice(
        name="engines",
        kinds=KINDS,
        policies=(POLICY,),
        controllers=Part(make=lambda wiring: make_controllers(wiring, chosen), watches=KINDS, writes=WRITES, events=True),
        hooks=Part(make=webhook.make_hooks, watches=KINDS),
    )


def make_controllers(wiring: Wiring, options: Options) -> list[Controller[Any]]:
    if options.engines is None:
        return []
    lookup, metrics, settings = wiring.shared(lookup_of), Metrics(wiring.metrics.registry), options.settings
    found = MeteredEngines(wiring.shared(options.engines), metrics.operated, clock=wiring.clock)
    monitor = EngineMonitor(wiring.client, lookup, found, settings=settings, metrics=metrics, clock=wiring.clock)
    polling = monitor.controller(metrics=wiring.metrics)
    snapshots = SnapshotController(
        wiring.client,
        lookup,
        found,
        settings=settings,
        recorder=wiring.recorder("engines"),
        metrics=metrics,
        poll_now=polling.queue.add,
        clock=wiring.clock,
    )
    volumes = VolumeController(wiring.client, lookup, needs_attachment=needs_attachment, clock=wiring.clock)
    return [snapshots.controller(metrics=wiring.metrics), volumes.controller(metrics=wiring.metrics), polling]
