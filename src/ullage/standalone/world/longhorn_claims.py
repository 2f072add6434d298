"""What Longhorn's provisioner does: a Volume for a claim, then its PersistentVolume, and both away again.

The key is the PersistentVolume's name, also while there is none. The Volume is there before it, and gone before it: a finalizer
holds the PersistentVolume until then. A Volume that was made here carries a mark as long as its claim decides on its life.
"""

from __future__ import annotations

import contextlib
from typing import Any

from ullage.engines.api import VOLUMES as ENGINE_VOLUMES
from ullage.engines.api import Volume as EngineVolume
from ullage.engines.handles import NAMESPACE
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import is_deleting, without_finalizer
from ullage.kube.slices import Wiring
from ullage.standalone.world import api
from ullage.standalone.world.claims import BY_UID, FOR_CLAIM, Storage
from ullage.standalone.world.model import PROVISIONED_BY, Json, uid_of, volume_name
from ullage.standalone.world.rules import longhorn as rules
from ullage.standalone.world.rules.binding import Delete, LetGo
from ullage.standalone.world.rules.provision import NOT_PROVISIONED, PROVISIONED, Provision, Refuse
from ullage.standalone.world.stock import Stock


class Provisioner:
    def __init__(self, client: Client, stock: Stock, *, recorder: Recorder) -> None:
        self._client = client
        self._stock = stock
        self._storage = stock.storage
        self._recorder = recorder

    async def reconcile(self, key: Key) -> None:
        volume = self._storage.volumes.get(key)
        if volume is None:
            await self._absent(key.name)
        elif rules.is_ours(volume):
            await self._present(volume)

    # --- there is no PersistentVolume ---

    async def _absent(self, name: str) -> None:
        uid = uid_of(name)
        if uid is None:
            return
        claim = next(iter(self._storage.claims.by(BY_UID, uid)), None)
        plan = rules.plan_provision(claim, self._storage.facts(claim)) if claim else None
        match plan:
            case Provision() if claim is not None:
                await self._make(claim, plan)
            case Refuse(note) if claim is not None:
                self._recorder.record(CLAIMS, claim, NOT_PROVISIONED, note=note)
            case _ if claim is None or claim.spec.volume_name not in ("", name):
                await self._clear(name)

    async def _make(self, claim: PersistentVolumeClaim, plan: Provision) -> None:
        backing = self._backing(plan.name)
        if backing is None:
            with contextlib.suppress(AlreadyExists):  # the cache is behind
                await self._client.create(ENGINE_VOLUMES, rules.volume_for(claim))
            return  # once it has its data it brings us back
        is_there = backing.status.state and not is_deleting(backing.metadata)
        if is_there and await api.make(self._client, PERSISTENT_VOLUMES, rules.persistent_volume_for(claim, plan)):
            self._recorder.record(CLAIMS, claim, PROVISIONED, note=f"Successfully provisioned volume {plan.name}")

    async def _clear(self, name: str) -> None:
        """A Volume whose claim went before its PersistentVolume was made. The cache may not know that yet: the API does."""
        backing = self._backing(name)
        if backing is not None and _goes_with_claim(backing) and await self._client.find(PERSISTENT_VOLUMES, name) is None:
            await self._delete(backing)

    def _backing(self, name: str) -> EngineVolume | None:
        return self._stock.volumes.get(Key(NAMESPACE, name))

    # --- there is one ---

    async def _present(self, volume: PersistentVolume) -> None:
        match rules.plan_persistent_volume(volume, await self._storage.claim_of(volume)):
            case Delete():
                await api.remove(self._client, PERSISTENT_VOLUMES, volume.metadata)
            case LetGo(with_data):
                await self._let_go(volume, with_data=with_data)

    async def _let_go(self, volume: PersistentVolume, *, with_data: bool) -> None:
        meta = volume.metadata
        backing = await self._client.find(ENGINE_VOLUMES, meta.name, NAMESPACE)
        if backing is not None and PROVISIONED_BY in backing.metadata.annotations:
            if with_data:
                await self._delete(backing)
                return  # its end brings us back
            await self._leave(backing)
        left = without_finalizer(meta, rules.HELD).finalizers
        change: Json = {"metadata": {"finalizers": list(left) or None}}
        await patch_seen(self._client, PERSISTENT_VOLUMES, volume, change)

    async def _leave(self, backing: EngineVolume) -> None:
        """To whoever asked for it to be kept."""
        await patch_seen(self._client, ENGINE_VOLUMES, backing, {"metadata": {"annotations": {PROVISIONED_BY: None}}})

    async def _delete(self, backing: EngineVolume) -> None:
        meta = backing.metadata
        if not is_deleting(meta):
            with contextlib.suppress(NotFound, Conflict):  # gone, or another by now
                await self._client.delete(ENGINE_VOLUMES, meta.name, meta.namespace, uid=meta.uid)


def controller(wiring: Wiring, stock: Stock, *, recorder: Recorder) -> Controller[Key]:
    storage: Storage = stock.storage
    provisioner = Provisioner(wiring.client, stock, recorder=recorder)

    def of_claim(claim: PersistentVolumeClaim) -> list[Key]:
        named = [claim.spec.volume_name] if claim.spec.volume_name else []
        given = [found.metadata.name for found in storage.volumes.by(FOR_CLAIM, str(key_of(claim)))]
        return [Key("", name) for name in {volume_name(claim.metadata.uid), *named, *given}]

    sources: list[Source[Any, Key]] = [
        own(storage.volumes),
        Source(stock.volumes, lambda one: (Key("", one.metadata.name),)),
        Source(storage.claims, of_claim),
        Source(storage.classes, lambda found: [Key("", volume_name(one.metadata.uid)) for one in storage.waiting(found)]),
        Source(storage.pods, lambda pod: [key for one in pod.claims for key in _of(storage.claims.get(one))]),
    ]
    return Controller("engine-claims", sources, provisioner.reconcile, clock=wiring.clock, metrics=wiring.metrics)


def _goes_with_claim(volume: EngineVolume) -> bool:
    return PROVISIONED_BY in volume.metadata.annotations and not is_deleting(volume.metadata)


def _of(claim: PersistentVolumeClaim | None) -> list[Key]:
    return [Key("", volume_name(claim.metadata.uid))] if claim else []
