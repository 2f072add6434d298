"""Carries restores out: claims from the snapshots of a backup, then the VM, then away with what it had before.

Every step is worked out anew from the API, so a process may die after any of them. The claims belong to the restore until the
VM has them, and it is held until then: one that fails or is deleted half-way leaves nothing behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ullage.clock import Clock, SystemClock
from ullage.errors import Terminal
from ullage.kube.builtin.core import CLAIMS, PersistentVolumeClaim
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import hold, let_go, patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own, owned
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import Json, controller_of, is_deleting, is_owned_by
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS
from ullage.snapshots.lookup import VolumeLookup
from ullage.snapshots.model import Problem
from ullage.snapshots.source_volume import source_volume_of
from ullage.times import read_time
from ullage.vms.api.backups import VM_BACKUPS, VirtualMachineBackup
from ullage.vms.api.machines import (
    INSTANCES,
    VIRTUAL_MACHINES,
    WHOLE_VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
    WholeMachine,
)
from ullage.vms.api.restores import VM_RESTORES, RestoreStatus, VirtualMachineRestore, VolumeRestore
from ullage.vms.claims import claims_of
from ullage.vms.controllers import restore_perform_rules as rules
from ullage.vms.eligibility import RestoreFacts, review_restore
from ullage.vms.lookup import BY_TARGET, MachineLookup
from ullage.vms.model import RESTORE_FINALIZER, is_failed, is_stopped, is_unfinished

SOON: Final = 0.1  # seconds: the caches will show it

STARTED_EVENT: Final = Reason("RestoreStarted")
COMPLETE_EVENT: Final = Reason("RestoreComplete")
FAILED_EVENT: Final = Reason("RestoreFailed", type="Warning")
KEPT_EVENT: Final = Reason("ClaimsKept")
NO_ROOM_EVENT: Final = Reason("InsufficientResourceQuota", type="Warning")


class RestoreFailed(Terminal):
    """It cannot be, and nothing of the VM has changed: what was made goes."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(reason, message)


