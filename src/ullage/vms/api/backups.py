"""VirtualMachineBackup: snapshots of all volumes of a VM, taken together, and what is needed to make the VM again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value, listed_by
from ullage.kube.objects import Conditions
from ullage.vms.api.common import GROUP, INT64, PERCENT, TIME, VERSION, Failure, KeptObject, MachineReference


class BackupSpec(Value):
    """What is asked for. It cannot be changed."""

    source: MachineReference
    """The VM, in the same namespace."""
    type: Literal["backup", "snapshot"] = "backup"
    """snapshot: the snapshots stay where the volumes are. backup: the same, for those whose storage system copies snapshots to
    a backup target by itself. Both take the same space here, and count alike."""


class VolumeBackup(Value):
    """The snapshot of one volume, and the claim that it was taken of."""

    name: str = ""
    """The VolumeSnapshot, in the same namespace. It belongs to this backup."""
    volume_name: str
    """The name of the volume in the VM."""
    csi_driver_name: str = ""
    """The driver that has the volume."""
    creation_time: Annotated[str, TIME] = ""
    """The moment whose data it has."""
    persistent_volume_claim: KeptObject = KeptObject()
    """The claim as it was."""
    volume_size: Annotated[int, INT64] = 0
    """The size of the volume in bytes."""
    progress: Annotated[int, PERCENT] = 0
    """How far it is, in percent."""
    ready_to_use: bool | UnsetType = UNSET
    """Whether a volume can be made from it."""
    error: Failure | UnsetType = UNSET
    """What is wrong with it."""


class BackupStatus(Value):
    """What came of it. Users read this and never write it."""

    source_uid: str | UnsetType = msgspec.field(default=UNSET, name="sourceUID")
    """The uid of the VM: a later one of the same name is another one."""
    creation_time: Annotated[str, TIME] = ""
    """When the volumes were cut: the latest of their moments."""
    csi_driver_volume_snapshot_class_names: Mapping[str, str] = {}
    """The VolumeSnapshotClass for each driver, where it was chosen."""
    source: KeptObject | UnsetType = UNSET
    """The VM as it was."""
    volume_backups: Annotated[tuple[VolumeBackup, ...], listed_by("volumeName")] = ()
    """A snapshot for each volume that has a claim."""
    progress: Annotated[int, PERCENT] = 0
    """How far it is, in percent, by the sizes of the volumes."""
    ready_to_use: bool | UnsetType = UNSET
    """Whether the VM can be restored from it."""
    error: Failure | UnsetType = UNSET
    """Why the VM cannot be restored from it. A failed backup keeps no snapshots: delete it, and create another. One that was
    ready, and has lost a snapshot, keeps the others."""
    conditions: Conditions = ()
    """`Ready`: whether the VM can be restored from it. `InProgress`: whether it is being made. `Failed`: it was not made, and
    is not tried again."""


class VirtualMachineBackup(Object):
    """A backup of a VM: one VolumeSnapshot for each of its volumes, all or none, and the VM as it was. Its snapshots are taken
    together, and go with it."""

    spec: BackupSpec
    """What is asked for. It cannot be changed."""
    status: BackupStatus = BackupStatus()
    """What came of it."""


VM_BACKUPS: Final = Kind(
    GROUP,
    VERSION,
    "VirtualMachineBackup",
    "virtualmachinebackups",
    VirtualMachineBackup,
    short_names=("vmbackup", "vmbackups", "vmb"),
    columns=(
        Column("Source", ".spec.source.name", description="The VM."),
        Column("Type", ".spec.type", description="backup or snapshot."),
        Column("Ready", ".status.readyToUse", type="boolean", description="Whether the VM can be restored from it."),
        Column("Progress", ".status.progress", type="integer", description="How far it is, in percent."),
        Column("Cut", ".status.creationTime", type="date", description="The moment whose data it has."),
        AGE,
        Column("Error", ".status.error.message", description="Why the VM cannot be restored from it.", priority=1),
    ),
    rules=(
        Rule("self == oldSelf", "the spec of a backup cannot be changed: delete it, and create another", path="spec"),
        Rule(
            "self.apiGroup == 'kubevirt.io' && self.kind == 'VirtualMachine'",
            "only a VirtualMachine of kubevirt.io can be backed up",
            path="spec.source",
        ),
        Rule("size(self.name) > 0", "name the VM that is to be backed up", path="spec.source", field_path=".name"),
    ),
)
