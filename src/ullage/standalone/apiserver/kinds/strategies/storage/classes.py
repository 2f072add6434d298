"""StorageClasses: the one that a claim without a class gets, and the annotation that names a class."""

from __future__ import annotations

from ullage.standalone.apiserver.objects import Json, dig

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"  # older than spec.storageClassName, and stronger
DEFAULT_ANNOTATIONS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def storage_class_of(obj: Json) -> str:
    """The class that a claim or a volume names; empty where it names none."""
    annotated = dig(obj, "metadata", "annotations", CLASS_ANNOTATION)
    return str((annotated if annotated is not None else dig(obj, "spec", "storageClassName")) or "")


def is_default_class(obj: Json) -> bool:
    annotations = dig(obj, "metadata", "annotations") or {}
    return any(annotations.get(key) == "true" for key in DEFAULT_ANNOTATIONS)
