"""Makes what backups ask for, and undoes what failed or is deleted: gathers, has its rules say what comes next, does it.

Every step is worked out anew from the API, so a process may die after any of them. Snapshots are found by name and owner, and
before one is deleted, or said to be gone, the API itself is asked: caches may be behind, and an orphaning deletion takes the
owner away first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ullage.clock import Clock, SystemClock
from ullage.kube.builtin.core import CLAIMS, PersistentVolumeClaim
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import hold, let_go, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own, owned
from ullage.kube.errors import Invalid, Refused
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.ledger.charging.booking import payer
from ullage.ledger.charging.plans import read_plan, write_plan
from ullage.ledger.charging.raising import NoRoom, restamp
from ullage.ledger.charging.release import seconds_held
from ullage.ledger.charging.stamps import ESTIMATED_BY, PLAN
from ullage.snapshots.api.ga.types import VolumeSnapshot, VolumeSnapshotContent
from ullage.snapshots.cut.members import ORPHAN, MemberReader, create_member, delete_member, find_member, tell_members
from ullage.snapshots.lookup import VolumeLookup
from ullage.snapshots.model import Problem
from ullage.snapshots.source_volume import ClaimContext
from ullage.vms.api.backups import VM_BACKUPS, BackupStatus, VirtualMachineBackup
from ullage.vms.api.machines import WHOLE_VIRTUAL_MACHINES, VirtualMachine
from ullage.vms.claims import claims_of
from ullage.vms.controllers import backup_take_members as cutting
from ullage.vms.controllers import backup_take_rules as rules
from ullage.vms.controllers.backup_take_members import BackupMember
from ullage.vms.lookup import MachineLookup
from ullage.vms.model import BACKUP_FINALIZER, is_failed

BY_MACHINE: Final = "VM of a backup"
RETRY_SECONDS: Final = 15.0  # where somebody else has to act: his doing wakes us, but for what we do not watch

PLANNED_EVENT: Final = Reason("BackupStarted")
CUT_EVENT: Final = Reason("BackupCut")
READY_EVENT: Final = Reason("BackupReady")
FAILED_EVENT: Final = Reason("BackupFailed", type="Warning")
BROKEN_EVENT: Final = Reason("BackupBroken", type="Warning")


class BackupController:
    def __init__(
        self,
        client: Client,
        backups: Cache[VirtualMachineBackup],
        machines: MachineLookup,
        *,
        volumes: VolumeLookup,
        snapshots: Cache[VolumeSnapshot],
        records: Cache[VolumeSnapshotContent],
        recorder: EventRecorder,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._backups = backups
        self._machines = machines
        self._volumes = volumes
        self._snapshots = snapshots
        self._records = records
        self._recorder = recorder
        self._clock = clock or SystemClock()
        self._reader = MemberReader(client, snapshots, records, clock=self._clock)
        backups.index(BY_MACHINE, lambda one: (str(Key(one.metadata.namespace, one.spec.source.name)),))

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            own(self._backups),
            owned(self._snapshots, by=VM_BACKUPS),
            Source(self._records, self._of_record),
            Source(self._machines.machines, lambda one: self._unplanned(key_of(one))),
            Source(self._machines.instances, lambda one: self._unplanned(key_of(one))),
            Source(self._volumes.claims, self._of_claim),
        ]
        return Controller("vm-backups", sources, self.reconcile, clock=self._clock, metrics=metrics)

    # --- who is woken ---

    def _of_record(self, record: VolumeSnapshotContent) -> Iterable[Key]:
        ref = record.spec.volume_snapshot_ref
        found = self._snapshots.get(Key(ref.namespace, ref.name))
        return owned(self._snapshots, by=VM_BACKUPS).keys(found) if found is not None else ()

    def _unplanned(self, machine: Key) -> Iterable[Key]:
        found = self._backups.by(BY_MACHINE, str(machine))
        return (key_of(one) for one in found if not one.status.source and not is_failed(one.status))

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        for machine in self._machines.using(claim.metadata.namespace, claim.metadata.name):
            yield from self._unplanned(key_of(machine))

    # --- reconcile ---

    async def reconcile(self, key: Key) -> Requeue | None:
        backup = self._backups.get(key)
        if backup is None:
            return None
        if is_deleting(backup.metadata):
            return await self._undo(backup)
        if not is_failed(backup.status):
            backup = await hold(self._client, VM_BACKUPS, backup, BACKUP_FINALIZER)
        if not backup.status.source and not is_failed(backup.status):
            planned = await self._plan(backup)
            if planned is None:
                return Requeue(RETRY_SECONDS)
            backup = planned
        await self._go_on(backup)
        return None

    # --- planning ---

    async def _plan(self, backup: VirtualMachineBackup) -> VirtualMachineBackup | None:
        """The backup with its plan, or failed; None: not yet."""
        namespace, name = backup.metadata.namespace, backup.spec.source.name
        machine = await self._client.find(WHOLE_VIRTUAL_MACHINES, name, namespace)
        names = claims_of(machine.partly) if machine is not None else ()
        contexts = {claim: await self._context(namespace, claim) for claim in names}
        plan = rules.plan_of(backup, machine, self._machines.instance(namespace, name), contexts)
        if isinstance(plan, Problem):
            if plan.reason not in rules.AWAITED:
                return await self._fail(backup, plan)
            await self._write(backup, rules.waiting(backup, plan, self._clock.now()))
            return None
        try:
            backup = await self._replan(backup, plan)
        except NoRoom as error:
            before = read_plan(backup.metadata)
            amounts = rules.replanned(before, plan.volume_backups) or before
            return await self._fail(backup, cutting.refusal(amounts, str(error), before=before))
        self._recorder.record(
            VM_BACKUPS, backup, PLANNED_EVENT, note=f"{len(plan.volume_backups)} volumes are to be cut together."
        )
        try:
            return await self._write(backup, plan)
        except (Invalid, Refused) as error:  # too large, for one thing
            message = f"what is known of the VM cannot be kept in the backup: {error.message}"
            return await self._fail(backup, Problem("PlanRefused", message))

    async def _context(self, namespace: str, claim: str) -> ClaimContext:
        """The cache of claims may be behind that of VMs."""
        found = self._volumes.context(namespace, claim)
        if found.claim is not None:
            return found
        return ClaimContext(claim=await self._client.find(CLAIMS, claim, namespace))

    async def _replan(self, backup: VirtualMachineBackup, plan: BackupStatus) -> VirtualMachineBackup:
        """Claims may have come and gone between the admission and now: what is made is what is paid for."""
        amounts = rules.replanned(read_plan(backup.metadata), plan.volume_backups)
        return backup if amounts is None else await self._book(backup, amounts)

    # --- going on ---

    async def _go_on(self, backup: VirtualMachineBackup) -> None:
        members = await self._members(backup)
        step = rules.next_step(backup, members, now=self._clock.now())
        failure = step.failure
        if step.release is not None:
            try:
                backup = await self._book(backup, step.release.amounts, by=step.release.by)
            except NoRoom as error:
                before = read_plan(backup.metadata)
                failure = cutting.refusal(step.release.amounts, str(error), before=before)
        if failure is not None:
            backup = await self._fail(backup, failure)
            step = rules.next_step(backup, members, now=self._clock.now())
        for member in step.create:
            label = f"volume {member.volume.volume_name}"
            refused = await create_member(self._client, cutting.new_snapshot(backup, member), label=label)
            if refused is not None:
                await self._fail(backup, refused)
                return  # what was made goes with the next look, which that wakes
        backup = await self._write(backup, step.status)
        if step.release is not None:
            note = "All volumes are ready and paid for; they are cut now."
            self._recorder.record(VM_BACKUPS, backup, CUT_EVENT, note=note)
            await tell_members(self._client, step.release.members)
        await self._delete(backup, step.delete)

    async def _members(self, backup: VirtualMachineBackup) -> list[BackupMember]:
        settled = rules.is_begun(backup.status) or rules.is_complete(backup.status)
        return await self._reader.read(backup.metadata.uid, _planned(backup), backup.metadata.namespace, settled=settled)

    # --- acting ---

    async def _book(self, backup: VirtualMachineBackup, amounts: Mapping[str, int], *, by: str = "") -> VirtualMachineBackup:
        stamp = payer(backup.metadata)
        if stamp is None:
            return backup
        machine, plan = backup.spec.source.name, write_plan(amounts)
        wanted = cutting.booked(stamp, amounts, machine=machine, claims_of=lambda name: self._claims_of(backup, name))
        if wanted == stamp and backup.metadata.annotations.get(PLAN) == plan:
            return backup
        also = {PLAN: plan, **({ESTIMATED_BY: by} if by else {})}
        return await restamp(self._client, VM_BACKUPS, backup.metadata, wanted, also=also)

    def _claims_of(self, backup: VirtualMachineBackup, name: str) -> Iterable[str]:
        found: VirtualMachine | None = self._machines.machine(backup.metadata.namespace, name)
        return claims_of(found) if found is not None else ()

    async def _fail(self, backup: VirtualMachineBackup, problem: Problem) -> VirtualMachineBackup:
        backup = await self._write(backup, rules.failed(backup, problem, self._clock.now()))
        self._recorder.record(VM_BACKUPS, backup, FAILED_EVENT, note=f"{problem.reason}: {problem.message}")
        return backup

    async def _delete(self, backup: VirtualMachineBackup, members: Iterable[BackupMember]) -> list[VolumeSnapshot]:
        """Deletes those that are there, and says which still are."""
        left = []
        for member in members:
            found = await find_member(self._client, member.name, backup.metadata.namespace, owner=backup.metadata.uid)
            if found is None:
                continue
            left.append(found)
            if not is_deleting(found.metadata):
                await delete_member(self._client, found)
        return left

    async def _write(self, backup: VirtualMachineBackup, status: BackupStatus) -> VirtualMachineBackup:
        written = await patch_status(self._client, VM_BACKUPS, backup, old=backup.status, new=status)
        if written is None:
            return backup
        if status.ready_to_use is True and backup.status.ready_to_use is not True:
            self._recorder.record(
                VM_BACKUPS, written, READY_EVENT, note=f"{len(status.volume_backups)} volumes can be restored."
            )
        elif backup.status.ready_to_use is True and status.error:
            self._recorder.record(VM_BACKUPS, written, BROKEN_EVENT, note=status.error.message)
        return written

    # --- going ---

    async def _undo(self, backup: VirtualMachineBackup) -> Requeue | None:
        """Members that were orphaned have another owner, or none, by the time that the collector lets go."""
        meta = backup.metadata
        self._reader.forget(meta.uid)
        if BACKUP_FINALIZER not in meta.finalizers or ORPHAN in meta.finalizers:
            return None
        if await self._delete(backup, _planned(backup)):
            return Requeue(RETRY_SECONDS)
        if held := seconds_held(meta, self._clock.now()):
            return Requeue(held)  # who pays instead, or that nobody need, is written on it: that wakes us
        await let_go(self._client, VM_BACKUPS, backup, BACKUP_FINALIZER)
        return None


def _planned(backup: VirtualMachineBackup) -> list[BackupMember]:
    return [cutting.member_of(backup, volume) for volume in backup.status.volume_backups]
