"""What comes next for a backup, from what is seen of it and of its members. Pure.

    planned ──▶ members made, held ──▶ all measured: booked ──▶ all told: cut ──▶ stored: complete
       │                 │                      │                    │
       └─────────────────┴──────────────────────┴────────────────────┴──▶ failed: all members are deleted

That a backup has failed is written down before the first member is deleted, and that it is being cut before the first member is
told: whoever comes after a kill goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from ullage.kube.kinds import Meta
from ullage.kube.objects import drop_condition, find_condition, is_deleting, set_condition
from ullage.ledger.charging.plans import read_plan
from ullage.snapshots.cut import rules as cut
from ullage.snapshots.model import Problem, Snapshot
from ullage.snapshots.source_volume import ClaimContext, SourceVolume, find_source_volume
from ullage.times import read_time, timestamp
from ullage.vms.api.backups import BackupStatus, VirtualMachineBackup, VolumeBackup
from ullage.vms.api.common import Failure
from ullage.vms.api.machines import VirtualMachineInstance, WholeMachine
from ullage.vms.claims import volumes_of
from ullage.vms.controllers.backup_take_members import BackupMember, Release, member_name, release_of
from ullage.vms.model import (
    COMPLETE,
    FAILED,
    IN_PROGRESS,
    READY,
    is_failed,
    is_migrating,
    kept_claim,
    kept_machine,
    percent,
    size_of,
)

# What a backup is of: the VM as it is now, and the claims behind its volumes.


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
        found = _planned_volume(backup.metadata, volume.name, volume.claim, contexts.get(volume.claim, ClaimContext()))
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


def _planned_volume(backup: Meta, name: str, claim: str, context: ClaimContext) -> VolumeBackup | Problem:
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


PREPARING: Final = "Preparing"
CUTTING: Final = "Cutting"
STORING: Final = "Storing"
_CUT_PROGRESS: Final = 50  # percent: of a volume that is cut, and not stored yet
_SHOWN: Final = 5  # volumes in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What is to be done, in this order, and what the status says then."""

    create: tuple[BackupMember, ...] = ()
    release: Release | None = None
    delete: tuple[BackupMember, ...] = ()
    failure: Problem | None = None
    status: BackupStatus


def next_step(backup: VirtualMachineBackup, members: Sequence[BackupMember], *, now: datetime) -> Next:
    """Of a backup that is to stay, and whose plan stands in its status."""
    status = backup.status
    if is_failed(status):
        return Next(delete=tuple(one for one in cut.undone(members) if not one.going), status=status)
    if is_complete(status):
        return Next(status=_standing(backup, members, now))
    if failure := cut.failure_of(members, lambda one: cut.gone(one, cutting=is_begun(status))):
        return Next(failure=failure, status=failed(backup, failure, now))
    if missing := cut.missing(members):
        return Next(create=missing, status=_progress(backup, members, now, PREPARING, _waits_for(members)))
    if all(one.ready for one in members):
        return Next(status=_completed(backup, members, now))
    release = release_of(members, read_plan(backup.metadata))
    if release is not None:
        return Next(release=release, status=_progress(backup, members, now, CUTTING, "all volumes are ready, and are cut now"))
    return Next(status=_progress(backup, members, now, *_doing(status, members)))


def is_complete(status: BackupStatus) -> bool:
    found = find_condition(status.conditions, IN_PROGRESS)
    return found is not None and found.status == "False" and found.reason == COMPLETE


def is_begun(status: BackupStatus) -> bool:
    """Whether members may have been cut."""
    found = find_condition(status.conditions, IN_PROGRESS)
    return found is not None and found.reason in {CUTTING, STORING}


# --- failing ---------------------------------------------------------------------------------------------------------


def failed(backup: VirtualMachineBackup, problem: Problem, now: datetime) -> BackupStatus:
    """A failed backup keeps nothing: its members are deleted, and it is not tried again."""
    old, generation = backup.status, backup.metadata.generation
    message = f"{problem.message}. No volume is kept; delete this backup, and create another"
    conditions = old.conditions
    for type, status in ((FAILED, True), (READY, False), (IN_PROGRESS, False)):
        conditions = set_condition(
            conditions, type, status=status, reason=problem.reason or FAILED, message=message, generation=generation, now=now
        )
    error = Failure(time=timestamp(now), message=f"{problem.reason}: {problem.message}" if problem.reason else problem.message)
    volumes = tuple(replace(one, ready_to_use=False, progress=0) for one in old.volume_backups)
    return replace(
        old, conditions=conditions, error=error, ready_to_use=False, volume_backups=volumes, progress=0, creation_time=""
    )


# --- going on --------------------------------------------------------------------------------------------------------


def waiting(backup: VirtualMachineBackup, problem: Problem, now: datetime) -> BackupStatus:
    """Nothing is made yet."""
    return _progress(backup, (), now, problem.reason, problem.message)


