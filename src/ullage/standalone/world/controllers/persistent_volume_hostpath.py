"""PersistentVolumes that are directories of this machine, and the phases of all of them."""

from __future__ import annotations

import asyncio

from ullage.errors import Retryable, Terminal
from ullage.kube.builtin.core import PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import Json, without_finalizer
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.controllers import persistent_volume_hostpath_rules as rules
from ullage.standalone.world.controllers.persistent_volume_hostpath_rules import SetPhase, Unbind, plan_volume
from ullage.standalone.world.controllers.persistent_volume_plans import NOT_DELETED, Delete, Finalize, Provision, Refuse
from ullage.standalone.world.controllers.persistent_volume_provisioner import Provisioner
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.lookup import StorageLookup
from ullage.standalone.world.matching import ClaimFacts
from ullage.standalone.world.model import BOUND_BY_CONTROLLER, HOSTPATH_FINALIZER, uid_of


class HostPathProvisioner(Provisioner):
    def __init__(self, client: Client, storage: StorageLookup, *, directories: Directories, recorder: Recorder) -> None:
        super().__init__(client, storage, recorder)
        self._directories = directories

    def _plan(self, claim: PersistentVolumeClaim, facts: ClaimFacts) -> Provision | Refuse | None:
        return rules.plan_provision(claim, facts)

    async def _provision(self, claim: PersistentVolumeClaim, plan: Provision) -> None:
        path = await asyncio.to_thread(self._directories.make, plan.name)
        await self._create(claim, rules.new_volume(claim, plan, path=str(path)))

    async def _clear(self, name: str) -> None:
        """The cache may not know the volume yet: the API does."""
        if self._directories.has_made(name) and await self._client.find(PERSISTENT_VOLUMES, name) is None:
            await asyncio.to_thread(self._directories.remove, name)

    async def _reconcile_volume(self, volume: PersistentVolume) -> None:
        claim = await self._storage.claim_of(volume)
        match plan_volume(volume, claim):
            case SetPhase(phase):
                # What was said about another phase is not said about this one.
                change: Json = {"status": {"phase": phase, "reason": None, "message": None}}
                await patch_seen(self._client, PERSISTENT_VOLUMES, volume, change, subresource="status")
            case Unbind(free):
                await self._unbind(volume, free=free)
            case Delete():
                await calls.delete(self._client, PERSISTENT_VOLUMES, volume.metadata)
            case Finalize(with_data):
                await self._finalize(volume, with_data=with_data)

    async def _unbind(self, volume: PersistentVolume, *, free: bool) -> None:
        if free:
            change: Json = {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}}
        else:
            change = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
        await patch_seen(self._client, PERSISTENT_VOLUMES, volume, change)

    async def _finalize(self, volume: PersistentVolume, *, with_data: bool) -> None:
        name = volume.metadata.name
        if uid_of(name) is not None:
            try:
                await asyncio.to_thread(self._directories.remove if with_data else self._directories.forget, name)
            except (Retryable, Terminal) as error:
                await self._report(volume, rules.not_deleted(error))
                raise
        left = without_finalizer(volume.metadata, HOSTPATH_FINALIZER).finalizers
        change: Json = {"metadata": {"finalizers": list(left) or None}}
        await patch_seen(self._client, PERSISTENT_VOLUMES, volume, change)

    async def _report(self, volume: PersistentVolume, note: str) -> None:
        """In the PersistentVolume's status, which `kubectl get` and `describe` show, and in an Event."""
        if (volume.status.phase, volume.status.message) != ("Failed", note):
            status: Json = {"status": {"phase": "Failed", "reason": NOT_DELETED.name, "message": note}}
            await patch_seen(self._client, PERSISTENT_VOLUMES, volume, status, subresource="status")
        self._recorder.record(PERSISTENT_VOLUMES, volume, NOT_DELETED, note=note)


def hostpath_controller(
    wiring: Wiring, storage: StorageLookup, *, directories: Directories, recorder: Recorder
) -> Controller[Key]:
    provisioner = HostPathProvisioner(wiring.client, storage, directories=directories, recorder=recorder)
    made = Controller(
        "volumes",
        provisioner.sources(),
        provisioner.reconcile,
        clock=wiring.clock,
        metrics=wiring.metrics,
        after_terminal=rules.LOOK_AGAIN,
    )
    for name in directories.made():  # those that a killed process left behind
        made.queue.add(Key("", name))
    return made
