"""What the server does to values while it decodes them: quantities become canonical, bytes must be base64.

Where a kind has quantities is read from the published definitions once; a kind without any costs nothing here.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ullage.quantity import BAD_FORMAT, Quantity, QuantityError, wire
from ullage.standalone.apiserver.definitions import Definitions, load
from ullage.standalone.apiserver.status import ApiError, Json, bad_request

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
CORE = "io.k8s.api.core.v1."
_LETTERS = frozenset(string.ascii_letters + string.digits + "+/")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
BYTES = {("", "Secret"): "data", ("", "ConfigMap"): "binaryData"}


@dataclass(frozen=True, slots=True)
class Plan:
    """Where below one schema there are quantities."""

    fields: Mapping[str, Plan] = field(default_factory=dict)
    each: Plan | None = None  # of a list or of a map
    leaf: bool = False
    coarse: bool = False  # a resource list: nothing finer than a thousandth


LEAF = Plan(leaf=True)
COARSE = Plan(leaf=True, coarse=True)


def canonical(obj: Json, *, group: str, version: str, kind: str) -> None:
    """Rewrites every quantity of a built-in kind as the server stores it, in place, and checks its base64.
    Raises the 400 that kube-apiserver answers to what it cannot decode."""
    try:
        if (plan := plan_of(group, version, kind)) is not None:
            _apply(plan, obj)
        if (name := BYTES.get((group, kind))) and isinstance(found := obj.get(name), dict):
            for key, value in found.items():
                found[key] = plain_base64(value)
    except ValueError as error:
        raise cannot_decode(version if not group else f"{group}/{version}", kind, str(error)) from None


def cannot_decode(api_version: str, kind: str, message: str) -> ApiError:
    version = api_version.rpartition("/")[2]
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {message}')


@cache
def plan_of(group: str, version: str, kind: str) -> Plan | None:
    definitions = load()
    name = definitions.name_of(group, version, kind)
    return None if name is None else _compile(definitions, {"$ref": f"#/$defs/{name}"}, ())


def _compile(definitions: Definitions, schema: Json, seen: tuple[str, ...]) -> Plan | None:
    name = schema.get("$ref", "").rpartition("/")[2]
    if name == QUANTITY:
        return LEAF
    if name in seen:
        return None  # no recursive kind holds quantities
    if name:
        seen = (*seen, name)
    schema = definitions.resolve(schema)
    if items := schema.get("items"):
        plan = _compile(definitions, items, seen)
        return Plan(each=plan) if plan else None
    if isinstance(values := schema.get("additionalProperties"), dict):
        plan = _compile(definitions, values, seen)
        if plan is LEAF and seen and seen[-1].startswith(CORE):
            plan = COARSE
        return Plan(each=plan) if plan else None
    fields = {key: plan for key, sub in schema.get("properties", {}).items() if (plan := _compile(definitions, sub, seen))}
    return Plan(fields) if fields else None


def _apply(plan: Plan, obj: Any) -> None:
    if plan.each is not None:
        if isinstance(obj, dict):
            _apply_each(plan.each, obj)
        elif isinstance(obj, list):
            for item in obj:
                _apply(plan.each, item)
    elif isinstance(obj, dict):
        for key, sub in plan.fields.items():
            if (value := obj.get(key)) is None:
                continue
            if sub.leaf:
                obj[key] = _text(value, coarse=sub.coarse)
            else:
                _apply(sub, value)


def _apply_each(plan: Plan, values: Json) -> None:
    if not plan.leaf:
        for value in values.values():
            _apply(plan, value)
        return
    for key, value in values.items():
        values[key] = _text(value, coarse=plan.coarse)


def _text(value: object, *, coarse: bool) -> str:
    """The stored text of a quantity that came as text or as a number."""
    if value is None:
        return "0"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(BAD_FORMAT)
    text = wire(str(value))
    if not coarse:
        return text
    quantity = Quantity.parse(text)
    return str(quantity.rounded_to_milli()) if quantity.nanos % 10**6 else text


def plain_base64(value: object) -> object:
    """Base64 without the line ends that Go forgives. Raises what Go's decoder says, with the place of the first bad byte."""
    if not isinstance(value, str):
        return value
    text = value.replace("\n", "").replace("\r", "")
    if not _BASE64.fullmatch(text):
        raise ValueError(f"illegal base64 data at input byte {_first_bad(text)}")
    return text


def _first_bad(text: str) -> int:
    for at, letter in enumerate(text):
        place = at % 4
        if letter in _LETTERS:
            continue
        if letter != "=" or place < 2:
            return at
        closing = at + 1 if place == 3 else at + 2
        return closing if text[at:closing] == "=" * (closing - at) else at + 1
    return len(text) - len(text) % 4
