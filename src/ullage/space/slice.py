"""The slice as one value: what is charged, the hooks that do it, and the controllers that keep it true."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.controller.controller import Controller
from ullage.kube.review import Hook
from ullage.kube.slices import Grant, Part, Slice, Wiring
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.space.api import QUOTAS
from ullage.space.controllers.quota.limits import controller as limits
from ullage.space.controllers.quota.status import controller as status
from ullage.space.estimate_counts import EstimateCounts
from ullage.space.metrics import QuotaMetrics
from ullage.space.routes import ROUTES
from ullage.space.webhook import quotas as quota_webhook
from ullage.vms.api.machines import MACHINES


def charged(wiring: Wiring) -> Iterable[Any]:
    """Registers the kinds that are charged with the ledgers, in every process."""
    return ()


def make_hooks(wiring: Wiring) -> list[Hook]:
    return [quota_webhook.quota_hook(wiring)]


def make_controllers(wiring: Wiring) -> list[Controller[Any]]:
    return quota_controllers(wiring)


def quota_controllers(wiring: Wiring) -> list[Controller[Any]]:
    quotas, machines = wiring.cache(QUOTAS), wiring.cache(MACHINES)
    ledgers = wiring.cache(LEDGERS, namespace=LEDGER_NAMESPACE)
    namespaces = wiring.cache(NAMESPACES)
    found = limits.LimitCaches(quotas=quotas, ledgers=ledgers, namespaces=namespaces, machines=machines)
    shown = status.QuotaStatus(
        wiring.client,
        status.StatusCaches(quotas=quotas, ledgers=ledgers, machines=machines),
        estimates=wiring.shared(estimate_counts),
        recorder=wiring.recorder("space"),
        metrics=QuotaMetrics(wiring.metrics.registry),
        clock=wiring.clock,
    )
    return [
        limits.QuotaLimits(wiring.client, found).controller(metrics=wiring.metrics),
        shown.controller(metrics=wiring.metrics),
    ]


def estimate_counts(wiring: Wiring) -> EstimateCounts:
    return EstimateCounts()


# Whoever sees a namespace sees its quota. Nobody gets to write it with his namespace.
GRANTS: Final = (Grant(name="quota-view", roles=("view",), kinds=(QUOTAS,), verbs=("get", "list", "watch")),)

# Harvester's own definition of the quota will do where it is there: `served`.
SPACE: Final = Slice(
    name="space",
    kinds=(QUOTAS,),
    served=(QUOTAS,),
    shared=Part(make=charged),
    controllers=Part(
        make=make_controllers,
        watches=tuple(dict.fromkeys((*limits.WATCHES, *status.WATCHES))),
        writes=(*limits.WRITES, *status.WRITES),
        events=True,
    ),
    hooks=Part(make=make_hooks, watches=quota_webhook.WATCHES),
    routes=ROUTES,
    grants=GRANTS,
)
