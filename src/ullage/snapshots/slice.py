"""The slice as one value: both APIs, their controllers, and the hook on claims.

The controllers differ by process: the main one binds all snapshots and calls the drivers that it can reach, a sidecar calls
its own driver and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.kube.builtin import storage
from ullage.kube.controller.controller import Controller
from ullage.kube.events.recorder import Recorder
from ullage.kube.slices import Part, Slice, Wiring, Write
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.backends.base import Backend
from ullage.snapshots.backends.longhorn import backend as longhorn
from ullage.snapshots.controllers.claim.release.controller import ClaimReleaser
from ullage.snapshots.controllers.claim.restore.controller import WRITES as RESTORE_WRITES
from ullage.snapshots.controllers.claim.restore.controller import Restorer
from ullage.snapshots.controllers.record.sync.controller import RecordSyncer
from ullage.snapshots.controllers.snapshot.bind.controller import Binder
from ullage.snapshots.controllers.volume.reclaim.controller import Reclaimer
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup, kinds_of, snapshot_lookup, volume_lookup
from ullage.snapshots.metrics import Metrics
from ullage.snapshots.model import Dialect
from ullage.snapshots.roles import aggregated_roles
from ullage.snapshots.settings import Settings
from ullage.snapshots.volume_queue import VolumeQueues
from ullage.snapshots.webhook import hooks

DIALECTS: Final[tuple[Dialect[Any, Any], ...]] = (GA, PROTOTYPE)

# What the controllers do besides watching.
RECORD_WRITES: Final = tuple(Write(dialect.records, ("patch",), ("", "status")) for dialect in DIALECTS)
WRITES: Final = (
    *RESTORE_WRITES,
    *RECORD_WRITES,
    *(Write(dialect.snapshots, ("patch",), ("", "status")) for dialect in DIALECTS),
    *(Write(dialect.records, ("create", "delete")) for dialect in DIALECTS),
)

BackendsByDriver = Mapping[str, Backend]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`backends` gives those that this process calls, by driver; what has to be closed again it leaves with the wiring."""

    settings: Settings = field(default_factory=Settings)
    backends: Callable[[Wiring], BackendsByDriver] = lambda wiring: {}


def snapshots(options: Options | None = None) -> Slice:
    """The slice as the main controller and the webhook have it."""
    chosen = options or Options()
    return Slice(
        name="snapshots",
        kinds=tuple(dict.fromkeys(kind for one in DIALECTS for kind in own_kinds(one))),
        controllers=Part(
            make=lambda wiring: make_controllers(wiring, chosen),
            watches=(*kinds_of(DIALECTS), *longhorn.READS),
            writes=(*WRITES, *longhorn.WRITES),
            events=True,
        ),
        hooks=Part(make=hooks.make_hooks),
        sidecar=_sidecar(chosen),
        grants=tuple(aggregated_roles()),
    )


def sidecar(backend: Backend, *, provisions: bool) -> Slice:
    """The slice as a sidecar has it, for its one driver. `provisions`: no other provisioner fills claims from GA snapshots."""
    elsewhere = frozenset() if provisions else frozenset({backend.driver})
    options = Options(settings=Settings(elsewhere=elsewhere), backends=lambda wiring: {backend.driver: backend})
    return Slice(name="csi", controllers=_sidecar(options))


def _sidecar(options: Options) -> Part[Controller[Any]]:
    return Part(
        make=lambda wiring: make_driver_controllers(wiring, options),
        watches=kinds_of(DIALECTS),
        writes=(*RESTORE_WRITES, *RECORD_WRITES),
        events=True,
    )


def own_kinds(dialect: Dialect[Any, Any]) -> tuple[Any, ...]:
    """The kinds that an API brings along. StorageClasses belong to Kubernetes."""
    classes = () if dialect.classes is storage.STORAGE_CLASSES else (dialect.classes,)
    return (dialect.snapshots, dialect.records, *classes)


def make_controllers(wiring: Wiring, options: Options) -> list[Controller[Any]]:
    """All that the main controller runs; a sidecar has `make_driver_controllers` alone."""
    lookups = [snapshot_lookup(wiring, dialect) for dialect in DIALECTS]
    volumes, queues, recorder = volume_lookup(wiring), _queues(lookups), wiring.recorder("snapshots")
    metrics = Metrics(wiring.metrics.registry, clock=wiring.clock)
    binders = [
        Binder(
            wiring.client,
            lookup,
            volumes,
            settings=options.settings,
            queues=queues,
            recorder=recorder,
            metrics=metrics,
            clock=wiring.clock,
        )
        for lookup in lookups
    ]
    releaser = ClaimReleaser(wiring.client, lookups, volumes, settings=options.settings)
    return [
        *(binder.controller(metrics=wiring.metrics) for binder in binders),
        releaser.controller(metrics=wiring.metrics),
        *_calling_drivers(wiring, options, lookups, volumes=volumes, queues=queues, recorder=recorder),
    ]


def make_driver_controllers(wiring: Wiring, options: Options) -> list[Controller[Any]]:
    """What a sidecar runs: nothing but the calls to its driver."""
    lookups, recorder = [snapshot_lookup(wiring, dialect) for dialect in DIALECTS], wiring.recorder("snapshots")
    volumes, queues = volume_lookup(wiring), _queues(lookups)
    return _calling_drivers(wiring, options, lookups, volumes=volumes, queues=queues, recorder=recorder)


def _queues(lookups: Sequence[SnapshotLookup]) -> VolumeQueues:
    """They follow the records from now on: before anybody else is told of one."""
    queues = VolumeQueues()
    for lookup in lookups:
        lookup.enqueue_records(queues)
    return queues


def _calling_drivers(
    wiring: Wiring,
    options: Options,
    lookups: Sequence[SnapshotLookup],
    *,
    volumes: VolumeLookup,
    queues: VolumeQueues,
    recorder: Recorder,
) -> list[Controller[Any]]:
    client, clock, metrics = wiring.client, wiring.clock, wiring.metrics
    backends, elsewhere = options.backends(wiring), options.settings.elsewhere
    syncer = RecordSyncer(client, lookups, backends, queues=queues, clock=clock)
    restorer = Restorer(client, volumes, lookups, backends=backends, recorder=recorder, elsewhere=elsewhere, clock=clock)
    reclaimer = Reclaimer(client, volumes, backends=backends, recorder=recorder, clock=clock)
    return [one.controller(metrics=metrics) for one in (syncer, restorer, reclaimer)]
