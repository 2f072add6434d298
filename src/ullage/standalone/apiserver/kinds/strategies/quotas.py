"""ResourceQuota and LimitRange: which names may be limited, by what amounts."""

from __future__ import annotations

from collections.abc import Mapping

from ullage.quantity import ZERO, Quantity
from ullage.selectors import key_faults
from ullage.standalone.apiserver.kinds.strategies.base import (
    NON_NEGATIVE,
    Faults,
    Strategy,
    collect,
    fill,
    immutable,
    items,
    part,
    round_amounts,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import duplicate, forbidden_field, invalid_value, required

COMPUTE = frozenset({"cpu", "memory", "ephemeral-storage"})
COUNTED = frozenset(
    {
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"),
        *("services.nodeports", "services.loadbalancers"),
    }
)
QUOTA_NAMES = (
    COMPUTE | COUNTED | {f"{side}.{name}" for side in ("requests", "limits") for name in COMPUTE} | {"requests.storage"}
)
STANDARD = QUOTA_NAMES | {"storage"}
HUGE = "hugepages-"
SCOPES = frozenset(
    {
        *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"),
        "VolumeAttributesClass",
    }
)
CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_COMPUTE_IN_SCOPE = COMPUTE | {f"{side}.{name}" for side in ("requests", "limits") for name in COMPUTE} | {"pods"}


def resource_name(path: str, name: str) -> Faults:
    """The name of something that can be counted: a standard one, or one with a domain."""
    faults = key_faults(name)
    yield from (invalid_value(path, name, fault) for fault in faults)
    if not faults and "/" not in name and name not in STANDARD and not name.removeprefix("requests.").startswith(HUGE):
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")


def amount(path: str, text: str, *, whole: bool = False) -> Faults:
    """A quantity that limits something."""
    quantity = Quantity.parse(text)
    if quantity < ZERO:
        yield invalid_value(path, text, NON_NEGATIVE)
    if whole and quantity.milli() % 1000:
        yield invalid_value(path, text, "must be an integer")


def _quota_faults(obj: Json) -> Faults:
    for field, block in (("spec.hard", part(obj, "spec")), ("status.hard", part(obj, "status"))):
        for name, text in (block.get("hard") or {}).items():
            path = f"{field}[{name}]"
            yield from resource_name(path, name)
            if "/" not in name and name not in QUOTA_NAMES and not name.removeprefix("requests.").startswith(HUGE):
                yield invalid_value(path, name, "must be a standard resource for quota")
            yield from amount(path, text, whole=name in COUNTED or name.startswith("count/"))
    yield from _scope_faults(obj)


def _scope_faults(obj: Json) -> Faults:
    scopes, path = items(obj, "spec", "scopes"), "spec.scopes"
    names = list(part(obj, "spec", "hard"))
    for scope in scopes:
        if scope not in SCOPES:
            yield invalid_value(path, scopes, "unsupported scope")
        elif scope == "BestEffort":
            yield from (invalid_value(path, scopes, _OUT_OF_SCOPE) for name in names if name != "pods")
        elif scope in SCOPES - {"VolumeAttributesClass"}:
            yield from (invalid_value(path, scopes, _OUT_OF_SCOPE) for name in names if name not in _COMPUTE_IN_SCOPE)
    if any(pair <= set(scopes) for pair in CONFLICTS):
        yield invalid_value(path, scopes, "conflicting scopes")


_OUT_OF_SCOPE = "unsupported scope applied to resource"


_SIDES = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _quota_default(obj: Json) -> None:
    for block in (part(obj, "spec"), part(obj, "status")):
        round_amounts(block.get("hard"))


def _limits_default(obj: Json) -> None:
    """What a container gets when it says nothing is derived from what it may get at most, or must ask at least."""
    for limit in items(obj, "spec", "limits"):
        for side in _SIDES:
            round_amounts(limit.get(side))
        if limit.get("type") != "Container":
            continue
        for target, source in (("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")):
            if values := limit.get(source):
                fill(limit, {target: {}})
                fill(limit[target], values)


def _limit_range_faults(obj: Json) -> Faults:
    seen: set[str] = set()
    for index, limit in enumerate(items(obj, "spec", "limits")):
        path, kind = f"spec.limits[{index}]", limit.get("type") or ""
        yield from _limit_type(f"{path}.type", kind)
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)
        yield from _limit_faults(path, kind, limit)


def _limit_type(path: str, kind: str) -> Faults:
    faults = key_faults(kind)
    yield from (invalid_value(path, kind, fault) for fault in faults)
    if not faults and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        yield invalid_value(path, kind, "must be a standard limit type or fully qualified")


def _limit_faults(path: str, kind: str, limit: Json) -> Faults:
    if kind == "Pod":
        for field in ("default", "defaultRequest"):
            if limit.get(field):
                yield forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
    if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(side) or {}) for side in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", detail)
    amounts = {side: _parsed(limit.get(side)) for side in _SIDES}
    for name in dict.fromkeys(name for side in amounts.values() for name in side):
        yield from resource_name(f"{path}.max[{name}]", name)
        yield from _order_faults(path, name, {side: values.get(name) for side, values in amounts.items()})


def _parsed(values: Json | None) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in (values or {}).items()}


# (the smaller, the larger, the field that is blamed, whose value it shows, how both are called)
_ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value {} is greater than max value {}"),
    (
        *("defaultRequest", "default", "defaultRequest", "defaultRequest"),
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _order_faults(path: str, name: str, amounts: Mapping[str, Quantity | None]) -> Faults:
    for low, high, blamed, shown, words in _ORDER:
        small, large = amounts[low], amounts[high]
        if small is not None and large is not None and small > large:
            yield invalid_value(f"{path}.{blamed}[{name}]", str(amounts[shown]), words.format(small, large))
    if (ratio := amounts["maxLimitRequestRatio"]) is not None and ratio < Quantity.of(1):
        yield invalid_value(f"{path}.maxLimitRequestRatio[{name}]", str(ratio), f"ratio {ratio} is less than 1")


STRATEGIES = {
    ("", "ResourceQuota"): Strategy(
        unstored_status=True,
        default=_quota_default,
        prepare_create=lambda obj: fill(obj, {"status": {}}),
        validate=collect(_quota_faults),
        validate_update=lambda new, old: list(immutable("spec.scopes")(new, old)),
    ),
    ("", "LimitRange"): Strategy(default=_limits_default, validate=collect(_limit_range_faults)),
}
