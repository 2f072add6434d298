"""The slice as one value: both APIs, their controllers, and the hook on claims.

The controllers differ by process: the main one binds all snapshots and calls the drivers that it can reach, a sidecar calls
its own driver and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.engines.api import VOLUMES as ENGINE_VOLUMES
from ullage.engines.api import Volume as EngineVolume
from ullage.engines.handles import DRIVER
from ullage.engines.holds import holds_of
from ullage.kube.builtin import storage
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller, Source
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Kind
from ullage.kube.review import Hook
from ullage.kube.slices import Grant, Part, Slice, Wiring, Write
from ullage.snapshots import guard, webhook
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.backends.base import Backend
from ullage.snapshots.backends.longhorn import backend as longhorn
from ullage.snapshots.backends.metered import MeteredBackend
from ullage.snapshots.controllers.claim_release import ClaimReleaser
from ullage.snapshots.controllers.claim_restore import WRITES as RESTORE_WRITES
from ullage.snapshots.controllers.claim_restore import Restorer
from ullage.snapshots.controllers.record_audit import Misses, RecordAuditor, SnapshotLister
from ullage.snapshots.controllers.record_book import RecordBooker
from ullage.snapshots.controllers.record_hold import WRITES as HOLD_WRITES
from ullage.snapshots.controllers.record_hold import Holder
from ullage.snapshots.controllers.record_sync import RecordSyncer
from ullage.snapshots.controllers.snapshot_bind import Binder
from ullage.snapshots.controllers.volume.last_size.controller import LastSizes
from ullage.snapshots.controllers.volume_measure import WRITES as MEASURE_WRITES
from ullage.snapshots.controllers.volume_measure import VolumeMeasurer
from ullage.snapshots.controllers.volume_reclaim import Reclaimer
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup, kinds_of, snapshot_lookup, volume_lookup
from ullage.snapshots.metrics import Metrics, operation_meter
from ullage.snapshots.model import Dialect, Snapshot
from ullage.snapshots.settings import AUDIT_SECONDS, HOSTPATH, Settings
from ullage.snapshots.volume_queue import VolumeQueues

DIALECTS: Final[tuple[Dialect[Any, Any], ...]] = (GA, PROTOTYPE)

# What the controllers do besides watching.
RECORD_WRITES: Final = tuple(Write(dialect.records, ("patch",), ("", "status")) for dialect in DIALECTS)
WRITES: Final = (
    *RESTORE_WRITES,
    *RECORD_WRITES,
    *guard.READS,
    *(Write(dialect.snapshots, ("patch",), ("", "status")) for dialect in DIALECTS),
    *(Write(dialect.records, ("create", "delete")) for dialect in DIALECTS),
)

BackendsByDriver = Mapping[str, Backend]


@dataclass(frozen=True, slots=True)
class Hold:
    """Whether a snapshot that is about to be begun has to wait for something before it is cut, and what must be watched to
    tell."""

    make: Callable[[Wiring], Callable[[Snapshot], bool]] = lambda wiring: lambda snapshot: False
    watches: tuple[Kind[Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`backends` gives those that this process calls, by driver; what has to be closed again it leaves with the wiring."""

    settings: Settings = field(default_factory=Settings)
    backends: Callable[[Wiring], BackendsByDriver] = lambda wiring: {}
    holds: bool = False  # snapshots of Longhorn's volumes are taken here, and whoever looks after its objects knows holds
    hooks: Hold = field(default_factory=Hold)  # commands that are run in pods before a volume is cut
    foreign_longhorn: bool = False  # they are taken here, and Longhorn itself looks after its objects: nothing is held


def snapshots(options: Options | None = None) -> Slice:
    """The slice as the main controller and the webhook have it."""
    chosen = options or Options()
    through_longhorn = chosen.settings.managed(DRIVER)
    return Slice(
        name="snapshots",
        kinds=tuple(dict.fromkeys(kind for one in DIALECTS for kind in own_kinds(one))),
        served=longhorn.READS if through_longhorn else (),
        controllers=Part(
            make=lambda wiring: make_controllers(wiring, chosen),
            watches=(*kinds_of(DIALECTS), *(longhorn.READS if through_longhorn else ()), *chosen.hooks.watches),
            writes=(
                *WRITES,
                *(MEASURE_WRITES if chosen.settings.managed(HOSTPATH) else ()),
                *(longhorn.WRITES if through_longhorn else ()),
                *(HOLD_WRITES if chosen.holds else ()),
            ),
            events=True,
            secrets=True,
        ),
        hooks=_hooks(chosen),
        sidecar=_sidecar(chosen),
        grants=tuple(aggregated_roles()),
        policies=(guard.POLICY,),
    )


