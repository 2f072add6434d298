"""What a restore says of itself, and whose turn it is. Pure.

    planned ──▶ claims made, filled ──▶ the VM has them ──▶ old claims deleted ──▶ complete
       │               │
       └───────────────┴──▶ failed: the new claims are deleted, the VM is as it was

The VM gets all its volumes in one write. Before it nothing of the VM has changed; after it a restore can only be completed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from ullage.kube.builtin.core import CLAIMS, PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json, merge_patch, name_for, owner_reference, set_condition
from ullage.names import LABEL_LIMIT
from ullage.quantity import Format, Quantity, QuantityError
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS
from ullage.snapshots.model import Problem
from ullage.times import timestamp
from ullage.vms.api.backups import VolumeBackup
from ullage.vms.api.common import KeptMeta, KeptObject
from ullage.vms.api.machines import WholeMachine
from ullage.vms.api.restores import VM_RESTORES, RestoreStatus, VirtualMachineRestore, VolumeRestore
from ullage.vms.lifecycle import ALWAYS, HALTED, run_strategy
from ullage.vms.model import (
    COMPLETE,
    FAILED,
    IN_PROGRESS,
    INSUFFICIENT,
    NO_ROOM,
    READY,
    RESTORE_NAME,
    RESTORED_BY,
    is_unfinished,
    percent,
    starts_by_itself,
    will_run,
)

# The VM that a restore makes, or brings back: as it was, with the new claims, and stopped.


# Labels by which others find a VM: a new one must not be taken for the old one.
_NAMES_MACHINE: Final = ("harvesterhci.io/vmName", "kubevirt.io/domain", "kubevirt.io/vm", "vm.kubevirt.io/name")
_OLD_CLAIMS: Final = "harvesterhci.io/volumeClaimTemplates"


def restored_spec(kept: Mapping[str, Any], claims: Mapping[str, str]) -> Json:
    """The spec with other claims, by the names of the volumes that they are for. DataVolumes have become claims: their
    templates would make the old ones again."""
    spec: Json = deepcopy(dict(kept))
    inner = spec.get("template", {}).get("spec", {})
    if "volumes" in inner:
        inner["volumes"] = [_volume(one, claims) for one in inner["volumes"]]
    used = {one["dataVolume"].get("name") for one in inner.get("volumes", ()) if one.get("dataVolume")}
    templates = [one for one in spec.pop("dataVolumeTemplates", None) or () if one.get("metadata", {}).get("name") in used]
    if templates:
        spec["dataVolumeTemplates"] = templates
    return _running(spec, wanted=False)


def _running(spec: Json, *, wanted: bool, strategy: str = ALWAYS) -> Json:
    """Said in whichever field the VM has."""
    others = {key: value for key, value in spec.items() if key not in ("running", "runStrategy")}
    if spec.get("running") is None:
        return {**others, "runStrategy": strategy if wanted else HALTED}
    return {**others, "running": wanted}


def _volume(volume: Json, claims: Mapping[str, str]) -> Json:
    claim = claims.get(volume.get("name", ""))
    if claim is None:
        return volume
    source = volume.get("persistentVolumeClaim") or volume.get("dataVolume") or {}
    kept = {key: value for key, value in source.items() if key in {"hotpluggable", "readOnly"}}
    return {"name": volume["name"], "persistentVolumeClaim": {**kept, "claimName": claim}}


def new_machine(restore: VirtualMachineRestore, source: KeptObject, claims: Mapping[str, str]) -> WholeMachine:
    name, old = restore.spec.target.name, source.metadata
    spec = restored_spec(source.spec, claims)
    if will_run(restore, source.spec):
        strategy = source.spec["runStrategy"] if starts_by_itself(source.spec) and source.spec.get("runStrategy") else ALWAYS
        spec = _running(spec, wanted=True, strategy=strategy)
    template = spec.get("template", {})
    if not restore.spec.keep_mac_address:
        for interface in template.get("spec", {}).get("domain", {}).get("devices", {}).get("interfaces") or ():
            interface.pop("macAddress", None)
    meta = template.get("metadata")
    if meta and meta.get("labels"):
        meta["labels"] = _renamed(meta["labels"], old.name, name)
    return WholeMachine(
        metadata=Meta(
            name=name,
            namespace=restore.metadata.namespace,
            labels=_renamed(old.labels, old.name, name),
            annotations={**old.annotations, RESTORED_BY: restore.metadata.uid, RESTORE_NAME: restore.metadata.name},
        ),
        spec=spec,
    )


def runs(machine: WholeMachine) -> bool:
    """Whether it is made to run."""
    return starts_by_itself(machine.spec)


def halted(machine: WholeMachine, why: str) -> WholeMachine:
    """The same VM where there is no room for it to run; `why` is on it, for whoever wonders."""
    meta = replace(machine.metadata, annotations={**machine.metadata.annotations, NO_ROOM: why})
    return replace(machine, metadata=meta, spec=_running(dict(machine.spec), wanted=False))


def _renamed(labels: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    return {key: new if key in _NAMES_MACHINE and value == old else value for key, value in labels.items()}


def change_in_place(
    restore: VirtualMachineRestore, machine: WholeMachine, source: KeptObject, claims: Mapping[str, str]
) -> Json:
    """One merge patch: the VM has all the volumes of the backup after it, or none."""
    annotations: dict[str, str | None] = {RESTORED_BY: restore.metadata.uid}
    if _OLD_CLAIMS in machine.metadata.annotations:
        annotations[_OLD_CLAIMS] = None
    spec = merge_patch(machine.spec, restored_spec(source.spec, claims)) or {}
    return {"metadata": {"annotations": annotations}, "spec": spec}


def is_switched(machine: WholeMachine, restore: VirtualMachineRestore) -> bool:
    """Whether the VM has the claims of this restore."""
    return machine.metadata.annotations.get(RESTORED_BY) == restore.metadata.uid


# The claims that a restore makes: as those of the backup were, filled from its snapshots.


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
    source = {"apiGroup": VOLUME_SNAPSHOTS.group, "kind": VOLUME_SNAPSHOTS.kind, "name": volume.name}
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
    claim, owner = volume.persistent_volume_claim, owner_reference(VM_RESTORES, restore.metadata, controller=True)
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


RESTORING: Final = "Restoring"
WAITING: Final = "WaitingForRestore"
RUNNING: Final = "TargetRunning"
RESTORED: Final = "Restored"
_SHOWN: Final = 5


def first_in_turn(restore: VirtualMachineRestore, others: Iterable[VirtualMachineRestore]) -> VirtualMachineRestore:
    """Of all restores of one VM that are not finished, the oldest: the others wait for it."""
    unfinished = [one for one in others if is_unfinished(one) and one.metadata.uid != restore.metadata.uid]
    return min([restore, *unfinished], key=lambda one: (one.metadata.creation_timestamp, one.metadata.name))


def want_of_room(refusal: str) -> str:
    """Why there is no room for the VM to run, in the webhook's own words; empty where it was refused for another reason."""
    _, mark, numbers = refusal.partition(INSUFFICIENT)
    return f"{mark}{numbers}"


