"""Binds claims to volumes: the volume is taken first, on condition of the version that was read, and then the claim is told."""

from __future__ import annotations

from typing import Any

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, ClaimStatus, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import Json
from ullage.kube.slices import Wiring
from ullage.standalone.world.controllers.claim_rules import AskFor, Bind, MarkLost, SetClass, Wait, plan_claim
from ullage.standalone.world.lookup import StorageLookup, instance_claims
from ullage.standalone.world.matching import ClaimFacts
from ullage.standalone.world.model import ASKED_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, claim_reference


class ClaimBinder:
    def __init__(self, client: Client, storage: StorageLookup, recorder: Recorder) -> None:
        self._client = client
        self._storage = storage
        self._recorder = recorder

    async def reconcile(self, key: Key) -> None:
        claim = self._storage.claims.get(key)
        if claim is None:
            return
        plan = plan_claim(claim, self._storage.facts(claim))
        if isinstance(plan, MarkLost):
            plan = await self._second_look(claim, plan)
        match plan:
            case Bind(volume):
                await self._bind(claim, volume)
            case SetClass(name):
                await self._patch(claim, {"spec": {"storageClassName": name}})
            case AskFor(provisioner):
                await self._patch(claim, {"metadata": {"annotations": {ASKED_PROVISIONER: provisioner}}})
            case MarkLost(reason, note):
                if claim.status.phase != "Lost":
                    await self._write_status(claim, ClaimStatus(phase="Lost"))
                    self._recorder.record(CLAIMS, claim, reason, note=note)
            case Wait(reason, note):
                if reason is not None:
                    self._recorder.record(CLAIMS, claim, reason, note=note)

    async def _second_look(self, claim: PersistentVolumeClaim, plan: MarkLost) -> Bind | MarkLost:
        """The cache of volumes may be behind that of claims: what was lost is lost only if the API says so too."""
        name = claim.spec.volume_name
        volume = await self._client.find(PERSISTENT_VOLUMES, name) if name else None
        again = plan_claim(claim, ClaimFacts(named=volume))
        return again if isinstance(again, Bind | MarkLost) else plan

    async def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        volume = await self._reserve(volume, claim)
        if volume.status.phase != "Bound":
            bound_volume: Json = {"status": {"phase": "Bound", "reason": None, "message": None}}
            await patch_seen(self._client, PERSISTENT_VOLUMES, volume, bound_volume, subresource="status")
        claim = await self._complete(claim, volume)
        bound = ClaimStatus(phase="Bound", capacity=volume.spec.capacity, access_modes=volume.spec.access_modes)
        if claim.status.phase != "Bound" or not claim.status.capacity:
            await self._write_status(claim, bound)

    async def _reserve(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        """Writes the claim into the volume. Whoever comes second meets another version, and looks again."""
        reference = volume.spec.claim_ref
        if reference is not None and reference.uid == claim.metadata.uid:
            return volume
        change: Json = {"spec": {"claimRef": claim_reference(claim)}}
        if reference is None:  # our own choice, so it may be undone
            change["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return await patch_seen(self._client, PERSISTENT_VOLUMES, volume, change)

    async def _complete(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
        marks = {} if BIND_COMPLETED in claim.metadata.annotations else {BIND_COMPLETED: "yes"}
        change: Json = {}
        if not claim.spec.volume_name:
            change["spec"] = {"volumeName": volume.metadata.name}
            marks[BOUND_BY_CONTROLLER] = "yes"
        if marks:
            change["metadata"] = {"annotations": marks}
        return await self._patch(claim, change) if change else claim

    async def _patch(self, claim: PersistentVolumeClaim, change: Json) -> PersistentVolumeClaim:
        return await patch_seen(self._client, CLAIMS, claim, change)

    async def _write_status(self, claim: PersistentVolumeClaim, status: ClaimStatus) -> None:
        await patch_status(self._client, CLAIMS, claim, old=claim.status, new=status)


def claim_controller(wiring: Wiring, storage: StorageLookup, recorder: Recorder) -> Controller[Key]:
    binder = ClaimBinder(wiring.client, storage, recorder)
    sources: list[Source[Any, Key]] = [
        own(storage.claims),
        Source(storage.volumes, storage.concerned),
        Source(storage.classes, lambda found: [key_of(one) for one in storage.waiting(found)]),
        Source(storage.pods, lambda pod: pod.claims),
        Source(storage.instances, instance_claims, when=lambda old, new: old is None or new is None or old.spec != new.spec),
    ]
    return Controller("claims", sources, binder.reconcile, clock=wiring.clock, metrics=wiring.metrics)
