"""The terms of restores in place: phases, names that follow from a restore, durations, and whose turn it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.objects import find_condition, is_deleting
from ullage.policies.restores.api import SnapshotRestore
from ullage.snapshots.model import Record, Snapshot
from ullage.snapshots.source_volume import SourceVolume
from ullage.times import read_time

FINALIZER: Final = "ullage.io/snapshot-restore"

PENDING: Final = "Pending"
PREPARING: Final = "Preparing"
SWITCHING: Final = "Switching"
COMPLETE: Final = "Complete"
UNDOING: Final = "Undoing"
UNDONE: Final = "Undone"
FAILED: Final = "Failed"
UNFINISHED: Final = frozenset({"", PENDING, PREPARING, SWITCHING, UNDOING})

SWAP: Final = "Swap"
REVERT: Final = "Revert"
RECREATE: Final = "Recreate"

# Conditions.
IS_COMPLETE: Final = "Complete"
UNDOABLE: Final = "Undoable"
# Why a restore waits that is next, and would end the time in which an earlier one can be undone.
ENDS_EARLIER: Final = "EarlierUndoEnds"
UNDO_FAILED: Final = "UndoFailed"

_DURATION: Final = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
_LONGEST: Final = timedelta(hours=720)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreJob:
    """One restore with all that it is about, as it is now."""

    restore: SnapshotRestore
    claim: PersistentVolumeClaim | None = None
    volume: PersistentVolume | None = None  # the one that the claim has, if the two agree
    source: SourceVolume | None = None  # how the storage system knows it
    snapshot: Snapshot | None = None
    record: Record | None = None

    @property
    def name(self) -> str:
        """Of whatever is made for it, outside of the API: nobody can choose it."""
        return f"restore-{self.restore.metadata.uid}"

    def now_with(self, restore: SnapshotRestore) -> RestoreJob:
        """The same, after the restore was written to."""
        return replace(self, restore=restore)

    @property
    def has_its_claim(self) -> bool:
        """Whether the claim is still the one that it was begun for."""
        return self.claim is not None and self.claim.metadata.uid == self.restore.status.claim_uid


@dataclass(frozen=True, slots=True)
class PodUser:
    """A pod that uses a claim."""

    name: str
    uid: str
    owner: str = ""  # what made it: `StatefulSet db`
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.name}/{self.uid}"


def length(text: str) -> timedelta:
    """Of what the schema lets pass; what it does not is no time at all."""
    match = _DURATION.fullmatch(text)
    hours, minutes, seconds = (int(one or 0) for one in match.groups()) if match else (0, 0, 0)
    return min(timedelta(hours=hours, minutes=minutes, seconds=seconds), _LONGEST)


def undo_end(restore: SnapshotRestore) -> datetime | None:
    """Until when it can be undone, once it is complete."""
    complete = read_time(restore.status.completion_time)
    return complete + length(restore.spec.undo_window) if complete is not None else None


def waits_until(restore: SnapshotRestore) -> datetime | None:
    """Until when it may begin."""
    created = read_time(restore.metadata.creation_timestamp)
    return created + length(restore.spec.start_within) if created is not None else None


def order(restore: SnapshotRestore) -> tuple[str, str]:
    return restore.metadata.creation_timestamp, restore.metadata.uid


def first_in_turn(restores: Iterable[SnapshotRestore]) -> SnapshotRestore | None:
    """Of the restores of one claim, the one that something is to be done about. What was begun goes first, and so does an undo:
    who waits for pods to be gone, in order to have data back, does not lose it to the next restore."""
    unfinished = [one for one in restores if one.status.phase in UNFINISHED or asks_undo(one)]
    begun = [one for one in unfinished if one.status.phase not in ("", PENDING)]
    waiting = [one for one in unfinished if not is_deleting(one.metadata)]
    return min(begun or waiting, key=order, default=None)


def asks_undo(restore: SnapshotRestore) -> bool:
    """Whether it is to be undone, and can be: what it needs for that is kept until it is done. Deleting it calls that off."""
    status = restore.status
    is_kept = status.phase == COMPLETE and bool(status.undo_until) and not status.settled
    return restore.spec.undo and is_kept and not is_deleting(restore.metadata) and not undo_failed(restore)


def undo_failed(restore: SnapshotRestore) -> bool:
    """Of this generation: whoever edits the restore has it tried again."""
    found = find_condition(restore.status.conditions, UNDOABLE)
    current = found is not None and found.observed_generation >= restore.metadata.generation
    return found is not None and found.reason == UNDO_FAILED and current


def undoable(restores: Iterable[SnapshotRestore]) -> list[SnapshotRestore]:
    """Those of one claim that keep something beside it."""
    return [one for one in restores if one.status.phase in (COMPLETE, UNDONE) and not one.status.settled]
