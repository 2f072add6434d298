"""A Configuration as YAML with the docs of its fields as comments, and its JSON schema. Both are the same each time."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml
from msgspec import inspect as shapes

from ullage.app.configuration.flags import COMMANDS, SETTINGS, Setting
from ullage.app.configuration.reading import PLAIN
from ullage.app.configuration.types import GROUP, VERSION, Configuration
from ullage.kube.crds.schemas import attribute_docs, prose
from ullage.kube.objects import Json

WIDTH: Final = 120
INDENT: Final = "  "
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FILE_NAME: Final = "configuration.schema.json"

_SETTINGS: Final[Mapping[str, Setting]] = {f"spec.{setting.path}": setting for setting in SETTINGS}


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1 would not read as a text, and what `reading` would not."""


for _tag, _pattern, _first in PLAIN:
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def to_yaml(configuration: Configuration) -> str:
    """The whole Configuration, with what is default. `reading.parse` reads the same from it."""
    shape = shapes.type_info(type(configuration))
    assert isinstance(shape, shapes.StructType)
    return "\n".join(_section(shape, msgspec.to_builtins(configuration), "")) + "\n"


def _section(shape: shapes.StructType, values: Mapping[str, Any], path: str) -> Iterator[str]:
    docs, depth = attribute_docs(shape.cls), path.count(".") + 1 if path else 0
    for field in shape.fields:
        at = f"{path}.{field.encode_name}" if path else field.encode_name
        value, indent = values[field.encode_name], INDENT * depth
        if path:
            yield from _comment(docs.get(field.name, ""), indent)
            yield from _comment(_facts(field, at), indent)
        if isinstance(field.type, shapes.StructType):
            yield f"{indent}{field.encode_name}:"
            yield from _section(field.type, value, at)
        else:
            yield from (f"{indent}{line}" for line in _entry(field.encode_name, value))


def _facts(field: shapes.Field, path: str) -> str:
    """What the doc of a field leaves to its type: the default, and the flags."""
    setting = _SETTINGS.get(path)
    if setting is None:
        return ""
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    commands = [command for command in COMMANDS if command in setting.commands]
    return f"Default: {_inline(default)}. Flag of {', '.join(commands)}: {setting.flag}."


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(text, width=WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False):
        yield f"{indent}# {line}"


def _entry(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield f"{name}:"
        yield from (f"{INDENT}{_inline(key)}: {_inline(inner)}" for key, inner in value.items())
    elif isinstance(value, list | tuple) and value:
        yield f"{name}:"
        yield from (f"{INDENT}- {_inline(inner)}" for inner in value)
    else:
        yield f"{name}: {_inline(value)}"


def _inline(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, tuple):
        value = list(value)
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, width=float("inf"), allow_unicode=True)
    return text.removesuffix("...\n").strip()


# --- the schema ------------------------------------------------------------------------------------------------------


def schema_text() -> str:
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def json_schema() -> Json:
    """The schema of a file. A section may be null, too: one of which every line is commented out."""
    head = {"$schema": DIALECT, "$id": f"https://{GROUP}/{VERSION}/{FILE_NAME}", "title": "Configuration"}
    return head | _schema(shapes.type_info(Configuration))


def _schema(shape: shapes.Type) -> Json:
    match shape:
        case shapes.Metadata():
            return _schema(shape.type)
        case shapes.UnionType():
            (value,) = (one for one in shape.types if not isinstance(one, shapes.NoneType))
            found = _schema(value)
            return {**found, "type": [found["type"], "null"]}
        case shapes.StructType():
            return _object(shape)
        case shapes.DictType():
            return {
                "type": "object",
                "propertyNames": _schema(shape.key_type),
                "additionalProperties": _schema(shape.value_type),
            }
        case shapes.VarTupleType():
            return _given(type="array", minItems=shape.min_length, items=_schema(shape.item_type))
        case shapes.LiteralType():
            return {"type": "string", "enum": list(shape.values)}
        case shapes.BoolType():
            return {"type": "boolean"}
        case shapes.IntType() | shapes.FloatType():
            kind = "integer" if isinstance(shape, shapes.IntType) else "number"
            return _given(type=kind, minimum=shape.ge, maximum=shape.le)
        case shapes.StrType():
            return _given(type="string", maxLength=shape.max_length, pattern=shape.pattern)
    raise TypeError(f"a Configuration has no fields of {type(shape).__name__}")


def _given(**marks: Any) -> Json:
    return {name: mark for name, mark in marks.items() if mark is not None}


def _object(shape: shapes.StructType) -> Json:
    docs, properties = attribute_docs(shape.cls), {}
    for field in shape.fields:
        found = _schema(field.type)
        described: Json = {"description": docs.get(field.name, "")}
        if isinstance(field.type, shapes.StructType):
            properties[field.encode_name] = {**found, "type": ["object", "null"], **described}
        elif field.required:
            properties[field.encode_name] = {**found, **described}
        else:
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            properties[field.encode_name] = {**found, **described, "default": default}
    required = [field.encode_name for field in shape.fields if field.required]
    return {
        "type": "object",
        "description": prose(shape.cls.__doc__),
        **({"required": required} if required else {}),
        "properties": properties,
        "additionalProperties": False,
    }
