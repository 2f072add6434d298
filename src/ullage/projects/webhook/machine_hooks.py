"""The hooks that are registered in user clusters, made of what a process of the seed shares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.kube.kinds import Kind
from ullage.kube.review import Hook
from ullage.kube.slices import Wiring, Write
from ullage.ledger.api import LEDGERS
from ullage.ledger.charging.registry import registry_of
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.quotas import QUOTAS
from ullage.projects.charging.keys import stamp_keys
from ullage.projects.charging.machines import ELSEWHERE as CHARGED_ELSEWHERE
from ullage.projects.charging.machines import charged_clusters
from ullage.projects.settings import Settings
from ullage.projects.sizes.source import SizeSource
from ullage.projects.subjects import quota_lookup
from ullage.projects.webhook.copy_ages import copy_ages
from ullage.projects.webhook.deployments import DeploymentWebhook
from ullage.projects.webhook.leaving import leave
from ullage.projects.webhook.machines import MachineTerms, MachineWebhook
from ullage.projects.webhook.refusals import refusal_events
from ullage.projects.webhook.refused_sets import refused_sets
from ullage.projects.webhook.surges import shared_surges

WATCHES: Final[tuple[Kind[Any], ...]] = (QUOTAS, LEDGERS)
WRITES: Final = (Write(LEDGERS, ("get",)),)
ELSEWHERE: Final = CHARGED_ELSEWHERE


def make_hooks(wiring: Wiring, settings: Settings, *, sizes: SizeSource) -> Iterable[Hook]:
    """To be made after the part `charging`."""
    leave(wiring)
    registry, keys = registry_of(wiring), wiring.shared(stamp_keys)
    terms = MachineTerms(
        client=wiring.client,
        registry=registry,
        charged=registry.registered(MACHINES),
        clusters=wiring.shared(charged_clusters),
        keys=keys,
        sizes=sizes,
        surges=wiring.shared(shared_surges),
        events=wiring.shared(refusal_events),
        refused=wiring.shared(refused_sets),
        quotas=wiring.shared(quota_lookup),
        ages=wiring.shared(copy_ages),
        settings=settings,
        clock=wiring.clock,
    )
    return (*MachineWebhook(terms).hooks(), *DeploymentWebhook(terms).hooks())
