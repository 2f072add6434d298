"""From an API type to the structural schema that a CRD carries, so that a field is written down once.

msgspec's own JSON schemas are refused by kube-apiserver (`$ref`, `anyOf` with null, JSON Schema's exclusive limits), and
know neither Kubernetes' list types nor attribute docs. This walks msgspec's description of the type instead. Every refusal
names the type and the field, since it is read by whoever has just written that field.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import inspect as shapes

from ullage.errors import Terminal
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json

# What API types say about themselves: docstrings, and the strings that stand under attributes. `kubectl explain` shows
# these to people, so they are written where the field is, in Python's usual places.


def prose(text: str | None) -> str:
    """A doc text without the line breaks of the source; paragraphs and list items stay on lines of their own."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text or ""))
    joined = (re.sub(r"\s*\n(?!\s*[-*] )\s*", " ", paragraph.strip()) for paragraph in paragraphs)
    return "\n\n".join(joined).strip()


@lru_cache(maxsize=256)
def attribute_docs(cls: type) -> Mapping[str, str]:
    """The docs under a class' attributes, with those of its bases; none where there is no source to read."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for one, after in _pairs(base):
            if (
                isinstance(one, ast.AnnAssign)
                and isinstance(one.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                found[one.target.id] = prose(after.value.value)
    return found


def _pairs(cls: type) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Each statement of a class' body with the one after it."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):  # built in, made at run time, or typed at a prompt
        return
    if isinstance(body, ast.ClassDef):
        yield from zip(body.body, body.body[1:], strict=False)


OPEN_MARK: Final = "x-kubernetes-preserve-unknown-fields"
EITHER_MARK: Final = "x-kubernetes-int-or-string"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
# Either of these says what a value is, so a type that msgspec does not know needs one of them.
_SAYS_WHAT: Final = ("type", OPEN_MARK, EITHER_MARK)
# Python's regular expressions know these, the API server's (RE2) do not.
_NOT_RE2: Final = re.compile(r"\(\?[=!]|\(\?<[=!]|\(\?\(|\(\?>|\\[1-9]|\(\?P=|\\Z|[*+?}]\+")
_LIMITS: Final = {"ge": "minimum", "gt": "minimum", "le": "maximum", "lt": "maximum", "multiple_of": "multipleOf"}
_SCALARS: Final = {"string", "integer", "number", "boolean"}


class SchemaError(Terminal):
    """A type that no structural schema can describe. Says where, as `GaugeSpec.ports`, and what to do."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the types the walk is: for messages, and to notice a type inside itself."""

    owner: str
    field: str = ""
    inside: tuple[type, ...] = ()
    open: bool = False  # a kind that is known in part: what is not named is kept

    def refuse(self, problem: str) -> SchemaError:
        return SchemaError(f"{self.owner}.{self.field}: {problem}" if self.field else f"{self.owner}: {problem}")

    def item(self, mark: str) -> _Place:
        return _Place(self.owner, f"{self.field}{mark}", self.inside, self.open)


def schema_of(api_type: type[msgspec.Struct], *, keep_unknown: bool = False) -> Json:
    """The schema of a whole object, metadata left to the API server. The same type always gives the same bytes."""
    try:
        found = shapes.type_info(api_type)
    except (TypeError, NameError) as error:
        raise SchemaError(f"{api_type.__name__}: {error}") from error
    return _schema(found, _Place(api_type.__name__, open=keep_unknown))


def _schema(shape: shapes.Type, place: _Place) -> Json:
    made = _WALKS.get(type(shape))
    if made is None:
        name = getattr(getattr(shape, "cls", None), "__name__", type(shape).__name__)
        marks = ", ".join(_SAYS_WHAT)
        raise place.refuse(f"{name} has no counterpart in a CRD; annotate it with extra_json_schema that names one of {marks}")
    schema = made(shape, place)
    _check_pattern(schema, place)
    _check_list(schema, place)
    return schema


# --- objects ---------------------------------------------------------------------------------------------------------


