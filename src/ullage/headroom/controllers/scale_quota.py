"""Raises the core ResourceQuota that Rancher made of a namespace by what its migrating instances take, and lowers it after.

What Rancher resets is raised again: twice at once, then once a second at most, since two who put each other right would write
as fast as they can. The quota is changed on condition that it is still the one that was looked at, and what it was raised from
is changed with it: two of these at once do it once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ullage.clock import Clock
from ullage.headroom.controllers.scale_quota_rules import Moving, moving, plan
from ullage.headroom.counting import is_finished
from ullage.headroom.lookup import ComputeLookup
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import CORE_QUOTAS, CoreQuota
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Write
from ullage.ledger.charging.stamps import COST
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS, VirtualMachineInstanceMigration

NAME: Final = "scale-quota"
WATCHES: Final[tuple[Kind[Any], ...]] = (CORE_QUOTAS, VIRTUAL_MACHINES, INSTANCES, MIGRATIONS)
WRITES: Final = (Write(CORE_QUOTAS, ("patch",)),)
BY_NAMESPACE: Final = "namespace of a core quota"
# Never for long: whoever resets it and KubeVirt, which asks for the target pod again, may both wait longer each time, and the
# pod is made only if it is asked for while the quota is raised.
AFTER_RESET: Final = Backoff(first=0.1, cap=1.0)


class QuotaScaler:
    """Keys are namespaces."""

    def __init__(self, client: Patcher, quotas: Cache[CoreQuota], lookup: ComputeLookup, *, clock: Clock) -> None:
        self._client = client
        self._quotas = quotas
        self._lookup = lookup
        self._clock = clock
        self._rewrites: Rewrites[str] = Rewrites(AFTER_RESET)
        quotas.index(BY_NAMESPACE, lambda one: (one.metadata.namespace,))
        quotas.handle(self._forget)

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        lookup = self._lookup
        sources: list[Source[Any, Key]] = [
            Source(self._quotas, lambda one: _key(one.metadata.namespace)),
            Source(lookup.migrations, lambda one: _key(one.metadata.namespace), when=_moves_otherwise),
            Source(lookup.instances, self._of_migrating, when=_costs_otherwise),
        ]
        return Controller(NAME, sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _of_migrating(self, instance: VirtualMachineInstance) -> Iterable[Key]:
        return _key(instance.metadata.namespace) if self._lookup.migrations_of(key_of(instance)) else ()

    def _forget(self, old: CoreQuota | None, new: CoreQuota | None) -> None:
        if old is not None and new is None:
            self._rewrites.forget(old.metadata.uid)

    async def reconcile(self, key: Key) -> Requeue | None:
        quotas = self._quotas.by(BY_NAMESPACE, key.name)
        if not quotas:
            return None
        found = moving(self._lookup.migrations_in(key.name), lambda name: self._lookup.instances.get(Key(key.name, name)))
        waits = [await self._scale(one, found) for one in quotas if not is_deleting(one.metadata)]
        soonest = min(filter(None, waits), default=0.0)
        return Requeue(soonest) if soonest else None

    async def _scale(self, quota: CoreQuota, found: tuple[Moving, ...]) -> float:
        """Gives the seconds until it is worth another try; 0: it is as it ought to be."""
        change = plan(quota, found)
        if change is None:
            return 0.0
        uid, what = quota.metadata.uid, (*change.hard.items(), change.record)
        if wait := self._rewrites.wait(uid, what, self._clock.monotonic()):
            return wait
        try:
            await patch_seen(self._client, CORE_QUOTAS, quota, change.merge)
        except NotFound:
            return 0.0
        self._rewrites.wrote(uid, what, self._clock.monotonic())
        return 0.0


def _key(namespace: str) -> tuple[Key, ...]:
    return (Key("", namespace),)


def _moves_otherwise(old: VirtualMachineInstanceMigration | None, new: VirtualMachineInstanceMigration | None) -> bool:
    return old is None or new is None or is_finished(old) != is_finished(new)


def _costs_otherwise(old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> bool:
    if old is None or new is None or is_finished(old) != is_finished(new):
        return True
    return old.metadata.annotations.get(COST) != new.metadata.annotations.get(COST)
