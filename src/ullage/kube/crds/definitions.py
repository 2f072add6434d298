"""CustomResourceDefinitions from API types: what is committed under `deploy/crds` and what `ullage install` applies.

The Python type is the one place where a kind is described. The definition made from it is deterministic to the byte, so
that `make verify` can regenerate it and find git clean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from ullage.kube.crds.schemas import OPEN_MARK, SchemaError, schema_of
from ullage.kube.kinds import Column, Kind, Rule
from ullage.kube.objects import Json

__all__ = ["MANAGED_BY", "SchemaError", "crd_of", "is_ours", "to_yaml", "undocumented"]

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OURS: Final = "ullage"
APPROVED: Final = "api-approved.kubernetes.io"
NOT_APPROVED: Final = "unapproved, generated from the API types of ullage"

_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_COLUMN_TYPES: Final = ("string", "integer", "number", "boolean", "date")
_GIVEN: Final[Mapping[str, Json]] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}


def crd_of(
    kind: Kind[Any],
    *,
    others: Sequence[Kind[Any]] = (),
    unserved: Sequence[str] = (),
    deprecated: Mapping[str, str] | None = None,
    approved: str = NOT_APPROVED,
) -> Json:
    """The definition of a kind: `kind` is the stored version, `others` are further ones that differ in nothing but fields.

    `unserved` names versions that are only read from storage, `deprecated` maps versions to the warning that clients get.
    `approved` is what groups under k8s.io must say about their review: the address of it, or that there was none.
    """
    for other in others:
        if (other.group, other.plural, other.kind, other.namespaced) != (kind.group, kind.plural, kind.kind, kind.namespaced):
            raise SchemaError(
                f"{other.kind}/{other.version}: not a version of {kind.name}: group, names and scope must be alike"
            )
    metadata: Json = {"name": kind.name, "labels": {MANAGED_BY: OURS}}
    if any(kind.group == end or kind.group.endswith(f".{end}") for end in _PROTECTED):
        metadata["annotations"] = {APPROVED: approved}
    versions = [_version(one, stored=one is kind) for one in (kind, *others)]
    for version in versions:
        version["served"] = version["name"] not in unserved
        if warning := (deprecated or {}).get(version["name"]):
            version |= {"deprecated": True, "deprecationWarning": warning}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "names": _names(kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": versions,
        },
    }


def is_ours(crd: Mapping[str, Any]) -> bool:
    """Whether we made this definition: any other one is never touched."""
    labels = crd.get("metadata", {}).get("labels") or {}
    return bool(labels.get(MANAGED_BY) == OURS)


def _names(kind: Kind[Any]) -> Json:
    names: Json = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural, "singular": kind.kind.lower()}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _version(kind: Kind[Any], *, stored: bool) -> Json:
    schema = schema_of(kind.type, keep_unknown=not (kind.whole or kind.prunes))
    schema["properties"] = {**_GIVEN, **{name: one for name, one in schema["properties"].items() if name not in _GIVEN}}
    if kind.status and "status" not in schema["properties"]:
        raise SchemaError(f"{kind.type.__name__}: {kind.name} has the status subresource, but the type has no field `status`")
    for rule in kind.rules:
        _place_rule(schema, rule, kind)
    version: Json = {"name": kind.version, "served": True, "storage": stored}
    if kind.columns:
        version["additionalPrinterColumns"] = [_column(column, schema, kind=kind) for column in kind.columns]
    version["schema"] = {"openAPIV3Schema": schema}
    if kind.status:
        version["subresources"] = {"status": {}}
    return version


# --- rules and columns -----------------------------------------------------------------------------------------------


def _place_rule(schema: Json, rule: Rule, kind: Kind[Any]) -> None:
    node = _find(schema, rule.path)
    if node is None:
        raise SchemaError(f"{kind.type.__name__}.{rule.path}: no such field for the rule {rule.rule!r}")
    if rule.field_path == ".metadata.name":  # may be named only where the schema has it, though every object does
        schema["properties"]["metadata"] = {"type": "object", "properties": {"name": {"type": "string"}}}
    placed: Json = {"rule": rule.rule, "message": rule.message}
    if rule.reason:
        placed["reason"] = rule.reason
    if rule.field_path:
        placed["fieldPath"] = rule.field_path
    if rule.optional_old:
        placed["optionalOldSelf"] = True
    # A fresh list each time: types that are used twice must not share the rules of one place.
    node["x-kubernetes-validations"] = [*node.get("x-kubernetes-validations", ()), placed]


def _find(schema: Json, path: str) -> Json | None:
    """The part of a schema at `spec.source`; `spec.ports[]` is each item of a list, or each value of a map."""
    node = schema
    for part in re.findall(r"\[\]|[^.\[\]]+", path):
        inner = (
            (node.get("items") or node.get("additionalProperties")) if part == "[]" else node.get("properties", {}).get(part)
        )
        if inner is None:
            return None
        node = inner
    return node


def _column(column: Column, schema: Json, *, kind: Kind[Any]) -> Json:
    where = f"{kind.type.__name__}, column {column.name!r}"
    if column.type not in _COLUMN_TYPES:
        raise SchemaError(f"{where}: the type is one of {', '.join(_COLUMN_TYPES)}, not {column.type!r}")
    if not column.json_path.startswith("."):
        raise SchemaError(f"{where}: the path begins with a dot, unlike {column.json_path!r}")
    if not _exists(schema, column.json_path):
        raise SchemaError(f"{where}: there is no field {column.json_path}")
    made: Json = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.description:
        made["description"] = column.description
    if column.priority:
        made["priority"] = column.priority
    return made


def _exists(schema: Json, path: str) -> bool:
    """Whether a plain path leads to a field. From an index, a filter or a free-form object on it cannot be known."""
    if path.startswith(".metadata."):
        return True
    node = schema
    for part in re.split(r"\[", path, maxsplit=1)[0].strip(".").split("."):
        if node.get(OPEN_MARK) or "additionalProperties" in node:
            return True
        if part not in node.get("properties", {}):
            return False
        node = node["properties"][part]
    return True


def undocumented(crd: Json) -> list[str]:
    """The fields of a definition that `kubectl explain` has nothing to say about, as `v1: spec.source.name`."""
    return [
        f"{version['name']}: {path or '(the kind itself)'}"
        for version in crd["spec"]["versions"]
        for path in _silent(version["schema"]["openAPIV3Schema"], "")
    ]


def _silent(schema: Json, path: str) -> Iterator[str]:
    if not schema.get("description") and not path.endswith("[]"):
        yield path
    for name, inner in schema.get("properties", {}).items():
        if path or name not in _GIVEN:
            yield from _silent(inner, f"{path}.{name}" if path else name)
    for holder in ("items", "additionalProperties"):
        if holder in schema:
            yield from _silent(schema[holder], f"{path}[]")


# --- text ------------------------------------------------------------------------------------------------------------

# What Go's YAML reads as a number, a date, a truth value or nothing, and PyYAML may leave bare.
_LOOKS_TYPED: Final = re.compile(r"[-+.]?[0-9].*|[.][a-z]{3}|y|n|yes|no|on|off|true|false|null|~|", re.IGNORECASE)


class _Dumper(yaml.SafeDumper):
    """PyYAML as people write YAML: lists indented, long texts as blocks, no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    if "\n" in data:
        style: str | None = "|"
    else:
        style = "'" if _LOOKS_TYPED.fullmatch(data) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(*objects: Json) -> str:
    """The objects as YAML documents, keys in the order that they have; the same objects give the same text."""
    made = (yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=128, allow_unicode=True) for one in objects)
    return "---\n".join(made)
