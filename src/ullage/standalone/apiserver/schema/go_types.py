"""The built-in kinds' definitions, compiled into the Go types that kube-apiserver decodes into.

A definition says what JSON it takes; messages and zero values need the Go type behind it: `[]v1.Container`, `int32`,
`map[string]string`. A `Shape` is that type. Kinds refer to themselves (JSONSchemaProps), so a struct's fields are looked up
when first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import REF, Definitions

# Definitions that decode themselves: by the last part of their name.
_SPECIAL = {
    "Quantity": "quantity",
    "IntOrString": "int-or-string",
    "Time": "time",
    "MicroTime": "micro-time",
    "Duration": "duration",
    "FieldsV1": "any",
    "RawExtension": "any",
    "JSON": "any",
    "JSONSchemaPropsOrArray": "any",
    "JSONSchemaPropsOrBool": "any",
    "JSONSchemaPropsOrStringArray": "any",
    "Patch": "any",
}
_ZEROS: dict[str, Callable[[], Any]] = {
    "string": str,
    "bytes": str,
    "int32": int,
    "int64": int,
    "float64": int,
    "bool": bool,
    "struct": dict,
    "quantity": lambda: "0",
}


@dataclass(slots=True, eq=False)
class GoType:
    """One Go type."""

    kind: str  # struct, map, list, string, bool, int32, int64, float64, bytes, or one of `_SPECIAL`
    go: str  # as messages name it
    name: str = ""  # of a struct, without its package
    element: GoType | None = None  # of a list or map
    exact: type | None = None  # a value of this Python type needs no further look
    required: frozenset[str] = frozenset()  # of a struct: fields that are written even when they are empty
    _fields: Callable[[], dict[str, GoType]] | None = None
    _known: dict[str, GoType] | None = field(default=None, repr=False)

    @property
    def fields(self) -> dict[str, GoType]:
        if self._known is None:
            self._known = self._fields() if self._fields else {}
        return self._known

    def zero(self) -> Any:
        """What a null becomes where it cannot be left out: in lists and maps."""
        make = _ZEROS.get(self.kind)
        return make() if make else None


class GoTypes:
    """The shapes of one set of definitions, each made once."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._named: dict[str, GoType] = {}

    def of(self, name: str) -> GoType:
        """The shape of a definition (`io.k8s.api.core.v1.Pod`)."""
        if name not in self._named:
            self._named[name] = self._define(name)
        return self._named[name]

    def _define(self, name: str) -> GoType:
        schema = self._definitions.raw[name]
        short = name.rpartition(".")[2]
        package = name.split(".")[-2]
        if short in _SPECIAL:
            return GoType(_SPECIAL[short], f"{package}.{short}")
        if "properties" not in schema and schema.get("type", "object") == "object":
            return GoType("any", f"{package}.{short}") if "additionalProperties" not in schema else self._inline(schema)
        if "properties" not in schema:
            return self._inline(schema)
        return GoType(
            "struct",
            f"{package}.{short}",
            name=short,
            required=frozenset(schema.get("required", ())),
            _fields=lambda: self._fields(schema),
        )

    def _fields(self, schema: Json) -> dict[str, GoType]:
        return {key: self._inline(value) for key, value in schema["properties"].items()}

    def _inline(self, schema: Json) -> GoType:
        if "$ref" in schema:
            return self.of(schema["$ref"].removeprefix(REF))
        if len(schema.get("allOf", ())) == 1:
            return self._inline(schema["allOf"][0])
        kind = schema.get("type", "")
        if kind == "array":
            element = self._inline(schema.get("items", {}))
            return GoType("list", f"[]{element.go}", element=element)
        if kind == "object":
            element = self._inline(schema.get("additionalProperties") or {})
            named = "v1.ResourceList" if element.kind == "quantity" else f"map[string]{element.go}"
            return GoType("map", named, element=element)
        return _scalar(kind, schema.get("format", ""))


def _scalar(kind: str, form: str) -> GoType:
    if kind == "string":
        return GoType("bytes", "[]uint8") if form == "byte" else GoType("string", "string", exact=str)
    if kind == "boolean":
        return GoType("bool", "bool", exact=bool)
    if kind == "integer":
        name = "int32" if form == "int32" else "int64"
        return GoType(name, name)
    if kind == "number":
        return GoType("float64", "float64")
    return GoType("any", "interface {}")
