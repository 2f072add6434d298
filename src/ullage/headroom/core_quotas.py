"""Whether a namespace's core ResourceQuotas have room for the pod that an instance moves to. Pure.

The share for migrations is a part of the namespace's quota, and the API server counts every pod against core ResourceQuotas
beside it. Where other pods or a lower quota have taken that room, KubeVirt waits for it without an end, and holds the share.

Only what is sure is refused for: a quota for some pods only (by priority, say) is left out, and so is what a quota still counts
of pods that are gone, or on their way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ullage.headroom.accounts import RESOURCES
from ullage.kube.builtin.core import CoreQuota
from ullage.kube.builtin.watched_pods import PodResources, WatchedPod, WatchedPodSpec
from ullage.kube.objects import is_deleting
from ullage.ledger.amounts import Amounts, spell
from ullage.pods import resources
from ullage.quantity import ZERO, Quantity, QuantityError

PODS: Final = ("pods", "count/pods")
OF_MIGRATION: Final = "kubevirt.io/migrationJobUID"  # label of a pod that an instance moves to: the migration

# Scopes that every launcher is in: it has no deadline, and asks for something.
_OF_LAUNCHERS: Final = frozenset({"NotTerminating", "NotBestEffort"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAsk:
    """What a pod takes of quotas."""

    limits: resources.Amounts
    requests: resources.Amounts = field(default_factory=dict)
    pods: int = 1

    @classmethod
    def of_cost(cls, cost: Amounts) -> PodAsk:
        """Of a pod of which no more is known than its limits."""
        return cls(limits={name: cost[name] for name in RESOURCES if cost[name].sign})

    def counted(self, name: str) -> Quantity:
        """So much of what a quota calls by this name."""
        if name in PODS:
            return Quantity.of(self.pods)
        side, dot, resource = name.partition(".")
        if dot and side == "limits":
            return self.limits.get(resource, ZERO)
        if dot and side == "requests":
            return self.requests.get(resource, ZERO)
        return self.requests.get(name, ZERO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A resource of which a quota has less left than the pod asks for."""

    quota: str
    name: str
    asked: Quantity
    used: Quantity
    waiting: Quantity
    limit: Quantity


def shortages(
    quotas: Iterable[CoreQuota], ask: PodAsk, *, waiting: Iterable[PodAsk] = (), pods: Iterable[WatchedPod] | None = None
) -> tuple[Shortage, ...]:
    """`waiting`: pods of other migrations that are not there yet. `pods`: all that are there, where those were read: a quota is
    counted a moment after them."""
    coming = list(waiting)
    there = None if pods is None else [_of_pod(one) for one in pods if not is_deleting(one.metadata)]
    return tuple(found for quota in quotas for found in _short(quota, ask, coming, there))


def _short(quota: CoreQuota, ask: PodAsk, coming: Iterable[PodAsk], there: Iterable[PodAsk] | None) -> Iterator[Shortage]:
    if not set(quota.spec.scopes) <= _OF_LAUNCHERS or quota.spec.scope_selector:
        return
    for name, text in quota.status.hard.items():
        asked, limit, used = ask.counted(name), _amount(text), _amount(quota.status.used.get(name, 0))
        if not asked.sign or limit is None or used is None:
            continue
        used = used if there is None else min(used, _sum(one.counted(name) for one in there))
        waits = _sum(one.counted(name) for one in coming)
        if used + waits + asked > limit:
            yield Shortage(quota=quota.metadata.name, name=name, asked=asked, used=used, waiting=waits, limit=limit)


def _of_pod(pod: WatchedPod) -> PodAsk:
    """Of one that is over only the object is counted, by `count/pods`: to be on the safe side, by `pods` as well."""
    if pod.is_over:
        return PodAsk(limits={})
    return PodAsk(limits=_side(pod.spec, "limits"), requests=_side(pod.spec, "requests"))


def _side(spec: WatchedPodSpec, side: resources.Side) -> resources.Amounts:
    def of(one: PodResources) -> resources.Amounts:
        return resources.parsed(one.limits if side == "limits" else one.requests)

    starting = ((of(one.resources), one.restart_policy == resources.STAYS) for one in spec.init_containers)
    return resources.total(
        side,
        (of(one.resources) for one in spec.containers),
        (resources.InitContainer(amounts, stays=stays) for amounts, stays in starting),
        whole=of(spec.resources),
        overhead=resources.parsed(spec.overhead),
    )


def _sum(amounts: Iterable[Quantity]) -> Quantity:
    return sum(amounts, ZERO)


def _amount(text: str | int) -> Quantity | None:
    try:
        return Quantity.parse(str(text))
    except QuantityError:  # the API server lets none into a quota
        return None


def shortage_text(found: Iterable[Shortage], namespace: str, *, free: Amounts) -> str:
    """One line with the numbers of each quota, and what is free of the share for migrations."""
    first, *_ = shorts = list(found)
    said = "; ".join(map(_shortage_text, shorts))
    share = " and ".join(f"{spell(name, free[name], down=True)} of {name}" for name in free)
    return (
        f"the pod that the VM would move to does not fit into the namespace's own quota, although the maintenance share has"
        f" {share} free: {said}. Next: kubectl describe resourcequota {first.quota} -n {namespace}, then stop pods that are no"
        " VMs, or have that quota raised"
    )


def _shortage_text(one: Shortage) -> str:
    resource = one.name.partition(".")[2] or one.name
    waits = f", {spell(resource, one.waiting)} waited for by other migrations" if one.waiting.sign else ""
    return (
        f"ResourceQuota {one.quota}: {one.name}: asked {spell(resource, one.asked)}, used {spell(resource, one.used)}{waits},"
        f" limit {spell(resource, one.limit, down=True)}"
    )
