"""What a strategy is, and the small checks and fillers that all strategies are made of.

Checks are generators of `FieldError`: a kind's rules read as a list, and one pass collects every fault, as the server does.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ullage.quantity import Quantity
from ullage.selectors import key_faults, value_faults
from ullage.standalone.apiserver.kinds.metadata import IMMUTABLE, NameRule, subdomain, validate_labels
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import FieldError, forbidden_field, invalid_value, not_supported, required

Faults = Iterator[FieldError]
Check = Callable[[Json], Faults]
UpdateCheck = Callable[[Json, Json], Faults]

NON_NEGATIVE = "must be greater than or equal to 0"
PORT_RANGE = "must be between 1 and 65535, inclusive"
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def nothing(obj: Json) -> None:
    """For kinds that the server leaves as they come."""


def nothing_on_update(new: Json, old: Json) -> None:
    """For kinds whose updates the server leaves as they come."""


def no_faults(obj: Json) -> list[FieldError]:
    return []


def no_update_faults(new: Json, old: Json) -> list[FieldError]:
    return []


@dataclass(frozen=True, slots=True)
class Strategy:
    """What the server does to one kind beyond its schema."""

    name_rule: NameRule = subdomain
    generation: bool = False  # metadata.generation starts at 1 and counts changes outside metadata and status
    counted: tuple[str, ...] = ()  # parts of metadata whose changes count as well
    late_generation: bool = False  # there is no generation until the first change
    fixed_generation: bool = False  # there is one, and no change counts
    unstored_status: bool = False  # create and update on the main endpoint ignore `status`
    default: Callable[[Json], None] = nothing  # in place; may run several times
    prepare_create: Callable[[Json], None] = nothing  # once, with name and uid set and a client's status dropped
    prepare_update: Callable[[Json, Json], None] = nothing_on_update  # (new, old)
    validate: Callable[[Json], list[FieldError]] = no_faults
    validate_update: Callable[[Json, Json], list[FieldError]] = no_update_faults  # in addition to validate


def collect(*checks: Check) -> Callable[[Json], list[FieldError]]:
    return lambda obj: [fault for check in checks for fault in check(obj)]


def collect_update(*checks: UpdateCheck) -> Callable[[Json, Json], list[FieldError]]:
    return lambda new, old: [fault for check in checks for fault in check(new, old)]


def fill(obj: Json, defaults: Mapping[str, Any]) -> None:
    """Sets what is absent, deeply. An empty text counts as absent where the default is a text: Go cannot tell them apart."""
    for key, default in defaults.items():
        found = obj.get(key)
        if found is None or (found == "" and isinstance(default, str)):
            obj[key] = copied(default)
        elif isinstance(default, Mapping) and isinstance(found, dict):
            fill(found, default)


def copied(value: Any) -> Any:
    """A default of one's own: the tables must never be written to."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def filler(defaults: Mapping[str, Any]) -> Callable[[Json], None]:
    return lambda obj: fill(obj, defaults)


def round_amounts(values: Any) -> None:
    """Resource lists hold nothing finer than a thousandth; the server rounds up."""
    if isinstance(values, dict):
        for name, text in values.items():
            if (amount := Quantity.parse(text)).nanos % 10**6:
                values[name] = str(amount.rounded_to_milli())


def spec_of(obj: Json) -> Json:
    """The spec, made if it is absent: for filling."""
    if not isinstance(found := obj.get("spec"), dict):
        found = obj["spec"] = {}
    return found