def _hooks(options: Options) -> Part[Hook]:
    """Where Longhorn runs, nothing but a warning stands between a claim and its snapshots."""
    if not options.foreign_longhorn:
        return Part(make=webhook.make_hooks)
    return Part(
        make=lambda wiring: [*webhook.make_hooks(wiring), webhook.make_hook(wiring)],
        watches=tuple(dialect.records for dialect in DIALECTS),
        writes=webhook.WRITES,
    )


def sidecar(backend: Backend, *, provisions: bool, audit_interval: float = AUDIT_SECONDS) -> Slice:
    """The slice as a sidecar has it, for its one driver. `provisions`: no other provisioner fills claims from GA snapshots."""
    elsewhere = frozenset() if provisions else frozenset({backend.driver})
    settings = Settings(elsewhere=elsewhere, audit_interval=audit_interval)
    options = Options(settings=settings, backends=lambda wiring: {backend.driver: backend})
    return Slice(name="csi", controllers=_sidecar(options))


def _sidecar(options: Options) -> Part[Controller[Any]]:
    return Part(
        make=lambda wiring: make_driver_controllers(wiring, options),
        watches=kinds_of(DIALECTS),
        writes=(*RESTORE_WRITES, *RECORD_WRITES),
        events=True,
        secrets=True,
    )


def aggregated_roles() -> list[Grant]:
    """What users of a namespace may do with snapshots, through the roles that administrators give out anyway: `edit` becomes
    part of the roles edit and admin, `view` part of view, which those two gather as a whole.

    VolumeSnapshots only. A VolumeSnapshotContent or VolumeSnapshotData names handles of the storage system, and whoever could
    write one could have anybody's data restored.
    """
    snapshots = (GA.snapshots, PROTOTYPE.snapshots)
    return [
        Grant(
            name="edit",
            roles=("edit", "admin"),
            kinds=snapshots,
            verbs=("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
        ),
        Grant(name="view", roles=("view",), kinds=(*snapshots, GA.classes), verbs=("get", "list", "watch")),
    ]


def own_kinds(dialect: Dialect[Any, Any]) -> tuple[Any, ...]:
    """The kinds that an API brings along. StorageClasses belong to Kubernetes."""
    classes = () if dialect.classes is storage.STORAGE_CLASSES else (dialect.classes,)
    return (dialect.snapshots, dialect.records, *classes)


def make_controllers(wiring: Wiring, options: Options) -> list[Controller[Any]]:
    """All that the main controller runs; a sidecar has `make_driver_controllers` alone."""
    lookups = [snapshot_lookup(wiring, dialect) for dialect in DIALECTS]
    volumes, queues, recorder = volume_lookup(wiring), _queues(lookups), wiring.recorder("snapshots")
    metrics, hooked = Metrics(wiring.metrics.registry, clock=wiring.clock), options.hooks.make(wiring)
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
            hooked=hooked,
            lookups=lookups,
        )
        for lookup in lookups
    ]
    settings, client, clock = options.settings, wiring.client, wiring.clock
    releaser = ClaimReleaser(client, lookups, volumes, settings=settings)
    sizes = LastSizes(client, volumes, lookups, settings=settings, recorder=recorder, clock=clock)
    return [
        *(binder.controller(metrics=wiring.metrics) for binder in binders),
        releaser.controller(metrics=wiring.metrics),
        sizes.controller(metrics=wiring.metrics),
        *_holding(wiring, options, lookups),
        *_booking(wiring, options, lookups),
        *_calling_drivers(wiring, options, lookups, volumes=volumes, queues=queues, recorder=recorder),
    ]


def _holding(wiring: Wiring, options: Options, lookups: Sequence[SnapshotLookup]) -> list[Controller[Any]]:
    if not options.holds:
        return []
    snapshots, volumes = wiring.cache(ENGINE_SNAPSHOTS), wiring.cache(ENGINE_VOLUMES)
    return [Holder(wiring.client, lookups, snapshots=snapshots, volumes=volumes).controller(metrics=wiring.metrics)]