def claims_by_volume(status: RestoreStatus) -> dict[str, str]:
    return {one.volume_name: one.persistent_volume_claim.metadata.name for one in status.restores}


def volumes_by_claim(status: RestoreStatus) -> dict[str, VolumeRestore]:
    return {one.persistent_volume_claim.metadata.name: one for one in status.restores}


def deletable(
    before: Iterable[str], *, now: Collection[str], shared: Collection[str], kept: Collection[str]
) -> tuple[str, ...]:
    """The claims that nobody needs once the VM has its new ones: not those that it has again, that another VM uses, or that
    have snapshots inside."""
    return tuple(sorted(set(before) - set(now) - set(shared) - set(kept)))


# --- statuses --------------------------------------------------------------------------------------------------------


def waiting(restore: VirtualMachineRestore, problem: Problem, now: datetime) -> RestoreStatus:
    return _said(restore, restore.status, problem.reason, problem.message, now)


def progress(restore: VirtualMachineRestore, filled: Mapping[str, bool], now: datetime) -> RestoreStatus:
    """`filled` by claim."""
    restores = tuple(
        replace(one, progress=100 if filled.get(one.persistent_volume_claim.metadata.name) else 0)
        for one in restore.status.restores
    )
    done = percent({one.volume_name: (one.volume_size, one.progress) for one in restores})
    status = replace(restore.status, restores=restores, progress=done, complete=False)
    return _said(restore, status, RESTORING, _message(restores), now)


def _message(restores: Sequence[VolumeRestore]) -> str:
    left = [one.persistent_volume_claim.metadata.name for one in restores if one.progress < 100]
    if not left:
        return "all claims are filled; the VM gets them now"
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    return (
        f"{len(restores) - len(left)} of {len(restores)} claims are filled; waits for {', '.join(left[:_SHOWN])}{more}, "
        "whose Events tell more"
    )


def _said(restore: VirtualMachineRestore, status: RestoreStatus, reason: str, message: str, now: datetime) -> RestoreStatus:
    conditions, generation = status.conditions, restore.metadata.generation
    for type, value in ((IN_PROGRESS, True), (READY, False)):
        conditions = set_condition(
            conditions, type, status=value, reason=reason, message=message, generation=generation, now=now
        )
    return replace(status, conditions=conditions, complete=False)


def failed(restore: VirtualMachineRestore, problem: Problem, now: datetime) -> RestoreStatus:
    status, generation = restore.status, restore.metadata.generation
    conditions = status.conditions
    message = f"{problem.message}. Nothing was changed, and nothing is left; delete this restore, and create another"
    for type, value in ((FAILED, True), (READY, False), (IN_PROGRESS, False)):
        conditions = set_condition(
            conditions, type, status=value, reason=problem.reason, message=message, generation=generation, now=now
        )
    return replace(status, conditions=conditions, complete=False, progress=0)


def completed(restore: VirtualMachineRestore, machine: WholeMachine, now: datetime) -> RestoreStatus:
    status, generation = restore.status, restore.metadata.generation
    restores = tuple(replace(one, progress=100) for one in status.restores)
    count = "1 volume" if len(restores) == 1 else f"{len(restores)} volumes"
    target = f"{restore.metadata.namespace}/{restore.spec.target.name}"
    gone = f"; {len(status.deleted_volumes)} old claims were deleted" if status.deleted_volumes else ""
    message = f"VM {target} has {count} of backup {restore.spec.virtual_machine_backup_name}{gone}; {_state(machine)}"
    conditions = set_condition(
        status.conditions, IN_PROGRESS, status=False, reason=COMPLETE, message=message, generation=generation, now=now
    )
    conditions = set_condition(conditions, READY, status=True, reason=RESTORED, message=message, generation=generation, now=now)
    return replace(
        status,
        restores=restores,
        conditions=conditions,
        complete=True,
        progress=100,
        restore_time=timestamp(now),
        target_uid=machine.metadata.uid,
    )


def _state(machine: WholeMachine) -> str:
    """Whether it runs, as far as the restore has to do with it."""
    if run_strategy(machine.partly) != HALTED:
        return "it is started"
    why = machine.metadata.annotations.get(NO_ROOM)
    return f"it was to run, and is stopped: {why}" if why else "it is stopped"
