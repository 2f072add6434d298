"""The OpenAPI v2 document as protobuf: the only form in which kubectl asks for it.

The layout is that of gnostic's `openapi.v2` messages, of which only what our documents contain stands here. A message is a list
of numbered fields, so two encoded documents put one behind the other are one document with the paths and definitions of both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ullage.standalone.apiserver.objects import Json

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

# Field numbers by the name that the field has in JSON.
_SCHEMA_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_SCHEMA_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_SCHEMA_FLAGS = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16}
_SCHEMA_COUNTS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
_PLACES = {"query": 3, "path": 4}


def document(head: Json, content: Json) -> bytes:
    """A whole document: `head` has its version and title."""
    info = _text(1, head["info"]["title"]) + _text(2, head["info"]["version"])
    return _text(1, head["swagger"]) + _message(2, info) + fragment(content)


def fragment(content: Json) -> bytes:
    """Paths and definitions alone, to be put behind a document."""
    paths = b"".join(_message(2, _named(name, _path(item))) for name, item in content["paths"].items())
    return _message(8, paths) + _message(9, _named_schemas(content["definitions"]))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _text(number: int, value: str) -> bytes:
    return _message(number, value.encode()) if value else b""


def _count(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_message(number, value.encode()) for value in values)


def _named(name: str, body: bytes) -> bytes:
    return _text(1, name) + _message(2, body)


def _named_schemas(schemas: Mapping[str, Json]) -> bytes:
    return b"".join(_message(1, _named(name, _schema(schema))) for name, schema in schemas.items())


def _any(value: Any) -> bytes:
    """A value without a type of its own travels as YAML, of which JSON is a part."""
    return _text(2, msgspec.json.encode(value).decode() + "\n")


def _extensions(number: int, schema: Json) -> bytes:
    marks = ((key, value) for key, value in schema.items() if key.startswith("x-"))
    return b"".join(_message(number, _named(key, _any(value))) for key, value in marks)


def _schema(schema: Json) -> bytes:
    parts = [_text(number, schema[key]) for key, number in _SCHEMA_TEXTS.items() if key in schema]
    parts += [_double(number, schema[key]) for key, number in _SCHEMA_DOUBLES.items() if key in schema]
    parts += [_count(number, int(schema[key])) for key, number in _SCHEMA_FLAGS.items() if key in schema]
    parts += [_count(number, schema[key]) for key, number in _SCHEMA_COUNTS.items() if key in schema]
    parts.append(_texts(19, schema.get("required", ())))
    parts += [_message(20, _any(value)) for value in schema.get("enum", ())]
    if (more := schema.get("additionalProperties")) is not None:
        parts.append(_message(21, _count(2, int(more)) if isinstance(more, bool) else _message(1, _schema(more))))
    if "type" in schema:
        parts.append(_message(22, _text(1, schema["type"])))
    if isinstance(items := schema.get("items"), dict):
        parts.append(_message(23, _message(1, _schema(items))))
    if "properties" in schema:
        parts.append(_message(25, _named_schemas(schema["properties"])))
    parts.append(_extensions(31, schema))
    return b"".join(parts)


def _path(item: Json) -> bytes:
    methods = b"".join(_message(number, _operation(item[method])) for method, number in _METHODS.items() if method in item)
    return methods + b"".join(_message(9, _parameter(parameter)) for parameter in item.get("parameters", ()))


def _operation(operation: Json) -> bytes:
    return b"".join(
        (
            _texts(1, operation["tags"]),
            _text(3, operation["description"]),
            _text(5, operation["operationId"]),
            _texts(6, operation["produces"]),
            _texts(7, operation["consumes"]),
            *(_message(8, _parameter(parameter)) for parameter in operation["parameters"]),
            _message(9, _responses(operation["responses"])),
            _texts(10, operation["schemes"]),
            _extensions(13, operation),
        )
    )


def _responses(responses: Mapping[str, Json]) -> bytes:
    """Each is a choice between a response and a reference to one; ours are all the former."""
    found = []
    for code, response in responses.items():
        body = _text(1, response["description"])
        if "schema" in response:
            body += _message(2, _message(1, _schema(response["schema"])))
        found.append(_message(1, _named(code, _message(1, body))))
    return b"".join(found)


def _parameter(parameter: Json) -> bytes:
    required = _count(1, int(parameter.get("required", False)))
    if parameter["in"] == "body":
        body = _text(2, "body") + _text(3, "body") + _count(4, 1) + _message(5, _schema(parameter["schema"]))
        return _message(1, _message(1, body))
    place = parameter["in"]
    body = required + _text(2, place) + _text(3, parameter["description"]) + _text(4, parameter["name"])
    body += _text(6 if place == "query" else 5, parameter["type"])
    return _message(1, _message(2, _message(_PLACES[place], body)))
