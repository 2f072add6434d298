"""What an object counts as: so much of each name that a ResourceQuota may limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from ullage.pods.resources import HUGE, Amounts
from ullage.quantity import Quantity
from ullage.standalone.apiserver.admission.quotas.pods import COMPUTE, amounts, containers, total
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.strategies.base import items, part
from ullage.standalone.apiserver.kinds.strategies.storage.classes import storage_class_of
from ullage.standalone.apiserver.objects import Json, dig
from ullage.times import read_time

ONE: Final = Quantity.of(1)
REQUESTS: Final = "requests."
LIMITS: Final = "limits."
COUNT: Final = "count/"
OF_CLASS: Final = ".storageclass.storage.k8s.io/"
STORAGE: Final = "requests.storage"
CLAIMS: Final = "persistentvolumeclaims"
PODS: Final = "pods"
SERVICES: Final = "services"
# Kinds that are counted under their plural name, too.
_PLAIN: Final = frozenset({"configmaps", "secrets", "replicationcontrollers", "resourcequotas"})
# What each container of a pod must say where a quota limits it.
DEMANDED: Final = frozenset({*COMPUTE[:2], *(f"{side}{name}" for side in (REQUESTS, LIMITS) for name in COMPUTE[:2])})


def usage_of(resource: Resource, obj: Json, now: datetime) -> Amounts:
    """All names that an object counts under, and how much."""
    counted = {count_name(resource): ONE}
    special = _SPECIAL.get(resource.group_resource)
    if special is not None:
        counted.update(special(obj, now))
    elif resource.group_resource in _PLAIN:
        counted[resource.plural] = ONE
    return counted


def count_name(resource: Resource) -> str:
    return f"{COUNT}{resource.group_resource}"


def concerns(resource: Resource, name: str) -> bool:
    """Whether a name that a quota limits is about objects of a kind at all."""
    if name == count_name(resource):
        return True
    kind = resource.group_resource
    if kind == PODS:
        return name == PODS or name in COMPUTE or name.startswith((LIMITS, HUGE)) or _is_request(name)
    if kind == CLAIMS:
        return name in (CLAIMS, STORAGE) or name.endswith((f"{OF_CLASS}{CLAIMS}", f"{OF_CLASS}{STORAGE}"))
    if kind == SERVICES:
        return name in _SERVICE_NAMES
    return kind in _PLAIN and name == resource.plural


def is_checked_on_update(resource: Resource) -> bool:
    """Objects of other kinds count as one, and that does not change."""
    return resource.group_resource in (SERVICES, CLAIMS)


def _is_request(name: str) -> bool:
    return name.startswith(REQUESTS) and name != STORAGE


# --- pods ------------------------------------------------------------------------------------------------------------


def _pod(pod: Json, now: datetime) -> Amounts:
    if has_ended(pod, now):
        return {}
    return {PODS: ONE, **named(total(pod, "requests"), total(pod, "limits"))}


def named(requests: Amounts, limits: Amounts) -> Amounts:
    """Amounts under the names that quotas know them by."""
    found: Amounts = {}
    for name, quantity in requests.items():
        found[f"{REQUESTS}{name}"] = quantity
        if name in COMPUTE or name.startswith(HUGE):
            found[name] = quantity
    for name, quantity in limits.items():
        if name in COMPUTE:
            found[f"{LIMITS}{name}"] = quantity
    return found


def has_ended(pod: Json, now: datetime) -> bool:
    """It uses nothing any more: all of it has ended, or it should have been gone for long."""
    if dig(pod, "status", "phase") in ("Succeeded", "Failed"):
        return True
    gone, grace = dig(pod, "metadata", "deletionTimestamp"), dig(pod, "metadata", "deletionGracePeriodSeconds")
    moment = read_time(gone) if gone else None
    return moment is not None and grace is not None and moment + timedelta(seconds=grace) < now


def unsaid(pod: Json, names: Iterable[str]) -> dict[str, list[str]]:
    """What containers do not say although a quota limits it: the names, and who does not."""
    whole = set(named(amounts(part(pod, "spec"), "requests"), amounts(part(pod, "spec"), "limits")))
    missing: dict[str, list[str]] = {}
    for name in sorted(DEMANDED.intersection(names) - whole):
        for one in containers(pod):
            if name not in named(amounts(one, "requests"), amounts(one, "limits")):
                missing.setdefault(name, []).append(str(one.get("name")))
    return missing


# --- claims and services ---------------------------------------------------------------------------------------------


def _claim(claim: Json, now: datetime) -> Amounts:
    asked = amounts(part(claim, "spec"), "requests").get("storage")
    found = {CLAIMS: ONE}
    if asked is not None:
        found[STORAGE] = asked
    if storage_class := storage_class_of(claim):
        found.update({f"{storage_class}{OF_CLASS}{name}": quantity for name, quantity in list(found.items())})
    return found


_SERVICE_NAMES: Final = ("services", "services.nodeports", "services.loadbalancers")


def _service(service: Json, now: datetime) -> Amounts:
    kind, ports = dig(service, "spec", "type"), items(service, "spec", "ports")
    balanced = kind == "LoadBalancer"
    on_nodes = len(ports) if kind == "NodePort" else 0
    if balanced:
        allocated = dig(service, "spec", "allocateLoadBalancerNodePorts") is not False
        on_nodes = len(ports) if allocated else sum(1 for port in ports if port.get("nodePort"))
    return dict(zip(_SERVICE_NAMES, (ONE, Quantity.of(on_nodes), Quantity.of(int(balanced))), strict=True))


_SPECIAL: Final[dict[str, Callable[[Json, datetime], Amounts]]] = {PODS: _pod, CLAIMS: _claim, SERVICES: _service}
