"""The members of a backup, and what is booked on the backup for all of them. Pure.

What they have in common with members of groups is in `snapshots/cut/rules.py`. A member is judged by its snapshot alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.kube.objects import name_for, owner_reference
from ullage.ledger.amounts import Cell, spell
from ullage.ledger.charging.booking import RESOURCE
from ullage.ledger.charging.methods import weakest
from ullage.ledger.charging.stamps import Stamp
from ullage.quantity import Format, Quantity
from ullage.snapshots.api.ga.types import VolumeSnapshot
from ullage.snapshots.cut.rules import Member, Whole, all_measured, new_member, waiting
from ullage.snapshots.model import NO_ROOM, PASSING, Problem
from ullage.vms.api.backups import VM_BACKUPS, VirtualMachineBackup, VolumeBackup

# A record that is missing may come yet, so a backup waits for it.
BACKUP: Final = Whole("backup", parts="volumes", awaited=PASSING | {"RecordMissing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupMember(Member):
    """One volume of a backup."""

    whole: Whole = BACKUP
    volume: VolumeBackup

    @property
    def label(self) -> str:
        return f"volume {self.volume.volume_name} (claim {self.claim})"

    @property
    def moment(self) -> str:
        """The moment whose data it has, as its snapshot says it; empty: none yet."""
        return self.seen.status.creation_time if self.seen is not None else ""

    @property
    def cut(self) -> bool:
        """Any text counts, such as a leap second, which no time of ours can be."""
        return bool(self.moment)


def member_name(backup: str, claim: str) -> str:
    return name_for(f"{backup}-volume", claim)


def member_of(backup: VirtualMachineBackup, volume: VolumeBackup) -> BackupMember:
    """The member for a planned volume, before anything is known of its snapshot."""
    claim = volume.persistent_volume_claim.metadata.name
    return BackupMember(name=volume.name, claim=claim, owner=backup.metadata.uid, volume=volume)


def new_snapshot(backup: VirtualMachineBackup, member: BackupMember) -> VolumeSnapshot:
    owner = owner_reference(VM_BACKUPS, backup.metadata, controller=True)
    return new_member(member, backup.metadata.namespace, owner=owner)


# When the volumes of a backup are cut, and what is booked for them before.


_OF_MACHINE: Final = "/vm/"
_SHOWN: Final = 5  # claims in a message


@dataclass(frozen=True, slots=True)
class Release:
    """What the members take together, by claim, and those that are to be told once that is booked."""

    amounts: Mapping[str, int]
    members: tuple[BackupMember, ...]

    @property
    def by(self) -> str:
        """How the sum was found."""
        return weakest(one.estimate.by for one in self.members if one.estimate is not None)


def release_of(members: Sequence[BackupMember], plan: Mapping[str, int]) -> Release | None:
    """Who is to be told to be cut now; None: not all are ready, or all have been told. What is cut already takes what was
    booked for it."""
    untold = waiting(one for one in members if not one.ready)
    if not untold or not all_measured(untold):
        return None
    amounts = {one.claim: plan.get(one.claim, 0) if one.cut or one.estimate is None else one.estimate.bytes for one in members}
    return Release(amounts, untold)


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
