"""The schema of a built-in kind: unknown fields, nulls, quantities in canonical form, values that the Go types cannot hold.

A wrong type in a built-in object is a decoding error (400) with the decoder's own sentence, never a field error (422): hence
`decode`. Defaults and the rules of the kinds are elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from typing import Any

from ullage.quantity import BAD_FORMAT, QuantityError, wire
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import Definitions
from ullage.standalone.apiserver.schema.go_types import GoType, GoTypes
from ullage.standalone.apiserver.schema.node import Place
from ullage.standalone.apiserver.schema.prune import spell
from ullage.standalone.apiserver.status import FieldError

_RANGES = {"int32": 2**31, "int64": 2**63}
_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_TIME = (("2006", r"\d{4}"), ("-", "-"), ("01", r"\d{2}"), ("-", "-"), ("02", r"\d{2}"), ("T", "T"), ("15", r"\d{2}"))
_CLOCK = ((":", ":"), ("04", r"\d{2}"), (":", ":"), ("05", r"\d{2}"))
_ZONE = ("Z07:00", r"Z|[+-]\d{2}:\d{2}")
_GO_DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))++)", re.ASCII)


class _Undecodable(Exception):
    """The decoder's sentence; it stops at the first."""


class BuiltinSchema:
    """Implements `Schema` (see resources.py), plus `decode`."""

    def __init__(self, shape: GoType) -> None:
        self._shape = shape

    def default(self, obj: Json) -> None:
        """Nothing: the defaults of built-in kinds are no part of the published definitions."""

    def validate(self, obj: Json, old: Json | None = None, *, blocked: bool = False) -> list[FieldError]:
        """Nothing: what the definitions say is checked by `decode`."""
        return []

    def prune(self, obj: Json) -> list[str]:
        unknown: list[str] = []
        _prune(self._shape, obj, None, unknown)
        return unknown

    def decode(self, obj: Any) -> str | None:
        """Why Go could not decode the object, or None. `json: cannot unmarshal string into Go struct field ...`."""
        try:
            if type(obj) is not dict:
                raise _Undecodable(f"json: cannot unmarshal {_JSON_NAMES[type(obj)]} into Go value of type {self._shape.go}")
            _decode_struct(self._shape, obj, "")
        except _Undecodable as error:
            return str(error)
        return None


@cache
def _shapes(definitions: Definitions) -> GoTypes:
    return GoTypes(definitions)


@cache
def compile_builtin(definitions: Definitions, name: str) -> BuiltinSchema:
    """The schema of a definition (`io.k8s.api.core.v1.Pod`). Compiled piece by piece, when a request first needs it."""
    return BuiltinSchema(_shapes(definitions).of(name))


def _prune(shape: GoType, value: Any, place: Place, unknown: list[str]) -> None:
    kind = shape.kind
    if kind == "struct":
        if type(value) is dict:
            _prune_struct(shape, value, place, unknown)
        return
    element = shape.element
    if element is None:
        return
    if kind == "list" and type(value) is list:
        for index, item in enumerate(value):
            if item is None:
                value[index] = element.zero()
            elif type(item) is dict or type(item) is list:
                _prune(element, item, (place, index), unknown)
    elif kind == "map" and type(value) is dict:
        amounts = element.kind == "quantity"
        for key, item in value.items():
            if item is None:
                value[key] = element.zero()
            elif amounts:
                value[key] = _canonical(item)
            elif type(item) is dict or type(item) is list:
                _prune(element, item, (place, key), unknown)


def _canonical(amount: Any) -> Any:
    """A quantity as the server writes it back. What is none is left for `decode` to refuse."""
    try:
        return wire(amount if type(amount) is str else str(amount)) if type(amount) in (str, int, float) else amount
    except QuantityError:
        return amount


def _prune_struct(shape: GoType, value: Json, place: Place, unknown: list[str]) -> None:
    fields, gone = shape.fields, None
    for key, item in value.items():
        child = fields.get(key)
        if child is None:
            unknown.append(spell((place, key)))
            gone = [*(gone or ()), key]
        elif item is None:
            gone = [*(gone or ()), key]
        elif type(item) is dict or type(item) is list:
            _prune(child, item, (place, key), unknown)
            # Go does not write empty lists and maps, but for those that a kind cannot do without.
            if not item and (child.kind == "list" or child.kind == "map") and key not in shape.required:
                gone = [*(gone or ()), key]
        elif child.kind == "quantity":
            value[key] = _canonical(item)
    for key in gone or ():
        del value[key]


