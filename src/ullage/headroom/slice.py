"""The slice as one value: what is charged, the hooks that do it, and the controllers that keep it true."""

from __future__ import annotations

from typing import Any, Final

from ullage.headroom.charges import charging
from ullage.headroom.controllers.exceeds import controller as exceeds
from ullage.headroom.controllers.limits import controller as limits
from ullage.headroom.metrics import ShareMetrics
from ullage.headroom.settings import Settings
from ullage.headroom.webhook import namespaces
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.controller.controller import Controller
from ullage.kube.review import Hook
from ullage.kube.slices import Part, Slice, Wiring
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.vms.api.kubevirts import KUBEVIRTS
from ullage.vms.api.machines import INSTANCES, MACHINES
from ullage.vms.api.migrations import MIGRATIONS

HOOK_WATCHES: Final = namespaces.WATCHES


def make_hooks(wiring: Wiring) -> list[Hook]:
    return [*namespaces.make_hooks(wiring)]


def make_controllers(wiring: Wiring) -> list[Controller[Any]]:
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


def headroom(settings: Settings | None = None) -> Slice:
    """`settings` say whose word is believed, and whether restores of virtual machines are ours. The kinds are KubeVirt's."""
    chosen = settings or Settings()
    return Slice(
        name="headroom",
        served=(MACHINES, INSTANCES, MIGRATIONS, KUBEVIRTS),
        shared=charging(restores=chosen.restores == "manage"),
        controllers=Part(
            make=make_controllers,
            watches=tuple(dict.fromkeys((*limits.WATCHES, *exceeds.WATCHES))),
            writes=(*limits.WRITES, *exceeds.WRITES),
            events=True,
        ),
        hooks=Part(make=make_hooks, watches=HOOK_WATCHES),
    )
