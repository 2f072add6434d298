"""The routes as an OpenAPI 3.1 document. Pure: the same routes give the same bytes.

Actions share a path and a method, and are told apart by `?action=`: in OpenAPI they are one operation, whose parameter lists
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage import __version__
from ullage.kube.crds.schemas import EITHER_MARK, schema_of
from ullage.kube.objects import Json
from ullage.kube.routes import NAMESPACE, Parameter, Route, parts_of
from ullage.rest.routing import ACTION, Place, Table

TITLE: Final = "Ullage API"
DESCRIPTION: Final = (
    "What Ullage offers beside the Kubernetes API. Every request needs a bearer token of the cluster, and the rights that the "
    "cluster's own roles give to whoever has it. Refusals are Kubernetes' own Status objects."
)
COMMON: Final = {
    400: "The request cannot be read, or asks for impersonation.",
    401: "No token, or one that is not valid or has expired.",
    403: "The token's owner may not.",
    404: "There is no such object, or nothing at this path.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "The action is not known, or what was sent is wrong: the Status names the field.",
    429: "The Kubernetes API asks for patience.",
    500: "The server could not do it; its log says why.",
    503: "The Kubernetes API does not answer now.",
    504: "It took too long.",
}
STATUS: Final[Json] = {
    "type": "object",
    "description": "What a refusal is, in the words of Kubernetes.",
    "properties": {
        "kind": {"type": "string", "const": "Status"},
        "apiVersion": {"type": "string", "const": "v1"},
        "metadata": {"type": "object"},
        "status": {"type": "string", "const": "Failure"},
        "message": {"type": "string", "description": "What is wrong, in a sentence."},
        "reason": {"type": "string", "description": "What is wrong, in one word for programs."},
        "code": {"type": "integer", "description": "The same as HTTP's."},
        "details": {
            "type": "object",
            "properties": {
                "causes": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "field": {"type": "string"},
                            "reason": {"type": "string"},
                            "message": {"type": "string"},
                        },
                    },
                },
                "retryAfterSeconds": {"type": "integer"},
            },
        },
    },
    "required": ["kind", "apiVersion", "status", "message", "reason", "code"],
}


def document(routes: Iterable[Route]) -> Json:
    """The whole document."""
    table = Table.of(routes)
    paths: dict[str, Json] = {}
    for place in table.places:
        paths.setdefault(place.path, {"parameters": _path_parameters(place.path)})[place.method.lower()] = _operation(place)
    routes = [route for place in table.places for route in place.routes]
    bodies = {told.__name__: _schema(told) for route in routes for told in (route.body, route.reply) if told}
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": {"Status": STATUS, **bodies},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token that the cluster's API server knows."}
            },
        },
        "security": [{"token": []}],
    }


def _operation(place: Place) -> Json:
    first = place.routes[0]
    operation: Json = {
        "operationId": "-".join([place.method.lower(), *(part.strip("{}") for part in place.path.split("/") if part)]),
        "summary": " · ".join(route.summary for route in place.routes),
        "description": _description(place),
        "responses": _responses(place),
    }
    if place.path != first.paths[0]:
        operation["deprecated"] = True
        operation["description"] = f"Another spelling of `{first.paths[0]}`.\n\n{operation['description']}"
    if parameters := _query_parameters(place):
        operation["parameters"] = parameters
    with_body = [route for route in place.routes if route.body]
    if with_body:
        references = [{"$ref": f"#/components/schemas/{name}"} for name in dict.fromkeys(_body_name(r) for r in with_body)]
        schema: Json = references[0] if len(references) == 1 else {"oneOf": references}
        operation["requestBody"] = {
            "required": len(with_body) == len(place.routes),
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _query_parameters(place: Place) -> list[Json]:
    about = Parameter(name=ACTION, description="What is to be done.", values=place.actions)
    given = [(about, True)] if place.actions else []
    given += [(one, False) for route in place.routes for one in route.query]
    return [
        {
            "name": one.name,
            "in": "query",
            "required": required,
            "description": one.description,
            "schema": {"type": "string", **({"enum": list(one.values)} if one.values else {})},
        }
        for one, required in given
    ]


def _body_name(route: Route) -> str:
    return route.body.__name__ if route.body else ""


def _description(place: Place) -> str:
    texts = []
    for route in place.routes:
        spelled = " or ".join(f"`{action}`" for action in route.actions)
        asks = f"Needs the verb `{route.access.verb}` on `{route.access.kind.name}`."
        text = " ".join(part for part in (route.description or f"{route.summary}.", asks) if part)
        texts.append(f"{spelled}: {text}" if spelled else text)
    return "\n\n".join(texts)


def _responses(place: Place) -> Json:
    invalid = {route.invalid for route in place.routes}
    common = {code: text for code, text in COMMON.items() if code != 422 or 422 in invalid}
    refusals = {**common, **{code: text for route in place.routes for code, text in route.refusals.items()}}
    status = {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
    done = {str(route.code): {"description": "Done.", **_content(route)} for route in place.routes}
    return done | {str(code): {"description": text, "content": status} for code, text in sorted(refusals.items())}


def _content(route: Route) -> Json:
    if route.reply is None:
        return {}
    schema: Json = {"$ref": f"#/components/schemas/{route.reply.__name__}"}
    return {"content": {"application/json": {"schema": {"type": "array", "items": schema} if route.many else schema}}}


def _path_parameters(path: str) -> list[Json]:
    about = {NAMESPACE: "The namespace.", "name": "The object's name."}
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": about.get(name, f"The {name}."),
            "schema": {"type": "string"},
        }
        for name in sorted(parts_of(path), key=path.index)
    ]


def _schema(body: type[Any]) -> Json:
    found = _plain(schema_of(body))
    if not isinstance(found, dict):
        raise TypeError(f"{body.__name__}: its schema is no object")
    return found


def _plain(schema: Any) -> Any:
    """As OpenAPI 3.1 has it: JSON Schema, without what Kubernetes adds to that."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _plain(value) for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if schema.get(EITHER_MARK) is True:
        found |= {"type": ["string", "integer"]}
        found.pop("anyOf", None)
    if "example" in found:
        found["examples"] = [found.pop("example")]
    if found.pop("nullable", False) is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found
