"""From objects of a user cluster to the facts that decisions about them need. Pure.

Who owns what is believed of owner references in one case alone: exactly one of them says that it is the controller, and that
is of the right kind. Anything else is owned by nobody.

What a template is compared by is all of it, as it was sent and not as our kinds know it: a new version of kubelet replaces
machines, too.
"""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.stamps import STAMP
from ullage.projects.api.machines import (
    GROUP,
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    Machine,
    MachineDeployment,
    MachineSet,
)
from ullage.projects.machines.deployments import DEFAULT_REPLICAS
from ullage.projects.machines.digests import digest
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.signatures import SIGNATURE
from ullage.projects.machines.surge import DeploymentFacts, OwnedMachine, SetFacts
from ullage.times import read_time

REVISION: Final = "machinedeployment.clusters.k8s.io/revision"  # annotation of a MachineSet
TEMPLATE_HASH: Final = "machine-template-hash"  # label that machine-controller adds to the template of a MachineSet
ROLLING: Final = frozenset({"", "RollingUpdate"})


def machine_facts(cluster: str, machine: Machine) -> MachineFacts:
    meta = machine.metadata
    return MachineFacts(
        cluster=cluster,
        namespace=meta.namespace,
        name=meta.name,
        generate_name=meta.generate_name,
        uid=meta.uid,
        created=read_time(meta.creation_timestamp),
        provider_spec=machine.spec.provider_spec.value,
        takes=meta.annotations.get(STAMP),
        signature=meta.annotations.get(SIGNATURE),
    )


def owned_machine(machine: Machine, amounts: Amounts) -> OwnedMachine:
    """`amounts` are those of its valid stamp; a Machine without one is not among them."""
    return OwnedMachine(uid=machine.metadata.uid, owner=set_of(machine.metadata), amounts=amounts)


def set_facts(machine_set: MachineSet, template: Any) -> SetFacts:
    """`template` is the whole `spec.template` as decoded JSON. Raises BadSpec."""
    meta = machine_set.metadata
    return SetFacts(
        uid=meta.uid,
        owner=controller_uid(meta, MACHINE_DEPLOYMENTS.kind),
        template=template_digest(template),
        revision=meta.annotations.get(REVISION, ""),
    )


def deployment_facts(deployment: MachineDeployment, template: Any) -> DeploymentFacts:
    """`template` is the whole `spec.template` as decoded JSON. Raises BadSpec."""
    meta, spec = deployment.metadata, deployment.spec
    rolling = spec.strategy.rolling_update if spec.strategy is not None else None
    return DeploymentFacts(
        uid=meta.uid,
        name=meta.name,
        replicas=DEFAULT_REPLICAS if spec.replicas is None else spec.replicas,
        template=template_digest(template),
        max_surge=rolling.max_surge if rolling is not None else None,
        rolling=spec.strategy is None or spec.strategy.type in ROLLING,
        paused=spec.paused,
        deleting=is_deleting(meta),
    )


def set_of(meta: Meta) -> str:
    """The uid of the MachineSet that controls a Machine; empty: none does."""
    return controller_uid(meta, MACHINE_SETS.kind)


def controller_uid(meta: Meta, kind: str) -> str:
    controllers = [one for one in meta.owner_references if one.controller]
    if len(controllers) != 1:
        return ""
    owner = controllers[0]
    return owner.uid if (owner.api_version.partition("/")[0], owner.kind) == (GROUP, kind) else ""


def template_digest(template: Any) -> str:
    """The same for a deployment and for the sets that were made from it. Raises BadSpec."""
    return digest(_without_hash(template))


def _without_hash(template: Any) -> Any:
    """Without the label that sets have and deployments have not; labels that are empty by then are none."""
    meta = template.get("metadata") if isinstance(template, dict) else None
    if not isinstance(meta, dict):
        return template
    labels = meta.get("labels")
    kept = {key: value for key, value in labels.items() if key != TEMPLATE_HASH} if isinstance(labels, dict) else labels
    meta = {key: value for key, value in {**meta, "labels": kept or None}.items() if value is not None}
    return {**template, "metadata": meta or None}
