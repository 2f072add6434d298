"""The members of a backup: a VolumeSnapshot for each volume, as they are found. Pure.

A member is known by its name and its owner together. What somebody puts in its place, under the same name and with a forged
owner, never carries the word that lets a snapshot be cut, since Ullage alone writes that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.kube.objects import Json, is_deleting, is_owned_by, name_for, owner_reference
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import SNAPSHOTS, VolumeSnapshot
from ullage.snapshots.gate import Estimate, Gate
from ullage.snapshots.model import CUT, GO, HOLD, LOST, PASSING, Problem
from ullage.vms.api.backups import BACKUPS, VirtualMachineBackup, VolumeBackup

# Problems that a backup waits for, since they may pass by themselves. All others are final: it does not wait for somebody to
# edit a class.
WAITED_FOR: Final = PASSING | {"RecordMissing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One volume of a backup. `snapshot` is what is there under the member's name, whoever made it."""

    volume: VolumeBackup
    owner: str  # the uid of the backup
    snapshot: VolumeSnapshot | None = None
    estimate: Estimate | None = None  # what the snapshot would take, as the worker has written it on its record
    fresh: bool = False  # that was seen a few seconds ago at most

    @property
    def claim(self) -> str:
        return self.volume.persistent_volume_claim.metadata.name

    @property
    def label(self) -> str:
        """For people."""
        return f"volume {self.volume.volume_name} (claim {self.claim})"

    @property
    def mine(self) -> bool:
        """Whether what is there was made for this backup and this claim."""
        found = self.snapshot
        if found is None or not is_owned_by(found.metadata, self.owner):
            return False
        return found.spec.source.persistent_volume_claim_name == self.claim

    @property
    def going(self) -> bool:
        return self.snapshot is not None and is_deleting(self.snapshot.metadata)

    @property
    def word(self) -> str:
        return self.snapshot.metadata.annotations.get(CUT, "") if self.snapshot is not None else ""

    @property
    def told(self) -> bool:
        """Whether it was told to be cut, once."""
        return self.word.startswith(GO)

    @property
    def cut(self) -> str:
        """The moment whose data it has; empty: none yet."""
        return self.snapshot.status.creation_time if self.snapshot is not None else ""

    @property
    def ready(self) -> bool:
        return self.snapshot is not None and self.snapshot.status.ready_to_use is True

    @property
    def problem(self) -> Problem | None:
        return GA.read_snapshot(self.snapshot).state.problem if self.snapshot is not None else None

    @property
    def released(self) -> bool:
        """Whether it may be cut with what it would take by its last estimate."""
        return Gate(group=True, word=self.word, estimate=self.estimate).open

    @property
    def failure(self) -> Problem | None:
        """Why it will never be there, before the backup was complete."""
        if self.snapshot is None:
            return None
        name = f"VolumeSnapshot {self.volume.name}"
        if not self.mine:
            return Problem("SnapshotNameTaken", f"{name} exists already, and was not made for this backup")
        if self.going:
            return Problem("SnapshotDeleted", f"{name} was deleted before the backup was complete")
        found = self.problem
        if found is None or found.reason in WAITED_FOR:
            return None
        return found

    @property
    def lost(self) -> bool:
        return self.problem is not None and self.problem.reason == LOST


def member_name(backup: str, claim: str) -> str:
    return name_for(f"{backup}-volume", claim)


def new_member(backup: VirtualMachineBackup, volume: VolumeBackup) -> Json:
    """Held: nothing is cut until all of them are ready."""
    owner = owner_reference(BACKUPS, backup.metadata, controller=True)
    return {
        "apiVersion": SNAPSHOTS.api_version,
        "kind": SNAPSHOTS.kind,
        "metadata": {
            "name": volume.name,
            "namespace": backup.metadata.namespace,
            "annotations": {CUT: HOLD},
            "ownerReferences": [owner],
        },
        "spec": {"source": {"persistentVolumeClaimName": volume.persistent_volume_claim.metadata.name}},
    }
