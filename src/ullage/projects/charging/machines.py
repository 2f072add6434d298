"""What the seed charges: the Machines of every user cluster, each to the ledger of its cluster's project.

A cluster is followed as long as its object is there, whether or not it is being deleted: its machines run until then. One that
is given to another project is followed anew, so that everything in it is counted there. Clusters that somebody else runs, and
those that are of no project, are not followed.

A Machine takes what its stamp says, if that is signed for it and no less than the record has of it. Any other takes what the
record holds against it. Until it is in the record as such a one, or has been stamped anew, the ledger says that it is not
exact, and names the Machine: what was counted stays meanwhile, so that whoever puts an earlier stamp back gains nothing.
Machines that went are charged with the record that has them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from ullage.errors import Retryable
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from ullage.kube.builtin.core import Secret
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.interface import Finder
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Wiring
from ullage.ledger.amounts import Amounts, Takings
from ullage.ledger.charging.registry import Charged, Registry, registry_of
from ullage.ledger.service.views import Evaluator
from ullage.names import is_label
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.machines import MACHINES, Machine
from ullage.projects.api.records import MACHINE_RECORDS, MachineRecord
from ullage.projects.api.templates import DEPLOYMENT_TEMPLATES, SET_TEMPLATES
from ullage.projects.charging.keys import STAMP_KEYS, StampKeys, stamp_keys
from ullage.projects.charging.presence import RecordChanges, RecordedMachines, recorded_machines
from ullage.projects.clusters import project_of
from ullage.projects.machines.counting import Counted, count, taken
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.registrations import SELECTED, missing
from ullage.projects.machines.signatures import verify
from ullage.projects.names import ACCOUNT, is_project_id, quota_name
from ullage.projects.records import ledger_of, takes_of
from ullage.projects.settings import KUBECONFIG_SECRET

logger = logging.getLogger(__name__)

ELSEWHERE: Final[tuple[Kind[Any], ...]] = (MACHINES, SET_TEMPLATES, DEPLOYMENT_TEMPLATES)
OF_RECORDS: Final[Evaluator[MachineRecord]] = Evaluator(ledger_of=ledger_of, takes=takes_of)


class WrongStamp(Retryable):
    """What a Machine takes cannot be told by its stamp. The controller stamps it anew."""


class ChargedClusters:
    """The user clusters that count for a project. `follow` begins it, once whoever counts has registered."""

    def __init__(self, client: Finder, clusters: Cache[Cluster], kubeconfigs: Cache[Secret]) -> None:
        self.objects = clusters
        self._client = client
        self.kubeconfigs = kubeconfigs
        self._projects: dict[str, str] = {}
        self._misnamed: set[str] = set()  # of which it was told

    def __contains__(self, name: object) -> bool:
        return name in self._projects

    def project(self, name: str) -> str:
        """The project that a cluster counts for; empty: none, or there is no such cluster."""
        return self._projects.get(name, "")

    def of(self, project: str) -> list[str]:
        """The clusters that count for a project."""
        return [name for name, one in self._projects.items() if one == project]

    def ledger(self, name: str) -> str:
        project = self.project(name)
        return quota_name(project) if project else ""

    def get(self, name: str) -> Cluster | None:
        return self.objects.get(Key("", name))

    def follow(self, registry: Registry, followed: Clusters) -> None:
        def changed(old: Cluster | None, new: Cluster | None) -> None:
            name = (new or old or Cluster()).metadata.name
            project = charged_project(new) if new is not None else ""
            if name in self._projects and self._projects[name] != project:
                del self._projects[name]
                followed.remove(name)
                registry.displace(name)
            if new is None or not project:
                self._misnamed.discard(name)
                return
            self._projects[name] = project
            registry.place(name, [quota_name(project)])
            if is_label(name):
                followed.follow(name, self.kubeconfigs, Key(namespace_of(new), KUBECONFIG_SECRET))
            elif name not in self._misnamed:  # a Cluster changes all the time
                self._misnamed.add(name)
                logger.error("no cluster can be called that: it is not followed, nor counted", extra={"cluster": name})

        self.objects.handle(changed)

    async def counts_for_none(self, name: str) -> bool:
        """By the API itself: the Cluster is there and counts for no project."""
        there = await self._client.find(CLUSTERS, name)
        return there is not None and not charged_project(there)

    async def removed(self, name: str) -> bool:
        """By the API itself: it is gone, or counts for nobody any more. What is recorded of one that is gone has to count there
        as gone first, so that the room of its servers is given to nobody in between."""
        there = await self._client.find(CLUSTERS, name)
        if there is not None:
            return not charged_project(there)
        record = await self._client.find(MACHINE_RECORDS, name)
        return record is None or not record.status.machines


def charged_project(cluster: Cluster) -> str:
    """Empty where the label is one that no project can have."""
    project = project_of(cluster)
    return project if is_project_id(project) else ""


def namespace_of(cluster: Cluster) -> str:
    """The namespace on the seed that a cluster's control plane, and its kubeconfig, is in."""
    return cluster.status.namespace_name or f"cluster-{cluster.metadata.name}"


