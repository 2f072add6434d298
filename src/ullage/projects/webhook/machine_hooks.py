"""The hooks that are registered in user clusters, made of what a process of the seed shares."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from ullage.kube.cache.indexer import Key
from ullage.kube.clusters.leaving import LeavingClusters
from ullage.kube.kinds import Kind
from ullage.kube.review import Hook
from ullage.kube.slices import Wiring, Write
from ullage.ledger.api import LEDGERS
from ullage.ledger.charging.registry import registry_of
from ullage.names import is_label
from ullage.projects.api.kkp import Cluster
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.charging.keys import stamp_keys
from ullage.projects.charging.machines import ELSEWHERE as CHARGED_ELSEWHERE
from ullage.projects.charging.machines import ChargedClusters, charged_clusters, charged_project, namespace_of
from ullage.projects.clusters import is_run_elsewhere
from ullage.projects.names import PROJECT_ID
from ullage.projects.settings import KUBECONFIG_SECRET, Settings
from ullage.projects.sizes.source import SizeSource
from ullage.projects.subjects import quota_lookup
from ullage.projects.webhook.copy_ages import copy_ages
from ullage.projects.webhook.deployments import DeploymentWebhook
from ullage.projects.webhook.machines import MachineTerms, MachineWebhook
from ullage.projects.webhook.refusals import refusal_events
from ullage.projects.webhook.refused_sets import refused_sets
from ullage.projects.webhook.surges import shared_surges

# User clusters that count for no project any more: their Machines are not asked about, so the hooks there have to go. A
# Cluster whose label was removed, or has a value that no project can have, is visited once by each replica, with the
# same kubeconfig as before. So is each such Cluster when a replica starts: the label may have gone while none was
# running.


CAUSE: Final = (
    "cluster {cluster} counts for no project: its Cluster on the seed has no label {label} with the name of a project."
    " The hooks that ask about its Machines are taken out of it by themselves, mostly within a minute."
    " Next: try again then, or have an administrator of the seed set the label"
)
GONE: Final = (
    "cluster {cluster} is not known to the seed that its hooks ask: there is no Cluster of that name."
    " Next: tell an administrator of the seed"
)
AWAY: Final = "cluster {cluster} is not followed by the seed that its hooks ask. Next: try again"


def leave(wiring: Wiring) -> None:
    """To be called after the part `charging` follows clusters."""
    charged = wiring.shared(charged_clusters)
    leaving: LeavingClusters = wiring.leaving

    def changed(old: Cluster | None, new: Cluster | None) -> None:
        name = (new or old or Cluster()).metadata.name
        if new is None or charged_project(new):
            leaving.discard(name)
        elif is_label(name) and not is_run_elsewhere(new):  # the hooks were never put where others make the nodes
            secret = Key(namespace_of(new), KUBECONFIG_SECRET)
            leaving.add(name, charged.kubeconfigs, secret, check=partial(charged.counts_for_none, name))

    charged.objects.handle(changed)
    wiring.why_not_followed = partial(why_not_followed, charged)


def why_not_followed(charged: ChargedClusters, cluster: str) -> str:
    """What is said to a cluster whose hooks are still there. Its API server asks for that cluster alone, so it may be told."""
    found = charged.get(cluster)
    if found is None:
        return GONE.format(cluster=cluster)
    return (AWAY if charged_project(found) else CAUSE).format(cluster=cluster, label=PROJECT_ID)


WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, LEDGERS)
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