def _decode_struct(shape: GoType, value: Json, path: str) -> None:
    fields = shape.fields
    for key, item in value.items():
        child = fields.get(key)
        if child is None or item is None or type(item) is child.exact:
            continue
        _decode(child, item, shape.name, f"{path}.{key}")


def _decode(shape: GoType, value: Any, owner: str, path: str) -> None:
    """`owner` is the struct that the field stands in; `path` has no indexes and no keys of maps, as Go's has none."""
    kind = shape.kind
    if value is None or kind == "any" or type(value) is shape.exact:
        return
    if kind == "struct" and type(value) is dict:
        _decode_struct(shape, value, path)
    elif kind == "list" and type(value) is list and shape.element is not None:
        for item in value:
            _decode(shape.element, item, owner, path)
    elif kind == "map" and type(value) is dict and shape.element is not None:
        for item in value.values():
            _decode(shape.element, item, owner, path)
    elif kind in _RANGES:
        if type(value) is not int or not -_RANGES[kind] <= value < _RANGES[kind]:
            raise _mismatch(value, owner, path, go=kind, exact=True)
    elif kind in _SCALARS:
        _SCALARS[kind](value, owner, path)
    else:
        raise _mismatch(value, owner, path, go=shape.go)


def _mismatch(value: Any, owner: str, path: str, *, go: str, exact: bool = False) -> _Undecodable:
    found = _JSON_NAMES[type(value)]
    if exact and found == "number":
        found = f"number {value}"
    return _Undecodable(f"json: cannot unmarshal {found} into Go struct field {owner}{path} of type {go}")


def _float(value: Any, owner: str, path: str) -> None:
    if type(value) not in (int, float):
        raise _mismatch(value, owner, path, go="float64")


def _bytes(value: Any, owner: str, path: str) -> None:
    if type(value) is not str:
        raise _mismatch(value, owner, path, go="[]uint8")
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", "").encode(), validate=True)
    except (binascii.Error, ValueError):
        wrong = re.search(r"[^A-Za-z0-9+/\r\n]", value)
        raise _Undecodable(f"illegal base64 data at input byte {wrong.start() if wrong else len(value)}") from None


def _quantity(value: Any, owner: str, path: str) -> None:
    if type(value) is str:
        try:
            wire(value)
        except QuantityError as error:
            raise _Undecodable(str(error)) from None
    elif type(value) not in (int, float):
        raise _Undecodable(BAD_FORMAT)


def _int_or_string(value: Any, owner: str, path: str) -> None:
    if type(value) is not str and (type(value) is not int or not -(2**31) <= value < 2**31):
        raise _mismatch(value, owner, path, go="int32", exact=True)


def _time(value: Any, owner: str, path: str) -> None:
    if type(value) is not str:
        raise _mismatch(value, owner, path, go="string")
    if value and (wrong := time_error(value)):
        raise _Undecodable(wrong)


def _micro_time(value: Any, owner: str, path: str) -> None:
    if type(value) is not str:
        raise _mismatch(value, owner, path, go="string")
    if value and (wrong := time_error(value, fraction=".000000")):
        raise _Undecodable(wrong)


def _duration(value: Any, owner: str, path: str) -> None:
    if type(value) is not str:
        raise _mismatch(value, owner, path, go="string")
    if _GO_DURATION.fullmatch(value) is None:
        raise _Undecodable(f'time: invalid duration "{value}"')


_SCALARS = {
    "float64": _float,
    "bytes": _bytes,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "time": _time,
    "micro-time": _micro_time,
    "duration": _duration,
}


def time_error(text: str, *, fraction: str = "") -> str | None:
    """Why a text is no RFC 3339 time, as Go's parser puts it: the rest of it, and the part of the layout it should match."""
    layout = f"2006-01-02T15:04:05{fraction}Z07:00"
    digits = ((fraction, rf"\.\d{{{len(fraction) - 1}}}"),) if fraction else (("", r"(\.\d+)?"),)
    rest = text
    for part, expression in (*_TIME, *_CLOCK, *digits, _ZONE):
        found = re.match(expression, rest, re.ASCII)
        if found is None:
            return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{part}"'
        rest = rest[found.end() :]
    if rest:
        return f'parsing time "{text}": extra text: "{rest}"'
    return _out_of_range(text)


def _out_of_range(text: str) -> str | None:
    year, month, day, hour, minute, second = (
        int(text[a:b]) for a, b in ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19))
    )
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12:
        return f'parsing time "{text}": month out of range'
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    for name, value, lowest, highest in (
        ("hour", hour, 0, 23),
        ("minute", minute, 0, 59),
        ("second", second, 0, 59),
        ("day", day, 1, days),
    ):
        if not lowest <= value <= highest:
            return f'parsing time "{text}": {name} out of range'
    return None
