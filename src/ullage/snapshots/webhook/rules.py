"""What the restore annotation of a new claim asks for, and why it cannot be had; what goes with a claim. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.kube.builtin.core import PersistentVolumeClaim, TypedObjectReference
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting
from ullage.names import SUBDOMAIN_LIMIT, is_subdomain
from ullage.snapshots.api.prototype.types import GROUP
from ullage.snapshots.data_source import SNAPSHOT_KIND
from ullage.snapshots.model import Record


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


TOLD: Final = 5  # snapshots in a warning


def lost_with(claim: Meta, records: Iterable[Record]) -> str:
    """What the deletion of a claim destroys besides its data; empty: nothing. `records` are those of its volume."""
    here = (one for one in records if one.ref.namespace == claim.namespace and not is_deleting(one.meta))
    names = sorted({one.ref.name for one in here})
    if not names:
        return ""
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    which = f"VolumeSnapshot {names[0]}" if len(names) == 1 else f"VolumeSnapshots {', '.join(names[:TOLD])}{more}"
    goes = "goes" if len(names) == 1 else "go"
    return f"{which} of claim {claim.name} {goes} with it: Longhorn keeps snapshots inside the volume, and deletes it now"
