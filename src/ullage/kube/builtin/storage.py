"""storage.k8s.io: StorageClasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.kube.kinds import Kind, Object

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"


class StorageClass(Object):
    provisioner: str = ""
    parameters: Mapping[str, str] = {}
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    mount_options: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        annotations = self.metadata.annotations
        return "true" in (annotations.get(DEFAULT_CLASS), annotations.get(BETA_DEFAULT_CLASS))


STORAGE_CLASSES: Final = Kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", StorageClass, namespaced=False, whole=False, status=False
)
