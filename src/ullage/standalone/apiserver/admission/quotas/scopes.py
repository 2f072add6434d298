"""Which objects a ResourceQuota is about, beyond their kind: all of its scopes must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ullage.standalone.apiserver.admission.quotas.pods import is_best_effort
from ullage.standalone.apiserver.admission.quotas.usage import CLAIMS, PODS
from ullage.standalone.apiserver.kinds.strategies.base import items, part
from ullage.standalone.apiserver.objects import Json, dig


def in_scope(quota: Json, kind: str, obj: Json) -> bool:
    """`kind` is `pods`, or any other resource's name: of those, only quotas without scopes are."""
    return all(_holds(scope, kind, obj) for scope in _scopes(quota))


def _scopes(quota: Json) -> Iterable[Json]:
    for name in items(quota, "spec", "scopes"):
        yield {"scopeName": name, "operator": "Exists"}
    yield from items(quota, "spec", "scopeSelector", "matchExpressions")


def _holds(scope: Json, kind: str, obj: Json) -> bool:
    name = scope.get("scopeName")
    if kind == CLAIMS and name == "VolumeAttributesClass":
        return _names_one(scope, {value for value in _attributes_classes(obj) if value})
    if kind != PODS:
        return False
    if name == "PriorityClass":
        return _names_one(scope, {found} if (found := dig(obj, "spec", "priorityClassName")) else set())
    rule = _POD_SCOPES.get(str(name))
    return rule is not None and rule(obj)


def _names_one(scope: Json, found: set[str]) -> bool:
    match scope.get("operator"):
        case "In":
            return bool(found & set(scope.get("values") or ()))
        case "NotIn":
            return not found & set(scope.get("values") or ())
        case "Exists":
            return bool(found)
        case "DoesNotExist":
            return not found
    return False


def _attributes_classes(claim: Json) -> Iterable[str | None]:
    """That it wants, has, and is about to have."""
    yield dig(claim, "spec", "volumeAttributesClassName")
    yield dig(claim, "status", "currentVolumeAttributesClassName")
    yield dig(claim, "status", "modifyVolumeStatus", "targetVolumeAttributesClassName")


def _is_terminating(pod: Json) -> bool:
    return dig(pod, "spec", "activeDeadlineSeconds") is not None


def _crosses_namespaces(pod: Json) -> bool:
    """Whether what runs in other namespaces decides where it may run."""
    affinity = part(pod, "spec", "affinity")
    for side in ("podAffinity", "podAntiAffinity"):
        block = part(affinity, side)
        terms = list(items(block, "requiredDuringSchedulingIgnoredDuringExecution"))
        weighted = items(block, "preferredDuringSchedulingIgnoredDuringExecution")
        terms += [part(one, "podAffinityTerm") for one in weighted]
        if any(one.get("namespaces") or one.get("namespaceSelector") is not None for one in terms):
            return True
    return False


_POD_SCOPES: Final[dict[str, Callable[[Json], bool]]] = {
    "Terminating": _is_terminating,
    "NotTerminating": lambda pod: not _is_terminating(pod),
    "BestEffort": is_best_effort,
    "NotBestEffort": lambda pod: not is_best_effort(pod),
    "CrossNamespacePodAffinity": _crosses_namespaces,
}
