"""From a quota object to the limits of a ledger. Keys are namespaces: what has to go is found by its ledger, too.

A ledger is made with the first quota, and stays without limits when that is deleted, since it counts. It goes with its
namespace. All is decided from what is there, so two of these at once only do the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Source
from ullage.kube.controller.outcome import Outcome, listed
from ullage.kube.controller.reconciler import Memory, Reconciler, ReconcilerWiring, Watched
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.objects import merge_patch
from ullage.kube.slices import Write
from ullage.ledger.amounts import Cell
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.keys import ledger_name, namespace_of
from ullage.ledger.limits import are_on_their_way, has_limits
from ullage.ledger.service.limits import set_limits
from ullage.quantity import Quantity
from ullage.space.accounts import vm_of
from ullage.space.api import HARVESTER_QUOTAS, NAME, KnownVM, ResourceQuota
from ullage.space.quota import SNAPSHOTS, limits_of, spelled
from ullage.vms.api.machines import VIRTUAL_MACHINES, VirtualMachine

MOST_AT_ONCE: Final = 50  # entries that one run takes away: each was looked up in the API before
REMOVED: Final = Reason("LimitRemoved")
LOOK_AGAIN: Final = 1.0  # seconds; the cache does not show yet what a live read did


# --- decisions: pure ---


@dataclass(frozen=True, slots=True)
class Entries:
    """A quota's entries for virtual machines: `known` is to be remembered; the machines of `gone` do not exist any more."""

    known: Mapping[str, KnownVM]
    gone: tuple[str, ...]


def remember(quota: ResourceQuota, before: Mapping[str, KnownVM], uid_of: Callable[[str], str]) -> Entries:
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
    return Entries(known, tuple(gone))


def removal_note(limits: Mapping[str, int]) -> str:
    """What is told of limits that were taken away: `VM db (10Gi) is deleted, and its limit with it.`"""
    named = listed(f"{vm} ({spelled(limit, down=True)})" for vm, limit in sorted(limits.items()))
    if len(limits) == 1:
        return f"VM {named} is deleted, and its limit with it."
    return f"VMs {named} are deleted, and their limits with them."


def limits_note(limits: Mapping[Cell, Quantity]) -> str:
    """What the log says of limits: `10Gi, VM db 5Gi`, the namespace's own first."""
    amounts = ((vm_of(cell.account), spelled(limit.value(), down=True)) for cell, limit in limits.items())
    return listed(f"VM {vm} {amount}" if vm else amount for vm, amount in amounts)


def _other_limits(old: Ledger | None, new: Ledger | None) -> bool:
    """Bookings are none of our business; a limit that is no longer on its way may leave a ledger to be removed."""
    if old is None or new is None or old.spec != new.spec:
        return True
    return old.status.limits_in_flight != new.status.limits_in_flight


# --- the controller ---