def part(obj: Any, *path: str) -> Json:
    """The object at a path, empty where there is none: for reading."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}


def items(obj: Any, *path: str) -> list[Any]:
    """The list at a path, empty where there is none."""
    found = part(obj, *path[:-1]).get(path[-1])
    return found if isinstance(found, list) else []


def one_of(path: str, value: object, allowed: Sequence[str]) -> Faults:
    if value is not None and value not in allowed:
        yield not_supported(path, value, allowed)


def at_least(path: str, value: Any, minimum: int = 0) -> Faults:
    if isinstance(value, int) and value < minimum:
        yield invalid_value(path, value, f"must be greater than or equal to {minimum}")


def named(path: str, value: str | None, rule: NameRule) -> Faults:
    """A name that must be there and follow the rule."""
    if not value:
        yield required(path)
    else:
        yield from (invalid_value(path, value, fault) for fault in rule(value))


def optional_name(path: str, value: str | None, rule: NameRule = subdomain) -> Faults:
    if value:
        yield from (invalid_value(path, value, fault) for fault in rule(value))


def int_or_percent(path: str, value: object) -> Faults:
    if isinstance(value, str) and not re.fullmatch("[0-9]+%", value):
        yield invalid_value(path, value, PERCENT)
    yield from at_least(path, value)


def port_number(path: str, value: object) -> Faults:
    if not isinstance(value, int) or not 0 < value < 65536:
        yield invalid_value(path, value, PORT_RANGE)


def port_name(path: str, value: str) -> Faults:
    """An IANA service name, as ports are referred to by."""
    if len(value) > 15:
        yield invalid_value(path, value, "must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]*", value):
        yield invalid_value(path, value, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        yield invalid_value(path, value, "must contain at least one letter (a-z)")
    if "--" in value:
        yield invalid_value(path, value, "must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        yield invalid_value(path, value, "must not begin or end with a hyphen")


def label_selector(path: str, selector: Json | None) -> Faults:
    """The object form of a label selector."""
    if not selector:
        return
    yield from validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, term in enumerate(items(selector, "matchExpressions")):
        yield from _requirement(f"{path}.matchExpressions[{index}]", term)


def _requirement(path: str, term: Json) -> Faults:
    operator, values = term.get("operator"), term.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden_field(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid_value(f"{path}.operator", operator or "", "not a valid selector operator")
    key = term.get("key") or ""
    yield from (invalid_value(f"{path}.key", key, fault) for fault in key_faults(key))
    for index, value in enumerate(values):
        yield from (invalid_value(f"{path}.values[{index}]", value, fault) for fault in value_faults(value))


def immutable(*paths: str) -> UpdateCheck:
    """Refuses a change of any of these dotted paths."""
    split = [(path, path.split(".")) for path in paths]

    def check(new: Json, old: Json) -> Faults:
        for path, keys in split:
            before, after = (part(obj, *keys[:-1]).get(keys[-1]) for obj in (old, new))
            if (before or None) != (after or None):
                yield invalid_value(path, after, IMMUTABLE)

    return check


# Fields whose values are maps or keep their JSON names in the server's memory, too.
_PLAIN = frozenset({"limits", "requests", "capacity", "selector", "labelSelector", "nodeSelector", "volumeAttributes"})
_SPELT = {"apiGroup": "APIGroup", "dnsPolicy": "DNSPolicy", "csi": "CSI", "nfs": "NFS", "iscsi": "ISCSI", "rbd": "RBD"}


def go_names(value: Any) -> Any:
    """An object with its fields named as in the server's memory, which is what its messages show."""
    if isinstance(value, dict):
        return {
            _SPELT.get(key) or key[:1].upper() + key[1:]: item if key in _PLAIN else go_names(item)
            for key, item in value.items()
        }
    return [go_names(item) for item in value] if isinstance(value, list) else value


def in_order(values: Mapping[str, Any] | None) -> Json | None:
    """A map as messages show it: sorted, and nothing at all where it is empty."""
    return dict(sorted(values.items())) if values else None


MOST_COMPARED = 4_000  # lines


def changes(old: Any, new: Any) -> str:
    """The difference of two objects as the server appends it to a refusal."""
    before, after = (json.dumps(go_names(side), indent=1).splitlines() for side in (old, new))
    if len(before) + len(after) > MOST_COMPARED:  # finding the least difference takes long: only its beginning is told
        same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
        start = max(0, same - 3)
        before, after = (side[start : start + MOST_COMPARED // 2] for side in (before, after))
    lines: Iterable[str] = difflib.unified_diff(before, after, lineterm="")
    return "\n".join([*list(lines)[2:], ""])
