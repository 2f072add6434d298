"""Schemas as the server publishes them: the built-in definitions with the package's own marks undone, and the custom kinds'.

Everything here still reads `$ref: #/$defs/<name>`; each dialect rewrites that in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import REF, Definitions

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

# The published ones lost their words (and a format) on the way into the package.
REPAIRED: dict[str, Json] = {
    QUANTITY: {
        "description": "Quantity is a number with an optional suffix: decimal (m, k, M, G, T, P, E), binary (Ki, Mi, Gi, Ti, "
        "Pi, Ei) or an exponent (1e3). It is compared as a number and written back in canonical form.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    INT_OR_STRING: {
        "description": "IntOrString is either a 32-bit integer or a string, such as a port's number or its name.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}


def definition_name(resource: Resource, definitions: Definitions) -> str:
    """`io.k8s.api.core.v1.Pod`, `com.example.v1.Widget`."""
    return _name(resource, definitions, resource.kind)


def list_name(resource: Resource, definitions: Definitions) -> str:
    return _name(resource, definitions, resource.list_kind or f"{resource.kind}List")


def _name(resource: Resource, definitions: Definitions, kind: str) -> str:
    if resource.custom is None:
        return definitions.name_of(resource.group, resource.version, kind) or ""
    return ".".join((*reversed(resource.group.split(".")), resource.version, kind))


def builtin_schema(definitions: Definitions, name: str) -> Json:
    """A definition without what the package added for its own validator: the fixed apiVersion and kind."""
    schema = REPAIRED.get(name) or definitions.raw[name]
    properties = schema.get("properties")
    if not properties or "x-kubernetes-group-version-kind" not in schema:
        return schema
    bare = {key: _without_enum(value) if key in ("apiVersion", "kind") else value for key, value in properties.items()}
    return {**schema, "properties": bare}


def _without_enum(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if key != "enum"}


def custom_schemas(resource: Resource, definitions: Definitions) -> Iterator[tuple[str, Json]]:
    """A custom kind and its list, by definition name. `resource.raw` is the CRD's openAPIV3Schema of this version."""
    root = _expanded(resource.raw or {"type": "object"})
    head = _head(definitions, "io.k8s.api.core.v1.Pod")
    name = definition_name(resource, definitions)
    properties = {**root.get("properties", {}), **head}
    yield name, {**root, "type": "object", "properties": properties, **_gvk(resource, resource.kind)}
    list_kind = resource.list_kind or f"{resource.kind}List"
    yield (
        list_name(resource, definitions),
        {
            "description": f"{list_kind} is a list of {resource.kind}",
            "type": "object",
            "required": ["items"],
            "properties": {
                **_head(definitions, "io.k8s.api.core.v1.PodList"),
                "items": {"description": f"List of {resource.plural}.", "type": "array", "items": {"$ref": f"{REF}{name}"}},
            },
            **_gvk(resource, list_kind),
        },
    )


def _gvk(resource: Resource, kind: str) -> Json:
    mark = {"group": resource.group, "version": resource.version, "kind": kind}
    return {"x-kubernetes-group-version-kind": [mark]}


def _head(definitions: Definitions, model: str) -> Json:
    """What every kind begins with, in the words of a built-in one."""
    properties = definitions.raw[model]["properties"]
    return {key: _without_enum(properties[key]) for key in ("apiVersion", "kind", "metadata")}


def _expanded(schema: Json) -> Json:
    """A CRD's schema with what its shorthands stand for written out: whole objects inside, and integers or strings."""
    found = {key: _expanded_value(key, value) for key, value in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        found.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    if schema.get("x-kubernetes-embedded-resource"):
        found["properties"] = {**found.get("properties", {}), **_EMBEDDED}
        found["required"] = list(dict.fromkeys([*found.get("required", ()), "kind", "apiVersion"]))
    return found


_EMBEDDED: Json = {
    "apiVersion": {"description": "The group and version of the object that stands here.", "type": "string"},
    "kind": {"description": "The kind of the object that stands here.", "type": "string"},
    "metadata": {"description": "Standard object's metadata.", "$ref": f"{REF}{OBJECT_META}"},
}


def _expanded_value(key: str, value: Any) -> Any:
    if key in ("properties", "patternProperties"):
        return {name: _expanded(schema) for name, schema in value.items()}
    if key in ("items", "additionalProperties", "not") and isinstance(value, dict):
        return _expanded(value)
    return value


def reachable(names: Iterable[str], schemas: dict[str, Json], definitions: Definitions) -> dict[str, Json]:
    """Every schema that one of the names leads to, by name, in alphabetical order. `schemas` are the custom ones."""
    found: dict[str, Json] = {}
    waiting = [name for name in names if name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = schemas[name] if name in schemas else builtin_schema(definitions, name)
            waiting.extend(references(found[name]))
    return dict(sorted(found.items()))


def references(schema: Any) -> Iterator[str]:
    """The definitions that a schema names."""
    if isinstance(schema, list):
        for item in schema:
            yield from references(item)
    elif isinstance(schema, dict):
        if isinstance(ref := schema.get("$ref"), str):
            yield ref.removeprefix(REF)
        for value in schema.values():
            yield from references(value)