class QuotaLimits(Reconciler[Key]):
    """Carries the limits of a namespace's quota into the ledger of the namespace."""

    name = "space-limits"
    quotas = Watched(HARVESTER_QUOTAS)
    ledgers = Watched(LEDGERS, namespace=LEDGER_NAMESPACE)
    namespaces = Watched(NAMESPACES)
    machines = Watched(VIRTUAL_MACHINES)
    writes = (Write(LEDGERS, ("create", "patch", "delete")), Write(HARVESTER_QUOTAS, ("patch",), ("", "status")))

    def __init__(self, wiring: ReconcilerWiring, *, recorder: EventRecorder) -> None:
        super().__init__(wiring)
        self._recorder = recorder
        # What the API did not keep of a quota's `knownVMs`: Harvester's definition has no place for them.
        self._dropped: Memory[Mapping[str, KnownVM]] = Memory(forget_with=(self.quotas,))

    def sources(self) -> Iterable[Source[Any, Key]]:
        yield Source(self.quotas, lambda quota: _key(quota.metadata.namespace))
        yield Source(self.ledgers, lambda ledger: _key(namespace_of(ledger.metadata.name)), when=_other_limits)
        yield Source(self.namespaces, lambda found: _key(found.metadata.name), when=lambda old, new: new is None)
        yield Source(self.machines, self._with_quota, when=lambda old, new: old is None or new is None)

    def _with_quota(self, machine: VirtualMachine) -> Iterable[Key]:
        """Where no virtual machine has a limit, nobody cares for 5,000 of them."""
        quota = self.quotas.get(Key(machine.metadata.namespace, NAME))
        limited = quota is not None and machine.metadata.name in quota.spec.snapshot_limit.vm_total_snapshot_size_quota
        return _key(machine.metadata.namespace) if limited else ()

    async def reconcile(self, key: Key) -> Outcome | None:
        namespace, done = key.name, list[str]()
        quota = self.quotas.get(Key(namespace, NAME))
        ledger = self.ledgers.get(Key(LEDGER_NAMESPACE, ledger_name(namespace)))
        if quota is None:
            if ledger is None:
                return None
            if self.namespaces.get(Key("", namespace)) is None:
                return await self._remove(ledger, namespace)
        wanted = limits_of(quota)
        if ledger is None or not has_limits(ledger.spec, wanted, about=SNAPSHOTS):
            await set_limits(self.client, ledger_name(namespace), wanted, about=SNAPSHOTS)
            done.append(f"quota limits carried to ledger {ledger_name(namespace)}: {limits_note(wanted)}")
        after = await self._follow_machines(quota, done) if quota is not None else None
        return Outcome(f"namespace {namespace}", tuple(done), after=after)

    # --- a namespace that is gone ---

    async def _remove(self, ledger: Ledger, namespace: str) -> Outcome | None:
        """The cache is not believed alone: a ledger that is missed by a moment would limit nothing until it is there again."""
        about, meta = f"namespace {namespace}", ledger.metadata
        if await self.client.find(NAMESPACES, namespace) is not None:
            return Outcome(about, after=LOOK_AGAIN)
        if are_on_their_way(ledger):
            return None  # the namespace that sets them may be made any moment; what comes to nothing expires, and wakes us
        try:
            await self.client.delete(LEDGERS, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version)
        except NotFound:
            return None
        return Outcome(about, (f"ledger {meta.name} deleted, since the namespace is gone",))

    # --- virtual machines that are gone ---

    async def _follow_machines(self, quota: ResourceQuota, done: list[str]) -> float | None:
        """Adds to `done` what it did. Returns the seconds until the next look."""
        machines, meta = self.machines, quota.metadata
        if not machines.served or machines.doubtful:
            return None  # a KubeVirt that is being taken away, or upgraded, takes no limits along
        before = quota.status.known_vms or self._dropped.get(meta.uid, {})
        entries = remember(quota, before, lambda vm: _uid(machines.get(Key(meta.namespace, vm))))
        if entries.known not in (quota.status.known_vms, self._dropped.get(meta.uid)):
            quota = await self._keep(quota, entries.known)
            done.append(f"VMs with a limit noted in the quota's status: {listed(entries.known)}")
        dropped = await self._take_away(quota, entries)
        if dropped:
            done.append(f"limits of deleted VMs removed from the quota: {listed(dropped)}")
        return LOOK_AGAIN if len(dropped) < len(entries.gone) else None

    async def _keep(self, quota: ResourceQuota, known: Mapping[str, KnownVM]) -> ResourceQuota:
        change = merge_patch({"knownVMs": dict(quota.status.known_vms)}, {"knownVMs": dict(known)})
        written = await patch_seen(self.client, HARVESTER_QUOTAS, quota, {"status": change}, subresource="status")
        if written.status.known_vms == known:
            self._dropped.pop(quota.metadata.uid, None)
        else:
            self._dropped[quota.metadata.uid] = known
        return written

    async def _take_away(self, quota: ResourceQuota, entries: Entries) -> list[str]:
        """Returns the virtual machines whose entries it removed."""
        namespace, dropped = quota.metadata.namespace, list[str]()
        for vm in entries.gone[:MOST_AT_ONCE]:
            found = await self.client.find(VIRTUAL_MACHINES, vm, namespace)
            if _uid(found) != entries.known[vm].uid:
                dropped.append(vm)
        if dropped:
            removed = {"vmTotalSnapshotSizeQuota": dict.fromkeys(dropped)}
            await patch_seen(self.client, HARVESTER_QUOTAS, quota, {"spec": {"snapshotLimit": removed}})
            note = removal_note({vm: entries.known[vm].limit for vm in dropped})
            self._recorder.record(HARVESTER_QUOTAS, quota, REMOVED, note=note)
        return dropped


def _key(namespace: str) -> tuple[Key, ...]:
    return (Key("", namespace),) if namespace else ()


def _uid(machine: VirtualMachine | None) -> str:
    return machine.metadata.uid if machine is not None else ""
