"""PersistentVolumeClaim: what it asks for is fixed, but for its growth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ullage.quantity import ZERO, Quantity
from ullage.standalone.apiserver.kinds.metadata import IMMUTABLE
from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    Strategy,
    changes,
    collect,
    collect_update,
    fill,
    items,
    label_selector,
    one_of,
    optional_name,
    part,
    round_amounts,
    spec_of,
)
from ullage.standalone.apiserver.kinds.strategies.storage.classes import storage_class_of
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import forbidden_field, invalid_value, required

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
NOT_RESIZABLE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)
# The fields of a claim's spec in the server's own order, for the difference that it shows.
_FIELDS = (
    *("accessModes", "selector", "resources", "volumeName", "storageClassName", "volumeMode", "dataSource", "dataSourceRef"),
    "volumeAttributesClassName",
)


def default_claim_spec(spec: Json) -> None:
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    for side in ("limits", "requests"):
        round_amounts(part(spec, "resources").get(side))


def _default(obj: Json) -> None:
    default_claim_spec(spec_of(obj))


def _create(obj: Json) -> None:
    spec = spec_of(obj)
    # References into other namespaces are a feature that is off, and a data source of a foreign kind says nothing:
    # populators are named by dataSourceRef.
    if part(spec, "dataSourceRef").get("namespace"):
        del spec["dataSourceRef"]
    if "dataSource" in spec and "dataSourceRef" not in spec and not _known_source(spec["dataSource"]):
        del spec["dataSource"]
    _mirror_sources(spec)
    fill(obj, {"status": {"phase": "Pending"}})


def _known_source(source: Any) -> bool:
    kind = (part({"source": source}, "source").get("apiGroup") or "", part({"source": source}, "source").get("kind"))
    return kind in (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _mirror_sources(spec: Json) -> None:
    """Both names of the data source say the same, so that old and new readers find it."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def _update(new: Json, old: Json) -> None:
    _mirror_sources(spec_of(new))


def claim_spec_faults(spec: Json, path: str) -> Faults:
    yield from access_mode_faults(spec, path, detail="at least 1 access mode is required")
    yield from label_selector(f"{path}.selector", spec.get("selector"))
    storage = part(spec, "resources", "requests").get("storage")
    if storage is None:
        yield required(f"{path}.resources[storage]")
    elif Quantity.parse(storage) <= ZERO:
        yield invalid_value(f"{path}.resources[storage]", storage, "must be greater than zero")
    yield from optional_name(f"{path}.storageClassName", spec.get("storageClassName"))
    yield from one_of(f"{path}.volumeMode", spec.get("volumeMode"), VOLUME_MODES)
    yield from _source_faults(spec, path)
    yield from optional_name(f"{path}.volumeAttributesClassName", spec.get("volumeAttributesClassName"))


def access_mode_faults(spec: Json, path: str, detail: str = "") -> Faults:
    modes = items(spec, "accessModes")
    if not modes:
        yield required(f"{path}.accessModes", detail)
    for mode in modes:
        yield from one_of(f"{path}.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield forbidden_field(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")


def _source_faults(spec: Json, path: str) -> Faults:
    for field in ("dataSource", "dataSourceRef"):
        source = spec.get(field)
        if not source:
            continue
        yield from (required(f"{path}.{field}.{key}") for key in ("name", "kind") if not source.get(key))
        if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
            detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            yield invalid_value(f"{path}.{field}", source.get("kind", ""), detail)
    source, reference = ({**part(spec, name), "apiGroup": part(spec, name).get("apiGroup")} for name in _SOURCES)
    if spec.get("dataSource") and spec.get("dataSourceRef") and source != reference:
        yield invalid_value(path, {}, "must match dataSourceRef")


_SOURCES = ("dataSource", "dataSourceRef")
_SOURCE_FIELDS = ("apiGroup", "kind", "name", "namespace")


def _faults(obj: Json) -> Faults:
    yield from claim_spec_faults(part(obj, "spec"), "spec")


def _update_faults(new: Json, old: Json) -> Faults:
    after, before = part(new, "spec"), part(old, "spec")
    bound = part(old, "status").get("phase") == "Bound"
    was, now = _comparable(before), _comparable(after)
    if not was["volumeName"]:
        was["volumeName"] = now["volumeName"]  # binding is allowed once
    if was["storageClassName"] is None:
        was["storageClassName"] = now["storageClassName"]  # a claim without a class may get the default one later
    if bound:
        was["volumeAttributesClassName"] = now["volumeAttributesClassName"]
        was["resources"] = {**was["resources"], "requests": now["resources"]["requests"]}
    if was != now:
        yield forbidden_field("spec", f"{FIXED}\n{changes(was, now)}")
    elif bound:
        yield from _shrink_faults(after, before, old)
    if before.get("volumeMode") and after.get("volumeMode") != before["volumeMode"]:
        yield invalid_value("volumeMode", after.get("volumeMode"), IMMUTABLE)


def _comparable(spec: Json) -> Json:
    """A spec with every field present: absent and empty are the same."""
    found: Json = {key: spec.get(key) for key in _FIELDS}
    found["resources"] = {side: part(spec, "resources").get(side) or None for side in ("limits", "requests")}
    found["volumeName"] = found["volumeName"] or ""
    for name, keys in (("dataSource", _SOURCE_FIELDS[:3]), ("dataSourceRef", _SOURCE_FIELDS)):
        if source := found[name]:
            found[name] = {key: source.get(key) for key in keys}
    return found


def _shrink_faults(after: Json, before: Json, old: Json) -> Faults:
    """A volume can grow; a request that was raised may be lowered again, but not below what the volume already has."""
    wanted, had = (part(spec, "resources", "requests").get("storage") for spec in (after, before))
    if wanted is None or had is None or Quantity.parse(wanted) >= Quantity.parse(had):
        return
    capacity = part(old, "status", "capacity").get("storage")
    if capacity is None or Quantity.parse(wanted) < Quantity.parse(capacity):
        yield forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity")


def resize_refusal(new: Json, old: Json, *, storage_class: Callable[[str], Json | None]) -> str | None:
    """Why a claim may not grow (the server's PersistentVolumeClaimResize admission), or None. `storage_class` looks one up."""
    wanted, had = (part(obj, "spec", "resources", "requests").get("storage") for obj in (new, old))
    if wanted is None or had is None or Quantity.parse(wanted) <= Quantity.parse(had):
        return None
    name = storage_class_of(old)
    found = storage_class(name) if name else None
    return None if found is not None and found.get("allowVolumeExpansion") else NOT_RESIZABLE


STRATEGIES = {
    ("", "PersistentVolumeClaim"): Strategy(
        unstored_status=True,
        default=_default,
        prepare_create=_create,
        prepare_update=_update,
        validate=collect(_faults),
        validate_update=collect_update(_update_faults),
    ),
}
