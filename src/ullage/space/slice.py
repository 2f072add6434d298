"""The slice as one value: what is charged, the hooks that do it, and the controllers that keep it true."""

from __future__ import annotations

from functools import partial
from typing import Any

from ullage.kube.controller.controller import Controller
from ullage.kube.review import Hook
from ullage.kube.slices import Part, Slice, Wiring, Write
from ullage.ledger.api import LEDGERS
from ullage.ledger.charging.registry import registry_of
from ullage.ledger.charging.waiting import MOST_WAITING
from ullage.policies.counts.webhook import room
from ullage.space.api import HARVESTER_QUOTAS
from ullage.space.charges import charged_kinds, charging
from ullage.space.controllers.follow.controller import Follower, payers_by
from ullage.space.controllers.follow.lookup import make_lookup
from ullage.space.controllers.follow.lookup import watches as followed
from ullage.space.controllers.quota_limits import QuotaLimits
from ullage.space.controllers.quota_status import QuotaStatus
from ullage.space.estimate_counts import EstimateCounts
from ullage.space.lookup import WATCHES
from ullage.space.metrics import QuotaMetrics
from ullage.space.roles import GRANTS, USER_ROLES
from ullage.space.routes import ROUTES
from ullage.space.webhook import quotas as quota_webhook
from ullage.space.webhook.hooks import make_hooks as charging_hooks
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.settings import Settings


def make_hooks(wiring: Wiring, *, backups: bool, most_waiting: int = MOST_WAITING) -> list[Hook]:
    return [*charging_hooks(wiring, backups=backups, most_waiting=most_waiting), quota_webhook.quota_hook(wiring)]


def make_controllers(wiring: Wiring, *, backups: bool) -> list[Controller[Any]]:
    counts = wiring.shared(estimate_counts)
    for kind, evaluator in charged_kinds(backups=backups).items():
        counts.follow(wiring.cache(kind), evaluator.ledger_of)
    lookup = make_lookup(wiring, backups=backups)
    follower = Follower(wiring, lookup, payers_by(lookup, registry_of(wiring).is_limited))
    return [*quota_controllers(wiring), follower.controller()]


def quota_controllers(wiring: Wiring) -> list[Controller[Any]]:
    recorder, metrics = wiring.recorder("space"), QuotaMetrics(wiring.metrics.registry)
    shown = QuotaStatus(wiring, estimates=wiring.shared(estimate_counts), recorder=recorder, metrics=metrics)
    return [QuotaLimits(wiring, recorder=recorder).controller(), shown.controller()]


def estimate_counts(wiring: Wiring) -> EstimateCounts:
    return EstimateCounts()


def space(settings: Settings | None = None, *, most_waiting: int = MOST_WAITING) -> Slice:
    """`settings` say whether the backups of virtual machines are ours. Harvester's own definition of the quota will do where it
    is there: `served`. `most_waiting` snapshots of a namespace may wait for claims that are not there."""
    backups = (settings or Settings()).backups == "manage"
    return Slice(
        name="space",
        kinds=(HARVESTER_QUOTAS,),
        served=(HARVESTER_QUOTAS,),
        shared=charging(backups=backups),
        controllers=Part(
            make=partial(make_controllers, backups=backups),
            watches=tuple(dict.fromkeys((*QuotaLimits.watches(), *QuotaStatus.watches(), *followed(backups=backups)))),
            writes=(
                *QuotaLimits.writes,
                *QuotaStatus.writes,
                *(Write(kind, ("get", "patch")) for kind in charged_kinds(backups=backups)),
            ),
            events=True,
        ),
        hooks=Part(
            make=partial(make_hooks, backups=backups, most_waiting=most_waiting),
            watches=tuple(dict.fromkeys((*WATCHES, *quota_webhook.WATCHES, *room.WATCHES))),
            # The limit of those that wait, and trials of what room is to be made for.
            writes=(Write(LEDGERS, ("create", "patch")), *room.WRITES, *((Write(VM_BACKUPS, ("create",)),) if backups else ())),
        ),
        routes=ROUTES,
        grants=GRANTS,
        user_roles=USER_ROLES,
    )
