"""Copies of the master's quotas on all seeds: made, kept alike, and taken away before the quota goes.

Keys are quotas, and each quota on each seed: a seed that answers late, or not at all, keeps no other waiting. One that is out
of reach is written to when it can be read again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Final, Protocol

from ullage.clock import Clock
from ullage.errors import NotNow
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.conditional import hold, let_go, patch_seen
from ullage.kube.client.interface import Finder, ObjectClient, Patcher
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import AlreadyExists, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Write
from ullage.projects.api.kkp import PROJECTS, SEEDS, SETTINGS
from ullage.projects.api.quotas import PROJECT_QUOTAS, ResourceQuota
from ullage.projects.controllers.quota_copy_rules import (
    SeedCopy,
    is_orphan,
    may_copy,
    must_go,
    new_copy,
    object_patch,
    removal,
    status_patch,
)
from ullage.projects.escrow.record import heir
from ullage.projects.names import FINALIZER
from ullage.projects.seed_marks import is_dead
from ullage.projects.seeds import Seeds, answering
from ullage.projects.subjects import Defaults, QuotaLookup

WATCHES: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS, PROJECTS, SEEDS, SETTINGS)
ELSEWHERE: Final[tuple[Kind[Any], ...]] = (PROJECT_QUOTAS,)
WRITES: Final = (Write(PROJECT_QUOTAS, ("patch",)),)
WORKERS: Final = 8  # some may wait for a seed
WAITS: Final = Reason("DeletionWaits")


class MasterClient(Finder, Patcher, Protocol):
    """What is needed of the client of the master."""


class QuotaCopies:
    """The controller of copies. A key without a namespace is a quota; with one, that is the seed."""

    def __init__(
        self,
        client: MasterClient,
        lookup: QuotaLookup,
        seeds: Seeds,
        *,
        defaults: Defaults,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._quotas: Cache[ResourceQuota] = lookup.quotas
        self._defaults = defaults
        self._seeds = seeds
        self._recorder = recorder
        self._clock = clock
        self._rewrites: Rewrites[Key] = Rewrites()

    def controller(self, *, metrics: Metrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            Source(self._quotas, self._of_quota),
            self._seeds.source(self._every),
            *self._defaults.sources(self._going),
        ]
        found = Controller("project-quota-copies", sources, self.reconcile, workers=WORKERS, clock=self._clock, metrics=metrics)
        self._quotas.handle(self._forget)
        self._seeds.wake_by_reach(found.queue, self._every)
        self._seeds.wake_by_copies(found.queue, lambda seed, copy: _keys(copy.metadata.name, (seed,)))
        return found

    def _of_quota(self, quota: ResourceQuota) -> Iterable[Key]:
        return _keys(quota.metadata.name, self._seeds.names)

    def _every(self, seed: str) -> Iterable[Key]:
        """Also copies without a quota: nothing else wakes these when a seed that was given up comes back unchanged."""
        copies = self._seeds.copies(seed)
        left = [copy.metadata.name for copy in copies.items()] if copies is not None else []
        names = dict.fromkeys([*(quota.metadata.name for quota in self._quotas.items()), *left])
        return [key for name in names for key in _keys(name, (seed,))]

    def _going(self, project: str) -> Iterable[Key]:
        """What holds after them is another."""
        return [key_of(quota) for quota in self._lookup.of(project) if is_deleting(quota.metadata)]

    def _forget(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if old is not None and new is None:
            for key in self._of_quota(old):
                self._rewrites.forget(key)

    async def reconcile(self, key: Key) -> Requeue | None:
        quota = self._quotas.get(Key("", key.name))
        if quota is None:
            if key.namespace:
                await self._remove_orphan(key)
            return None
        if key.namespace:
            return await self._copy(key, quota)
        if is_deleting(quota.metadata):
            await self._remove(quota)
        else:
            with contextlib.suppress(NotFound):
                await hold(self._client, PROJECT_QUOTAS, quota, FINALIZER)
        return None

    # --- kept alike ---

    async def _copy(self, key: Key, quota: ResourceQuota) -> Requeue | None:
        seed = key.namespace
        copies, client = self._seeds.copies(seed), self._seeds.client(seed)
        if copies is None or client is None or not may_copy(quota):
            return None
        if not copies.served:
            raise NotNow(f"seed {seed} has no {PROJECT_QUOTAS.name}: install Ullage there, for the role seed")
        copy = copies.get(Key("", key.name))
        async with answering(seed):
            if copy is None:
                await self._create(client, quota)
            elif must_go(quota, copy):
                with contextlib.suppress(NotFound):
                    await client.delete(PROJECT_QUOTAS, key.name, uid=copy.metadata.uid)
            else:
                return await self._patch(key, client, quota, copy)
        return None

    async def _create(self, client: ObjectClient, quota: ResourceQuota) -> None:
        try:
            made = await client.create(PROJECT_QUOTAS, new_copy(quota))
        except AlreadyExists:
            return
        now = self._quotas.get(Key("", quota.metadata.name))
        if now is None or is_deleting(now.metadata):  # meanwhile: whoever removes copies may not have seen this one
            with contextlib.suppress(NotFound):
                await client.delete(PROJECT_QUOTAS, made.metadata.name, uid=made.metadata.uid)

    async def _patch(self, key: Key, client: ObjectClient, quota: ResourceQuota, copy: ResourceQuota) -> Requeue | None:
        main, status = object_patch(quota, copy), status_patch(quota, copy)
        if main is None and status is None:
            return None
        what, now = str((main, status)), self._clock.monotonic()
        if wait := self._rewrites.wait(key, what, now):
            return Requeue(wait)  # somebody puts it back, or the definition there drops what it does not know
        with contextlib.suppress(NotFound):
            if main is not None:
                copy = await patch_seen(client, PROJECT_QUOTAS, copy, main)
            if status is not None:
                await patch_seen(client, PROJECT_QUOTAS, copy, status, subresource="status")
        self._rewrites.wrote(key, what, now)
        return None

    # --- taken away ---

    async def _remove(self, quota: ResourceQuota) -> None:
        project = quota.spec.subject.name
        after = heir(quota, self._lookup.of(project), self._defaults.limits(project))
        plan = removal(quota, [self._seen(seed, quota) for seed in self._seeds.names], after)
        if plan.metadata is not None:
            await let_go(self._client, PROJECT_QUOTAS, quota, FINALIZER)
            return
        if plan.waiting:
            self._recorder.record(PROJECT_QUOTAS, quota, WAITS, note=plan.waiting)
        done = await asyncio.gather(*(self._delete(seed, copy) for seed, copy in plan.delete), return_exceptions=True)
        if failed := [one for one in done if isinstance(one, BaseException)]:
            raise BaseExceptionGroup("some copies could not be deleted", failed)

    async def _remove_orphan(self, key: Key) -> None:
        """Whether there is no such quota is asked of the server: the cache may not have it yet."""
        copies = self._seeds.copies(key.namespace)
        copy = copies.get(Key("", key.name)) if copies is not None else None
        if copy is not None and is_orphan(copy) and await self._client.find(PROJECT_QUOTAS, key.name) is None:
            await self._delete(key.namespace, copy)

    def _seen(self, seed: str, quota: ResourceQuota) -> SeedCopy:
        copies = self._seeds.copies(seed)
        copy = None if copies is None else copies.get(Key("", quota.metadata.name))
        found = self._seeds.get(seed)
        return SeedCopy(seed, copies is not None, copy, given_up=found is not None and is_dead(found))

    async def _delete(self, seed: str, copy: ResourceQuota) -> None:
        client = self._seeds.client(seed)
        if client is not None:
            async with answering(seed):
                with contextlib.suppress(NotFound):
                    await client.delete(PROJECT_QUOTAS, copy.metadata.name, uid=copy.metadata.uid)


def _keys(quota: str, seeds: Iterable[str]) -> tuple[Key, ...]:
    return (Key("", quota), *(Key(seed, quota) for seed in seeds))
