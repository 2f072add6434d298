"""From a quota object to the limits of a ledger. Keys are namespaces: what has to go is found by its ledger, too.

A ledger is made with the first quota, and stays without limits when that is deleted, since it counts. It goes with its
namespace. All is decided from what is there, so two of these at once only do the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import ObjectClient
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Object
from ullage.kube.metrics import Metrics
from ullage.kube.objects import merge_patch
from ullage.kube.slices import Write
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.ledger.limits import are_on_their_way, has_limits
from ullage.ledger.service.limits import set_limits
from ullage.space.api import HARVESTER_QUOTAS, NAME, KnownVM, ResourceQuota
from ullage.space.quota import SNAPSHOTS, limits_of, spelled
from ullage.vms.api.machines import VIRTUAL_MACHINES, VirtualMachine

# Which entries of a quota belong to virtual machines that are gone.


NAMED: Final = 5  # virtual machines that an Event names


@dataclass(frozen=True, slots=True)
class Memory:
    """`known` is to be remembered; `gone` are the entries of virtual machines that are not there any more."""

    known: Mapping[str, KnownVM]
    gone: tuple[str, ...]


def remember(quota: ResourceQuota, before: Mapping[str, KnownVM], uid_of: Callable[[str], str]) -> Memory:
    """`uid_of` is empty where there is no virtual machine of the name."""
    known: dict[str, KnownVM] = {}
    gone: list[str] = []
    for vm, limit in sorted(quota.spec.snapshot_limit.vm_total_snapshot_size_quota.items()):
        uid, seen = uid_of(vm), before.get(vm)
        if seen is None or seen.limit != limit or seen.uid == uid:
            if uid:
                known[vm] = KnownVM(uid=uid, limit=limit)
            continue
        known[vm] = seen  # kept until the entry has gone: whoever is killed before that goes on with it
        gone.append(vm)
    return Memory(known, tuple(gone))


def removal_note(limits: Mapping[str, int]) -> str:
    """What is told of limits that were taken away: `VM db (10Gi) is deleted, and its limit with it.`"""
    named = ", ".join(f"{vm} ({spelled(limit, down=True)})" for vm, limit in sorted(limits.items())[:NAMED])
    more = f" and {len(limits) - NAMED} more" if len(limits) > NAMED else ""
    if len(limits) == 1:
        return f"VM {named} is deleted, and its limit with it."
    return f"VMs {named}{more} are deleted, and their limits with them."


WATCHES: Final = (HARVESTER_QUOTAS, LEDGERS, NAMESPACES, VIRTUAL_MACHINES)
WRITES: Final = (
    Write(LEDGERS, ("create", "patch", "delete")),
    Write(HARVESTER_QUOTAS, ("patch",), ("", "status")),
)
MOST_AT_ONCE: Final = 50  # entries that one run takes away: each was looked up in the API before
REMOVED: Final = Reason("LimitRemoved")
LOOK_AGAIN: Final = 1.0  # seconds; the cache does not show yet what a live read did


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCaches:
    quotas: Cache[ResourceQuota]
    ledgers: Cache[Ledger]
    namespaces: Cache[Object]
    machines: Cache[VirtualMachine]


class QuotaLimits:
    """The controller of limits."""

    def __init__(self, client: ObjectClient, caches: LimitCaches, *, recorder: EventRecorder) -> None:
        self._client = client
        self._caches = caches
        self._recorder = recorder
        # By uid of a quota, what the API has not kept of it: Harvester's definition has no place for it.
        self._dropped: dict[str, Mapping[str, KnownVM]] = {}

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        caches = self._caches
        sources: list[Source[Any, Key]] = [
            Source(caches.quotas, lambda quota: _key(quota.metadata.namespace)),
            Source(caches.ledgers, lambda ledger: _key(namespace_of(ledger.metadata.name)), when=_other_limits),
            Source(caches.namespaces, lambda found: _key(found.metadata.name), when=lambda old, new: new is None),
            Source(caches.machines, self._with_quota, when=lambda old, new: old is None or new is None),
        ]
        caches.quotas.handle(self._forget)
        return Controller("space-limits", sources, self.reconcile, metrics=metrics)

    def _forget(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if old is not None and new is None:
            self._dropped.pop(old.metadata.uid, None)

    def _with_quota(self, machine: VirtualMachine) -> Iterable[Key]:
        """Where no virtual machine has a limit, nobody cares for 5,000 of them."""
        quota = self._caches.quotas.get(Key(machine.metadata.namespace, NAME))
        limited = quota is not None and machine.metadata.name in quota.spec.snapshot_limit.vm_total_snapshot_size_quota
        return _key(machine.metadata.namespace) if limited else ()

    async def reconcile(self, key: Key) -> Requeue | None:
        namespace, caches = key.name, self._caches
        quota = caches.quotas.get(Key(namespace, NAME))
        ledger = caches.ledgers.get(Key(LEDGER_NAMESPACE, ledger_name(namespace)))
        if quota is None:
            if ledger is None:
                return None
            if caches.namespaces.get(Key("", namespace)) is None:
                return await self._remove(ledger, namespace)
        wanted = limits_of(quota)
        if ledger is None or not has_limits(ledger.spec, wanted, about=SNAPSHOTS):
            await set_limits(self._client, ledger_name(namespace), wanted, about=SNAPSHOTS)
        return await self._follow_machines(quota) if quota is not None else None

    # --- a namespace that is gone ---

    async def _remove(self, ledger: Ledger, namespace: str) -> Requeue | None:
        """The cache is not believed alone: a ledger that is missed by a moment would limit nothing until it is there again."""
        if await self._client.find(NAMESPACES, namespace) is not None:
            return Requeue(LOOK_AGAIN)
        meta = ledger.metadata
        if are_on_their_way(ledger):
            return None  # the namespace that sets them may be made any moment; what comes to nothing expires, and wakes us
        try:
            await self._client.delete(LEDGERS, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version)
        except NotFound:
            return None
        return None

    # --- virtual machines that are gone ---

    async def _follow_machines(self, quota: ResourceQuota) -> Requeue | None:
        machines, meta = self._caches.machines, quota.metadata
        if not machines.served or machines.doubtful:
            return None  # a KubeVirt that is being taken away, or upgraded, takes no limits along
        before = quota.status.known_vms or self._dropped.get(meta.uid, {})
        memory = remember(quota, before, lambda vm: _uid(machines.get(Key(meta.namespace, vm))))
        quota = await self._keep(quota, memory.known)
        return await self._take_away(quota, memory.gone, memory.known)

    async def _keep(self, quota: ResourceQuota, known: Mapping[str, KnownVM]) -> ResourceQuota:
        uid = quota.metadata.uid
        if known == quota.status.known_vms or known == self._dropped.get(uid):
            return quota
        change = merge_patch({"knownVMs": dict(quota.status.known_vms)}, {"knownVMs": dict(known)})
        written = await patch_seen(self._client, HARVESTER_QUOTAS, quota, {"status": change}, subresource="status")
        if written.status.known_vms == known:
            self._dropped.pop(uid, None)
        else:
            self._dropped[uid] = known
        return written

    async def _take_away(self, quota: ResourceQuota, gone: tuple[str, ...], known: Mapping[str, KnownVM]) -> Requeue | None:
        namespace, dropped = quota.metadata.namespace, []
        for vm in gone[:MOST_AT_ONCE]:
            found = await self._client.find(VIRTUAL_MACHINES, vm, namespace)
            if _uid(found) != known[vm].uid:
                dropped.append(vm)
        if dropped:
            entries = {"vmTotalSnapshotSizeQuota": dict.fromkeys(dropped)}
            await patch_seen(self._client, HARVESTER_QUOTAS, quota, {"spec": {"snapshotLimit": entries}})
            self._recorder.record(HARVESTER_QUOTAS, quota, REMOVED, note=removal_note({vm: known[vm].limit for vm in dropped}))
        return Requeue(LOOK_AGAIN) if len(dropped) < len(gone) else None


def _key(namespace: str) -> tuple[Key, ...]:
    return (Key("", namespace),) if namespace else ()


def _uid(machine: VirtualMachine | None) -> str:
    return machine.metadata.uid if machine is not None else ""


def _other_limits(old: Ledger | None, new: Ledger | None) -> bool:
    """Bookings are none of our business; a limit that is no longer on its way may leave a ledger to be removed."""
    if old is None or new is None or old.spec != new.spec:
        return True
    return old.status.limits_in_flight != new.status.limits_in_flight
