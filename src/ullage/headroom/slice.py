"""The slice as one value: what is charged, the hooks that do it, and the controllers that keep it true."""

from __future__ import annotations

from functools import partial
from typing import Any

from ullage.headroom.charges import charging
from ullage.headroom.controllers import exceeds, follow, launchers, limits, scale_quota
from ullage.headroom.controllers.scale_quota_rules import MADE_BY_RANCHER
from ullage.headroom.lookup import compute_lookup, launcher_pods
from ullage.headroom.metrics import ShareMetrics
from ullage.headroom.settings import Settings
from ullage.headroom.webhook import hooks
from ullage.kube.builtin.core import CORE_QUOTAS, NAMESPACES
from ullage.kube.controller.controller import Controller
from ullage.kube.slices import Part, Slice, Wiring
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.vms.api.instance_types import TYPE_KINDS
from ullage.vms.api.kubevirts import KUBEVIRTS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.prices import Prices, price_sources


def make_controllers(wiring: Wiring, settings: Settings) -> list[Controller[Any]]:
    return [*share_controllers(wiring), *machine_controllers(wiring, settings)]


def share_controllers(wiring: Wiring) -> list[Controller[Any]]:
    found, ledgers = wiring.cache(NAMESPACES), wiring.cache(LEDGERS, namespace=LEDGER_NAMESPACE)
    recorder = wiring.recorder("headroom")
    shares = limits.ShareLimits(wiring.client, limits.LimitCaches(namespaces=found, ledgers=ledgers), recorder=recorder)
    exceeded = exceeds.ExceedsQuota(
        wiring.client,
        exceeds.ExceedsCaches(namespaces=found, ledgers=ledgers),
        recorder=recorder,
        metrics=ShareMetrics(wiring.metrics.registry),
        clock=wiring.clock,
    )
    return [shares.controller(metrics=wiring.metrics), exceeded.controller(metrics=wiring.metrics)]


def machine_controllers(wiring: Wiring, settings: Settings) -> list[Controller[Any]]:
    lookup, clock, metrics = wiring.shared(compute_lookup), wiring.clock, wiring.metrics
    prices, pods = Prices(settings.pricing, wiring.shared(price_sources)), wiring.shared(launcher_pods)
    made = [
        follow.Follower(wiring.client, lookup, pods=pods, prices=prices, clock=clock).controller(metrics=metrics),
        launchers.LauncherMarks(wiring.client, pods, lookup, clock=clock).controller(metrics=metrics),
    ]
    if settings.migration == "scale-quota":
        quotas = wiring.cache(CORE_QUOTAS, labels=MADE_BY_RANCHER)
        made.append(scale_quota.QuotaScaler(wiring.client, quotas, lookup, clock=clock).controller(metrics=metrics))
    return made


def headroom(settings: Settings | None = None) -> Slice:
    """`settings` say whose word is believed, and whether restores of virtual machines are ours. The kinds are KubeVirt's."""
    chosen = settings or Settings()
    parts = (limits, exceeds, follow, launchers, *((scale_quota,) if chosen.migration == "scale-quota" else ()))
    return Slice(
        name="headroom",
        served=(VIRTUAL_MACHINES, INSTANCES, MIGRATIONS, KUBEVIRTS, *TYPE_KINDS),
        shared=charging(restores=chosen.restores == "manage"),
        controllers=Part(
            make=partial(make_controllers, settings=chosen),
            watches=tuple(dict.fromkeys(kind for one in parts for kind in one.WATCHES)),
            writes=tuple(write for one in parts for write in one.WRITES),
            events=True,
        ),
        hooks=Part(make=partial(hooks.make_hooks, settings=chosen), watches=hooks.WATCHES, writes=hooks.reads(chosen)),
    )