def _struct(shape: shapes.StructType, place: _Place) -> Json:
    cls = shape.cls
    if cls is Meta:
        return {"type": "object"}
    if cls in place.inside:
        raise place.refuse(f"{cls.__name__} contains itself, and a structural schema must end")
    if shape.array_like or shape.tag_field is not None:
        raise place.refuse(f"{cls.__name__} is array-like or tagged; the API knows plain objects only")
    properties: Json = {}
    required: list[str] = []
    docs = attribute_docs(cls)
    for field in shape.fields:
        at = _Place(cls.__name__, field.name, (*place.inside, cls), place.open)
        properties[field.encode_name] = _described(_with_default(_schema(field.type, at), field, at), docs.get(field.name))
        if field.required:
            required.append(field.encode_name)
    made: Json = {"type": "object", "description": prose(cls.__dict__.get("__doc__")), "properties": properties}
    if required:
        made["required"] = required
    if place.open:
        made[OPEN_MARK] = True
    return {key: value for key, value in made.items() if value not in ("", {})}


def _with_default(schema: Json, field: shapes.Field, place: _Place) -> Json:
    """Python's default becomes the API's, unless it says no more than "nothing given": "", 0, False, None, (), {}.

    A default object that adds nothing itself is still written as `{}` where fields inside it have defaults: the API server
    fills those in only if the object is there.
    """
    if "default" in schema and "default" in _marks(field.type):
        return schema
    if field.default is not msgspec.NODEFAULT:
        value = field.default
    elif field.default_factory in (msgspec.NODEFAULT, list, dict, set, tuple):
        return schema
    elif isinstance(field.default_factory, type) and issubclass(field.default_factory, msgspec.Struct):
        value = field.default_factory()
    else:
        raise place.refuse("a default must be a value; a factory may give another one each time")
    plain = None if isinstance(value, msgspec.Raw) else msgspec.json.decode(msgspec.json.encode(value, order="deterministic"))
    if plain or (plain == {} and isinstance(value, msgspec.Struct) and _fills_in(schema)):
        return {**schema, "default": plain}
    return schema


def _marks(shape: shapes.Type) -> Mapping[str, Any]:
    return (shape.extra_json_schema or {}) if isinstance(shape, shapes.Metadata) else {}


def _fills_in(schema: Json) -> bool:
    return any("default" in inner for inner in schema.get("properties", {}).values())


def _map(shape: shapes.DictType, place: _Place) -> Json:
    key = shape.key_type.type if isinstance(shape.key_type, shapes.Metadata) else shape.key_type
    if not isinstance(key, shapes.StrType):
        raise place.refuse("the keys of a map are strings")
    made: Json = {"type": "object"}
    if isinstance(shape.value_type, shapes.AnyType | shapes.RawType):
        made[OPEN_MARK] = True
    else:
        made["additionalProperties"] = _schema(shape.value_type, place.item("{}"))
    return made | _sizes(shape, "Properties")


# --- lists -----------------------------------------------------------------------------------------------------------


def _list(shape: Any, place: _Place) -> Json:
    made: Json = {"type": "array", "items": _schema(shape.item_type, place.item("[]"))}
    if isinstance(shape, shapes.SetType | shapes.FrozenSetType):
        made[LIST_TYPE] = "set"
    return made | _sizes(shape, "Items")


def _check_list(schema: Json, place: _Place) -> None:
    """The rules for list types that the API server would refuse the whole CRD for."""
    kind = schema.get(LIST_TYPE)
    if kind is None:
        return
    items = schema.get("items")
    if items is None:
        raise place.refuse(f"{LIST_TYPE} is for lists")
    if kind == "set" and items.get("type") not in _SCALARS:
        raise place.refuse("a list that is a set holds strings, numbers or booleans")
    if kind != "map":
        return
    for key in schema.get(LIST_KEYS, ()):
        found = items.get("properties", {}).get(key)
        if found is None or found.get("type") not in _SCALARS:
            raise place.refuse(f"the list key {key!r} is no plain field of its items")
        if key not in items.get("required", ()) and "default" not in found:
            raise place.refuse(f"the list key {key!r} must be required, or have a default that says something")


# --- single values ---------------------------------------------------------------------------------------------------


def _number(kind: str) -> Callable[[Any, _Place], Json]:
    def made(shape: Any, place: _Place) -> Json:
        schema: Json = {"type": kind}
        for limit, name in _LIMITS.items():
            value = getattr(shape, limit)
            if value is not None:
                schema[name] = value
                if limit in ("gt", "lt"):
                    schema["exclusiveMinimum" if limit == "gt" else "exclusiveMaximum"] = True
        return schema

    return made


