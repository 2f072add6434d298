"""The claims that a restore makes: as those of the backup were, filled from its snapshots. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ullage.kube.builtin.core import CLAIMS, PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.objects import Json, name_for, owner_reference
from ullage.names import LABEL_LIMIT
from ullage.quantity import Format, Quantity, QuantityError
from ullage.snapshots.api.ga.types import SNAPSHOTS
from ullage.vms.api.backups import VolumeBackup
from ullage.vms.api.common import KeptMeta, KeptObject
from ullage.vms.api.restores import RESTORES, VirtualMachineRestore, VolumeRestore
from ullage.vms.model import RESTORED_BY

# What was said of the old claim's volume, and its own source: the new one has others.
_OF_OLD_VOLUME: Final = frozenset({"volumeName", "dataSource", "dataSourceRef", "selector"})
_UID_LETTERS: Final = 8
WAITS_FOR_CONSUMER: Final = "WaitForFirstConsumer"


def claim_name(restore: VirtualMachineRestore, volume: str) -> str:
    """`copy-disk-0-1a2b3c4d`: another one for every restore, and short enough for a label."""
    return name_for(f"{restore.spec.target.name}-{volume}", restore.metadata.uid[:_UID_LETTERS], limit=LABEL_LIMIT)


def planned(restore: VirtualMachineRestore, volume: VolumeBackup) -> VolumeRestore:
    kept = volume.persistent_volume_claim
    spec = {key: value for key, value in kept.spec.items() if key not in _OF_OLD_VOLUME and value is not None}
    source = {"apiGroup": SNAPSHOTS.group, "kind": SNAPSHOTS.kind, "name": volume.name}
    meta = KeptMeta(
        name=claim_name(restore, volume.volume_name),
        namespace=restore.metadata.namespace,
        labels=kept.metadata.labels,
        annotations=kept.metadata.annotations,
    )
    wanted = {**spec, "resources": {"requests": {"storage": _size(spec, volume.volume_size)}}, "dataSource": source}
    return VolumeRestore(
        volume_name=volume.volume_name,
        persistent_volume_claim=KeptObject(metadata=meta, spec=wanted),
        volume_backup_name=volume.name,
        volume_size=volume.volume_size,
    )


def _size(spec: Mapping[str, Any], volume: int) -> str:
    """A volume may have got more than its claim asked for."""
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
    try:
        wanted = Quantity.parse(str(asked))
    except QuantityError:
        wanted = Quantity.of(0)
    return str(wanted if wanted.value() >= volume else Quantity.of(volume, Format.BINARY_SI))


def new_claim(restore: VirtualMachineRestore, volume: VolumeRestore) -> Json:
    """It belongs to the restore until the VM has it: a restore that is deleted half-way leaves nothing behind."""
    claim, owner = volume.persistent_volume_claim, owner_reference(RESTORES, restore.metadata, controller=True)
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {
            "name": claim.metadata.name,
            "namespace": restore.metadata.namespace,
            "labels": dict(claim.metadata.labels),
            "annotations": {**claim.metadata.annotations, RESTORED_BY: restore.metadata.uid},
            "ownerReferences": [owner],
        },
        "spec": dict(claim.spec),
    }


def is_made_by(claim: PersistentVolumeClaim, restore: VirtualMachineRestore) -> bool:
    return claim.metadata.annotations.get(RESTORED_BY) == restore.metadata.uid


def is_filled(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> bool:
    """Or will be, as soon as somebody uses it."""
    if claim.status.phase == "Bound":
        return True
    return storage_class is not None and storage_class.volume_binding_mode == WAITS_FOR_CONSUMER