def machine_evaluator(cluster: str, ledger: str, keys: StampKeys, recorded: RecordedMachines) -> Evaluator[Machine]:
    """Of one cluster, for as long as it is followed under one project."""

    def takes(machine: Machine) -> Takings:
        facts = machine_facts(cluster, machine)
        remembered = recorded.remembered(cluster, facts.uid)
        found = count(facts, verify(facts, keys.current), remembered=remembered)
        amounts = taken(facts, found, remembered=remembered)
        if amounts is None:
            problem = "" if isinstance(found, Counted) else found.message
            raise WrongStamp(f"cluster {cluster}: Machine {machine.metadata.name}: {problem}")
        return Takings.of({ACCOUNT: amounts})

    return Evaluator(ledger_of=lambda machine: ledger, takes=takes)


async def asks(clusters: Clusters, name: str) -> bool:
    """Whether a user cluster is told to ask about its Machines, by what its API server has registered now."""
    cluster = clusters.get(name)
    if cluster is None:
        return False
    validating = await cluster.client.list(VALIDATING_WEBHOOKS, labels=SELECTED)
    mutating = await cluster.client.list(MUTATING_WEBHOOKS, labels=SELECTED)
    return not missing(validating.items, mutating.items)


def charged_clusters(wiring: Wiring) -> ChargedClusters:
    """Those of this process: `wiring.shared(charged_clusters)`."""
    return ChargedClusters(wiring.client, wiring.cache(CLUSTERS), wiring.secrets(KUBECONFIG_SECRET))


def charging() -> Part[Any]:
    """What every process of a seed counts."""

    def register(wiring: Wiring) -> Iterable[Charged[Any]]:
        registry, clusters = registry_of(wiring), wiring.shared(charged_clusters)
        keys, recorded = wiring.shared(stamp_keys), wiring.shared(recorded_machines)

        def evaluator_of(name: str) -> Evaluator[Machine]:
            return machine_evaluator(name, clusters.ledger(name), keys, recorded)

        charged = registry.register_elsewhere(
            MACHINES,
            evaluator_of,
            removed=clusters.removed,
            complete=clusters.objects.synced.is_set,
            settled=recorded.is_settled,
            asks=partial(asks, wiring.clusters),
        )

        def recorded_otherwise(name: str, changes: RecordChanges) -> None:
            def counts_less(key: Key, than: Amounts) -> bool:
                held = registry.taken(MACHINES, name, key)
                return held is None or not than <= held.account(ACCOUNT)

            news = [key for key, amounts in changes.items() if amounts is None or counts_less(key, amounts)]
            registry.look_again(MACHINES, cluster=name, keys=news)

        keys.handle(lambda: registry.look_again(MACHINES))
        recorded.handle(recorded_otherwise)
        clusters.follow(registry, wiring.clusters)
        return [charged, registry.register(MACHINE_RECORDS, OF_RECORDS)]

    return Part(
        make=register,
        watches=(CLUSTERS, MACHINE_RECORDS),
        named_secrets=(KUBECONFIG_SECRET,),
        own_secrets=(STAMP_KEYS,),
        elsewhere=ELSEWHERE,
    )
