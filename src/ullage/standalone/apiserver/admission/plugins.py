"""The API server's own admission: what holds without any webhook.

`admit` comes before the mutating webhooks, and may fill in the object:
    namespace_lifecycle     nothing is created where there is no namespace, or where it is going away
    default_storage_class   a claim that names no class gets the default one
    pod_priority            a pod's priority is that of its class, or of the default one
    pod_tolerations         a pod stays for a while on a node that is gone
    limit_ranges            a container that does not say what it needs gets what its namespace says

`validate` comes when all is validated, before the validating webhooks, and may only refuse:
    claim_resize            a claim grows if its class lets it
    within_limit_ranges     pods and claims ask for neither less nor more than their namespace allows
    one_default_priority    at most one PriorityClass is the default
    no_mutating_policies    what nothing here would apply is not stored as if it were
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from ullage.standalone.apiserver.admission.attributes import Attributes
from ullage.standalone.apiserver.admission.quotas import limit_ranges as ranges
from ullage.standalone.apiserver.kinds.strategies.base import spec_of
from ullage.standalone.apiserver.kinds.strategies.storage.claims import resize_refusal
from ullage.standalone.apiserver.kinds.strategies.storage.classes import CLASS_ANNOTATION, is_default_class
from ullage.standalone.apiserver.kinds.strategies.workloads.pod_defaults import tolerate_bad_nodes
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.status import ApiError, forbidden, namespace_terminating, not_found
from ullage.standalone.apiserver.storage.entries import StoredObject

IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
ANYWHERE: Final = frozenset({"localsubjectaccessreviews.authorization.k8s.io"})  # questions, not content
CLAIMS: Final = "persistentvolumeclaims"
CLASSES: Final = "storageclasses.storage.k8s.io"
PRIORITIES: Final = "priorityclasses.scheduling.k8s.io"
LIMIT_RANGES: Final = "limitranges"
PREEMPT: Final = "PreemptLowerPriority"


class ObjectReader(Protocol):
    def get(self, storage: str, namespace: str, name: str) -> StoredObject | None: ...

    def items(self, storage: str, namespace: str = "") -> Sequence[StoredObject]: ...


def admit(attrs: Attributes, store: ObjectReader) -> None:
    """Refuses with an ApiError, or fills in what the object leaves to the server."""
    namespace_lifecycle(attrs, store)
    if attrs.object is not None and not attrs.subresource:
        for step in _FILLERS.get(attrs.resource.group_resource, ()):
            step(attrs, store)


def validate(attrs: Attributes, store: ObjectReader) -> None:
    """Refuses with an ApiError what is well-formed and yet not to be had."""
    if attrs.object is not None and not attrs.subresource:
        for step in _VALIDATORS.get(attrs.resource.group_resource, ()):
            step(attrs, store)


def namespace_lifecycle(attrs: Attributes, store: ObjectReader) -> None:
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
        raise namespace_terminating(resource.group, resource.plural, _shown_name(attrs), namespace=attrs.namespace)


def default_storage_class(attrs: Attributes, store: ObjectReader) -> None:
    """The newest of the default classes; between equals the first by name. An empty name is a choice, too: no class."""
    if attrs.operation != "CREATE" or attrs.object is None:
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


def claim_resize(attrs: Attributes, store: ObjectReader) -> None:
    if attrs.old is None or attrs.object is None:
        return

    def found(name: str) -> Json | None:
        entry = store.get(CLASSES, "", name)
        return entry.obj() if entry else None

    if refusal := resize_refusal(attrs.object, attrs.old, storage_class=found):
        raise _refused(attrs, refusal)


def pod_priority(attrs: Attributes, store: ObjectReader) -> None:
    """The class that a pod names must exist; what it says must not be said otherwise in the pod."""
    if attrs.operation != "CREATE" or attrs.object is None:
        return
    spec = spec_of(attrs.object)
    chosen = _priority_class(attrs, spec.get("priorityClassName") or "", store)
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"]["name"]
    value, policy = (chosen.get("value") or 0, chosen.get("preemptionPolicy") or PREEMPT) if chosen else (0, PREEMPT)
    for field, said, meant in (
        ("integer value of priority", spec.get("priority"), value),
        ("string value of PreemptionPolicy", spec.get("preemptionPolicy"), policy),
    ):
        if said is not None and said != meant:
            text = f"the {field} ({said}) must not be provided in pod spec; priority admission controller computed {meant}"
            raise _refused(attrs, f"{text} from the given PriorityClass name")
    spec["priority"], spec["preemptionPolicy"] = value, policy


def _priority_class(attrs: Attributes, name: str, store: ObjectReader) -> Json | None:
    if name:
        entry = store.get(PRIORITIES, "", name)
        if entry is None:
            raise _refused(attrs, f"no PriorityClass with name {name} was found")
        return entry.obj()
    return min(_default_priorities(store), key=lambda each: int(each.get("value") or 0), default=None)


def _default_priorities(store: ObjectReader) -> list[Json]:
    found = (entry.obj() for entry in store.items(PRIORITIES) if b'"globalDefault":true' in entry.data)
    return [each for each in found if each.get("globalDefault")]


def pod_tolerations(attrs: Attributes, store: ObjectReader) -> None:
    if attrs.object is not None:
        tolerate_bad_nodes(spec_of(attrs.object))


def limit_ranges(attrs: Attributes, store: ObjectReader) -> None:
    if attrs.operation == "CREATE" and attrs.object is not None:
        ranges.fill_pod(attrs.object, _ranges(attrs, store))


def within_limit_ranges(attrs: Attributes, store: ObjectReader) -> None:
    """Of pods only new ones: what they ask for does not change afterwards. And nothing that is being deleted: whoever holds it
    by a finalizer has to be able to let go, though a range that came later would not have it."""
    if attrs.object is None or (attrs.operation != "CREATE" and attrs.resource.plural == "pods"):
        return
    if dig(attrs.old, "metadata", "deletionTimestamp"):
        return
    judge = ranges.pod_faults if attrs.resource.plural == "pods" else ranges.claim_faults
    if faults := judge(attrs.object, _ranges(attrs, store)):
        raise _refused(attrs, ranges.listed(faults))


def _ranges(attrs: Attributes, store: ObjectReader) -> list[Json]:
    return [entry.obj() for entry in store.items(LIMIT_RANGES, attrs.namespace)]


def one_default_priority(attrs: Attributes, store: ObjectReader) -> None:
    if attrs.object is None or not attrs.object.get("globalDefault"):
        return
    for other in _default_priorities(store):
        name = other["metadata"]["name"]
        if name != attrs.name:
            raise _refused(attrs, f"PriorityClass {name} is already marked as default. Only one default can exist")


def no_mutating_policies(attrs: Attributes, store: ObjectReader) -> None:
    raise _refused(attrs, "mutating admission policies are not enforced by this server; a mutating webhook would be")


def _refused(attrs: Attributes, text: str) -> ApiError:
    return forbidden(attrs.resource.group, attrs.resource.plural, _shown_name(attrs), text)


def _shown_name(attrs: Attributes) -> str:
    return attrs.name or dig(attrs.object, "metadata", "generateName") or ""


_Step = Callable[[Attributes, ObjectReader], None]
_FILLERS: Final[dict[str, tuple[_Step, ...]]] = {
    CLAIMS: (default_storage_class,),
    "pods": (pod_tolerations, pod_priority, limit_ranges),
}
_VALIDATORS: Final[dict[str, tuple[_Step, ...]]] = {
    CLAIMS: (claim_resize, within_limit_ranges),
    "pods": (within_limit_ranges,),
    PRIORITIES: (one_default_priority,),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": (no_mutating_policies,),
}
