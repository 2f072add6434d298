"""The API server's own admission: what holds without any webhook.

namespace_lifecycle     nothing is created where there is no namespace, or where it is going away
default_storage_class   a claim that names no class gets the default one
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ullage.standalone.apiserver.resources import dig
from ullage.standalone.apiserver.status import Json, forbidden, namespace_terminating, not_found
from ullage.standalone.apiserver.tables.storage import CLASS_ANNOTATION, is_default_class
from ullage.standalone.apiserver.webhooks.attributes import Attributes

IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
ANYWHERE: Final = frozenset({"localsubjectaccessreviews.authorization.k8s.io"})  # questions, not content
CLAIMS: Final = "persistentvolumeclaims"
CLASSES: Final = "storageclasses.storage.k8s.io"


class EntryLike(Protocol):
    @property
    def data(self) -> bytes: ...

    def obj(self) -> Json: ...


class StoreLike(Protocol):
    def get(self, storage: str, namespace: str, name: str) -> EntryLike | None: ...

    def items(self, storage: str, namespace: str = "") -> Sequence[EntryLike]: ...


def admit(attrs: Attributes, store: StoreLike) -> None:
    """Refuses with an ApiError, or fills in what the object leaves to the server."""
    namespace_lifecycle(attrs, store)
    default_storage_class(attrs, store)


def namespace_lifecycle(attrs: Attributes, store: StoreLike) -> None:
    resource = attrs.resource
    if attrs.is_namespace:
        if attrs.operation == "DELETE" and attrs.name in IMMORTAL:
            raise forbidden("", "namespaces", attrs.name, "this namespace may not be deleted")
        return
    if attrs.operation != "CREATE" or not attrs.namespace or resource.group_resource in ANYWHERE:
        return
    entry = store.get("namespaces", "", attrs.namespace)
    if entry is None:
        raise not_found("", "namespaces", attrs.namespace)
    # Most namespaces live: looking at the bytes spares decoding them on every create.
    if b'"deletionTimestamp"' in entry.data and dig(entry.obj(), "metadata", "deletionTimestamp"):
        name = attrs.name or dig(attrs.object, "metadata", "generateName") or ""
        raise namespace_terminating(resource.group, resource.plural, name, namespace=attrs.namespace)


def default_storage_class(attrs: Attributes, store: StoreLike) -> None:
    """The newest of the default classes; between equals the first by name. An empty name is a choice, too: no class."""
    if attrs.resource.group_resource != CLAIMS or attrs.operation != "CREATE" or attrs.subresource or attrs.object is None:
        return
    spec = attrs.object.get("spec")
    chosen = dig(attrs.object, "metadata", "annotations", CLASS_ANNOTATION)
    if not isinstance(spec, dict) or spec.get("storageClassName") is not None or chosen is not None:
        return
    defaults = [found for found in (entry.obj() for entry in store.items(CLASSES)) if is_default_class(found)]
    if defaults:
        by_name = sorted(defaults, key=lambda each: str(each["metadata"]["name"]))
        newest = max(by_name, key=lambda each: str(dig(each, "metadata", "creationTimestamp") or ""))
        spec["storageClassName"] = newest["metadata"]["name"]
