"""Names and marks that the world's controllers share with each other and with those of a cluster, and what they say. Pure."""

from __future__ import annotations

import re
from typing import Final

from ullage.kube.builtin.core import CLAIMS, PersistentVolume, PersistentVolumeClaim
from ullage.kube.objects import Json
from ullage.snapshots.settings import HOSTPATH

NODE: Final = "ullage"
HOSTNAME: Final = "kubernetes.io/hostname"
CLASS: Final = "ullage-hostpath"
PROVISIONER: Final = HOSTPATH
HOSTPATH_FINALIZER: Final = "ullage.io/hostpath"  # the finalizer of a volume whose directory is ours to remove

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
ASKED_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"  # on a claim: who is to make its volume
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"  # of a class whose volumes are made by hand
RESTORED_FROM: Final = "ullage.io/restored-from"  # a volume that the snapshots slice made, and takes away
SNAPSHOT: Final = "snapshot.alpha.kubernetes.io/snapshot"  # a claim that asks for a snapshot's data in the old way

_VOLUME_NAME: Final = re.compile(r"pvc-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def volume_name(uid: str) -> str:
    """The name of the volume, and of the directory, that a claim gets. From its uid alone, which the server made."""
    name = f"pvc-{uid}"
    if not _VOLUME_NAME.fullmatch(name):
        raise ValueError(f"claim uid {uid!r}: not a UUID, so no directory is named by it")
    return name


def uid_of(name: str) -> str | None:
    """The claim's uid in such a name; None for any other."""
    found = _VOLUME_NAME.fullmatch(name)
    return found[1] if found else None


def wants_data(claim: PersistentVolumeClaim) -> bool:
    """Whether it is to be filled from somewhere, so that an empty volume would be wrong."""
    return bool(claim.spec.data_source or claim.spec.data_source_ref) or SNAPSHOT in claim.metadata.annotations


def is_provisioned_here(volume: PersistentVolume) -> bool:
    """Whether the world made it, and so takes its directory away."""
    marks = volume.metadata.annotations
    return marks.get(PROVISIONED_BY) == PROVISIONER and RESTORED_FROM not in marks


def claim_reference(claim: PersistentVolumeClaim) -> Json:
    """The `claimRef` of the volume that a claim has."""
    meta = claim.metadata
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
