"""When the volumes of a backup are cut, and what is booked for them before. Pure.

Nothing is cut before everything is ready: each member has been measured a few seconds ago, and what all of them would take is
booked on the backup. Then each is told, by the name of the estimate that was booked. One that finds, when it is told, that its
volume has grown since measures anew and waits: then the sum is booked again, or the backup fails as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ullage.ledger.amounts import Cell, spell
from ullage.ledger.charging.booking import RESOURCE
from ullage.ledger.charging.methods import weakest
from ullage.ledger.charging.stamps import Stamp
from ullage.quantity import Format, Quantity
from ullage.snapshots.model import GO, NO_ROOM, Problem
from ullage.vms.controllers.backup.take.members import Member

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
