"""The ResourceQuota that a namespace has where Rancher says so: what its annotation means, and what is to be done. Pure.

Rancher writes what a project gives to a namespace into an annotation, and keeps a ResourceQuota of the same content beside it.
The annotation is read as Rancher reads it: the case of a name does not matter, and what it does not know it leaves out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ullage.errors import BadInput
from ullage.headroom.shares import RESOURCE_QUOTA
from ullage.kube.builtin.core import CORE_QUOTAS, CoreQuota
from ullage.kube.kinds import Meta, Object
from ullage.kube.objects import Json, is_deleting
from ullage.quantity import Quantity, QuantityError

LABEL: Final = "resourcequota.management.cattle.io/default-resource-quota"
LONGEST: Final = 16 * 1024  # characters; one with all that is known has not a tenth of it
FIELD: Final = f"metadata.annotations[{RESOURCE_QUOTA}]"
_SHOWN: Final = 60

# Rancher's names, in small letters, and those of the cluster.
RESOURCES: Final[Mapping[str, str]] = {
    "pods": "pods",
    "services": "services",
    "replicationcontrollers": "replicationcontrollers",
    "secrets": "secrets",
    "configmaps": "configmaps",
    "persistentvolumeclaims": "persistentvolumeclaims",
    "servicesnodeports": "services.nodeports",
    "servicesloadbalancers": "services.loadbalancers",
    "requestscpu": "requests.cpu",
    "requestsmemory": "requests.memory",
    "requestsstorage": "requests.storage",
    "limitscpu": "limits.cpu",
    "limitsmemory": "limits.memory",
}


@dataclass(frozen=True, slots=True)
class MakeQuota:
    hard: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResetQuota:
    """Somebody else changed it, or the annotation did."""

    quota: CoreQuota
    hard: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeleteQuotas:
    """Those that nobody wants: there is to be none, or one alone."""

    quotas: tuple[CoreQuota, ...]


QuotaPlan = MakeQuota | ResetQuota | DeleteQuotas


def wanted_hard(annotations: Mapping[str, str]) -> dict[str, str]:
    """What the quota is to have; empty: there is to be none. Raises BadInput where the annotation cannot be read."""
    text = annotations.get(RESOURCE_QUOTA, "")
    if not text:
        return {}
    limit = _limit(text)
    found: dict[str, str] = {}
    for name, given in limit.items():
        resource = RESOURCES.get(str(name).lower())
        if resource is None or given in (None, ""):
            continue
        try:
            amount = Quantity.parse(str(given))
        except QuantityError as error:
            raise BadInput(f"{FIELD}: limit.{name}", str(given)[:_SHOWN], str(error)) from error
        if amount.sign < 0:
            raise BadInput(f"{FIELD}: limit.{name}", str(given)[:_SHOWN], "an amount is not negative")
        found[resource] = str(amount)
    return found


def plan_quota(namespace: Object, quotas: Iterable[CoreQuota]) -> QuotaPlan | None:
    """`quotas` are those of the namespace; only those with Rancher's label, and the one that is made here, are looked at. None:
    all is as it should be."""
    name = quota_name(namespace.metadata)
    known = [one for one in quotas if (_is_labelled(one) or one.metadata.name == name) and not is_deleting(one.metadata)]
    ours = sorted(known, key=lambda one: (one.metadata.creation_timestamp, one.metadata.name))
    if is_deleting(namespace.metadata):
        return None
    hard = wanted_hard(namespace.metadata.annotations)
    if not hard:
        return DeleteQuotas(tuple(ours)) if ours else None
    if not ours:
        return MakeQuota(hard)
    first, *others = ours
    if not _same(first.spec.hard, hard) or not _is_labelled(first):
        return ResetQuota(first, hard)
    return DeleteQuotas(tuple(others)) if others else None


def quota_name(namespace: Meta) -> str:
    """As Rancher's are named, after the namespace's uid: made twice it is one."""
    return f"default-{hashlib.sha256(namespace.uid.encode()).hexdigest()[:5]}"


def new_quota(namespace: Meta, hard: Mapping[str, str]) -> Json:
    return {
        "apiVersion": CORE_QUOTAS.api_version,
        "kind": CORE_QUOTAS.kind,
        "metadata": {"name": quota_name(namespace), "namespace": namespace.name, "labels": {LABEL: "true"}},
        "spec": {"hard": dict(hard)},
    }


def reset(plan: ResetQuota) -> Json:
    """The change that brings a quota to what is wanted, and takes off what is not."""
    extra = dict.fromkeys(name for name in plan.quota.spec.hard if name not in plan.hard)
    return {"metadata": {"labels": {LABEL: "true"}}, "spec": {"hard": {**extra, **plan.hard}}}


def has_more_room(old: CoreQuota | None, new: CoreQuota | None) -> bool:
    """Whether something that a quota refused may fit now: it is gone, it was raised, or less is used."""
    if old is None or new is None:
        return new is None
    raised = any(_more(amount, old.status.hard.get(name)) for name, amount in new.status.hard.items())
    freed = any(_more(amount, new.status.used.get(name)) for name, amount in old.status.used.items())
    return raised or freed or not set(old.status.hard) <= set(new.status.hard)


def _limit(text: str) -> Mapping[str, Any]:
    allowed = '{"limit":{"limitsCpu":"4000m","limitsMemory":"5120Mi"}} is allowed, for example'
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    if len(text) > LONGEST:
        raise BadInput(FIELD, shown, f"it has {len(text)} characters; {LONGEST} at most are allowed")
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(FIELD, shown, f"not JSON ({error}); {allowed}") from error
    if not isinstance(found, dict):
        raise BadInput(FIELD, shown, f"not an object; {allowed}")
    limit = next((value for name, value in found.items() if name.lower() == "limit"), None)
    if not isinstance(limit, dict | None):
        raise BadInput(FIELD, shown, f"its limit is not an object; {allowed}")
    return limit or {}


def _is_labelled(quota: CoreQuota) -> bool:
    return quota.metadata.labels.get(LABEL) == "true"


def _same(found: Mapping[str, str | int], wanted: Mapping[str, str]) -> bool:
    return found.keys() == wanted.keys() and all(_amount(found[name]) == _amount(text) for name, text in wanted.items())


def _more(one: str | int, other: str | int | None) -> bool:
    return other is not None and _amount(one) > _amount(other)


def _amount(text: str | int) -> Quantity:
    """The API server lets nothing else into a quota."""
    return Quantity.parse(str(text))
