"""The PersistentVolume of a volume that was made from a snapshot: how it is written, and what is read back from it.

Pure. It says by itself how its volume is to be deleted once the claim is gone: neither the class nor the snapshot has to be
there any more. `ullage.io/restored-from` on it tells everybody else to leave that to us.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.kinds import Kind, Meta, Object
from ullage.quantity import Format, Quantity
from ullage.snapshots.backends.base import Restored
from ullage.snapshots.controllers.claim.restore.rules import RestoreRequest
from ullage.snapshots.model import Ref
from ullage.snapshots.source_volume import HOSTNAME

RESTORED_FROM: Final = "ullage.io/restored-from"
HANDLE: Final = "ullage.io/volume-handle"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
FINALIZER: Final = "ullage.io/restored-volume"
# As CSI provisioners write it down.
SECRET_NAME: Final = "volume.kubernetes.io/provisioner-deletion-secret-name"
SECRET_NAMESPACE: Final = "volume.kubernetes.io/provisioner-deletion-secret-namespace"


class NewVolume(Object):
    """A PersistentVolume to be created. Its source is whatever the backend says."""

    spec: Mapping[str, Any] = {}


NEW_VOLUMES: Final[Kind[NewVolume]] = Kind(
    PERSISTENT_VOLUMES.group,
    PERSISTENT_VOLUMES.version,
    PERSISTENT_VOLUMES.kind,
    PERSISTENT_VOLUMES.plural,
    NewVolume,
    namespaced=False,
    whole=False,
)


def new_volume(
    claim: PersistentVolumeClaim, request: RestoreRequest, *, storage_class: StorageClass, restored: Restored, snapshot: str
) -> NewVolume:
    """For this claim and no other; the cluster binds the two. `snapshot` is its name."""
    meta, spec = claim.metadata, claim.spec
    annotations = {
        PROVISIONED_BY: request.driver,
        RESTORED_FROM: f"{meta.namespace}/{snapshot}",
        HANDLE: restored.handle,
    }
    if request.secret is not None:
        annotations |= {SECRET_NAME: request.secret.name, SECRET_NAMESPACE: request.secret.namespace}
    body: dict[str, Any] = {
        "capacity": {"storage": str(Quantity.of(restored.size or request.restoration.size, Format.BINARY_SI))},
        "accessModes": list(request.restoration.access_modes),
        "volumeMode": spec.volume_mode,
        "storageClassName": storage_class.metadata.name,
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "claimRef": {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
        },
        **_source(restored, request),
    }
    if storage_class.mount_options:
        body["mountOptions"] = list(storage_class.mount_options)
    if restored.node:
        only = {"key": HOSTNAME, "operator": "In", "values": [restored.node]}
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}}
    return NewVolume(metadata=Meta(name=request.restoration.name, annotations=annotations, finalizers=(FINALIZER,)), spec=body)


def _source(restored: Restored, request: RestoreRequest) -> dict[str, Any]:
    source = dict(restored.source)
    if "csi" in source:
        source["csi"] = {**source["csi"], **request.references}
    return source


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
