"""What both provisioners decide about a claim and its PersistentVolume, and the objects that they make. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ullage.kube.builtin.core import PERSISTENT_VOLUMES, PersistentVolumeClaim
from ullage.kube.builtin.storage import STORAGE_CLASSES, StorageClass
from ullage.kube.events.reason import Reason
from ullage.kube.objects import Json, is_deleting
from ullage.standalone.world.matching import ClaimFacts, best_match, delayed
from ullage.standalone.world.model import PROVISIONED_BY, claim_reference, volume_name, wants_data

PROVISIONED: Final = Reason("ProvisioningSucceeded", action="Provision")
HELD: Final = Reason("VolumeHeld", action="Delete", type="Warning")
NOT_DELETED: Final = Reason("VolumeFailedDelete", action="Delete", type="Warning")  # kube-controller-manager's own word
NOT_PROVISIONED: Final = Reason("ProvisioningFailed", action="Provision", type="Warning")


@dataclass(frozen=True, slots=True)
class Provision:
    """What holds the data, then a PersistentVolume of this name."""

    name: str
    storage_class: StorageClass


@dataclass(frozen=True, slots=True)
class Refuse:
    """It asks for what volumes of its class cannot be."""

    note: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Nobody has it any more, and its policy says that it goes."""


@dataclass(frozen=True, slots=True)
class Finalize:
    """It is being deleted, and nobody uses it: its data goes first (`with_data`), or is left to the administrator."""

    with_data: bool


def plan_provision(
    claim: PersistentVolumeClaim, facts: ClaimFacts, *, provisioner: str, problem: str = ""
) -> Provision | Refuse | None:
    """None: somebody else's claim, or one that does not need a new volume, or not yet. `problem` is why a volume of this
    provisioner cannot be what the claim asks for."""
    found = facts.storage_class
    if found is None or found.provisioner != provisioner or claim.spec.volume_name:
        return None
    if is_deleting(claim.metadata) or wants_data(claim) or delayed(found, consumed=facts.consumed):
        return None
    if problem:
        return Refuse(problem)
    if claim.spec.selector is not None:
        return Refuse("spec.selector: not allowed where volumes are made on demand")
    return None if best_match(claim, facts) else Provision(volume_name(claim.metadata.uid), found)


def new_volume(
    claim: PersistentVolumeClaim, plan: Provision, *, provisioner: str, finalizer: str, capacity: str | int, source: Json
) -> Json:
    """The PersistentVolume as it is created. It names its claim from the start: nobody else can take it."""
    found = plan.storage_class
    return {
        "apiVersion": PERSISTENT_VOLUMES.api_version,
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": {"name": plan.name, "annotations": {PROVISIONED_BY: provisioner}, "finalizers": [finalizer]},
        "spec": {
            "capacity": {"storage": capacity},
            "accessModes": list(claim.spec.access_modes),
            "volumeMode": claim.spec.volume_mode,
            "persistentVolumeReclaimPolicy": found.reclaim_policy,
            "storageClassName": found.metadata.name,
            **({"mountOptions": list(found.mount_options)} if found.mount_options else {}),
            **source,
            "claimRef": claim_reference(claim),
        },
    }


def new_storage_class(name: str, provisioner: str, *, annotations: Mapping[str, str] | None = None) -> Json:
    return {
        "apiVersion": STORAGE_CLASSES.api_version,
        "kind": STORAGE_CLASSES.kind,
        "metadata": {"name": name, **({"annotations": dict(annotations)} if annotations else {})},
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": False,
    }
