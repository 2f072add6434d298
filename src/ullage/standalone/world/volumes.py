"""Everything about one volume, under its name: made for a claim, given a phase, taken away with its directory.

The key is the volume's name, also while there is none: all that happens to one directory happens one after the other. The
directory is there before the volume, and gone before it: a finalizer holds the volume until then.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import without_finalizer
from ullage.kube.slices import Wiring
from ullage.standalone.world import api
from ullage.standalone.world.claims import BY_UID, FOR_CLAIM, Storage
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.model import BOUND_BY_CONTROLLER, HELD, Json, uid_of, volume_name
from ullage.standalone.world.rules.binding import Delete, LetGo, SetPhase, Unbind, plan_volume
from ullage.standalone.world.rules.provision import (
    NOT_PROVISIONED,
    PROVISIONED,
    Provision,
    Refuse,
    plan_provision,
    volume_for,
)


class Keeper:
    def __init__(self, client: Client, storage: Storage, *, directories: Directories, recorder: Recorder) -> None:
        self._client = client
        self._storage = storage
        self._directories = directories
        self._recorder = recorder

    async def reconcile(self, key: Key) -> None:
        volume = self._storage.volumes.get(key)
        if volume is None:
            await self._absent(key.name)
        else:
            await self._present(volume)

    # --- there is no volume ---

    async def _absent(self, name: str) -> None:
        uid = uid_of(name)
        if uid is None:
            return
        claim = next(iter(self._storage.claims.by(BY_UID, uid)), None)
        plan = plan_provision(claim, self._storage.facts(claim)) if claim else None
        match plan:
            case Provision() if claim is not None:
                await self._make(claim, plan)
            case Refuse(note) if claim is not None:
                self._recorder.record(CLAIMS, claim, NOT_PROVISIONED, note=note)
            case _ if claim is None or claim.spec.volume_name not in ("", name):
                await self._clear(name)

    async def _make(self, claim: PersistentVolumeClaim, plan: Provision) -> None:
        path = await asyncio.to_thread(self._directories.make, plan.name)
        if await api.make(self._client, PERSISTENT_VOLUMES, volume_for(claim, plan, path=str(path))):
            self._recorder.record(CLAIMS, claim, PROVISIONED, note=f"Successfully provisioned volume {plan.name}")

    async def _clear(self, name: str) -> None:
        """A directory whose claim went before its volume was made. The cache may not know the volume yet: the API does."""
        if self._directories.has_made(name) and await self._client.find(PERSISTENT_VOLUMES, name) is None:
            await asyncio.to_thread(self._directories.remove, name)

    # --- there is one ---

    async def _present(self, volume: PersistentVolume) -> None:
        claim = await self._storage.claim_of(volume)
        match plan_volume(volume, claim):
            case SetPhase(phase):
                await self._patch(volume, {"status": {"phase": phase}}, subresource="status")
            case Unbind(free):
                await self._unbind(volume, free=free)
            case Delete():
                await api.remove(self._client, PERSISTENT_VOLUMES, volume.metadata)
            case LetGo(with_data):
                await self._let_go(volume, with_data=with_data)

    async def _unbind(self, volume: PersistentVolume, *, free: bool) -> None:
        if free:
            change: Json = {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}}
        else:
            change = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
        await self._patch(volume, change)

    async def _let_go(self, volume: PersistentVolume, *, with_data: bool) -> None:
        name = volume.metadata.name
        if uid_of(name) is not None:
            await asyncio.to_thread(self._directories.remove if with_data else self._directories.forget, name)
        left = without_finalizer(volume.metadata, HELD).finalizers
        await self._patch(volume, {"metadata": {"finalizers": list(left) or None}})

    async def _patch(self, volume: PersistentVolume, change: Json, *, subresource: str = "") -> None:
        meta = volume.metadata
        await self._client.patch(
            PERSISTENT_VOLUMES, meta.name, merge=change, subresource=subresource, resource_version=meta.resource_version
        )


def controller(wiring: Wiring, storage: Storage, *, directories: Directories, recorder: Recorder) -> Controller[Key]:
    keeper = Keeper(wiring.client, storage, directories=directories, recorder=recorder)

    def of_claim(claim: PersistentVolumeClaim) -> list[Key]:
        named = [claim.spec.volume_name] if claim.spec.volume_name else []
        given = [found.metadata.name for found in storage.volumes.by(FOR_CLAIM, str(key_of(claim)))]
        return [Key("", name) for name in {volume_name(claim.metadata.uid), *named, *given}]

    sources: list[Source[Any, Key]] = [
        own(storage.volumes),
        Source(storage.claims, of_claim),
        Source(storage.classes, lambda found: [Key("", volume_name(one.metadata.uid)) for one in storage.waiting(found)]),
        Source(storage.pods, lambda pod: [key for one in pod.claims for key in _of(storage.claims.get(one))]),
    ]
    made = Controller("volumes", sources, keeper.reconcile, clock=wiring.clock, metrics=wiring.metrics)
    for name in directories.made():  # those that a killed process left behind
        made.queue.add(Key("", name))
    return made


def _of(claim: PersistentVolumeClaim | None) -> list[Key]:
    return [Key("", volume_name(claim.metadata.uid))] if claim else []
