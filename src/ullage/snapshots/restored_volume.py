"""The PersistentVolume of a volume that was made from a snapshot: what is read back from it. Pure.

It says by itself how its volume is to be deleted once the claim is gone: neither the class nor the snapshot has to be there
any more. `ullage.io/restored-from` on it tells everybody else to leave that to us.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.snapshots.model import Ref

RESTORED_FROM: Final = "ullage.io/restored-from"
HANDLE: Final = "ullage.io/volume-handle"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
FINALIZER: Final = "ullage.io/restored-volume"
# As CSI provisioners write it down.
SECRET_NAME: Final = "volume.kubernetes.io/provisioner-deletion-secret-name"
SECRET_NAMESPACE: Final = "volume.kubernetes.io/provisioner-deletion-secret-namespace"


def is_ours(volume: PersistentVolume) -> bool:
    annotations = volume.metadata.annotations
    return all(annotations.get(key) for key in (RESTORED_FROM, HANDLE, PROVISIONED_BY))


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether we made it for this very claim."""
    ref = volume.spec.claim_ref
    return is_ours(volume) and ref is not None and ref.uid == claim.metadata.uid


def handle_of(volume: PersistentVolume) -> str:
    return volume.metadata.annotations[HANDLE]


def driver_of(volume: PersistentVolume) -> str:
    return volume.metadata.annotations[PROVISIONED_BY]


def secret_of(volume: PersistentVolume) -> Ref | None:
    """What its deletion needs."""
    annotations = volume.metadata.annotations
    name, namespace = annotations.get(SECRET_NAME), annotations.get(SECRET_NAMESPACE)
    return Ref(namespace, name) if name and namespace else None
