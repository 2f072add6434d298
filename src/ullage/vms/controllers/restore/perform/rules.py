"""What a restore says of itself, and whose turn it is. Pure.

    planned ──▶ claims made, filled ──▶ the VM has them ──▶ old claims deleted ──▶ complete
       │               │
       └───────────────┴──▶ failed: the new claims are deleted, the VM is as it was

The VM gets all its volumes in one write. Before it nothing of the VM has changed; after it a restore can only be completed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from ullage.kube.objects import set_condition
from ullage.snapshots.model import Problem
from ullage.times import timestamp
from ullage.vms.api.machines import WholeMachine
from ullage.vms.api.restores import RestoreStatus, VirtualMachineRestore, VolumeRestore
from ullage.vms.lifecycle import HALTED, run_strategy
from ullage.vms.model import COMPLETE, FAILED, IN_PROGRESS, INSUFFICIENT, NO_ROOM, READY, is_unfinished, percent

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