def _doing(status: BackupStatus, members: Sequence[BackupMember]) -> tuple[str, str]:
    """Once members were told to be cut it never says again that they are being prepared: caches may be behind."""
    uncut = [one for one in members if not one.cut and not one.ready]
    if not uncut:
        left = [one for one in members if not one.ready]
        return STORING, f"all volumes are cut; {_shown(left)} being stored"
    if is_begun(status) or any(one.told for one in members):
        return CUTTING, f"{_shown(uncut)} being cut"
    return PREPARING, _waits_for(members)


def _waits_for(members: Sequence[BackupMember]) -> str:
    late = [one for one in members if one.estimate is None and not one.cut]
    if not late:
        return "waits for fresh estimates of what all volumes take"
    troubled = next((one for one in late if one.problem is not None), None)
    why = f"; {troubled.label}: {troubled.problem.message}" if troubled is not None and troubled.problem is not None else ""
    return f"nothing is cut before all volumes are ready; {_shown(late)} not{why}"


def _shown(members: Sequence[BackupMember]) -> str:
    names = ", ".join(one.volume.volume_name for one in members[:_SHOWN])
    more = f" and {len(members) - _SHOWN} more" if len(members) > _SHOWN else ""
    return f"{names}{more} {'is' if len(members) == 1 else 'are'}"


def _progress(
    backup: VirtualMachineBackup, members: Sequence[BackupMember], now: datetime, reason: str, message: str
) -> BackupStatus:
    status, generation = _with_volumes(backup.status, members, now), backup.metadata.generation
    conditions = set_condition(
        status.conditions, IN_PROGRESS, status=True, reason=reason, message=message, generation=generation, now=now
    )
    conditions = set_condition(conditions, READY, status=False, reason=reason, message=message, generation=generation, now=now)
    return replace(status, conditions=conditions, ready_to_use=False)


def _completed(backup: VirtualMachineBackup, members: Sequence[BackupMember], now: datetime) -> BackupStatus:
    status, generation = _with_volumes(backup.status, members, now), backup.metadata.generation
    message = _summary(members)
    conditions = drop_condition(status.conditions, FAILED)
    conditions = set_condition(
        conditions, IN_PROGRESS, status=False, reason=COMPLETE, message=message, generation=generation, now=now
    )
    conditions = set_condition(conditions, READY, status=True, reason=READY, message=message, generation=generation, now=now)
    latest = max((one.moment for one in members), default="") or timestamp(now)
    return replace(status, conditions=conditions, ready_to_use=True, error=UNSET, creation_time=latest, progress=100)


def _summary(members: Sequence[BackupMember]) -> str:
    if not members:
        return "the VM can be restored from it; it has no volume with a claim, so nothing but its spec is kept"
    moments = [moment for one in members if (moment := read_time(one.moment)) is not None]
    apart = cut.apart(moments).total_seconds()
    many = f"{len(members)} volumes, cut within {apart:.0f} s of each other" if len(members) > 1 else "1 volume"
    return f"the VM can be restored from it: {many}"


def _standing(backup: VirtualMachineBackup, members: Sequence[BackupMember], now: datetime) -> BackupStatus:
    """Of a backup that was complete: what has become of it. Nothing of it is deleted, since it is data."""
    broken = [one for one in members if not (one.mine and one.ready and not one.going)]
    if not broken:
        return _completed(backup, members, now) if backup.status.ready_to_use is not True else backup.status
    generation, problem = backup.metadata.generation, cut.damage(broken, otherwise="is gone, or is not ready")
    reason, message = problem.reason, problem.message
    conditions = set_condition(
        backup.status.conditions, READY, status=False, reason=reason, message=message, generation=generation, now=now
    )
    status = _with_volumes(backup.status, members, now)
    return replace(status, conditions=conditions, ready_to_use=False, error=_said(status.error, f"{reason}: {message}", now))


def _with_volumes(status: BackupStatus, members: Sequence[BackupMember], now: datetime) -> BackupStatus:
    if not members:
        return status
    volumes = tuple(_volume(one, now) for one in members)
    done = {one.volume_name: (one.volume_size, one.progress) for one in volumes}
    return replace(status, volume_backups=volumes, progress=percent(done))


def _volume(member: BackupMember, now: datetime) -> VolumeBackup:
    done = 100 if member.ready else _CUT_PROGRESS if member.cut else 0
    problem = member.problem
    error = _said(member.volume.error, problem.message, now) if problem is not None else UNSET
    moment = member.moment or member.volume.creation_time
    return replace(member.volume, creation_time=moment, ready_to_use=member.ready, progress=done, error=error)


def _said(old: object, message: str, now: datetime) -> Failure:
    """The same words keep their time: otherwise every look would be a write."""
    return old if isinstance(old, Failure) and old.message == message else Failure(time=timestamp(now), message=message)
