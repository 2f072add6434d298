"""CustomResourceDefinitions: what is filled in, what is refused, when its names are accepted, and the resources it makes.

All pure. The schema's own rules are in `structural`. kube-apiserver holds what all versions share in one place, and its
messages say so: a fault in the only version's columns is at `spec.additionalPrinterColumns`, not at `spec.versions[0]...`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from ullage.names import LABEL_1035, LABEL_1035_SENTENCE, SUBDOMAIN, SUBDOMAIN_SENTENCE
from ullage.standalone.apiserver.crd.names import accept, resources_of
from ullage.standalone.apiserver.crd.structural import schema_errors
from ullage.standalone.apiserver.kinds.builtin import builtin_storages
from ullage.standalone.apiserver.objects import Json, dig
from ullage.standalone.apiserver.status import FieldError, duplicate, forbidden_field, invalid_value, not_supported, required

__all__ = ["accept", "default_crd", "is_true", "resources_of", "validate_crd", "validate_crd_update"]

Faults = Iterator[FieldError]
APPROVED = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SIMPLE_PATH = re.compile(r"\.\S*")


def default_crd(crd: Json) -> None:
    """Fills in names, conversion and the stored versions, in place."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {}).setdefault("strategy", "None")
    if not spec.get("preserveUnknownFields"):
        spec.pop("preserveUnknownFields", None)
    status = crd.setdefault("status", {})
    stored = status.setdefault("storedVersions", [])
    for version in spec.get("versions") or ():
        if version.get("storage") and version.get("name") not in stored:
            stored.append(version["name"])
            break
    conditions = status.setdefault("conditions", [])
    for condition in conditions or ():
        for key, empty in (("type", ""), ("status", ""), ("lastTransitionTime", None)):
            condition.setdefault(key, empty)
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})


