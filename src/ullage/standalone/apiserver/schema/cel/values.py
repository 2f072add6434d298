"""Values as CEL rules see them: typed by the schema, not by the JSON.

`1` in a field of type number is a double, base64 is bytes, and a property whose name is no identifier goes by its escaped
name. Times and durations are values of their own only where the rule stands on them or selects them from `self`
(the library takes none inside maps): there the expression is rewritten to convert them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ullage.standalone.apiserver.schema.cel import syntax
from ullage.standalone.apiserver.schema.node import RESOURCE_FIELDS, Node

Convert = Callable[[Any], Any]
_SCALARS = {"integer": "int", "number": "double", "boolean": "bool", "array": "list", "object": "map"}
_TEXTS = {"byte": "bytes", "date-time": "timestamp", "datetime": "timestamp", "date": "timestamp", "duration": "duration"}
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
_TIMES = ("timestamp", "duration")
_ELEMENTS = ("bool", "int", "double", "string")
_ROOT_METADATA = ("name", "generateName")


def kind_of(node: Node) -> str:
    """The kind of variable (see `program.TYPES`) that `self` is at a node."""
    if node.int_or_string or not node.type:
        return "dyn"
    if node.type == "string":
        return _TEXTS.get(node.raw.get("format", ""), "string")
    element = node.items if node.type == "array" else node.additional
    inner = kind_of(element) if element is not None else ""
    return f"{_SCALARS[node.type]}<{inner}>" if inner in _ELEMENTS else _SCALARS[node.type]


def seconds(text: str) -> float:
    """A duration's length. Forms that no rule can mean (words, ISO 8601) count as zero."""
    parts = re.findall(r"(\d+(?:\.\d*)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h|d|w)", text)
    total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return -total if text.startswith("-") else total


def moment(text: str) -> datetime:
    if len(text) == 10:
        text += "T00:00:00Z"
    found = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.upper()))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def converter(node: Node) -> Convert | None:
    """Turns a value that stands inside another; None where the JSON value is right as it is."""
    kind = kind_of(node)
    if kind == "double":
        return lambda value: float(value) if type(value) is int else value
    if kind == "bytes":
        return lambda value: base64.b64decode(value) if type(value) is str else value
    if kind == "timestamp":
        return lambda value: moment(value).isoformat() if type(value) is str else value
    if kind == "duration":
        return lambda value: f"{seconds(value):.9f}s" if type(value) is str else value
    if node.type == "array" and node.items is not None and (item := converter(node.items)) is not None:
        return lambda value: [item(one) for one in value] if type(value) is list else value
    return _object_converter(node)


def _object_converter(node: Node) -> Convert | None:
    table = {
        name: (escaped, change)
        for name, child in node.properties.items()
        if (escaped := syntax.escape(name), change := converter(child)) != (name, None) or child.nullable
    }
    additional = converter(node.additional) if node.additional is not None else None
    if not table and additional is None:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return value
        found = {}
        for key, item in value.items():
            name, change = table.get(key, (key, additional))
            if name is not None and (item is not None or key not in table):  # to a rule a null field is an absent one
                found[name] = change(item) if change is not None else item
        return found

    return convert


def variable_maker(node: Node, expression: str, *, variable: str, root: bool = False) -> Convert:
    """Makes a rule's `self` from the JSON value. Of an object only the fields that the rule names are carried over."""
    kind = kind_of(node)
    if kind == "timestamp":
        return moment
    if kind == "duration":
        return lambda text: timedelta(seconds=seconds(text))
    used = syntax.fields_used(expression, variable) if node.type == "object" else None
    if used is None:
        whole = converter(node)
        return _whole_root(whole) if root and kind == "map" else whole or (lambda value: value)
    by_name = {syntax.escape(name): (name, converter(child)) for name, child in node.properties.items()}
    picked = [(name, *by_name.get(name, (name, None))) for name in sorted(used)]

    def pick(value: Any) -> Any:
        found = {}
        for name, key, change in picked:
            item = value.get(key)
            if item is not None or (key in value and key not in node.properties):  # to a rule a null field is an absent one
                found[name] = change(item) if change else item
        return _root_metadata(found) if root else found

    return pick


def _whole_root(whole: Convert | None) -> Convert:
    return lambda value: _root_metadata(whole(value) if whole else dict(value))


def _root_metadata(value: Any) -> Any:
    """Of an object's metadata rules see two fields only."""
    if type(value.get("metadata")) is dict:
        value["metadata"] = {key: value["metadata"][key] for key in _ROOT_METADATA if key in value["metadata"]}
    return value


def resolve(node: Node, path: list[str]) -> Node | None:
    """The schema at a path of escaped names below an object, or None where no rule can know it."""
    for name in path:
        found = next((child for key, child in node.properties.items() if syntax.escape(key) == name), None)
        if found is None:
            return node.additional if node.additional is not None and len(path) == 1 else None
        node = found
    return node


def names_field(node: Node, path: list[str], *, root: bool = False) -> bool:
    """Whether `self.<path>` names a field. Where the schema names none (maps, DYN), any will do."""
    for place, name in enumerate(path):
        if root and place == 0 and name in RESOURCE_FIELDS:
            return name != "metadata" or path[1:2] in ([], *([one] for one in _ROOT_METADATA))
        if node.type != "object" or node.additional is not None or not (node.properties or node.embedded):
            return True
        if node.embedded and name in RESOURCE_FIELDS:
            return True
        found = next((child for key, child in node.properties.items() if syntax.escape(key) == name), None)
        if found is None:
            return False
        node = found
    return True


def typed(node: Node, expression: str, *, variables: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The expression with typed variables in place of `self.a.b`, where the schema knows the type; each as long as what it
    stands for, so that a complaint points at the same place."""
    wraps: list[tuple[int, int, str]] = []
    for variable in variables:
        for start, steps in syntax.chains(expression, variable):
            if expression[:start].rstrip().endswith("has("):
                continue
            for count in range(len(steps), 0, -1):
                found = resolve(node, [one.name for one in steps[:count]])
                text = expression[start : steps[count - 1].end]
                if found is not None and kind_of(found) not in ("map", "dyn") and re.fullmatch(r"[\w.]+", text):
                    wraps.append((start, steps[count - 1].end, kind_of(found)))
                    break
    names: dict[str, str] = {}
    for number, (start, end, kind) in enumerate(sorted(wraps, reverse=True)):
        name = f"_{number}".ljust(end - start, "_")
        names[name] = kind
        expression = f"{expression[:start]}{name}{expression[end:]}"
    return expression, names


def with_times(node: Node, expression: str) -> str:
    """The expression with `timestamp(...)` and `duration(...)` around the fields that hold such values, or lists of them."""
    wraps: list[tuple[int, int, str]] = []
    for variable in ("self", "oldSelf"):
        for start, steps in syntax.chains(expression, variable):
            if expression[:start].rstrip().endswith("has("):
                continue
            for count, step in enumerate(steps, 1):
                found = resolve(node, [one.name for one in steps[:count]])
                if found is not None and (form := _time_form(found)):
                    wraps.append((start, step.end, form))
    for start, end, form in sorted(wraps, reverse=True):
        expression = f"{expression[:start]}{form.format(expression[start:end])}{expression[end:]}"
    return expression


def _time_form(node: Node) -> str:
    """How the text or the list of texts at a node is written as what it means."""
    if kind_of(node) in _TIMES:
        return f"{kind_of(node)}({{}})"
    if node.type == "array" and node.items is not None and kind_of(node.items) in _TIMES:
        return f"{{}}.map(one, {kind_of(node.items)}(one))"
    return ""
