"""The OpenAPI v2 document: everything that is served, in one.

kubectl still asks for it when it edits or applies a custom object that exists, and for `explain --output=plaintext-openapiv2`.
v2 can say less than v3: where a custom schema uses a word that v2 lacks, the document leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from ullage.standalone.apiserver.about.openapi.operations import Operation, Parameter, paths_of
from ullage.standalone.apiserver.about.openapi.schemas import (
    INT_OR_STRING,
    QUANTITY,
    REPAIRED,
    custom_schemas,
    reachable,
)
from ullage.standalone.apiserver.about.openapi.v3 import INFO
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import REF, Definitions

DEFINITIONS = "#/definitions/"
_PRODUCES = ["application/json", "application/yaml"]
_WORDS = {200: "OK", 201: "Created", 202: "Accepted"}
_ABSENT = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable", "default", "patternProperties"})

HEAD: Json = {
    "swagger": "2.0",
    "info": INFO,
    "securityDefinitions": {
        "BearerToken": {"description": "Bearer Token authentication", "type": "apiKey", "name": "authorization", "in": "header"}
    },
    "security": [{"BearerToken": []}],
}
_SCALARS: dict[str, Json] = {
    QUANTITY: {"description": REPAIRED[QUANTITY]["description"], "type": "string"},
    INT_OR_STRING: {"description": REPAIRED[INT_OR_STRING]["description"], "type": "string", "format": "int-or-string"},
}


def _shared(parameters: tuple[Parameter, ...]) -> Json:
    return {"parameters": [_parameter(one) for one in parameters]}


def content(resources: Iterable[Resource], definitions: Definitions, *, known: frozenset[str] = frozenset()) -> Json:
    """`paths` and `definitions` of some resources, without the definitions that are known already."""
    served = list(resources)
    custom = dict(chain.from_iterable(custom_schemas(r, definitions) for r in served if r.custom is not None))
    paths, names = paths_of(served, definitions, begin=_shared, describe=_operation)
    found = reachable(names, custom, definitions)
    schemas = {name: _definition(name, schema, name in custom) for name, schema in found.items() if name not in known}
    return {"paths": dict(sorted(paths.items())), "definitions": schemas}


def _definition(name: str, schema: Json, custom: bool) -> Json:
    if name in _SCALARS:
        return _SCALARS[name]
    if not custom:
        rewritten: Json = _references(schema)
        return rewritten
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {"type": "object", "x-kubernetes-group-version-kind": schema["x-kubernetes-group-version-kind"]}
    return _lessened(schema)


def _references(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_references(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _references(value) for key, value in schema.items()}
    if isinstance(ref := found.get("$ref"), str):
        found["$ref"] = DEFINITIONS + ref.removeprefix(REF)
    return found


def _lessened(schema: Json) -> Json:
    """A custom schema in the words of v2."""
    if "$ref" in schema:
        reference: Json = _references(schema)
        return reference
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return {key: value for key, value in schema.items() if key == "description" or key.startswith("x-")}
    loose = schema.get("nullable", False)
    dropped = _ABSENT | {"type"} if loose else _ABSENT
    return {key: _lessened_value(key, value) for key, value in schema.items() if key not in dropped}


def _lessened_value(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: _lessened(schema) for name, schema in value.items()}
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return _lessened(value)
    return value


def _operation(operation: Operation, tag: str) -> Json:
    schema = {"schema": {"$ref": f"{DEFINITIONS}{operation.answer}"} if operation.answer else {"type": "string"}}
    answers = {str(code): {"description": _WORDS[code], **schema} for code in operation.codes}
    reference = {"$ref": f"{DEFINITIONS}{operation.body}"}
    body = [{"name": "body", "in": "body", "required": True, "schema": reference}] if operation.body else []
    return {
        "description": operation.description,
        "consumes": list(operation.consumes) or ["*/*"],
        "produces": _PRODUCES,
        "schemes": ["https"],
        "tags": [tag],
        "operationId": operation.id,
        "parameters": [*body, *(_parameter(parameter) for parameter in operation.parameters)],
        "responses": {**answers, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.gvk,
    }


def _parameter(parameter: Parameter) -> Json:
    found: Json = {"uniqueItems": True, "type": parameter.type, "description": parameter.description}
    found |= {"name": parameter.name, "in": parameter.place}
    return {**found, "required": True} if parameter.place == "path" else found
