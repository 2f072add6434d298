"""The keywords of a schema that judge one value: type, format, enum, bounds, lengths, pattern.

The odd sentences and their oddities are kube-apiserver's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema import formats, regexp
from ullage.standalone.apiserver.schema.faults import Check, Fault, bad_somewhere, bad_value, mistyped
from ullage.standalone.apiserver.schema.node import Place
from ullage.standalone.apiserver.schema.prune import spell
from ullage.standalone.apiserver.status import not_supported, show, too_long

_RANGES: dict[str, tuple[float, float]] = {"int32": formats.INT32, "float": (-formats.FLOAT_MAX, formats.FLOAT_MAX)}
_GO_NAMES = {bool: "", str: "string", int: "int64", float: "float64"}


def type_name(value: Any) -> str:
    """A value's JSON type. Whole numbers beyond 64 bits are `number`s, since Go holds them as floats."""
    if type(value) is int:
        return "integer" if -(2**63) <= value < 2**63 else "number"
    return {str: "string", bool: "boolean", float: "number", list: "array", dict: "object"}.get(type(value), "null")


def type_check(raw: Json) -> Callable[[Any, Place, list[Fault]], bool] | None:
    """True where the value is of the wrong type, which the function then has said."""
    wanted, form, nullable = raw.get("type", ""), raw.get("format", ""), bool(raw.get("nullable"))
    if raw.get("x-kubernetes-int-or-string"):
        return _int_or_string(nullable)
    if not wanted:
        return None
    exact = {"string": str, "boolean": bool, "integer": int, "array": list, "object": dict, "number": float}[wanted]
    known = form in formats.STRINGS or form in ("int32", "int64", "float", "double")

    def check(value: Any, place: Place, faults: list[Fault]) -> bool:
        kind = type(value)
        if kind is exact and (kind is not int or -(2**63) <= value < 2**63):
            return False
        if (kind is int and wanted == "number") or (kind is float and wanted == "integer" and _whole(value)):
            return False
        if value is None and nullable:
            return False
        if known and kind in _GO_NAMES and kind is not str:
            found = "float64" if type_name(value) == "number" else _GO_NAMES[kind]
            faults.append(mistyped(place, form, found))
        else:
            faults.append(mistyped(place, wanted, type_name(value)))
        if wanted == "integer" and type_name(value) == "number":
            faults.append(bad_somewhere(place, f"Checked value must be of type {_described(wanted, form)} in {spell(place)}"))
        return True

    return check


def _whole(value: float) -> bool:
    return value.is_integer() and abs(value) < 2**63


def _described(wanted: str, form: str) -> str:
    return f"{wanted} with format {form}" if form else f"{wanted} (default format)"


def _int_or_string(nullable: bool) -> Callable[[Any, Place, list[Fault]], bool]:
    def check(value: Any, place: Place, faults: list[Fault]) -> bool:
        name = type_name(value)
        if name in ("integer", "string") or (value is None and nullable):
            return False
        faults.append(mistyped(place, "integer,string", name))
        return True

    return check


def enum(raw: Json) -> Check | None:
    allowed = raw.get("enum")
    if not allowed:
        return None
    shown = [value if isinstance(value, str) else show(value) for value in allowed]
    fast = frozenset(value for value in allowed if isinstance(value, str))

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if type(value) is str and value in fast:
            return
        if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed):
            faults.append(Fault(place, not_supported(spell(place), value, shown)))

    return check


def string(raw: Json) -> Check | None:
    shortest, longest, expression = raw.get("minLength"), raw.get("maxLength"), raw.get("pattern")
    if shortest is None and longest is None and not expression:
        return None
    matches = regexp.matcher(expression) if expression else None

    def check(value: str, place: Place, faults: list[Fault]) -> None:
        if longest is not None and len(value) > longest:
            faults.append(Fault(place, too_long(spell(place), longest)))
        elif shortest is not None and len(value) < shortest:
            faults.append(bad_value(place, show(value), f"{spell(place)} in body should be at least {shortest} chars long"))
        elif matches is not None and not matches(value):
            faults.append(bad_value(place, show(value), f"{spell(place)} in body should match '{expression}'"))

    return check


def format_of(raw: Json) -> Check | None:
    form = raw.get("format", "")
    accepts = formats.STRINGS.get(form)
    if accepts is None or raw.get("type", "string") != "string":
        return None

    def check(value: str, place: Place, faults: list[Fault]) -> None:
        if not accepts(value):
            faults.append(mistyped(place, form, value))

    return check


def show_number(value: float) -> str:
    """As Go prints it: `1e+30`, and whole floats without a point."""
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    mantissa, e, exponent = repr(value).partition("e")
    return f"{mantissa}{e}{exponent[:1] if exponent[:1] == '-' else '+'}{exponent.lstrip('+-')}" if e else mantissa


def number(raw: Json) -> Check | None:
    form = raw.get("format", "")
    if not any(key in raw for key in ("maximum", "minimum", "multipleOf")) and form not in ("int32", "float"):
        return None
    lowest, highest = raw.get("minimum"), raw.get("maximum")
    above, below = bool(raw.get("exclusiveMinimum")), bool(raw.get("exclusiveMaximum"))
    factor = raw.get("multipleOf")
    wanted = raw.get("type", "")
    smallest, largest = _RANGES.get(form, (-math.inf, math.inf))

    def check(value: float, place: Place, faults: list[Fault]) -> None:
        if not smallest <= value <= largest:
            faults.append(bad_somewhere(place, f"Checked value must be of type {_described(wanted, form)} in {spell(place)}"))
            return
        # A whole value is compared with the bound's whole part: 11 is above 10.5, 0 is not below 0.25.
        bound = int if type(value) is int else float
        if factor is not None:
            _multiple(value, bound(factor), place, faults)
        if highest is not None and (value > bound(highest) or (below and value == bound(highest))):
            words = f"less than {'' if below else 'or equal to '}{show_number(bound(highest))}"
            faults.append(bad_value(place, show_number(value), f"{spell(place)} in body should be {words}"))
        if lowest is not None and (value < bound(lowest) or (above and value == bound(lowest))):
            words = f"greater than {'' if above else 'or equal to '}{show_number(bound(lowest))}"
            faults.append(bad_value(place, show_number(value), f"{spell(place)} in body should be {words}"))

    return check


def _multiple(value: float, factor: float, place: Place, faults: list[Fault]) -> None:
    path = spell(place)
    if factor <= 0:
        faults.append(bad_value(place, "0", f"factor MultipleOf declared for {path} must be positive: {show_number(factor)}"))
    elif isinstance(value, int) and isinstance(factor, int):
        if value % factor:
            faults.append(bad_value(place, str(value), f"{path} in body should be a multiple of {factor}"))
    elif not (value / factor).is_integer():
        faults.append(bad_value(place, show_number(value), f"{path} in body should be a multiple of {show_number(factor)}"))
