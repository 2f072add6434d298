"""One OpenAPI v3 document: a group's version, its paths and the schemas that these lead to."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec

from ullage.standalone.apiserver.about.openapi.operations import Operation, Parameter, paths_of
from ullage.standalone.apiserver.about.openapi.schemas import custom_schemas, reachable
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import MINOR, REF, Definitions

SCHEMAS = "#/components/schemas/"
INFO = {"title": "Kubernetes", "version": f"1.{MINOR}"}
_PRODUCES = ("application/json", "application/yaml")
_SECURITY = {
    "BearerToken": {"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}
}
_WORDS = {200: "OK", 201: "Created", 202: "Accepted"}


def _shared(parameters: tuple[Parameter, ...]) -> Json:
    return {"parameters": [_parameter(one) for one in parameters]} if parameters else {}


def document(resources: Iterable[Resource], definitions: Definitions) -> bytes:
    """The document of one group's version, given that version's resources."""
    served = list(resources)
    custom = dict(chain.from_iterable(custom_schemas(r, definitions) for r in served if r.custom is not None))
    paths, names = paths_of(served, definitions, begin=_shared, describe=_operation)
    schemas = {name: dialect(schema) for name, schema in reachable(names, custom, definitions).items()}
    components = {"schemas": schemas, "securitySchemes": _SECURITY}
    ordered = dict(sorted(paths.items()))
    return msgspec.json.encode({"openapi": "3.0.0", "info": INFO, "paths": ordered, "components": components})


def dialect(schema: Any) -> Any:
    """References as v3 writes them. One with words beside it goes into an `allOf`, or readers would drop the words."""
    if isinstance(schema, list):
        return [dialect(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    ref = schema.get("$ref")
    if not isinstance(ref, str):
        return {key: dialect(value) for key, value in schema.items()}
    target = {"$ref": SCHEMAS + ref.removeprefix(REF)}
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    return {**beside, "allOf": [target]} if beside else target


def _operation(operation: Operation, tag: str) -> Json:
    answers: dict[str, Json] = {
        str(code): {"description": _WORDS[code], "content": _content(operation.answer, _PRODUCES)} for code in operation.codes
    }
    parameters = [_parameter(parameter) for parameter in operation.parameters]
    body = (
        {"requestBody": {"content": _content(operation.body, operation.consumes), "required": True}} if operation.body else {}
    )
    return {
        "tags": [tag],
        "description": operation.description,
        "operationId": operation.id,
        **({"parameters": parameters} if parameters else {}),
        **body,
        "responses": {**answers, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.gvk,
    }


def _content(name: str, media: Iterable[str]) -> Json:
    if not name:
        return {"*/*": {"schema": {"type": "string"}}}
    return {one: {"schema": {"$ref": f"{SCHEMAS}{name}"}} for one in media}


def _parameter(parameter: Parameter) -> Json:
    found: Json = {"name": parameter.name, "in": parameter.place, "description": parameter.description}
    if parameter.place == "path":
        found["required"] = True
    return {**found, "schema": {"type": parameter.type, "uniqueItems": True}}