def _booking(wiring: Wiring, options: Options, lookups: Sequence[SnapshotLookup]) -> list[Controller[Any]]:
    """Where sidecars call drivers: they may not say themselves what a snapshot takes."""
    if "sidecar" not in options.settings.drivers.values():
        return []
    booker = RecordBooker(wiring.client, lookups, settings=options.settings, clock=wiring.clock)
    return [booker.controller(metrics=wiring.metrics)]


def make_driver_controllers(wiring: Wiring, options: Options) -> list[Controller[Any]]:
    """What a sidecar runs: nothing but the calls to its driver."""
    lookups, recorder = [snapshot_lookup(wiring, dialect) for dialect in DIALECTS], wiring.recorder("snapshots")
    volumes, queues = volume_lookup(wiring), _queues(lookups)
    return _calling_drivers(wiring, options, lookups, volumes=volumes, queues=queues, recorder=recorder, books=False)


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
    books: bool = True,
) -> list[Controller[Any]]:
    client, clock, metrics = wiring.client, wiring.clock, wiring.metrics
    backends, elsewhere = _metered(options.backends(wiring), wiring), options.settings.elsewhere
    syncer = RecordSyncer(client, lookups, backends, queues=queues, recorder=recorder, clock=clock, books=books)
    restorer = Restorer(client, volumes, lookups, backends=backends, recorder=recorder, elsewhere=elsewhere, clock=clock)
    reclaimer = Reclaimer(client, volumes, backends=backends, recorder=recorder, clock=clock)
    # Restored volumes have the names of their PersistentVolumes: one that is held no more can go at once.
    let_go = [Source(wiring.cache(ENGINE_VOLUMES), _volume_of_the_name, when=_is_let_go)] if options.holds else []
    return [
        *(one.controller(metrics=metrics) for one in (syncer, restorer)),
        reclaimer.controller(metrics=metrics, more=let_go),
        *_measuring(wiring, options, lookups, volumes, backends),
        *_auditing(wiring, options, lookups, backends),
    ]


def _metered(backends: BackendsByDriver, wiring: Wiring) -> BackendsByDriver:
    observe = operation_meter(wiring.metrics.registry)
    return {name: MeteredBackend(backend, observe, clock=wiring.clock) for name, backend in backends.items()}


def _measuring(
    wiring: Wiring,
    options: Options,
    lookups: Sequence[SnapshotLookup],
    volumes: VolumeLookup,
    backends: BackendsByDriver,
) -> list[Controller[Any]]:
    """Volumes of engines are told of by their Engines, and CSI drivers do not tell what is in a volume."""
    measured = {name: backend for name, backend in backends.items() if name == HOSTPATH}
    interval = options.settings.measure_interval
    if not interval or not measured:
        return []
    client, clock = wiring.client, wiring.clock
    measurer = VolumeMeasurer(client, volumes, lookups, backends=measured, interval=interval, clock=clock)
    return [measurer.controller(metrics=wiring.metrics)]


def _auditing(
    wiring: Wiring, options: Options, lookups: Sequence[SnapshotLookup], backends: BackendsByDriver
) -> list[Controller[Any]]:
    """Longhorn's Snapshots are watched, all other drivers are listed."""
    client, clock, metrics, misses = wiring.client, wiring.clock, wiring.metrics, Misses()
    watched = wiring.cache(ENGINE_SNAPSHOTS) if DRIVER in backends else None
    auditor = RecordAuditor(client, lookups, backends, misses=misses, watched=watched, clock=clock).controller(metrics=metrics)
    listed = {name: backend for name, backend in backends.items() if name != DRIVER}
    interval = options.settings.audit_interval
    if not interval or not listed:
        return [auditor]
    look = auditor.queue.add
    lister = SnapshotLister(client, lookups, listed, misses=misses, look=look, interval=interval, clock=clock)
    return [auditor, lister.controller(metrics=metrics)]


def _volume_of_the_name(volume: EngineVolume) -> tuple[Key, ...]:
    return (Key("", volume.metadata.name),)


def _is_let_go(old: EngineVolume | None, new: EngineVolume | None) -> bool:
    return old is not None and bool(holds_of(old.metadata)) and (new is None or not holds_of(new.metadata))
