"""The built-in kinds that snapshots are about: only the fields that decisions need. All belong to Kubernetes, so none is
ever PUT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ullage.kube.kinds import Kind, Object, Value

# --- claims ----------------------------------------------------------------------------------------------------------


class Reference(Value):
    """Where a claim's data comes from (`dataSource`, `dataSourceRef`)."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class Resources(Value):
    requests: Mapping[str, str | int] = {}


class ClaimSpec(Value):
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    access_modes: tuple[str, ...] = ()
    resources: Resources = Resources()
    data_source: Reference | None = None
    data_source_ref: Reference | None = None


class ClaimStatus(Value):
    phase: str = ""


class Claim(Object):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


# --- volumes ---------------------------------------------------------------------------------------------------------


class ObjectReference(Value):
    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class SecretReference(Value):
    name: str = ""
    namespace: str = ""


class HostPath(Value):
    path: str = ""
    type: str | None = None


class Local(Value):
    path: str = ""


class Ebs(Value):
    volume_id: str = msgspec.field(default="", name="volumeID")


class Csi(Value):
    driver: str = ""
    volume_handle: str = ""


class Term(Value):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class Terms(Value):
    match_expressions: tuple[Term, ...] = ()


class Required(Value):
    node_selector_terms: tuple[Terms, ...] = ()


class NodeAffinity(Value):
    required: Required | None = None


class VolumeSpec(Value):
    capacity: Mapping[str, str | int] = {}
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    persistent_volume_reclaim_policy: str = "Retain"
    volume_mode: str = "Filesystem"
    node_affinity: NodeAffinity | None = None
    csi: Csi | None = None
    host_path: HostPath | None = None
    local: Local | None = None
    aws_elastic_block_store: Ebs | None = None


class VolumeStatus(Value):
    phase: str = ""


class Volume(Object):
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


# --- classes and secrets ---------------------------------------------------------------------------------------------


class StorageClass(Object):
    provisioner: str = ""
    parameters: Mapping[str, str] = {}
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    mount_options: tuple[str, ...] = ()


class Secret(Object):
    data: Mapping[str, str] = {}

    def __repr__(self) -> str:
        """Without what is in it: this may end up in a log."""
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"


def _kind(group: str, version: str, kind: str, plural: str, type: Any, **rest: Any) -> Kind[Any]:
    return Kind(group, version, kind, plural, type, whole=False, **rest)


CLAIMS: Final[Kind[Claim]] = _kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Claim)
VOLUMES: Final[Kind[Volume]] = _kind("", "v1", "PersistentVolume", "persistentvolumes", Volume, namespaced=False)
STORAGE_CLASSES: Final[Kind[StorageClass]] = _kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", StorageClass, namespaced=False, status=False
)
SECRETS: Final[Kind[Secret]] = _kind("", "v1", "Secret", "secrets", Secret, status=False)