def _string(shape: shapes.StrType, place: _Place) -> Json:
    made: Json = {"type": "string", **_sizes(shape, "Length")}
    if shape.pattern is not None:
        made["pattern"] = shape.pattern
    return made


def _check_pattern(schema: Json, place: _Place) -> None:
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and (found := _NOT_RE2.search(pattern)):
        raise place.refuse(f"the pattern uses {found.group()!r}, which the API server's RE2 does not know")


def _sizes(shape: Any, of_what: str) -> Json:
    limits = {"min": shape.min_length, "max": shape.max_length}
    return {f"{end}{of_what}": value for end, value in limits.items() if value is not None}


def _fixed(**schema: Any) -> Callable[[Any, _Place], Json]:
    return lambda shape, place: dict(schema)


def _enum(values: tuple[Any, ...], place: _Place) -> Json:
    for kind, python in (("string", str), ("integer", int)):
        if values and all(type(value) is python for value in values):
            return {"type": kind, "enum": list(values)}
    raise place.refuse("the values of an enum are all strings or all whole numbers")


def _union(shape: shapes.UnionType, place: _Place) -> Json:
    """What a union may be: a value or null; a whole number or a string; a number of either kind."""
    members = [one for one in shape.types if not isinstance(one, shapes.NoneType)]
    bare = {type(one.type if isinstance(one, shapes.Metadata) else one) for one in members}
    if len(members) == 1:
        made = _schema(members[0], place)
    elif bare == {shapes.IntType, shapes.StrType}:
        made = {}
        for one in members:
            made |= _schema(one, place)
        del made["type"]
        made |= {EITHER_MARK: True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    elif bare == {shapes.IntType, shapes.FloatType}:
        made = {"type": "number"}
    else:
        raise place.refuse("a union may be `T | None`, `int | str` or `int | float`")
    # An enum is asked about null too, and kube-apiserver matches null with nothing in it. Not nullable, it drops a null that
    # is given instead, which says the same.
    return {**made, "nullable": True} if len(members) < len(shape.types) and "enum" not in made else made


def _annotated(shape: shapes.Metadata, place: _Place) -> Json:
    marks = dict(shape.extra_json_schema or {})
    if examples := marks.pop("examples", None):
        marks["example"] = examples[0]
    if "description" in marks:
        marks["description"] = prose(marks["description"])
    told = type(shape.type) not in _WALKS and any(mark in marks for mark in _SAYS_WHAT)
    return marks if told else _schema(shape.type, place) | marks


# --- putting together ------------------------------------------------------------------------------------------------


def _described(schema: Json, doc: str | None) -> Json:
    """The doc under the field comes before what its type says of itself, in `Meta` or in a docstring."""
    ordered: Json = {"type": schema["type"]} if "type" in schema else {}
    description = doc or schema.get("description")
    if description:
        ordered["description"] = description
    return ordered | {key: value for key, value in schema.items() if key not in ordered}


_WALKS: Final[Mapping[type, Callable[[Any, _Place], Json]]] = {
    shapes.StructType: _struct,
    shapes.DictType: _map,
    shapes.ListType: _list,
    shapes.VarTupleType: _list,
    shapes.SetType: _list,
    shapes.FrozenSetType: _list,
    shapes.StrType: _string,
    shapes.IntType: _number("integer"),
    shapes.FloatType: _number("number"),
    shapes.BoolType: _fixed(type="boolean"),
    shapes.BytesType: _fixed(type="string", format="byte"),
    shapes.DateTimeType: _fixed(type="string", format="date-time"),
    shapes.DateType: _fixed(type="string", format="date"),
    shapes.AnyType: _fixed(**{OPEN_MARK: True}),
    shapes.RawType: _fixed(**{OPEN_MARK: True}),
    shapes.LiteralType: lambda shape, place: _enum(tuple(shape.values), place),
    shapes.EnumType: lambda shape, place: _enum(tuple(member.value for member in shape.cls), place),
    shapes.UnionType: _union,
    shapes.Metadata: _annotated,
}
