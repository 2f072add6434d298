"""Binds claims to volumes: the volume is taken first, on condition of the version that was read, and then the claim is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PODS, ClaimStatus, PersistentVolume, PersistentVolumeClaim, Pod
from ullage.kube.builtin.storage import STORAGE_CLASSES, StorageClass
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import merge_patch
from ullage.kube.slices import Wiring
from ullage.standalone.world.model import BIND_COMPLETED, BOUND_BY_CONTROLLER, Json
from ullage.standalone.world.rules.binding import Bind, ClaimFacts, Lose, TakeClass, Wait, default_of, plan_claim

# How claims are found: by uid, by the volume they name, and, while they name none, by their class.
BY_UID, BY_VOLUME, BY_CLASS = "uid", "volume", "class"
# How volumes are found: by the claim that they name, and, while they name none, by their class.
FOR_CLAIM, OF_CLASS = "claim", "class"
BY_CLAIM = "claim"  # how pods are found that are not over


class Storage:
    """The caches of everything that claims and volumes depend on, and how one finds the other."""

    def __init__(self, wiring: Wiring) -> None:
        self._client = wiring.client
        self.claims: Cache[PersistentVolumeClaim] = wiring.cache(CLAIMS)
        self.volumes: Cache[PersistentVolume] = wiring.cache(PERSISTENT_VOLUMES)
        self.classes: Cache[StorageClass] = wiring.cache(STORAGE_CLASSES)
        self.pods: Cache[Pod] = wiring.cache(PODS)
        self.claims.index(BY_UID, lambda one: (one.metadata.uid,))
        self.claims.index(BY_VOLUME, lambda one: (one.spec.volume_name,) if one.spec.volume_name else ())
        self.claims.index(BY_CLASS, lambda one: () if one.spec.volume_name else (one.class_name or "",))
        self.volumes.index(FOR_CLAIM, lambda one: (str(one.spec.claim_ref.key),) if one.spec.claim_ref else ())
        self.volumes.index(OF_CLASS, lambda one: () if one.spec.claim_ref else (one.spec.storage_class_name,))
        self.pods.index(BY_CLAIM, lambda one: () if one.is_over else (str(key) for key in one.claims))

    def facts(self, claim: PersistentVolumeClaim) -> ClaimFacts:
        name = claim.class_name
        key = str(key_of(claim))
        return ClaimFacts(
            named=self.volumes.get(Key("", claim.spec.volume_name)),
            candidates=[*self.volumes.by(FOR_CLAIM, key), *self.volumes.by(OF_CLASS, name or "")],
            storage_class=self.classes.get(Key("", name)) if name else None,
            default_class=default_of(self.classes.items()) if name is None else None,
            consumed=bool(self.pods.by(BY_CLAIM, key)),
        )

    async def claim_of(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """Who has the name in claimRef. That somebody is gone is believed only of the API: data depends on it."""
        reference = volume.spec.claim_ref
        if reference is None:
            return None
        found = self.claims.get(reference.key)
        if found is not None and found.metadata.uid == reference.uid:
            return found
        return await self._client.find(CLAIMS, reference.name, reference.namespace)

    def waiting(self, found: StorageClass) -> Iterable[PersistentVolumeClaim]:
        """The claims that a change of a class may concern: its own, and those that have none yet."""
        waiting = [*self.claims.by(BY_CLASS, found.metadata.name), *self.claims.by(BY_CLASS, "")]
        return [claim for claim in waiting if claim.class_name in (found.metadata.name, None)]

    def concerned(self, volume: PersistentVolume) -> Iterable[Key]:
        """The claims that a change of a volume may concern."""
        if volume.spec.claim_ref is not None:
            yield volume.spec.claim_ref.key
        else:
            yield from (key_of(one) for one in self.claims.by(BY_CLASS, volume.spec.storage_class_name))
        yield from (key_of(one) for one in self.claims.by(BY_VOLUME, volume.metadata.name))


class Binder:
    def __init__(self, client: Client, storage: Storage, recorder: Recorder) -> None:
        self._client = client
        self._storage = storage
        self._recorder = recorder

    async def reconcile(self, key: Key) -> None:
        claim = self._storage.claims.get(key)
        if claim is None:
            return
        plan = plan_claim(claim, self._storage.facts(claim))
        if isinstance(plan, Lose):
            plan = await self._second_look(claim, plan)
        match plan:
            case Bind(volume):
                await self._bind(claim, volume)
            case TakeClass(name):
                await self._patch(claim, {"spec": {"storageClassName": name}})
            case Lose(reason, note):
                if claim.status.phase != "Lost":
                    await self._write_status(claim, ClaimStatus(phase="Lost"))
                    self._recorder.record(CLAIMS, claim, reason, note=note)
            case Wait(reason, note):
                if reason is not None:
                    self._recorder.record(CLAIMS, claim, reason, note=note)

    async def _second_look(self, claim: PersistentVolumeClaim, plan: Lose) -> Bind | Lose:
        """The cache of volumes may be behind that of claims: what was lost is lost only if the API says so too."""
        name = claim.spec.volume_name
        volume = await self._client.find(PERSISTENT_VOLUMES, name) if name else None
        again = plan_claim(claim, ClaimFacts(named=volume))
        return again if isinstance(again, Bind | Lose) else plan

    async def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        volume = await self._take(volume, claim)
        if volume.status.phase != "Bound":
            await self._client.patch(
                PERSISTENT_VOLUMES,
                volume.metadata.name,
                merge={"status": {"phase": "Bound"}},
                subresource="status",
                resource_version=volume.metadata.resource_version,
            )
        claim = await self._tell(claim, volume)
        bound = ClaimStatus(phase="Bound", capacity=volume.spec.capacity, access_modes=volume.spec.access_modes)
        if claim.status.phase != "Bound" or not claim.status.capacity:
            await self._write_status(claim, bound)

    async def _take(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        """Writes the claim into the volume. Whoever comes second meets another version, and looks again."""
        reference, meta = volume.spec.claim_ref, claim.metadata
        if reference is not None and reference.uid == meta.uid:
            return volume
        change: Json = {
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": CLAIMS.kind,
                    "namespace": meta.namespace,
                    "name": meta.name,
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                }
            }
        }
        if reference is None:  # our own choice, so it may be undone
            change["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        return await patch_seen(self._client, PERSISTENT_VOLUMES, volume, change)

    async def _tell(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
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
        meta = claim.metadata
        change = merge_patch(claim.status, status)
        if change:
            await self._client.patch(
                CLAIMS,
                meta.name,
                meta.namespace,
                merge={"status": change},
                subresource="status",
                resource_version=meta.resource_version,
            )


def controller(wiring: Wiring, storage: Storage, recorder: Recorder) -> Controller[Key]:
    binder = Binder(wiring.client, storage, recorder)
    sources: list[Source[Any, Key]] = [
        own(storage.claims),
        Source(storage.volumes, storage.concerned),
        Source(storage.classes, lambda found: [key_of(one) for one in storage.waiting(found)]),
        Source(storage.pods, lambda pod: pod.claims),
    ]
    return Controller("claims", sources, binder.reconcile, clock=wiring.clock, metrics=wiring.metrics)
