"""A volume for a claim: which claims get one, and what it looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.kube.builtin.core import PERSISTENT_VOLUMES, PersistentVolumeClaim
from ullage.kube.builtin.storage import DEFAULT_CLASS, STORAGE_CLASSES, StorageClass
from ullage.kube.events.recorder import Reason
from ullage.kube.objects import is_deleting
from ullage.standalone.world.model import (
    CLASS,
    HELD,
    HOSTNAME,
    NODE,
    PROVISIONED_BY,
    PROVISIONER,
    Json,
    volume_name,
    wants_data,
)
from ullage.standalone.world.rules.binding import ClaimFacts, best_match, delayed

PROVISIONED: Final = Reason("ProvisioningSucceeded", action="Provision")
NOT_PROVISIONED: Final = Reason("ProvisioningFailed", action="Provision", type="Warning")

DEFAULT: Final[Json] = {
    "apiVersion": STORAGE_CLASSES.api_version,
    "kind": STORAGE_CLASSES.kind,
    "metadata": {"name": CLASS, "annotations": {DEFAULT_CLASS: "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
    "allowVolumeExpansion": False,
}


@dataclass(frozen=True, slots=True)
class Provision:
    """A directory, then this volume."""

    name: str
    storage_class: StorageClass


@dataclass(frozen=True, slots=True)
class Refuse:
    """It asks for what a directory cannot be."""

    note: str


def plan_provision(claim: PersistentVolumeClaim, facts: ClaimFacts) -> Provision | Refuse | None:
    """None: somebody else's claim, or one that does not need a new volume, or not yet."""
    found = facts.storage_class
    if found is None or found.provisioner != PROVISIONER or claim.spec.volume_name:
        return None
    if is_deleting(claim.metadata) or wants_data(claim) or delayed(found, consumed=facts.consumed):
        return None
    if claim.spec.volume_mode != "Filesystem":
        allowed = "Filesystem is allowed: the volumes of this class are directories"
        return Refuse(f"spec.volumeMode {claim.spec.volume_mode}: {allowed}")
    if claim.spec.selector is not None:
        return Refuse("spec.selector: not allowed where volumes are made on demand")
    return None if best_match(claim, facts) else Provision(volume_name(claim.metadata.uid), found)


def volume_for(claim: PersistentVolumeClaim, made: Provision, *, path: str) -> Json:
    """The volume as it is created. It names its claim from the start: nobody else can take it."""
    found = made.storage_class
    here = {"key": HOSTNAME, "operator": "In", "values": [NODE]}
    return {
        "apiVersion": PERSISTENT_VOLUMES.api_version,
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": {"name": made.name, "annotations": {PROVISIONED_BY: PROVISIONER}, "finalizers": [HELD]},
        "spec": {
            "capacity": {"storage": claim.spec.resources.requests["storage"]},
            "accessModes": list(claim.spec.access_modes),
            "volumeMode": claim.spec.volume_mode,
            "persistentVolumeReclaimPolicy": found.reclaim_policy,
            "storageClassName": found.metadata.name,
            **({"mountOptions": list(found.mount_options)} if found.mount_options else {}),
            "hostPath": {"path": path, "type": "Directory"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "claimRef": reference_to(claim),
        },
    }


def reference_to(claim: PersistentVolumeClaim) -> Json:
    meta = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