def validate_crd(crd: Json) -> list[FieldError]:
    """Everything wrong with a new definition. The name's own syntax is checked with all other metadata, elsewhere."""
    spec, name = crd.get("spec") or {}, dig(crd, "metadata", "name")
    errors: list[FieldError] = []
    if name and name != f"{dig(spec, 'names', 'plural') or ''}.{spec.get('group', '')}":
        errors.append(invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    elif name in builtin_storages() and not dig(crd, "metadata", "deletionTimestamp"):  # else it could never go
        errors.append(invalid_value("spec.names.plural", spec["names"]["plural"], "is a kind of the API server itself"))
    return [*errors, *_specification(crd), *_stored_versions(crd), *_approval(crd)]


def validate_crd_update(new: Json, old: Json) -> list[FieldError]:
    """Everything wrong with a change. An established definition keeps its group, scope, plural and kind."""
    errors = [*_specification(new), *_stored_versions(new), *_approval(new)]
    if not is_true(old, "Established"):
        return errors
    for path in (("group",), ("scope",), ("names", "kind"), ("names", "plural")):
        value = dig(new, "spec", *path)
        if value != dig(old, "spec", *path):
            errors.append(invalid_value(".".join(("spec", *path)), value, "field is immutable"))
    return errors


def is_true(crd: Json, condition: str) -> bool:
    return any(c.get("type") == condition and c.get("status") == "True" for c in dig(crd, "status", "conditions") or ())


def _specification(crd: Json) -> Faults:
    spec = crd.get("spec") or {}
    yield from _group(spec.get("group", ""))
    scope = spec.get("scope", "")
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid_value("spec.preserveUnknownFields", True, detail)
    yield from _versions(spec)
    yield from _names(spec.get("names") or {})
    yield from _conversion(spec.get("conversion") or {})


def _group(group: str) -> Faults:
    if not group:
        yield required("spec.group")
    elif SUBDOMAIN.fullmatch(group) is None:
        yield invalid_value("spec.group", group, SUBDOMAIN_SENTENCE)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _versions(spec: Json) -> Faults:
    versions: list[Json] = spec.get("versions") or []
    shown = [_as_held(version) for version in versions] if versions else spec.get("versions")
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid_value("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid_value("spec.versions", shown, "must have exactly one version marked as storage version")
    for number, version in enumerate(versions):
        place, name = f"spec.versions[{number}]", version.get("name", "")
        if LABEL_1035.fullmatch(name) is None:
            yield invalid_value(f"{place}.name", name, LABEL_1035_SENTENCE)
            if number == 0:  # which the server also holds as the version
                yield invalid_value("spec.version", name, LABEL_1035_SENTENCE)
        warning = version.get("deprecationWarning")
        if warning is not None and not version.get("deprecated"):
            yield invalid_value(f"{place}.deprecationWarning", warning, "can only be set for deprecated versions")
        elif warning == "":
            yield invalid_value(f"{place}.deprecationWarning", warning, "must not be an empty string")
        if not isinstance(dig(version, "schema", "openAPIV3Schema"), dict):
            yield required(f"{place}.schema.openAPIV3Schema")
    yield from _shared(versions)


def _as_held(version: Json) -> Json:
    """A version as a message shows it, without what the versions share."""
    return {
        "Name": version.get("name", ""),
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        **dict.fromkeys(("Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")),
    }


def _shared(versions: Sequence[Json]) -> Faults:
    """What each version may have of its own, judged once where all versions have the same."""
    for key, above, check in (
        ("schema", "spec.validation", _schema),
        ("subresources", "spec.subresources", _subresources),
        ("additionalPrinterColumns", "spec.additionalPrinterColumns", _columns),
    ):
        values = [version.get(key) for version in versions]
        same = all(value == values[0] for value in values)
        for number, value in enumerate(values[:1] if same else values):
            if value:
                yield from check(value, above if same else f"spec.versions[{number}].{key}")
    selected = [version.get("selectableFields") for version in versions]
    for number, version in enumerate(versions[:1] if all(one == selected[0] for one in selected) else versions):
        place = "spec" if all(one == selected[0] for one in selected) else f"spec.versions[{number}]"
        schema = dig(version, "schema", "openAPIV3Schema") or {}
        yield from _selectable(version.get("selectableFields") or (), schema, f"{place}.selectableFields")


def _schema(value: Json, place: str) -> Faults:
    if isinstance(value.get("openAPIV3Schema"), dict):
        yield from schema_errors(value["openAPIV3Schema"], f"{place}.openAPIV3Schema")


def _subresources(value: Json, place: str) -> Faults:
    scale = value.get("scale")
    if scale is None:
        return
    for key, below in (
        ("specReplicasPath", (".spec",)),
        ("statusReplicasPath", (".status",)),
        ("labelSelectorPath", (".spec", ".status")),
    ):
        path = scale.get(key)
        if not path:
            if key != "labelSelectorPath":
                yield required(f"{place}.scale.{key}")
        elif _SIMPLE_PATH.fullmatch(path) is None:
            yield invalid_value(f"{place}.scale.{key}", path, "must be a simple json path starting with .")
        elif not path.startswith(tuple(f"{start}." for start in below)):
            where = below[0] if len(below) == 1 else "either .spec or .status"
            yield invalid_value(f"{place}.scale.{key}", path, f"should be a json path under {where}")


def _columns(columns: Sequence[Json], place: str) -> Faults:
    for number, column in enumerate(columns):
        here, kind, path = f"{place}[{number}]", column.get("type", ""), column.get("jsonPath", "")
        if not column.get("name"):
            yield required(f"{here}.name")
        if not kind:
            yield required(f"{here}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif kind not in _COLUMN_TYPES:
            yield invalid_value(f"{here}.type", kind, f"must be one of {','.join(_COLUMN_TYPES)}")
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield invalid_value(f"{here}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not path:
            yield required(f"{here}.JSONPath")
        elif not path.startswith("."):
            yield invalid_value(f"{here}.JSONPath", path, "must be a simple json path starting with .")


def _selectable(fields: Sequence[Json], schema: Json, place: str) -> Faults:
    seen: set[str] = set()
    for number, field in enumerate(fields):
        here, path = f"{place}[{number}].jsonPath", field.get("jsonPath", "")
        if not path:
            yield required(here)
        elif path in seen:
            yield duplicate(here, path)
        elif wrong := _selector_fault(path, schema):
            yield invalid_value(here, path, wrong)
        seen.add(path)


def _selector_fault(path: str, schema: Json) -> str:
    if not path.startswith("."):
        return f"is an invalid path: expected [ or . but got: {path.partition('.')[0]}"
    if "[" in path:
        return "is an invalid path: array notation is not allowed"
    found: Any = schema
    for step in path[1:].split("."):
        found = dig(found, "properties", step)
    if found is None or path.startswith(".metadata."):
        return "is an invalid path: does not refer to a valid field"
    if found.get("type") not in ("string", "boolean", "integer"):
        return (
            "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
        )
    return ""


def _names(names: Json) -> Faults:
    for key in ("plural", "singular"):
        yield from _label(f"spec.names.{key}", names.get(key, ""))
    for key in ("kind", "listKind"):
        value = names.get(key, "")
        if value and LABEL_1035.fullmatch(value.lower()) is None:
            yield invalid_value(
                f"spec.names.{key}", value, f"may have mixed case, but should otherwise match: {LABEL_1035_SENTENCE}"
            )
        elif not value:
            yield required(f"spec.names.{key}")
    for key in ("shortNames", "categories"):
        for number, value in enumerate(names.get(key) or ()):
            yield from _label(f"spec.names.{key}[{number}]", value)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid_value("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _label(place: str, value: str) -> Faults:
    if not value:
        yield required(place)
    elif len(value) > 63 or LABEL_1035.fullmatch(value) is None:
        yield invalid_value(place, value, LABEL_1035_SENTENCE)


def _conversion(conversion: Json) -> Faults:
    strategy = conversion.get("strategy", "None")
    if strategy == "Webhook":
        detail = "this server does not convert through webhooks: serve versions of one schema with strategy None"
        yield invalid_value("spec.conversion.strategy", strategy, detail)
    elif strategy != "None":
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif conversion.get("webhook") is not None:
        for key in ("webhookClientConfig", "conversionReviewVersions"):
            yield forbidden_field(f"spec.conversion.{key}", "should not be set when strategy is not set to Webhook")


def _stored_versions(crd: Json) -> Faults:
    versions = dig(crd, "spec", "versions") or []
    stored = dig(crd, "status", "storedVersions") or []
    if not stored:
        yield invalid_value("status.storedVersions", None, "must have at least one stored version")
        return
    storage = [version.get("name") for version in versions if version.get("storage")]
    if storage and storage[-1] not in stored:
        yield invalid_value("status.storedVersions", stored, f"must have the storage version {storage[-1]}")
    names = {version.get("name") for version in versions}
    for number, name in enumerate(stored):
        if name not in names:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until "
                f"a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            )
            yield invalid_value(f"status.storedVersions[{number}]", name, detail)


def _approval(crd: Json) -> Faults:
    """Groups of the Kubernetes project itself need a note of who approved them."""
    group = dig(crd, "spec", "group") or ""
    if not any(group == domain or group.endswith(f".{domain}") for domain in _PROTECTED):
        return
    place, note = f"metadata.annotations[{APPROVED}]", (dig(crd, "metadata", "annotations") or {}).get(APPROVED)
    rule = f'protected groups must have approval annotation "{APPROVED}"'
    if not note:
        yield required(place, f"{rule}, {_SEE}")
    elif not note.startswith("unapproved") and not (urlsplit(note).scheme and urlsplit(note).netloc):
        yield invalid_value(place, note, f'{rule} with either a URL or a reason starting with "unapproved", {_SEE}')
