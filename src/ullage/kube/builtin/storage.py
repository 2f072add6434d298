"""storage.k8s.io: StorageClasses, and what drivers say of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.kube.kinds import Kind, Object, Value

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"


class TopologyRequirement(Value):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Value):
    """A place: for each key one of its values."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Object):
    provisioner: str = ""
    parameters: Mapping[str, str] = {}
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    mount_options: tuple[str, ...] = ()
    allowed_topologies: tuple[TopologyTerm, ...] = ()

    @property
    def is_default(self) -> bool:
        annotations = self.metadata.annotations
        return "true" in (annotations.get(DEFAULT_CLASS), annotations.get(BETA_DEFAULT_CLASS))


STORAGE_CLASSES: Final = Kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", StorageClass, namespaced=False, whole=False, status=False
)


class CsiNodeDriver(Value):
    """A driver that has registered on a node. Its topology of the node is in the node's labels, under these keys."""

    name: str = ""
    topology_keys: tuple[str, ...] = ()


class CsiNodeSpec(Value):
    drivers: tuple[CsiNodeDriver, ...] = ()


class CsiNode(Object):
    """Has the name of its node."""

    spec: CsiNodeSpec = CsiNodeSpec()


CSI_NODES: Final = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", CsiNode, namespaced=False, whole=False, status=False)
