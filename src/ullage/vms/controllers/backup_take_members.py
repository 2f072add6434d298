"""The members of a backup: a VolumeSnapshot for each volume, as they are found. Pure.

A member is known by its name and its owner together. What somebody puts in its place, under the same name and with a forged
owner, never carries the word that lets a snapshot be cut, since Ullage alone writes that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.kube.objects import Json, is_deleting, is_owned_by, name_for, owner_reference
from ullage.ledger.amounts import Cell, spell
from ullage.ledger.charging.booking import RESOURCE
from ullage.ledger.charging.methods import weakest
from ullage.ledger.charging.stamps import Stamp
from ullage.quantity import Format, Quantity
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS, VolumeSnapshot
from ullage.snapshots.gate import Estimate, Gate
from ullage.snapshots.model import CUT, GO, HOLD, LOST, NO_ROOM, PASSING, Problem
from ullage.vms.api.backups import VM_BACKUPS, VirtualMachineBackup, VolumeBackup

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
    owner = owner_reference(VM_BACKUPS, backup.metadata, controller=True)
    return {
        "apiVersion": VOLUME_SNAPSHOTS.api_version,
        "kind": VOLUME_SNAPSHOTS.kind,
        "metadata": {
            "name": volume.name,
            "namespace": backup.metadata.namespace,
            "annotations": {CUT: HOLD},
            "ownerReferences": [owner],
        },
        "spec": {"source": {"persistentVolumeClaimName": volume.persistent_volume_claim.metadata.name}},
    }


# When the volumes of a backup are cut, and what is booked for them before.


_OF_MACHINE: Final = "/vm/"
_SHOWN: Final = 5  # claims in a message


@dataclass(frozen=True, slots=True)
class Release:
    """What the members take together, by claim, and those that are to be told once that is booked."""

    amounts: Mapping[str, int]
    members: tuple[Member, ...]

    @property
    def by(self) -> str:
        """How the sum was found."""
        return weakest(one.estimate.by for one in self.members if one.estimate is not None)

    def word(self, member: Member) -> str:
        return f"{GO}{member.estimate.at}" if member.estimate is not None else ""


def release_of(members: Sequence[Member], plan: Mapping[str, int]) -> Release | None:
    """Who is to be told to be cut now; None: not all are ready, or all have been told. What is cut already takes what was
    booked for it."""
    waiting = [one for one in members if not one.cut and not one.ready and not one.released]
    if not waiting or not all(one.estimate is not None and one.fresh for one in waiting):
        return None
    amounts = {one.claim: plan.get(one.claim, 0) if one.cut or one.estimate is None else one.estimate.bytes for one in members}
    return Release(amounts, tuple(waiting))


def refusal(amounts: Mapping[str, int], numbers: str, *, before: Mapping[str, int]) -> Problem:
    """`numbers` begin with a verb: `does not fit: …`. `before` was booked already: what has grown since is named."""
    what = f"snapshots of its {len(amounts)} volumes take" if len(amounts) > 1 else "a snapshot of its volume takes"
    grown = [claim for claim, amount in sorted(amounts.items()) if amount > before.get(claim, 0)]
    since = ", ".join(f"claim {one} from {_bytes(before.get(one, 0))} to {_bytes(amounts[one])}" for one in grown[:_SHOWN])
    more = f" and {len(grown) - _SHOWN} more" if len(grown) > _SHOWN else ""
    told = f"; since it was admitted these have grown: {since}{more}" if grown else ""
    return Problem(NO_ROOM, f"{what} {_bytes(sum(amounts.values()))} by now, which {numbers}{told}")


def _bytes(amount: int) -> str:
    return spell(RESOURCE, Quantity.of(amount))


def booked(stamp: Stamp, amounts: Mapping[str, int], *, machine: str, claims_of: Callable[[str], Iterable[str]]) -> Stamp:
    """The stamp with these amounts: the namespace and the VM itself pay for all, other VMs for the claims that they share. One
    that is not known pays for all, too: that is put right after the cut, and is never too little."""

    def amount(cell: Cell) -> int:
        _, mark, name = cell.account.partition(_OF_MACHINE)
        shared = frozenset(claims_of(name)) & amounts.keys() if mark and name != machine else frozenset()
        return sum(amounts[claim] for claim in shared) if shared else sum(amounts.values())

    return Stamp(
        {
            cell: Quantity.of(amount(cell), Format.BINARY_SI) if cell.resource == RESOURCE else had
            for cell, had in stamp.cells.items()
        }
    )
