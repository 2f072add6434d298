"""The terms that backups, restores and their webhook share: when a VM is stopped or moves, and what is kept of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from ullage.kube.builtin.core import PersistentVolumeClaim
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_true
from ullage.quantity import Quantity, QuantityError
from ullage.vms.api.backups import BackupStatus
from ullage.vms.api.common import KeptMeta, KeptObject
from ullage.vms.api.machines import VirtualMachine, VirtualMachineInstance, WholeMachine
from ullage.vms.api.restores import RestoreStatus, VirtualMachineRestore
from ullage.vms.lifecycle import ALWAYS, HALTED, MANUAL, ONCE, RERUN_ON_FAILURE, START, is_over, run_strategy

# On a backup until its snapshots are gone and nothing is paid for them; on a restore until it is complete, or undone.
BACKUP_FINALIZER: Final = "ullage.io/vm-backup"
RESTORE_FINALIZER: Final = "ullage.io/vm-restore"
# On a claim and on a VM: the uid of the restore that has made it. On a new VM its name, too: whoever asks the API needs that.
RESTORED_BY: Final = "ullage.io/restored-by"
RESTORE_NAME: Final = "ullage.io/restore"

# On a VM that was to run, and is halted: why. Harvester's name for it.
NO_ROOM: Final = "harvesterhci.io/insufficient-resource-quota"
# How the webhook begins that refuses a VM for want of room.
INSUFFICIENT: Final = "VM available resources are insufficient"

READY: Final = "Ready"
IN_PROGRESS: Final = "InProgress"
FAILED: Final = "Failed"
COMPLETE: Final = "Complete"  # the reason of InProgress once it is over, and all is well

_STARTS: Final = (ALWAYS, RERUN_ON_FAILURE, ONCE)  # a VM by itself, once it is made
_STARTED_BY_HAND: Final = frozenset({MANUAL, RERUN_ON_FAILURE, ONCE})  # of these one that is stopped stays so
# Of other objects and of the object itself, from before: written anew where the object is.
_NOT_KEPT: Final = ("kubectl.kubernetes.io/", "ullage.io/", "pv.kubernetes.io/", "volume.kubernetes.io/", "cdi.kubevirt.io/")
_NOT_KEPT_EITHER: Final = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "harvesterhci.io/volumeClaimTemplates",
    NO_ROOM,
)


def starts_by_itself(spec: Mapping[str, Any]) -> bool:
    """Whether a VM of this spec runs as soon as it is made."""
    strategy = spec.get("runStrategy")
    return strategy in _STARTS if isinstance(strategy, str) and strategy else spec.get("running") is True


def will_run(restore: VirtualMachineRestore, kept: Mapping[str, Any]) -> bool:
    """Whether a restore makes a VM that runs: a new one, as it is asked for, or as the spec in the backup has it."""
    if not restore.spec.new_vm:
        return False
    return starts_by_itself(kept) if isinstance(restore.spec.start, UnsetType) else restore.spec.start


def is_migrating(instance: VirtualMachineInstance | None) -> bool:
    """Whether it is on its way to another node: its volumes have two engines then."""
    state = instance.status.migration_state if instance is not None else None
    return state is not None and bool(state.start_timestamp) and not (state.completed or state.failed or state.end_timestamp)


def is_stopped(machine: VirtualMachine, instance: VirtualMachineInstance | None) -> bool:
    """Whether it does not run, and will not unless somebody starts it."""
    if instance is not None and not is_over(instance):
        return False
    if any(one.action == START for one in machine.status.state_change_requests):
        return False
    strategy = run_strategy(machine)
    return strategy == HALTED or (strategy in _STARTED_BY_HAND and machine.status.printable_status == "Stopped")


def is_failed(status: BackupStatus | RestoreStatus) -> bool:
    return is_true(status.conditions, FAILED)


def is_unfinished(restore: VirtualMachineRestore) -> bool:
    return restore.status.complete is not True and not is_failed(restore.status)


def is_usable(status: BackupStatus) -> bool:
    """Whether a VM can be restored from the backup."""
    return status.ready_to_use is True and not is_failed(status)


# --- what is kept ----------------------------------------------------------------------------------------------------


def kept_machine(machine: WholeMachine) -> KeptObject:
    return KeptObject(metadata=_kept(machine.metadata), spec=machine.spec)


def kept_claim(claim: PersistentVolumeClaim) -> KeptObject:
    spec = msgspec.json.decode(msgspec.json.encode(claim.spec))
    return KeptObject(metadata=_kept(claim.metadata), spec={**spec, "storageClassName": claim.class_name})


def _kept(meta: Meta) -> KeptMeta:
    return KeptMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        labels=_own(meta.labels),
        annotations=_own(meta.annotations),
    )


def _own(marks: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in marks.items() if not key.startswith(_NOT_KEPT) and key not in _NOT_KEPT_EITHER}


def size_of(claim: PersistentVolumeClaim) -> int:
    """The bytes that a claim has room for: what it got, or what it asks for."""
    amount = claim.status.capacity.get("storage") or claim.spec.resources.requests.get("storage") or 0
    try:
        return max(0, Quantity.parse(str(amount)).value())
    except QuantityError:
        return 0


def percent(parts: Mapping[str, tuple[int, int]]) -> int:
    """How far a whole is, from the size and the percentage of each part; parts without a size weigh alike."""
    if not parts:
        return 100
    weights = {name: size for name, (size, _) in parts.items()}
    if not any(weights.values()):
        weights = dict.fromkeys(parts, 1)
    return sum(weights[name] * done for name, (_, done) in parts.items()) // sum(weights.values())
