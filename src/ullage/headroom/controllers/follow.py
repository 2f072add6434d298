"""Keeps stamps true: gathers what has one name, has the rules decide, and writes in a safe order.

A machine that is as it ought to be costs a look into the caches, so a start among thirty thousand of them is no storm. What
somebody else takes off again each time is written later and later. A write that fails ends the run: the next one begins with
what is there then.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from ullage.clock import Clock
from ullage.errors import BadInput
from ullage.headroom.charges import machine_owner
from ullage.headroom.controllers.follow_rules import FOLLOWS, Change, Facts, plan, told
from ullage.headroom.cost import instance_cost, machine_cost, read_cost
from ullage.headroom.counting import counts, is_finished
from ullage.headroom.lookup import BY_OWNER, ComputeLookup, instance_key, owners_of
from ullage.headroom.pods import running_in
from ullage.kube.builtin.watched_pods import WATCHED_PODS, WatchedPod
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import Finder, Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.metrics import Metrics
from ullage.kube.objects import Conditions
from ullage.kube.slices import Write
from ullage.ledger.amounts import Amounts
from ullage.ledger.charging.raising import restamp
from ullage.ledger.charging.stamps import COST, STAMP, BadStamp
from ullage.vms import prices as vm_prices
from ullage.vms.api.machines import (
    INSTANCES,
    VIRTUAL_MACHINES,
    WHOLE_INSTANCES,
    WHOLE_VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
)
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration
from ullage.vms.instance_types.reader import READ, with_instance_type
from ullage.vms.prices import Prices

logger = logging.getLogger(__name__)

NAME: Final = "headroom-follow"
WATCHES: Final[tuple[Kind[Any], ...]] = (VIRTUAL_MACHINES, INSTANCES, MIGRATIONS, WATCHED_PODS, *vm_prices.WATCHES)
WRITES: Final = (
    *(Write(kind, ("get", "patch")) for kind in (VIRTUAL_MACHINES, INSTANCES)),
    Write(INSTANCES, ("patch",), ("status",)),
    Write(MIGRATIONS, ("patch",)),
    *(Write(kind, ("get",)) for kind in READ),
)
AFTER_REFUSAL: Final = 60.0  # seconds; nothing here tells when whoever refused does not any more


class Writer(Finder, Patcher, Protocol):
    """Reads and changes one object."""


class Follower:
    """Keys are the names of machines, of instances without one, and of instances that migrations name."""

    def __init__(self, client: Writer, lookup: ComputeLookup, *, pods: Cache[WatchedPod], prices: Prices, clock: Clock) -> None:
        self._client = client
        self._lookup = lookup
        self._pods = pods
        self._prices = prices
        self._clock = clock
        self._rewrites: Rewrites[str] = Rewrites()
        for cache in (lookup.machines, lookup.instances, lookup.migrations):
            cache.handle(self._forget)

    def controller(self, *, workers: int = 8, metrics: Metrics | None = None) -> Controller[Key]:
        lookup = self._lookup
        sources: list[Source[Any, Key]] = [
            Source(lookup.machines, _own, when=_machine_matters),
            Source(lookup.instances, _own, when=_instance_matters),
            Source(lookup.migrations, lambda one: (instance_key(one),), when=_migration_matters),
            Source(self._pods, owners_of, when=_pod_matters),
        ]
        return Controller(
            NAME,
            sources,
            self.reconcile,
            workers=workers,
            clock=self._clock,
            metrics=metrics,
            after_terminal=AFTER_REFUSAL,
        )

    def _forget(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is None:
            self._rewrites.forget(old.metadata.uid)
            self._rewrites.forget(f"{old.metadata.uid}/conditions")

    async def reconcile(self, key: Key) -> Requeue | None:
        facts = await self._facts(key)
        if facts is None:
            return None  # it went, or changed, while we looked: that brings us back
        wanted = plan(facts)
        for changes in (wanted.raises, wanted.lowers):
            waits = [await self._write(one) for one in changes]
            if soonest := min(filter(None, waits), default=0.0):
                return Requeue(soonest)  # nothing falls before all that rises is booked
        if wanted.raises or wanted.lowers or facts.instance is None:
            return None  # what was written brings us back
        conditions = told(facts, now=self._clock.now())
        wait = await self._tell(facts.instance, conditions) if conditions is not None else 0.0
        return Requeue(wait) if wait else None

    # --- gathering ---

    async def _facts(self, key: Key) -> Facts | None:
        lookup = self._lookup
        machine, instance = lookup.machines.get(key), lookup.instances.get(key)
        live = instance if instance is not None and not is_finished(instance) else None
        of_machine, of_instance = Amounts(), Amounts()
        if machine is not None:
            found = await self._cost(WHOLE_VIRTUAL_MACHINES, machine.metadata)
            if found is None:
                return None
            of_machine = found
        if live is not None:
            found = await self._cost(WHOLE_INSTANCES, live.metadata)
            if found is None:
                return None
            of_instance = found
        owner = machine_owner(live.metadata) if live is not None else None
        return Facts(
            machine=machine,
            machine_cost=of_machine,
            instance=live,
            instance_cost=of_instance,
            owner=owner.uid if owner is not None else "",
            migrations=tuple(lookup.migrations_of(key)),
            pods=self._running(key, live) if live is not None else (),
        )

    async def _cost(self, kind: Kind[Any], meta: Meta) -> Amounts | None:
        """As it was stamped; worked out for one that nobody has stamped, from all that the API has of it. None: it is not
        there, or has changed, which brings us back.

        Where that cannot be read it is nothing: no instance of it is admitted before somebody has mended it, and until it has
        a stamp nothing of its namespace can be counted."""
        with contextlib.suppress(BadStamp):
            return read_cost(meta)
        whole = await self._client.find(kind, meta.name, meta.namespace)
        if whole is None or whole.metadata.uid != meta.uid or whole.metadata.generation != meta.generation:
            return None
        body: Mapping[str, Any] = {"metadata": {"annotations": whole.metadata.annotations}, "spec": whole.spec}
        pricing = self._prices.of(meta.namespace)
        try:
            if kind is not WHOLE_VIRTUAL_MACHINES:
                return instance_cost(body, pricing)
            body = await with_instance_type(self._client, whole.partly, body, namespace=meta.namespace)
            return machine_cost(body, pricing)
        except BadInput as error:
            shown = {"kind": kind.kind, "namespace": meta.namespace, "name": meta.name, "error": str(error)}
            logger.warning("what it costs cannot be read", extra=shown)
            return Amounts()

    def _running(self, key: Key, live: VirtualMachineInstance) -> tuple[WatchedPod, ...]:
        """The pods that charges follow. The formula of the design knows no pods, and whoever chose it is charged by it."""
        if self._prices.of(key.namespace).settings is None:
            return ()
        return tuple(running_in(live, self._pods.by(BY_OWNER, str(key))))

    # --- writing ---

    async def _write(self, change: Change) -> float:
        """Gives the seconds until it is worth another try; 0: it is written."""
        uid, what = change.meta.uid, (str(change.stamp), *change.also.values())
        if wait := self._rewrites.wait(uid, what, self._clock.monotonic()):
            return wait
        with contextlib.suppress(NotFound):  # it went meanwhile, and the caches will say so
            await restamp(self._client, change.kind, change.meta, change.stamp, also=change.also)
        self._rewrites.wrote(uid, what, self._clock.monotonic())
        return 0.0

    async def _tell(self, instance: VirtualMachineInstance, conditions: Conditions) -> float:
        """Writes conditions as Go reads them: an empty field is absent. Gives the seconds until it is worth another try."""
        uid = f"{instance.metadata.uid}/conditions"
        shown = [{key: one for key, one in msgspec.to_builtins(each).items() if one} for each in conditions]
        what = tuple(one.message for one in conditions if one.type == FOLLOWS)
        if wait := self._rewrites.wait(uid, what, self._clock.monotonic()):
            return wait
        change = {"status": {"conditions": shown}}
        with contextlib.suppress(NotFound):
            try:
                await patch_seen(self._client, INSTANCES, instance, change, subresource="status")
            except NotFound:  # KubeVirt's own definition has no such subresource: the status is written with the rest
                await patch_seen(self._client, INSTANCES, instance, change)
        self._rewrites.wrote(uid, what, self._clock.monotonic())
        return 0.0


def _own(obj: Object) -> Iterable[Key]:
    return (key_of(obj),)


def _restamped(old: Object, new: Object) -> bool:
    return any(old.metadata.annotations.get(mark) != new.metadata.annotations.get(mark) for mark in (STAMP, COST))


def _machine_matters(old: VirtualMachine | None, new: VirtualMachine | None) -> bool:
    """Most of what KubeVirt writes there is how the machine does, several times for each start."""
    return old is None or new is None or counts(old) != counts(new) or _restamped(old, new)


def _instance_matters(old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> bool:
    if old is None or new is None or is_finished(old) != is_finished(new) or _restamped(old, new):
        return True
    before, after = old.status, new.status
    if (before.node_name, before.active_pods) != (after.node_name, after.active_pods):
        return True
    return old.metadata.uid != new.metadata.uid or old.metadata.owner_references != new.metadata.owner_references


def _pod_matters(old: WatchedPod | None, new: WatchedPod | None) -> bool:
    """What it takes is fixed when it is made, but for a resize; marks of it may come later."""
    return new is not None and (old is None or _restamped(old, new) or old.spec != new.spec)


def _migration_matters(old: VirtualMachineInstanceMigration | None, new: VirtualMachineInstanceMigration | None) -> bool:
    """One that is over, or gone, takes nothing: nobody need look."""
    return new is not None and not is_finished(new) and (old is None or _restamped(old, new))
