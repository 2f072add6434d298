"""What a provisioner does, whatever holds the data: a PersistentVolume is made for a claim, and what no claim wants goes.

The key is the PersistentVolume's name, also while there is none: all that happens to one volume happens one after the other.
What holds the data is there before the PersistentVolume, and gone before it: a finalizer holds the PersistentVolume until then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Source, own
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import Json
from ullage.standalone.world import calls
from ullage.standalone.world.controllers.persistent_volume_plans import NOT_PROVISIONED, PROVISIONED, Provision, Refuse
from ullage.standalone.world.lookup import BY_UID, StorageLookup, instance_claims
from ullage.standalone.world.matching import ClaimFacts
from ullage.standalone.world.model import uid_of, volume_name


class Provisioner(ABC):
    def __init__(self, client: Client, storage: StorageLookup, recorder: Recorder) -> None:
        self._client = client
        self._storage = storage
        self._recorder = recorder

    async def reconcile(self, key: Key) -> None:
        volume = self._storage.volumes.get(key)
        if volume is None:
            await self._reconcile_absent(key.name)
        else:
            await self._reconcile_volume(volume)

    async def _reconcile_absent(self, name: str) -> None:
        """There is no volume: its claim gets one, or what was begun for a claim that is gone is cleared away."""
        uid = uid_of(name)
        if uid is None:
            return
        claim = next(iter(self._storage.claims.by(BY_UID, uid)), None)
        plan = self._plan(claim, self._storage.facts(claim)) if claim else None
        match plan:
            case Provision() if claim is not None:
                await self._provision(claim, plan)
            case Refuse(note) if claim is not None:
                self._recorder.record(CLAIMS, claim, NOT_PROVISIONED, note=note)
            case _ if claim is None or claim.spec.volume_name not in ("", name):
                await self._clear(name)

    async def _create(self, claim: PersistentVolumeClaim, body: Json) -> None:
        if await calls.create(self._client, PERSISTENT_VOLUMES, body):
            note = f"Successfully provisioned volume {body['metadata']['name']}"
            self._recorder.record(CLAIMS, claim, PROVISIONED, note=note)

    def sources(self) -> list[Source[Any, Key]]:
        """What wakes it: volumes and claims, and classes, pods and VMs that claims wait for."""
        storage = self._storage

        def of_claims(claims: list[PersistentVolumeClaim]) -> list[Key]:
            return [Key("", volume_name(one.metadata.uid)) for one in claims]

        def of_keys(keys: Iterable[Key]) -> list[Key]:
            return of_claims([one for key in keys if (one := storage.claims.get(key))])

        return [
            own(storage.volumes),
            Source(storage.claims, storage.volumes_of),
            Source(storage.classes, lambda found: of_claims(list(storage.waiting(found)))),
            Source(storage.pods, lambda pod: of_keys(pod.claims)),
            Source(storage.instances, lambda one: of_keys(instance_claims(one))),
        ]

    @abstractmethod
    def _plan(self, claim: PersistentVolumeClaim, facts: ClaimFacts) -> Provision | Refuse | None:
        """Whether a claim gets a volume."""

    @abstractmethod
    async def _provision(self, claim: PersistentVolumeClaim, plan: Provision) -> None:
        """Makes what holds the data, then the PersistentVolume."""

    @abstractmethod
    async def _clear(self, name: str) -> None:
        """Takes away what was begun for a claim that went before its PersistentVolume was made."""

    @abstractmethod
    async def _reconcile_volume(self, volume: PersistentVolume) -> None:
        """There is a volume."""
