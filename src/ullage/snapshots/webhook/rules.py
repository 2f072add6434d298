"""What the restore annotation of a new claim asks for, and why it cannot be had. Pure."""

from __future__ import annotations

from ullage.kube.builtin.core import PersistentVolumeClaim, TypedObjectReference
from ullage.names import SUBDOMAIN_LIMIT, is_subdomain
from ullage.snapshots.api.prototype.types import GROUP
from ullage.snapshots.data_source import SNAPSHOT_KIND


def data_source_for(name: str) -> TypedObjectReference | str:
    """The `dataSourceRef` that the annotation stands for, or what is wrong with it."""
    if not is_subdomain(name):
        return f"{name!r} is not the name of a VolumeSnapshot: lower-case letters, digits, '-' and '.', 1 to {SUBDOMAIN_LIMIT}"
    return TypedObjectReference(api_group=GROUP, kind=SNAPSHOT_KIND, name=name)


def disagreement(claim: PersistentVolumeClaim, wanted: TypedObjectReference, *, namespace: str) -> str:
    """Another source that the claim names itself. The API server would drop, or fill in, one of two that are alike."""
    for field, found in (("spec.dataSource", claim.spec.data_source), ("spec.dataSourceRef", claim.spec.data_source_ref)):
        if found is None:
            continue
        same = (found.api_group, found.kind, found.name) == (wanted.api_group, wanted.kind, wanted.name)
        if not same or found.namespace not in {None, "", namespace}:
            return f"{_shown(wanted)} and {field}, {_shown(found)}, are two sources; leave one of them out"
    return ""


def _shown(source: TypedObjectReference) -> str:
    kind = f"{source.kind}.{source.api_group}" if source.api_group else source.kind
    return f"{kind} {source.namespace}/{source.name}" if source.namespace else f"{kind} {source.name}"
