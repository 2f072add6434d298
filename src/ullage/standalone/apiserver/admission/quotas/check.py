"""Whether an object fits into the ResourceQuotas of its namespace. Pure: the store is the caller's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ullage.pods.resources import Amounts, parsed, summed
from ullage.quantity import Quantity
from ullage.standalone.apiserver.admission.quotas.scopes import in_scope
from ullage.standalone.apiserver.admission.quotas.usage import PODS, concerns, unsaid, usage_of
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.kinds.strategies.base import part
from ullage.standalone.apiserver.objects import Json

NOTHING: Final = Quantity(0)


@dataclass(frozen=True, slots=True)
class Growth:
    """An object that is to be stored in place of another, or of none."""

    resource: Resource
    new: Json
    old: Json | None


@dataclass(frozen=True, slots=True)
class Fits:
    """What the quotas are to say that count it: the quota, and its `status.used`."""

    used: tuple[tuple[Json, Amounts], ...] = ()


def fit(asked: Growth, quotas: Iterable[Json], now: datetime) -> Fits | str:
    """Where it does not fit, why not. `quotas` have a status that is up to date."""
    kind = asked.resource.group_resource
    relevant = [quota for quota in quotas if _counts(quota, asked)]
    for quota in relevant:
        if kind == PODS and asked.old is None and (missing := unsaid(asked.new, hard_of(quota))):
            said = "; ".join(f"{name} for: {','.join(missing[name])}" for name in sorted(missing))
            return f"failed quota: {quota['metadata']['name']}: must specify {said}"
    more = _growth(asked, now)
    written = []
    for quota in relevant:
        hard, used = hard_of(quota), used_of(quota)
        grown = {name: more[name] for name in hard if name in more and more[name].sign}
        over = sorted(name for name, by in grown.items() if used.get(name, NOTHING) + by > hard[name])
        if over:
            return _exceeded(quota["metadata"]["name"], over, grown=grown, used=used, hard=hard)
        if grown:
            written.append((quota, summed((used, grown))))
    return Fits(tuple(written))


def is_about(quota: Json, resource: Resource) -> bool:
    """Whether it limits anything that objects of a kind count under."""
    return any(concerns(resource, name) for name in part(quota, "spec", "hard"))


def _counts(quota: Json, asked: Growth) -> bool:
    return is_about(quota, asked.resource) and in_scope(quota, asked.resource.group_resource, asked.new)


def _growth(asked: Growth, now: datetime) -> Amounts:
    new = usage_of(asked.resource, asked.new, now)
    old = usage_of(asked.resource, asked.old, now) if asked.old is not None else {}
    grown = {name: quantity - old.get(name, NOTHING) for name, quantity in new.items()}
    return {name: quantity for name, quantity in grown.items() if quantity.sign > 0}


def _exceeded(name: str, over: list[str], *, grown: Amounts, used: Amounts, hard: Amounts) -> str:
    def listed(found: Amounts) -> str:
        return ",".join(f"{one}={found.get(one, NOTHING)}" for one in over)

    return f"exceeded quota: {name}, requested: {listed(grown)}, used: {listed(used)}, limited: {listed(hard)}"


def hard_of(quota: Json) -> Amounts:
    return parsed(part(quota, "spec", "hard"))


def used_of(quota: Json) -> Amounts:
    return parsed(part(quota, "status", "used"))


def is_counted(quota: Json) -> bool:
    """Whether its status is about what it limits now."""
    status = part(quota, "status")
    return parsed(status.get("hard")) == hard_of(quota) and set(status.get("used") or ()) == set(hard_of(quota))


def recount(quota: Json, objects: Iterable[tuple[Resource, Iterable[Json]]], now: datetime) -> Amounts:
    """What it says is used, counted anew."""
    hard = hard_of(quota)
    found: Amounts = dict.fromkeys(hard, NOTHING)
    for resource, listed in objects:
        names = [name for name in hard if concerns(resource, name)]
        if not names:
            continue
        for obj in listed:
            if in_scope(quota, resource.group_resource, obj):
                used = usage_of(resource, obj, now)
                for name in names:
                    if name in used:
                        found[name] = found[name] + used[name]
    return found


def counts_as(quota: Json, resource: Resource, obj: Json, now: datetime) -> Amounts:
    """What one object takes of what a quota limits."""
    return recount(quota, [(resource, [obj])], now)


def status_of(quota: Json, used: Amounts) -> Json:
    hard = part(quota, "spec").get("hard") or {}
    return {"hard": dict(hard), "used": {name: str(used[name]) for name in sorted(used)}}