class RestoreController:
    def __init__(
        self,
        client: Client,
        restores: Cache[VirtualMachineRestore],
        machines: MachineLookup,
        *,
        volumes: VolumeLookup,
        within: frozenset[str],
        recorder: EventRecorder,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._restores = restores
        self._machines = machines
        self._volumes = volumes
        self._within = within
        self._recorder = recorder
        self._clock = clock or SystemClock()

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            own(self._restores),
            Source(self._restores, lambda one: self._unfinished(Key(one.metadata.namespace, one.spec.target.name))),
            owned(self._volumes.claims, by=VM_RESTORES),
            Source(self._machines.machines, lambda one: self._unfinished(key_of(one))),
            Source(self._machines.instances, lambda one: self._unfinished(key_of(one))),
        ]
        return Controller("vm-restores", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _unfinished(self, target: Key) -> Iterable[Key]:
        return (key_of(one) for one in self._restores.by(BY_TARGET, str(target)) if is_unfinished(one))

    # --- reconcile ---

    async def reconcile(self, key: Key) -> Requeue | None:
        restore = self._restores.get(key)
        if restore is None:
            return None
        if is_deleting(restore.metadata) or is_failed(restore.status):
            return await self._undo(restore)
        if restore.status.complete is True:
            return await self._let_go(restore)
        restore = await hold(self._client, VM_RESTORES, restore, RESTORE_FINALIZER)
        waits = self._turn(restore)
        if waits is not None:
            return await self._wait(restore, waits)
        try:
            return await self._perform(restore)
        except RestoreFailed as failure:
            return await self._fail(restore, failure.problem)

    def _turn(self, restore: VirtualMachineRestore) -> Problem | None:
        namespace, target = restore.metadata.namespace, restore.spec.target.name
        first = rules.first_in_turn(restore, self._restores.by(BY_TARGET, str(Key(namespace, target))))
        if first is restore:
            return None
        message = f"VirtualMachineRestore {first.metadata.name} restores VM {namespace}/{target} first"
        return Problem(rules.WAITING, message)

    async def _perform(self, restore: VirtualMachineRestore) -> Requeue | None:
        namespace = restore.metadata.namespace
        machine = await self._client.find(WHOLE_VIRTUAL_MACHINES, restore.spec.target.name, namespace)
        if machine is not None and rules.is_switched(machine, restore):
            return await self._finish(restore, machine)
        backup = await self._client.find(VM_BACKUPS, restore.spec.virtual_machine_backup_name, namespace)
        if restore.status.target_uid is UNSET:
            restore = await self._plan(restore, backup, machine)
        filled = {name: await self._fill(restore, volume) for name, volume in rules.volumes_by_claim(restore.status).items()}
        restore = await self._write(restore, rules.progress(restore, filled, self._clock.now()))
        return await self._switch(restore, backup, machine) if all(filled.values()) else None

    # --- planning ---

    async def _plan(
        self, restore: VirtualMachineRestore, backup: VirtualMachineBackup | None, machine: WholeMachine | None
    ) -> VirtualMachineRestore:
        """May it be? What is needed is written down before anything is made."""
        facts = RestoreFacts(
            namespace=restore.metadata.namespace,
            restore=restore,
            backup=backup,
            machine=machine.partly if machine is not None else None,
            instance=await self._instance(restore),
        )
        if refusal := review_restore(facts):
            raise RestoreFailed("NotPossible", refusal.problem)
        volumes = backup.status.volume_backups if backup is not None else ()
        status = replace(
            restore.status,
            restores=tuple(rules.planned(restore, one) for one in volumes),
            target_uid=machine.metadata.uid if machine is not None else "",
        )
        self._recorder.record(VM_RESTORES, restore, STARTED_EVENT, note=f"{len(volumes)} volumes are to be restored.")
        return await self._write(restore, rules.progress(replace(restore, status=status), {}, self._clock.now()))

    async def _instance(self, restore: VirtualMachineRestore) -> VirtualMachineInstance | None:
        return await self._client.find(INSTANCES, restore.spec.target.name, restore.metadata.namespace)

    # --- claims ---

    async def _fill(self, restore: VirtualMachineRestore, volume: VolumeRestore) -> bool:
        """Makes the claim of a volume where it is missing; whether it is filled."""
        claim = await self._claim(restore, volume)
        storage_class = self._volumes.classes.get(Key("", claim.spec.storage_class_name or ""))
        if rules.is_filled(claim, storage_class):
            return True
        name = volume.volume_backup_name
        if await self._client.find(VOLUME_SNAPSHOTS, name, restore.metadata.namespace) is None:
            raise RestoreFailed("SnapshotMissing", f"volume {volume.volume_name}: VolumeSnapshot {name} is gone")
        return False

    async def _claim(self, restore: VirtualMachineRestore, volume: VolumeRestore) -> PersistentVolumeClaim:
        namespace, name = restore.metadata.namespace, volume.persistent_volume_claim.metadata.name
        found = self._volumes.claims.get(Key(namespace, name)) or await self._client.find(CLAIMS, name, namespace)
        if found is None:
            wanted = msgspec.convert(rules.new_claim(restore, volume), PersistentVolumeClaim)
            try:
                found = await self._client.create(CLAIMS, wanted)
            except (Forbidden, Invalid) as error:
                raise RestoreFailed("ClaimRefused", f"volume {volume.volume_name}: claim {name}: {error.message}") from error
        if not rules.is_made_by(found, restore):
            message = f"volume {volume.volume_name}: claim {name} exists already, and is not of this restore"
            raise RestoreFailed("ClaimNameTaken", message)
        return found

    # --- the VM ---

    async def _switch(
        self, restore: VirtualMachineRestore, backup: VirtualMachineBackup | None, machine: WholeMachine | None
    ) -> Requeue | None:
        """The VM gets the new claims, all in one write. The rest is done when that is seen."""
        source = backup.status.source if backup is not None else None
        if not source:
            raise RestoreFailed("BackupMissing", f"VirtualMachineBackup {restore.spec.virtual_machine_backup_name} is gone")
        claims = rules.claims_by_volume(restore.status)
        where = f"{restore.metadata.namespace}/{restore.spec.target.name}"
        if restore.spec.new_vm:
            if machine is not None:
                raise RestoreFailed("TargetExists", f"VM {where} exists already, and is not of this restore")
            return await self._make(restore, rules.new_machine(restore, source, claims))
        if machine is None or is_deleting(machine.metadata) or machine.metadata.uid != restore.status.target_uid:
            raise RestoreFailed("TargetMissing", f"VM {where} is gone, or is another one by now")
        return await self._bring_back(restore, machine, rules.change_in_place(restore, machine, source, claims))

    async def _make(self, restore: VirtualMachineRestore, machine: WholeMachine) -> Requeue | None:
        try:
            made = await self._create(restore, machine)
        except AlreadyExists:
            return Requeue(SOON)  # whose it is the next look tells
        except (Forbidden, Invalid) as error:
            where = f"{restore.metadata.namespace}/{restore.spec.target.name}"
            raise RestoreFailed("TargetRefused", f"VM {where}: {error.message}") from error
        await self._write(restore, replace(restore.status, target_uid=made.metadata.uid))
        return Requeue(SOON)

    async def _create(self, restore: VirtualMachineRestore, machine: WholeMachine) -> WholeMachine:
        """Its room may be gone although the restore was admitted: a limit was lowered. Its data is there, and it is made."""
        try:
            return await self._client.create(WHOLE_VIRTUAL_MACHINES, machine)
        except Forbidden as error:
            why = rules.want_of_room(error.message) if rules.runs(machine) else ""
            if not why:
                raise
            made = await self._client.create(WHOLE_VIRTUAL_MACHINES, rules.halted(machine, why))
            self._recorder.record(VIRTUAL_MACHINES, made, NO_ROOM_EVENT, note=f"Made with run strategy Halted: {why}")
            return made

    async def _bring_back(self, restore: VirtualMachineRestore, machine: WholeMachine, change: Json) -> Requeue | None:
        """Only while it is stopped: whoever starts it meanwhile has changed it, and then this write is not done."""
        where = f"{machine.metadata.namespace}/{machine.metadata.name}"
        if not is_stopped(machine.partly, await self._instance(restore)):
            message = f"VM {where} was started; it gets the restored volumes when it is stopped"
            return await self._wait(restore, Problem(rules.RUNNING, message))
        if restore.spec.deletion_policy == "delete":
            await self._write(restore, self._with_deleted(restore, machine.partly))
        try:
            await patch_seen(self._client, WHOLE_VIRTUAL_MACHINES, machine, change)
        except (Forbidden, Invalid) as error:
            raise RestoreFailed("TargetRefused", f"VM {where}: {error.message}") from error
        return Requeue(SOON)

    def _with_deleted(self, restore: VirtualMachineRestore, machine: VirtualMachine) -> RestoreStatus:
        """The claims that go are written down before the VM forgets them."""
        before = claims_of(machine)
        shared = [one for one in before if self._used_by_others(restore, one)]
        kept = [one for one in before if self._is_needed(restore.metadata.namespace, one)]
        if kept or shared:
            names = ", ".join(sorted({*kept, *shared}))
            note = f"Claims that have snapshots inside, belong to a DataVolume, or are used by other VMs are kept: {names}."
            self._recorder.record(VM_RESTORES, restore, KEPT_EVENT, note=note)
        new = rules.claims_by_volume(restore.status).values()
        return replace(restore.status, deleted_volumes=rules.deletable(before, now=new, shared=shared, kept=kept))

    def _is_needed(self, namespace: str, name: str) -> bool:
        """It has snapshots inside, the backup's own for one. Or a DataVolume would make it again, empty."""
        context = self._volumes.context(namespace, name)
        source = source_volume_of(context.volume) if context.volume is not None else None
        inside = source is not None and source.driver in self._within
        return inside or (context.claim is not None and controller_of(context.claim.metadata) is not None)

    # --- afterwards ---

    async def _finish(self, restore: VirtualMachineRestore, machine: WholeMachine) -> Requeue | None:
        for name in rules.volumes_by_claim(restore.status):
            await self._give_away(restore, name)
        for name in restore.status.deleted_volumes:
            await self._delete_old(restore, name)
        restore = await self._write(restore, rules.completed(restore, machine, self._clock.now()))
        note = f"VM {machine.metadata.name} has the volumes of backup {restore.spec.virtual_machine_backup_name}."
        self._recorder.record(VM_RESTORES, restore, COMPLETE_EVENT, note=note)
        return await self._let_go(restore)

    async def _give_away(self, restore: VirtualMachineRestore, name: str) -> None:
        """The claim is the VM's from now on: it stays when the restore goes."""
        claim = await self._client.find(CLAIMS, name, restore.metadata.namespace)
        if claim is None or not is_owned_by(claim.metadata, restore.metadata.uid):
            return
        kept = [one for one in claim.metadata.owner_references if one.uid != restore.metadata.uid]
        await patch_seen(self._client, CLAIMS, claim, {"metadata": {"ownerReferences": kept or None}})

    async def _delete_old(self, restore: VirtualMachineRestore, name: str) -> None:
        """Not one that came later under the name, nor one that another VM has taken meanwhile."""
        claim = await self._client.find(CLAIMS, name, restore.metadata.namespace)
        if claim is None or is_deleting(claim.metadata):
            return
        born, began = read_time(claim.metadata.creation_timestamp), read_time(restore.metadata.creation_timestamp)
        later = born is not None and began is not None and born > began
        if later or self._used_by_others(restore, name):
            return
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(CLAIMS, name, restore.metadata.namespace, uid=claim.metadata.uid)

    def _used_by_others(self, restore: VirtualMachineRestore, claim: str) -> bool:
        users = self._machines.using(restore.metadata.namespace, claim)
        return any(one.metadata.name != restore.spec.target.name for one in users)

    # --- going ---

    async def _undo(self, restore: VirtualMachineRestore) -> Requeue | None:
        """What the VM has is its own; everything else goes."""
        if RESTORE_FINALIZER not in restore.metadata.finalizers:
            return None
        namespace = restore.metadata.namespace
        machine = await self._client.find(WHOLE_VIRTUAL_MACHINES, restore.spec.target.name, namespace)
        switched = machine is not None and rules.is_switched(machine, restore)
        for name in rules.volumes_by_claim(restore.status):
            await (self._give_away(restore, name) if switched else self._delete_new(restore, name))
        return await self._let_go(restore)

    async def _delete_new(self, restore: VirtualMachineRestore, name: str) -> None:
        claim = await self._client.find(CLAIMS, name, restore.metadata.namespace)
        if claim is not None and rules.is_made_by(claim, restore) and not is_deleting(claim.metadata):
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(CLAIMS, name, restore.metadata.namespace, uid=claim.metadata.uid)

    async def _let_go(self, restore: VirtualMachineRestore) -> Requeue | None:
        await let_go(self._client, VM_RESTORES, restore, RESTORE_FINALIZER)
        return None

    # --- writing ---

    async def _wait(self, restore: VirtualMachineRestore, problem: Problem) -> Requeue | None:
        await self._write(restore, rules.waiting(restore, problem, self._clock.now()))
        return None

    async def _fail(self, restore: VirtualMachineRestore, problem: Problem) -> Requeue | None:
        """What was made goes once that is written down."""
        live = await self._client.find(VM_RESTORES, restore.metadata.name, restore.metadata.namespace)
        if live is not None and live.metadata.uid == restore.metadata.uid:
            await self._write(live, rules.failed(live, problem, self._clock.now()))
            self._recorder.record(VM_RESTORES, restore, FAILED_EVENT, note=f"{problem.reason}: {problem.message}")
        return None

    async def _write(self, restore: VirtualMachineRestore, status: RestoreStatus) -> VirtualMachineRestore:
        return await patch_status(self._client, VM_RESTORES, restore, old=restore.status, new=status) or restore
