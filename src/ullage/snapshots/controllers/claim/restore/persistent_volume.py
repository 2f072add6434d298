"""The PersistentVolume that is written for a restored claim. Pure; `restored_volume.py` reads it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.kinds import Kind, Meta, Object
from ullage.quantity import Format, Quantity
from ullage.snapshots.backends.base import Restored
from ullage.snapshots.controllers.claim.restore.rules import RestoreRequest
from ullage.snapshots.controllers.claim.restore.topology import node_affinity
from ullage.snapshots.restored_volume import FINALIZER, HANDLE, PROVISIONED_BY, RESTORED_FROM, SECRET_NAME, SECRET_NAMESPACE


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
    if affinity := node_affinity(restored):
        body["nodeAffinity"] = affinity
    return NewVolume(metadata=Meta(name=request.restoration.name, annotations=annotations, finalizers=(FINALIZER,)), spec=body)


def _source(restored: Restored, request: RestoreRequest) -> dict[str, Any]:
    source = dict(restored.source)
    if "csi" in source:
        source["csi"] = {**source["csi"], **request.references}
    return source
