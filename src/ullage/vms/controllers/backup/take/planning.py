"""What a backup is of: the VM as it is now, and the claims behind its volumes. Pure.

It is written into the status before anything is made, and is not looked up again: the VM may be changed or deleted meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting
from ullage.snapshots.model import Problem, Snapshot
from ullage.snapshots.source_volume import ClaimContext, SourceVolume, find_source_volume
from ullage.vms.api.backups import BackupStatus, VirtualMachineBackup, VolumeBackup
from ullage.vms.api.machines import VirtualMachineInstance, WholeMachine
from ullage.vms.claims import volumes_of
from ullage.vms.controllers.backup.take.members import member_name
from ullage.vms.model import is_migrating, kept_claim, kept_machine, size_of

NOT_FOUND: Final = "MachineNotFound"
MIGRATING: Final = "MachineMigrating"
# What may be otherwise in a moment: nothing is begun until then. Any other problem is final.
AWAITED: Final = frozenset({MIGRATING, "ClaimNotBound", "VolumeNotFound"})


def plan_of(
    backup: VirtualMachineBackup,
    machine: WholeMachine | None,
    instance: VirtualMachineInstance | None,
    contexts: Mapping[str, ClaimContext],
) -> BackupStatus | Problem:
    """The status that says what is to be made, or why that cannot be told (yet)."""
    where = f"{backup.metadata.namespace}/{backup.spec.source.name}"
    if machine is None:
        return Problem(NOT_FOUND, f"VM {where} does not exist")
    if is_deleting(machine.metadata):
        return Problem(NOT_FOUND, f"VM {where} is being deleted")
    if is_migrating(instance):
        return Problem(MIGRATING, f"VM {where} is in migration; its backup begins when it has arrived")
    volumes = []
    for volume in volumes_of(machine.partly):
        found = _volume(backup.metadata, volume.name, volume.claim, contexts.get(volume.claim, ClaimContext()))
        if isinstance(found, Problem):
            return found
        volumes.append(found)
    return replace(
        backup.status,
        source_uid=machine.metadata.uid,
        source=kept_machine(machine),
        volume_backups=tuple(volumes),
        ready_to_use=False,
    )


def _volume(backup: Meta, name: str, claim: str, context: ClaimContext) -> VolumeBackup | Problem:
    source = find_source_volume(Snapshot(meta=Meta(namespace=backup.namespace), claim=claim), context)
    if isinstance(source, Problem):
        return Problem(source.reason, f"volume {name}: {source.message}")
    return _planned(backup, name, context, source)


def _planned(backup: Meta, name: str, context: ClaimContext, source: SourceVolume) -> VolumeBackup | Problem:
    claim = context.claim
    if claim is None:
        return Problem("ClaimNotFound", f"volume {name}: its claim does not exist")
    return VolumeBackup(
        name=member_name(backup.name, claim.metadata.name),
        volume_name=name,
        csi_driver_name=source.driver,
        persistent_volume_claim=kept_claim(claim),
        volume_size=size_of(claim),
        ready_to_use=False,
    )


def replanned(plan: Mapping[str, int], volumes: tuple[VolumeBackup, ...]) -> dict[str, int] | None:
    """What is to be booked where the VM has other claims now than when the backup was admitted: for one that has come its
    whole size, since nobody has measured it yet. None: they are the same."""
    sizes = {one.persistent_volume_claim.metadata.name: one.volume_size for one in volumes}
    return None if plan.keys() == sizes.keys() else {claim: plan.get(claim, size) for claim, size in sizes.items()}
