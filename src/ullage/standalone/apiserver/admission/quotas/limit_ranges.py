"""LimitRanges: what containers get that do not say what they need, and the least and the most that may be asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from ullage.pods.resources import Amounts, Side, parsed
from ullage.quantity import Quantity
from ullage.standalone.apiserver.admission.quotas.pods import amounts, containers, total
from ullage.standalone.apiserver.kinds.strategies.base import items, part
from ullage.standalone.apiserver.objects import Json

ANNOTATION: Final = "kubernetes.io/limit-ranger"
_DEFAULTS: Final[tuple[tuple[Side, str, str], ...]] = (
    ("requests", "request", "defaultRequest"),
    ("limits", "limit", "default"),
)


def fill_pod(pod: Json, ranges: Iterable[Json]) -> None:
    """Sets what containers leave unsaid, and says so in an annotation."""
    for one in ranges:
        filled = list(_filled(pod, list(_limits([one], "Container"))))
        if filled:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(filled)}"


def _filled(pod: Json, limits: Sequence[Json]) -> Iterator[str]:
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        for container in items(pod, "spec", field):
            for side, word, source in _DEFAULTS:
                wanted = {name: text for limit in limits for name, text in (limit.get(source) or {}).items()}
                had = part(container, "resources", side)
                missing = sorted(name for name in wanted if name not in had)
                if missing:
                    resources = container.get("resources") or {}
                    container["resources"] = {**resources, side: {**had, **{name: wanted[name] for name in missing}}}
                    yield f"{', '.join(missing)} {word} for {what} {container.get('name')}"


def pod_faults(pod: Json, ranges: Iterable[Json]) -> list[str]:
    """Every bound that a pod does not keep, each once."""
    found: list[str] = []
    for limit in _limits(ranges, "Container", "Pod"):
        if limit["type"] == "Pod":
            found += _faults(limit, total(pod, "requests"), total(pod, "limits"))
            continue
        for container in containers(pod):
            found += _faults(limit, amounts(container, "requests"), amounts(container, "limits"))
    return list(dict.fromkeys(found))


def claim_faults(claim: Json, ranges: Iterable[Json]) -> list[str]:
    asked = amounts(part(claim, "spec"), "requests")
    found: list[str] = []
    for limit in _limits(ranges, "PersistentVolumeClaim"):
        found += _out_of_bounds(limit, "min", ("request", asked))
        found += _out_of_bounds(limit, "max", ("request", asked))
    return list(dict.fromkeys(found))


def listed(faults: Sequence[str]) -> str:
    """As kube-apiserver joins them."""
    return faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"


def _limits(ranges: Iterable[Json], *types: str) -> Iterator[Json]:
    return (limit for one in ranges for limit in items(one, "spec", "limits") if limit.get("type") in types)


def _faults(limit: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _out_of_bounds(limit, "min", ("request", requests), ("limit", limits))
    yield from _out_of_bounds(limit, "max", ("limit", limits), ("request", requests))
    yield from _too_far_apart(limit, requests, limits)


def _out_of_bounds(limit: Json, bound: Literal["min", "max"], *sides: tuple[str, Amounts]) -> Iterator[str]:
    """The first of the sides has to be said; the others keep the bound if they are."""
    for name, edge in sorted(parsed(limit.get(bound)).items()):
        said = f"{bound}imum {name} usage per {limit.get('type')} is {edge}"
        if name not in sides[0][1]:
            yield f"{said}.  No {sides[0][0]} is specified"
            continue
        for word, side in sides:
            if name in side and (side[name] < edge if bound == "min" else side[name] > edge):
                yield f"{said}, but {word} is {side[name]}"
                break


def _too_far_apart(limit: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    nothing = Quantity(0)
    for name, most in sorted(parsed(limit.get("maxLimitRequestRatio")).items()):
        said = f"{name} max limit to request ratio per {limit.get('type')} is {most}"
        request, bound = requests.get(name, nothing), limits.get(name, nothing)
        if not request.sign:
            yield f"{said}, but no request is specified or request is 0"
        elif not bound.sign:
            yield f"{said}, but no limit is specified or limit is 0"
        elif bound.nanos * 10**9 > most.nanos * request.nanos:
            yield f"{said}, but provided ratio is {bound.nanos / request.nanos:.6f}"
