"""Which objects a list or watch is about: label selectors, field selectors and the fields that each kind offers for them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ullage.selectors import FieldSelector, LabelSelector, SelectorError, field_text
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.request.request import Request
from ullage.standalone.apiserver.status import bad_request, json_string
from ullage.standalone.apiserver.storage.entries import Key

# Field selectors beyond metadata.name and metadata.namespace, by resource.
_EVENT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
FIELD_LABELS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "replicationcontrollers": ("status.replicas",),
    "jobs.batch": ("status.successful",),
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
    "events": (
        *(f"involvedObject.{field}" for field in _EVENT),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "events.events.k8s.io": (*(f"regarding.{field}" for field in _EVENT), "reason", "reportingController", "type"),
}
# Where the value of a label is, where that is not what the label says; the first place that has one counts.
_PLACES: dict[tuple[str, str], tuple[str, ...]] = {
    ("jobs.batch", "status.successful"): ("status.succeeded",),
    ("events", "source"): ("source.component", "reportingComponent"),
    ("pods", "status.podIPs"): (),  # may be asked for, and is never there
}
# What an absent field counts as: a number or a truth value is never absent to kube-apiserver. Others are empty.
_ABSENT = {
    ("jobs.batch", "status.successful"): "0",
    ("nodes", "spec.unschedulable"): "false",
    ("pods", "spec.hostNetwork"): "false",
    ("replicationcontrollers", "status.replicas"): "0",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which objects a list or watch is about. `trivial` ones are decided by the key alone."""

    namespace: str
    name: str
    labels: LabelSelector
    fields: FieldSelector
    of: str = ""  # the resource, as messages name it: the same label may be read from another place in another kind

    @property
    def trivial(self) -> bool:
        return not self.labels and not self.fields

    def has_key(self, key: Key) -> bool:
        return (not self.namespace or key[0] == self.namespace) and (not self.name or key[1] == self.name)

    def matches(self, data: bytes) -> bool:
        """Whether the object behind these bytes is selected; the key was asked before."""
        if self.trivial:
            return True
        if not self.fields:
            return self.labels.matches(_labels.decode(data).metadata.labels)
        obj = msgspec.json.decode(data)
        return self.labels.matches(obj["metadata"].get("labels")) and self.fields.matches(
            lambda label: _selected(self.of, label, obj)
        )


def _selected(resource: str, label: str, obj: Json) -> str:
    """The value that a field selector compares."""
    places = _PLACES.get((resource, label), (label,))
    return next(filter(None, (field_text(obj, place) for place in places)), _ABSENT.get((resource, label), ""))


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta


_labels = msgspec.json.Decoder(_Labelled)


def check_field_labels(fields: FieldSelector, resource: Resource) -> None:
    own = FIELD_LABELS.get(resource.group_resource, ())
    selectable = _selectable(resource)
    for field in fields.fields:
        if field == "metadata.name" or (field == "metadata.namespace" and (resource.namespaced or resource.custom is None)):
            continue
        if field in own or field in selectable:
            continue
        if resource.group_resource == "jobs.batch":
            raise bad_request(f"field label {json_string(field)} not supported for Job")
        if own or selectable:
            raise bad_request(f"field label not supported: {field}")
        known = ['"metadata.name"', *(['"metadata.namespace"'] if resource.namespaced or not resource.custom else [])]
        raise bad_request(f"{json_string(field)} is not a known field selector: only {', '.join(known)}")


def _selectable(resource: Resource) -> list[str]:
    """The fields that a CustomResourceDefinition offers for selection."""
    if resource.custom is None:
        return []
    version = next(v for v in resource.custom["versions"] if v["name"] == resource.version)
    return [item["jsonPath"].removeprefix(".") for item in version.get("selectableFields") or ()]


def filter_of(request: Request, resource: Resource) -> Filter:
    try:
        labels = LabelSelector.parse(request.param("labelSelector"))
        fields = FieldSelector.parse(request.param("fieldSelector"))
    except SelectorError as error:
        raise bad_request(str(error)) from None
    check_field_labels(fields, resource)
    namespace = request.target.namespace if resource.namespaced else ""
    name = request.target.name or fields.exact("metadata.name") or ""
    return Filter(namespace, name, labels, fields, resource.group_resource)
