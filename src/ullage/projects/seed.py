"""What a process with the role of a seed runs: what is charged there, the controllers, and the hooks.

Everything stands on what the part `shared` makes: the user clusters that are followed, the key of stamps, what is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.kube.clusters.waking import reach_watch
from ullage.kube.controller.controller import Controller
from ullage.kube.kinds import Kind
from ullage.kube.review import Hook
from ullage.kube.slices import Part, Wiring, Write
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.api.records import MACHINE_RECORDS
from ullage.projects.charging.keys import NoSigningKey, stamp_keys
from ullage.projects.charging.machines import charged_clusters, charging
from ullage.projects.charging.presence import recorded_machines
from ullage.projects.cluster_count import charging as cluster_charging
from ullage.projects.controllers import catalogue_refresh as refresh
from ullage.projects.controllers import cluster_usage as usage
from ullage.projects.controllers import machine_record as record
from ullage.projects.controllers import machine_server as server
from ullage.projects.controllers import machine_stamp as stamp
from ullage.projects.controllers import quota_cluster_limit as cluster_limit
from ullage.projects.controllers import quota_local_usage as local_usage
from ullage.projects.controllers import quota_surge as surge
from ullage.projects.controllers.machine_record import RecordCollector
from ullage.projects.machines.signatures import SigningKeys
from ullage.projects.settings import Settings
from ullage.projects.sizes import store
from ullage.projects.subjects import quota_lookup
from ullage.projects.webhook import clusters as cluster_hooks
from ullage.projects.webhook import machine_hooks, quota_copies

_PARTS: Final = (stamp, record, server, usage, local_usage, surge, cluster_limit, refresh)
WATCHES: Final[tuple[Kind[Any], ...]] = tuple(
    dict.fromkeys((*(kind for part in _PARTS for kind in part.WATCHES), *store.WATCHES))
)
WRITES: Final[tuple[Write, ...]] = (*(write for part in _PARTS for write in part.WRITES), *store.WRITES)
HOOK_WATCHES: Final[tuple[Kind[Any], ...]] = tuple(
    dict.fromkeys((*machine_hooks.WATCHES, *cluster_hooks.WATCHES, *store.WATCHES))
)
HOOK_WRITES: Final[tuple[Write, ...]] = (*machine_hooks.WRITES, *quota_copies.WRITES, *store.WRITES)


def shared() -> Part[Any]:
    """Machines, those that went, and the clusters themselves."""
    machines = charging()

    def register(wiring: Wiring) -> Iterable[Any]:
        return (*machines.make(wiring), cluster_charging.register(wiring))

    return Part(
        make=register,
        watches=tuple(dict.fromkeys((*machines.watches, *cluster_charging.WATCHES))),
        named_secrets=machines.named_secrets,
        own_secrets=machines.own_secrets,
        elsewhere=machines.elsewhere,
    )


def make_controllers(wiring: Wiring, settings: Settings) -> list[Controller[Any]]:
    background: list[Controller[Any]] = [server.make_servers(wiring, settings), refresh.make_refresh(wiring, settings)]
    background.append(surge.make_surges(wiring, settings))
    return [*_machine_controllers(wiring, settings), *_usage_controllers(wiring), *background]


def _machine_controllers(wiring: Wiring, settings: Settings) -> list[Controller[Any]]:
    charged, keys, clock = wiring.shared(charged_clusters), wiring.shared(stamp_keys), wiring.clock
    stamps = stamp.MachineStamps(
        wiring.clusters,
        charged,
        keys=keys,
        recorded=wiring.shared(recorded_machines),
        sizes=wiring.shared(store.SizesWith(settings.seed_namespace)),
        recorder=wiring.recorder("projects"),
        metrics=stamp.StampMetrics(wiring.metrics.registry),
        clock=clock,
    )
    caches = record.RecordCaches(records=wiring.cache(MACHINE_RECORDS), charged=charged)
    wiring.metrics.registry.register(RecordCollector(caches.records))
    records = record.MachineRecords(
        wiring.client,
        wiring.clusters,
        caches,
        keys=keys,
        sizes=wiring.shared(store.SizesWith(settings.seed_namespace)),
        recorder=wiring.recorder("projects"),
        keep=settings.keep_vanished,
        clock=clock,
    )
    return [stamps.controller(metrics=wiring.metrics), records.controller(metrics=wiring.metrics)]


def _usage_controllers(wiring: Wiring) -> list[Controller[Any]]:
    client, clock, metrics = wiring.client, wiring.clock, wiring.metrics
    keys, clusters, lookup = wiring.shared(stamp_keys), wiring.cache(CLUSTERS), wiring.shared(quota_lookup)
    records = wiring.cache(MACHINE_RECORDS)

    def current() -> SigningKeys | None:
        try:
            return keys.current
        except NoSigningKey:
            return None

    usages = usage.ClusterUsages(
        client,
        usage.UsageCaches(clusters=clusters, records=records),
        wiring.clusters,
        current,
        remembered=wiring.shared(recorded_machines).remembered,
        recorder=wiring.recorder("projects"),
        clock=clock,
    )
    keys.handle(usages.renew)
    wiring.shared(recorded_machines).handle(usages.recorded)
    ledgers = wiring.cache(LEDGERS, namespace=LEDGER_NAMESPACE)
    return [
        usages.controller(wiring.shared(reach_watch), metrics=metrics),
        local_usage.LocalUsages(client, lookup, clusters, records, clock=clock).controller(metrics=metrics),
        cluster_limit.ClusterLimits(client, lookup, ledgers, clock=clock).controller(metrics=metrics),
    ]


def make_hooks(wiring: Wiring, settings: Settings) -> Iterable[Hook]:
    sizes = wiring.shared(store.SizesWith(settings.seed_namespace))
    in_user_clusters = machine_hooks.make_hooks(wiring, settings, sizes=sizes)
    return (*in_user_clusters, *cluster_hooks.make_hooks(wiring), quota_copies.make_hook(wiring))
