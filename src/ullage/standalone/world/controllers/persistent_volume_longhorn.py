"""What Longhorn's provisioner does: a Volume for a claim, then its PersistentVolume, and both away again.

A Volume that was made here carries a mark as long as its claim decides on its life.
"""

from __future__ import annotations

import contextlib

from ullage.engines.api import VOLUMES, Volume
from ullage.engines.handles import NAMESPACE
from ullage.kube.builtin.core import PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Source
from ullage.kube.errors import AlreadyExists, Conflict, NotFound
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import Json, is_deleting, without_finalizer
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.controllers import persistent_volume_longhorn_rules as rules
from ullage.standalone.world.controllers.persistent_volume_plans import HELD, Delete, Finalize, Provision, Refuse
from ullage.standalone.world.controllers.persistent_volume_provisioner import Provisioner
from ullage.standalone.world.longhorn import PERSISTENT_VOLUME_FINALIZER, volume_key
from ullage.standalone.world.lookup import LonghornLookup
from ullage.standalone.world.matching import ClaimFacts
from ullage.standalone.world.model import PROVISIONED_BY


class LonghornProvisioner(Provisioner):
    def __init__(self, client: Client, lookup: LonghornLookup, *, recorder: Recorder) -> None:
        super().__init__(client, lookup.storage, recorder)
        self._lookup = lookup

    def _plan(self, claim: PersistentVolumeClaim, facts: ClaimFacts) -> Provision | Refuse | None:
        return rules.plan_provision(claim, facts)

    async def _provision(self, claim: PersistentVolumeClaim, plan: Provision) -> None:
        backing = self._backing(plan.name)
        if backing is None:
            with contextlib.suppress(AlreadyExists):  # the cache is behind
                await self._client.create(VOLUMES, rules.new_longhorn_volume(claim))
            return  # once it has its data it brings us back
        if backing.status.state and not is_deleting(backing.metadata):
            await self._create(claim, rules.new_volume(claim, plan))

    async def _clear(self, name: str) -> None:
        """The cache may not know the PersistentVolume yet: the API does."""
        backing = self._backing(name)
        if (
            backing is not None
            and _goes_with_claim(backing)
            and not rules.held_note(backing)
            and await self._client.find(PERSISTENT_VOLUMES, name) is None
        ):
            await self._delete(backing)

    def _backing(self, name: str) -> Volume | None:
        return self._lookup.volumes.get(volume_key(name))

    async def _reconcile_volume(self, volume: PersistentVolume) -> None:
        if not rules.is_ours(volume):
            return
        match rules.plan_persistent_volume(volume, await self._storage.claim_of(volume)):
            case Delete():
                # The cache of Volumes may be behind: a hold is there before the claim is let go of.
                backing = await self._client.find(VOLUMES, volume.metadata.name, NAMESPACE)
                if backing is None or not await self._is_held(volume, backing):
                    await calls.delete(self._client, PERSISTENT_VOLUMES, volume.metadata)
            case Finalize(with_data):
                await self._finalize(volume, with_data=with_data)

    async def _finalize(self, volume: PersistentVolume, *, with_data: bool) -> None:
        meta = volume.metadata
        backing = await self._client.find(VOLUMES, meta.name, NAMESPACE)
        if backing is not None and PROVISIONED_BY in backing.metadata.annotations:
            if with_data:
                if not await self._is_held(volume, backing):
                    await self._delete(backing)
                return  # its end brings us back, and so does the end of what holds it
            await self._retain(backing)
        left = without_finalizer(meta, PERSISTENT_VOLUME_FINALIZER).finalizers
        change: Json = {"metadata": {"finalizers": list(left) or None}}
        await patch_seen(self._client, PERSISTENT_VOLUMES, volume, change)

    async def _is_held(self, volume: PersistentVolume, backing: Volume) -> bool:
        """And says so: in an Event, and in the PersistentVolume's status, which `kubectl get` and `describe` show."""
        note = "" if is_deleting(backing.metadata) else rules.held_note(backing)
        if not note:
            return False
        if volume.status.message != note:
            status: Json = {"status": {"reason": HELD.name, "message": note}}
            await patch_seen(self._client, PERSISTENT_VOLUMES, volume, status, subresource="status")
            self._recorder.record(PERSISTENT_VOLUMES, volume, HELD, note=note)
        return True

    async def _retain(self, backing: Volume) -> None:
        """To whoever asked for it to be kept."""
        await patch_seen(self._client, VOLUMES, backing, {"metadata": {"annotations": {PROVISIONED_BY: None}}})

    async def _delete(self, backing: Volume) -> None:
        meta = backing.metadata
        if not is_deleting(meta):
            with contextlib.suppress(NotFound, Conflict):  # gone, or another by now
                await self._client.delete(VOLUMES, meta.name, meta.namespace, uid=meta.uid)


def longhorn_controller(wiring: Wiring, lookup: LonghornLookup, *, recorder: Recorder) -> Controller[Key]:
    provisioner = LonghornProvisioner(wiring.client, lookup, recorder=recorder)
    sources = [*provisioner.sources(), Source(lookup.volumes, lambda one: (Key("", one.metadata.name),))]
    return Controller("engine-claims", sources, provisioner.reconcile, clock=wiring.clock, metrics=wiring.metrics)


def _goes_with_claim(volume: Volume) -> bool:
    return PROVISIONED_BY in volume.metadata.annotations and not is_deleting(volume.metadata)
