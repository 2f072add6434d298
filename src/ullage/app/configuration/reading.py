"""A Configuration from a file: bounded, without YAML's traps, and strict.

A key that is not known and a value that is not allowed are refused with their path in the file, the value, and what is allowed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import inspect as shapes

from ullage.app.configuration.types import ALLOWED, Configuration
from ullage.errors import BadInput
from ullage.kube.kinds import without_nulls

OPTION: Final = "--config"
LARGEST: Final = 1024 * 1024  # bytes of a file
DEEPEST: Final = 32  # collections inside each other
MOST: Final = 10_000  # keys, values and collections
LONGEST_TEXT: Final = 4096  # characters of a value, as of a path
LONGEST_SHOWN: Final = 80  # and of one in a message

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_CREDENTIALS: Final = re.compile(r"//[^/@\s]*@")  # in a URL


def read(file: Path) -> Configuration:
    """Returns the Configuration in a file. Raises BadInput."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise BadInput(OPTION, file, f"cannot be read: {error.strerror}") from error
    if len(data) > LARGEST:
        raise BadInput(OPTION, file, f"larger than {LARGEST} bytes, which is the most that a Configuration may have")
    try:
        return parse(str(file), data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadInput(OPTION, file, "not a text in UTF-8") from error


def parse(file: str, text: str) -> Configuration:
    """`file` is what messages call the text. Raises BadInput."""
    plain = _load(file, text)
    for problem in _problems(_shape(), plain, ""):
        raise BadInput(f"{file}: {problem[0] or 'the document'}", problem[1], problem[2])
    return msgspec.convert(without_nulls(plain), Configuration)


@cache
def _shape() -> shapes.Type:
    return shapes.type_info(Configuration)


# --- YAML ------------------------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """Plain values as in YAML 1.2 and JSON. In YAML 1.1 `no` is false, `1:30` is 90 and `2026-01-01` a date."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(None, None, "a key is no text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value} stands there twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


# Tag, pattern, and the characters that such a value begins with.
PLAIN: Final = (
    ("null", r"^(~|null|)$", ["~", "n", ""]),
    ("bool", r"^(true|false)$", ["t", "f"]),
    ("int", r"^-?(0|[1-9][0-9]{0,17})$", list("-0123456789")),
    ("float", r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$", list("-0123456789")),
)

_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in PLAIN:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def _load(file: str, text: str) -> Any:
    try:
        _check_structure(file, text)
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput(OPTION, file, f"not YAML: {_complaint(error)}") from error


def _check_structure(file: str, text: str) -> None:
    """Refuses what a Configuration has no need of: depth, masses, and aliases, which may stand for more than memory holds."""
    depth = documents = 0
    for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if number > MOST:
            raise BadInput(OPTION, file, f"more than {MOST} values, which is the most that a Configuration may have")
        if isinstance(event, yaml.AliasEvent):
            raise BadInput(OPTION, file, f"{_line(event.start_mark)}aliases are not allowed: write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        if depth > DEEPEST:
            raise BadInput(OPTION, file, f"{_line(event.start_mark)}more than {DEEPEST} levels are not allowed")
    if documents != 1:
        raise BadInput(OPTION, file, f"has {documents} documents; one Configuration is allowed")


def _complaint(error: Exception) -> str:
    text = " ".join(str(getattr(error, "problem", None) or error).split())
    return f"{_line(getattr(error, 'problem_mark', None))}{text}"


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}: " if mark is not None else ""


# --- checks ----------------------------------------------------------------------------------------------------------

Problem = tuple[str, str, str]  # the path, the value as it is shown, and what is allowed


def _problems(shape: shapes.Type, value: Any, path: str) -> Iterator[Problem]:
    extra = shape.extra or {} if isinstance(shape, shapes.Metadata) else {}
    inner = shape.type if isinstance(shape, shapes.Metadata) else shape
    if isinstance(inner, shapes.UnionType):  # a value, or null
        if value is not None:
            yield from _problems(next(one for one in inner.types if not isinstance(one, shapes.NoneType)), value, path)
    elif isinstance(inner, shapes.StructType):
        yield from _in_section(inner, {} if value is None and path else value, path)
    elif isinstance(inner, shapes.DictType):
        yield from _in_map(inner, value, path)
    elif isinstance(inner, shapes.VarTupleType):
        yield from _in_list(inner, value, path)
    elif not _is_allowed(inner, value):
        bare = isinstance(inner, shapes.StrType) and isinstance(value, bool | int | float)
        yield path, _shown(value), f"{extra.get(ALLOWED) or describe(inner)} is allowed{', in quotes' if bare else ''}"


def _in_section(shape: shapes.StructType, value: Any, path: str) -> Iterator[Problem]:
    names = [field.encode_name for field in shape.fields]
    if not isinstance(value, dict):
        yield path, _shown(value), f"a mapping with {_either(names)} is allowed"
        return
    for field in shape.fields:
        at = f"{path}.{field.encode_name}" if path else field.encode_name
        if field.encode_name in value:
            yield from _problems(field.type, value[field.encode_name], at)
        elif field.required:
            yield at, "(absent)", f"{describe(field.type)} is needed"
    for key in value:
        if key not in names:
            # Not the value: a secret may have been put where none belongs.
            yield f"{path}.{key}" if path else key, "(unknown)", f"{_either(names)} is allowed there"


def _in_map(shape: shapes.DictType, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield path, _shown(value), "a mapping is allowed"
        return
    for key, inner in value.items():
        at = f"{path}[{json.dumps(key, ensure_ascii=False)}]"
        yield from ((at, "(key)", problem) for _, _, problem in _problems(shape.key_type, key, at))
        yield from _problems(shape.value_type, inner, at)


def _in_list(shape: shapes.VarTupleType, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, list) or len(value) < (shape.min_length or 0):
        least = f" of {shape.min_length} or more" if shape.min_length else ""
        yield path, _shown(value), f"a list{least} is allowed"
        return
    for index, inner in enumerate(value):
        yield from _problems(shape.item_type, inner, f"{path}[{index}]")


def _is_allowed(shape: shapes.Type, value: Any) -> bool:
    match shape:
        case shapes.BoolType():
            return isinstance(value, bool)
        case shapes.IntType():
            return type(value) is int and _in_range(shape, value)
        case shapes.FloatType():
            return type(value) in (int, float) and math.isfinite(value) and _in_range(shape, value)
        case shapes.LiteralType():
            return isinstance(value, str) and value in shape.values
        case shapes.StrType():
            if not isinstance(value, str) or _CONTROL.search(value) or len(value) > (shape.max_length or LONGEST_TEXT):
                return False
            return shape.pattern is None or re.search(shape.pattern, value) is not None
    raise TypeError(f"a Configuration has no fields of {type(shape).__name__}")


def _in_range(shape: shapes.IntType | shapes.FloatType, value: float) -> bool:
    return (shape.ge is None or value >= shape.ge) and (shape.le is None or value <= shape.le)


# --- words -----------------------------------------------------------------------------------------------------------


def describe(shape: shapes.Type) -> str:
    """What a field may be, in words."""
    match shape:
        case shapes.BoolType():
            return "true or false"
        case shapes.IntType() | shapes.FloatType():
            number = "a whole number" if isinstance(shape, shapes.IntType) else "a number"
            if shape.le is not None:
                return f"{number} from {shape.ge:g} to {shape.le:.0f}"
            return f"{number} that is {shape.ge:g} or more" if shape.ge is not None else number
        case shapes.LiteralType():
            return _either([str(one) for one in shape.values])
    return "a text"


def _either(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _shown(value: Any) -> str:
    """A value as it is written, short enough for a line."""
    if isinstance(value, dict | list) and value:
        return "(a mapping)" if isinstance(value, dict) else "(a list)"
    text = _CREDENTIALS.sub("//…@", json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
