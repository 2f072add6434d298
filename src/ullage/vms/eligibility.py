"""Why a backup or a restore cannot be: one reason, with the field that it is about. Pure.

The webhook asks when one is created, and the controller of restores before it begins: things may have changed in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.kube.objects import is_deleting
from ullage.vms.api.backups import VirtualMachineBackup
from ullage.vms.api.machines import VirtualMachine, VirtualMachineInstance
from ullage.vms.api.restores import VirtualMachineRestore
from ullage.vms.model import is_failed, is_migrating, is_stopped, is_unfinished, is_usable


@dataclass(frozen=True, slots=True)
class Refusal:
    field: str
    problem: str
    reason: str = "FieldValueInvalid"


# --- backups ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    namespace: str
    backup: VirtualMachineBackup
    machine: VirtualMachine | None = None
    instance: VirtualMachineInstance | None = None

    @property
    def where(self) -> str:
        return f"{self.namespace}/{self.backup.spec.source.name}"


SOURCE: Final = "spec.source.name"


def _source_named(facts: BackupFacts) -> Refusal | None:
    named = facts.backup.spec.source.name
    return None if named else Refusal(SOURCE, "name the VM that is to be backed up", "FieldValueRequired")


def _source_exists(facts: BackupFacts) -> Refusal | None:
    if facts.machine is None:
        return Refusal(SOURCE, f"VM {facts.where} does not exist", "FieldValueNotFound")
    if is_deleting(facts.machine.metadata):
        return Refusal(SOURCE, f"VM {facts.where} is being deleted")
    return None


def _source_stays(facts: BackupFacts) -> Refusal | None:
    if is_migrating(facts.instance):
        return Refusal(SOURCE, f"VM {facts.where} is in migration; back it up when it has arrived")
    return None


BACKUP_RULES: Final[tuple[Callable[[BackupFacts], Refusal | None], ...]] = (
    _source_named,
    _source_exists,  # a backup of a missing VM is a typo
    _source_stays,  # its volumes have two engines each
)


def review_backup(facts: BackupFacts) -> Refusal | None:
    return next((found for rule in BACKUP_RULES if (found := rule(facts))), None)


# --- restores --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    namespace: str
    restore: VirtualMachineRestore
    backup: VirtualMachineBackup | None = None
    machine: VirtualMachine | None = None  # the target
    instance: VirtualMachineInstance | None = None
    others: Sequence[VirtualMachineRestore] = ()  # to the same target

    @property
    def where(self) -> str:
        return f"{self.namespace}/{self.restore.spec.target.name}"


TARGET: Final = "spec.target.name"
BACKUP: Final = "spec.virtualMachineBackupName"


def _target_named(facts: RestoreFacts) -> Refusal | None:
    named = facts.restore.spec.target.name
    return None if named else Refusal(TARGET, "name the VM that is to be restored", "FieldValueRequired")


def _backup_here(facts: RestoreFacts) -> Refusal | None:
    given = facts.restore.spec.virtual_machine_backup_namespace
    if given in ("", facts.namespace):
        return None
    said = f"it is {given}, and snapshots can be restored in their own namespace only: leave it out, or name {facts.namespace}"
    return Refusal("spec.virtualMachineBackupNamespace", said)


def _backup_usable(facts: RestoreFacts) -> Refusal | None:
    found = facts.backup
    what = f"VirtualMachineBackup {facts.namespace}/{facts.restore.spec.virtual_machine_backup_name}"
    if found is None:
        return Refusal(BACKUP, f"{what} does not exist", "FieldValueNotFound")
    if is_deleting(found.metadata):
        return Refusal(BACKUP, f"{what} is being deleted")
    if is_failed(found.status):
        return Refusal(BACKUP, f"{what} has failed{_why(found)}")
    if not is_usable(found.status):
        return Refusal(BACKUP, f"{what} is not ready, {found.status.progress} percent are done{_why(found)}")
    return None


def _new_target(facts: RestoreFacts) -> Refusal | None:
    if not facts.restore.spec.new_vm or facts.machine is None:
        return None
    said = f"VM {facts.where} exists already; name another, or restore it in place with newVM: false"
    return Refusal(TARGET, said, "FieldValueDuplicate")


def _target_in_place(facts: RestoreFacts) -> Refusal | None:
    if facts.restore.spec.new_vm:
        return None
    machine, anew = facts.machine, "restore it as a new one with newVM: true"
    if machine is None:
        return Refusal(TARGET, f"VM {facts.where} does not exist; {anew}", "FieldValueNotFound")
    if is_deleting(machine.metadata):
        return Refusal(TARGET, f"VM {facts.where} is being deleted")
    source = facts.backup.spec.source.name if facts.backup is not None else ""
    if source != machine.metadata.name:
        return Refusal(TARGET, f"the backup is of VM {source}, not of {machine.metadata.name}; {anew}")
    return None


def _target_stopped(facts: RestoreFacts) -> Refusal | None:
    if facts.restore.spec.new_vm or facts.machine is None:
        return None
    if is_migrating(facts.instance):
        return Refusal(TARGET, f"VM {facts.where} is in migration; stop it before it is restored in place")
    if not is_stopped(facts.machine, facts.instance):
        state = facts.machine.status.printable_status or "not stopped"
        return Refusal(TARGET, f"VM {facts.where} is {state}; stop it before it is restored in place")
    return None


def _target_free(facts: RestoreFacts) -> Refusal | None:
    other = next((one for one in facts.others if is_unfinished(one)), None)
    if other is None:
        return None
    said = f"VirtualMachineRestore {other.metadata.name} restores VM {facts.where} already; wait until it is complete"
    return Refusal(TARGET, said)


RESTORE_RULES: Final[tuple[Callable[[RestoreFacts], Refusal | None], ...]] = (
    _target_named,
    _backup_here,
    _backup_usable,
    _new_target,
    _target_in_place,
    _target_stopped,
    _target_free,
)


def review_restore(facts: RestoreFacts) -> Refusal | None:
    return next((found for rule in RESTORE_RULES if (found := rule(facts))), None)


def _why(backup: VirtualMachineBackup) -> str:
    return f": {backup.status.error.message}" if backup.status.error else ""
