"""Marks the pods of instances that run since before anybody did, or that were made while nobody was asked about them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Final

from ullage.clock import Clock
from ullage.headroom.counting import FINISHED, is_finished
from ullage.headroom.lookup import BY_OWNER, ComputeLookup, owners_of
from ullage.headroom.pods import MARK, instance_owner, is_free
from ullage.kube.builtin.watched_pods import WATCHED_PODS, WatchedPod
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.slices import Write
from ullage.ledger.charging.stamps import STAMP
from ullage.vms.api.machines import INSTANCES, VirtualMachineInstance
from ullage.vms.api.migrations import MIGRATIONS

# Which pods of an instance are marked as paid for, of those that nobody marked when they were made.


def unmarked(instance: VirtualMachineInstance, pods: Iterable[WatchedPod], *, migrations: int) -> tuple[WatchedPod, ...]:
    """`pods`: those that it controls. `migrations`: of it, that have not ended."""
    alive = [one for one in pods if one.status.phase not in FINISHED and _is_of(one, instance)]
    free = [one for one in alive if is_free(one.metadata)]
    named = [one for one in alive if one not in free and one.metadata.uid in instance.status.active_pods]
    return tuple(sorted(named, key=_age)[: max(0, 1 + migrations - len(free))])


def _is_of(pod: WatchedPod, instance: VirtualMachineInstance) -> bool:
    owner = instance_owner(pod.metadata)
    return owner is not None and owner.uid == instance.metadata.uid


def _age(pod: WatchedPod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.uid


NAME: Final = "headroom-launchers"
WATCHES: Final[tuple[Kind[Any], ...]] = (WATCHED_PODS, INSTANCES, MIGRATIONS)
WRITES: Final = (Write(WATCHED_PODS, ("patch",)),)


class LauncherMarks:
    """Keys are those of instances."""

    def __init__(self, client: Patcher, pods: Cache[WatchedPod], lookup: ComputeLookup, *, clock: Clock) -> None:
        self._client = client
        self._pods = pods
        self._lookup = lookup
        self._clock = clock
        self._rewrites: Rewrites[str] = Rewrites()
        pods.handle(self._forget)

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            Source(self._pods, owners_of, when=_pod_matters),
            Source(self._lookup.instances, lambda one: (key_of(one),), when=_instance_matters),
        ]
        return Controller(NAME, sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _forget(self, old: WatchedPod | None, new: WatchedPod | None) -> None:
        if old is not None and new is None:
            self._rewrites.forget(old.metadata.uid)

    async def reconcile(self, key: Key) -> Requeue | None:
        instance = self._lookup.instances.get(key)
        if instance is None or is_finished(instance):
            return None
        moves = sum(not is_finished(one) for one in self._lookup.migrations_of(key))
        waits = [await self._mark(pod) for pod in unmarked(instance, self._pods.by(BY_OWNER, str(key)), migrations=moves)]
        soonest = min(filter(None, waits), default=0.0)
        return Requeue(soonest) if soonest else None

    async def _mark(self, pod: WatchedPod) -> float:
        """Gives the seconds until it is worth another try; 0: it is written."""
        uid = pod.metadata.uid
        if wait := self._rewrites.wait(uid, MARK, self._clock.monotonic()):
            return wait
        with contextlib.suppress(NotFound):
            await patch_seen(self._client, WATCHED_PODS, pod, {"metadata": {"annotations": {STAMP: MARK}}})
        self._rewrites.wrote(uid, MARK, self._clock.monotonic())
        return 0.0


def _pod_matters(old: WatchedPod | None, new: WatchedPod | None) -> bool:
    """Pods of instances are marked when they are made: what becomes of them is of no interest."""
    return new is not None and not is_free(new.metadata) and (old is None or is_free(old.metadata))


def _instance_matters(old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> bool:
    return new is not None and (old is None or old.status.active_pods != new.status.active_pods)
