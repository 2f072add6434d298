"""What is next for a restore in place, and what its status says. Pure.

What is written comes before what is done: `Switching` before the claim's data changes, `Undoing` before it changes back, and an
empty `undoUntil` before what is kept goes. So whoever comes after a crash knows what may have been done.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum, auto

from msgspec.structs import replace

from ullage.kube.objects import Condition, is_deleting, is_true, set_condition
from ullage.policies.restores import model
from ullage.policies.restores.api import EarlierClaim, SnapshotRestore, SnapshotRestoreStatus
from ullage.policies.restores.model import PodUser
from ullage.snapshots.model import Problem
from ullage.times import timestamp


class RestoreStep(Enum):
    """What is next."""

    ADMIT = auto()  # may it be, and whose turn is it?
    PREPARE = auto()
    SWITCH = auto()
    KEEP = auto()  # until it cannot be undone any more
    UNDO = auto()
    SETTLE = auto()  # what is kept goes
    ABANDON = auto()  # what was made ready goes
    LET_GO = auto()  # nothing is left to be done


def next_step(
    restore: SnapshotRestore, *, now: datetime, claim_gone: bool, superseded: bool, served: bool = True
) -> RestoreStep:
    """`claim_gone`: what it was restored to is not there any more. `superseded`: a later restore of the claim is next.
    `served`: its method is there. Where it is not, nobody could ever end what was begun: the restore, and with it its
    namespace, would stay for ever."""
    status, deleting = restore.status, is_deleting(restore.metadata)
    if deleting and not served:
        return RestoreStep.LET_GO
    match status.phase:
        case model.PREPARING:
            return RestoreStep.ABANDON if deleting else RestoreStep.PREPARE
        case model.SWITCHING:
            return RestoreStep.SWITCH
        case model.UNDOING:
            return RestoreStep.UNDO
        case model.COMPLETE if not status.settled:
            return _while_kept(restore, now=now, over=deleting or claim_gone, superseded=superseded)
        case model.UNDONE if not status.settled:
            return RestoreStep.SETTLE
        case model.FAILED if not status.settled:
            return RestoreStep.ABANDON
        case model.COMPLETE | model.UNDONE | model.FAILED:
            return RestoreStep.LET_GO
    return RestoreStep.LET_GO if deleting else RestoreStep.ADMIT


def _while_kept(restore: SnapshotRestore, *, now: datetime, over: bool, superseded: bool) -> RestoreStep:
    """Whoever asked in time to have it undone keeps the time open until that is done, for the end of the window as for a later
    restore."""
    if over or not restore.status.undo_until:  # empty: it was said that it cannot be undone any more
        return RestoreStep.SETTLE
    if model.asks_undo(restore):
        return RestoreStep.UNDO
    end = model.undo_end(restore)
    return RestoreStep.SETTLE if superseded or end is None or now >= end else RestoreStep.KEEP


def reads(restore: SnapshotRestore) -> bool:
    """Whether its snapshot is needed, or will be."""
    return restore.status.phase in ("", model.PENDING, model.PREPARING, model.SWITCHING)


# --- statuses --------------------------------------------------------------------------------------------------------


def waiting(restore: SnapshotRestore, problem: Problem, *, now: datetime, phase: str = "") -> SnapshotRestoreStatus:
    said = _said(restore, problem, now=now)
    return replace(said, phase=phase or restore.status.phase or model.PENDING)


def failed(restore: SnapshotRestore, problem: Problem, *, now: datetime) -> SnapshotRestoreStatus:
    return replace(_said(restore, problem, now=now), phase=model.FAILED, progress="")


def begun(restore: SnapshotRestore, *, method: str, claim_uid: str, snapshot_uid: str, now: datetime) -> SnapshotRestoreStatus:
    said = _said(restore, Problem(model.PREPARING, "the snapshot's data is made ready"), now=now)
    return replace(said, phase=model.PREPARING, method=method, claim_uid=claim_uid, snapshot_uid=snapshot_uid)


def switching(restore: SnapshotRestore, claim: EarlierClaim | None, *, now: datetime) -> SnapshotRestoreStatus:
    said = _said(restore, Problem(model.SWITCHING, "the claim gets the snapshot's data"), now=now)
    return replace(said, phase=model.SWITCHING, earlier_claim=claim, progress="")


def complete(restore: SnapshotRestore, *, claim_uid: str, pods: tuple[PodUser, ...], now: datetime) -> SnapshotRestoreStatus:
    name = restore.spec.claim_name
    conditions = set_condition(
        restore.status.conditions,
        model.IS_COMPLETE,
        status=True,
        reason="Restored",
        message=f"claim {name} has the data of snapshot {restore.spec.source.name}",
        generation=restore.metadata.generation,
        now=now,
    )
    done = replace(
        restore.status,
        phase=model.COMPLETE,
        claim_uid=claim_uid,
        completion_time=timestamp(now),
        progress="",
        pods=tuple(map(str, pods)),
        conditions=conditions,
    )
    return kept(replace(restore, status=done), now=now)


def kept(restore: SnapshotRestore, *, now: datetime) -> SnapshotRestoreStatus:
    """Complete, and what was before is kept until a time that follows from the spec."""
    end = model.undo_end(restore)
    until = timestamp(end) if end is not None else ""
    if model.undo_failed(restore):
        return replace(restore.status, undo_until=until)
    conditions = set_condition(
        restore.status.conditions,
        model.UNDOABLE,
        status=True,
        reason="Kept",
        message=f"what the claim had before is kept until {until}; set spec.undo to true to have it back",
        generation=restore.metadata.generation,
        now=now,
    )
    return replace(restore.status, undo_until=until, conditions=conditions)


def undoing(restore: SnapshotRestore, claim: EarlierClaim | None) -> SnapshotRestoreStatus:
    return replace(restore.status, phase=model.UNDOING, earlier_claim=claim)


def undo_waits(restore: SnapshotRestore, problem: Problem, *, now: datetime) -> SnapshotRestoreStatus:
    """It can still be undone, and is as soon as that is possible."""
    return replace(restore.status, phase=model.COMPLETE, conditions=_undoable(restore, problem, holds=True, now=now))


def undo_refused(restore: SnapshotRestore, message: str, *, now: datetime) -> SnapshotRestoreStatus:
    conditions = _undoable(restore, Problem(model.UNDO_FAILED, message), holds=False, now=now)
    return replace(restore.status, phase=model.COMPLETE, conditions=conditions)


def undone(restore: SnapshotRestore, *, claim_uid: str, now: datetime) -> SnapshotRestoreStatus:
    problem = Problem(model.UNDONE, f"claim {restore.spec.claim_name} has again what it had before")
    status = replace(restore.status, conditions=_undoable(restore, problem, holds=False, now=now))
    said = _said(replace(restore, status=status), problem, now=now)
    return replace(said, phase=model.UNDONE, claim_uid=claim_uid, progress="")


def ending(restore: SnapshotRestore, problem: Problem, *, now: datetime) -> SnapshotRestoreStatus:
    """From now on it cannot be undone; what is kept goes next."""
    return replace(restore.status, undo_until="", conditions=_undoable(restore, problem, holds=False, now=now))


def settled(restore: SnapshotRestore) -> SnapshotRestoreStatus:
    return replace(restore.status, settled=True, undo_until="", progress="", pods=(), earlier_claim=None)


def why_it_ends(restore: SnapshotRestore, *, claim_gone: bool, superseded: bool) -> Problem:
    name = restore.spec.claim_name
    if claim_gone:
        return Problem("ClaimGone", f"claim {name} was deleted, so there is nothing to be undone")
    if superseded:
        return Problem("Superseded", f"another restore of claim {name} was begun")
    if is_deleting(restore.metadata):
        return Problem("Confirmed", "the restore was deleted")
    if restore.status.phase == model.UNDONE:
        return Problem("Undone", f"claim {name} has again what it had before")
    return Problem("WindowEnded", f"the undo window of {restore.spec.undo_window} has ended: what the claim had is not kept")


def is_complete(restore: SnapshotRestore) -> bool:
    return is_true(restore.status.conditions, model.IS_COMPLETE)


def _undoable(restore: SnapshotRestore, problem: Problem, *, holds: bool, now: datetime) -> tuple[Condition, ...]:
    return set_condition(
        restore.status.conditions,
        model.UNDOABLE,
        status=holds,
        reason=problem.reason,
        message=problem.message,
        generation=restore.metadata.generation,
        now=now,
    )


def _said(restore: SnapshotRestore, problem: Problem, *, now: datetime) -> SnapshotRestoreStatus:
    conditions = set_condition(
        restore.status.conditions,
        model.IS_COMPLETE,
        status=False,
        reason=problem.reason,
        message=problem.message,
        generation=restore.metadata.generation,
        now=now,
    )
    return replace(restore.status, conditions=conditions)
