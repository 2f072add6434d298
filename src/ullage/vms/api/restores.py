"""VirtualMachineRestore: a VM made anew from a backup, or brought back to what it was."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, AS_SET, Column, Kind, Object, Rule, Value, listed_by
from ullage.kube.objects import Conditions
from ullage.vms.api.common import GROUP, INT64, PERCENT, TIME, VERSION, KeptObject, MachineReference


class RestoreSpec(Value):
    """What is asked for. It cannot be changed."""

    target: MachineReference
    """The VM that is made, or brought back, in the same namespace."""
    virtual_machine_backup_name: str
    """The VirtualMachineBackup."""
    virtual_machine_backup_namespace: str = ""
    """Its namespace. Snapshots can be restored in their own namespace only, so it is this one."""
    new_vm: bool = msgspec.field(default=False, name="newVM")
    """true: a new VM is made, under the name of the target. false: the target itself, which must be stopped, gets the volumes
    and the spec of the backup."""
    deletion_policy: Literal["delete", "retain"] = "delete"
    """What happens to the claims that the VM had before, once it has those of the backup."""
    keep_mac_address: bool = False
    """Whether a new VM has the MAC addresses of the old one. Of two VMs with the same addresses only one may run. In place
    the addresses are always kept."""
    start: bool | UnsetType = UNSET
    """Whether a new VM runs as soon as it is made. Absent: where the run strategy in the backup starts a VM by itself. true: it
    runs, with Always where that strategy does not. false: it is left stopped. One that runs needs room in the namespace when
    the restore is created, and is made Halted where that room is gone by the time that it is made."""


class VolumeRestore(Value):
    """One volume, and the claim that is made for it."""

    volume_name: str
    """The name of the volume in the VM."""
    persistent_volume_claim: KeptObject = msgspec.field(default=KeptObject(), name="persistentVolumeClaimSpec")
    """The claim that is made."""
    volume_backup_name: str = ""
    """The VolumeSnapshot that its data comes from."""
    volume_size: Annotated[int, INT64] = 0
    """The size of the volume in bytes."""
    progress: Annotated[int, PERCENT] = 0
    """How far it is, in percent."""


class RestoreStatus(Value):
    """What came of it. Users read this and never write it."""

    restores: Annotated[tuple[VolumeRestore, ...], listed_by("volumeName")] = ()
    """A claim for each volume of the backup."""
    restore_time: Annotated[str, TIME] = ""
    """When it was complete."""
    deleted_volumes: Annotated[tuple[str, ...], AS_SET] = ()
    """The claims that the VM had before, and that were deleted."""
    complete: bool | UnsetType = UNSET
    """Whether the VM has the volumes of the backup."""
    target_uid: str | UnsetType = msgspec.field(default=UNSET, name="targetUID")
    """The uid of the VM."""
    progress: Annotated[int, PERCENT] = 0
    """How far it is, in percent, by the sizes of the volumes."""
    conditions: Conditions = ()
    """`Ready`: whether it is complete. `InProgress`: whether it goes on. `Failed`: it was given up, and left nothing behind."""


class VirtualMachineRestore(Object):
    """Makes a VM from a backup, or brings one back to it: a claim for each volume, filled from its snapshot, then the VM."""

    spec: RestoreSpec
    """What is asked for. It cannot be changed."""
    status: RestoreStatus = RestoreStatus()
    """What came of it."""


VM_RESTORES: Final = Kind(
    GROUP,
    VERSION,
    "VirtualMachineRestore",
    "virtualmachinerestores",
    VirtualMachineRestore,
    short_names=("vmrestore", "vmrestores", "vmr"),
    columns=(
        Column("Target", ".spec.target.name", description="The VM."),
        Column("Backup", ".spec.virtualMachineBackupName", description="The backup that it comes from."),
        Column("New", ".spec.newVM", type="boolean", description="Whether a new VM is made."),
        Column("Complete", ".status.complete", type="boolean", description="Whether the VM has the volumes of the backup."),
        Column("Progress", ".status.progress", type="integer", description="How far it is, in percent."),
        AGE,
        Column(
            "Reason", ".status.conditions[?(@.type=='Ready')].reason", description="What it waits for, or why not.", priority=1
        ),
    ),
    rules=(
        Rule("self == oldSelf", "the spec of a restore cannot be changed: delete it, and create another", path="spec"),
        Rule(
            "self.apiGroup == 'kubevirt.io' && self.kind == 'VirtualMachine'",
            "only a VirtualMachine of kubevirt.io can be restored",
            path="spec.target",
        ),
        Rule("size(self.name) > 0", "name the VM that is to be restored", path="spec.target", field_path=".name"),
        Rule(
            "size(self.virtualMachineBackupName) > 0",
            "name the VirtualMachineBackup to restore from",
            path="spec",
            field_path=".virtualMachineBackupName",
        ),
        Rule(
            "!(has(self.start) && self.start) || (has(self.newVM) && self.newVM)",
            "only a new VM is started: one that is restored in place stays stopped",
            path="spec",
            field_path=".start",
        ),
    ),
)
