"""In which order stamps are written, so that at no moment less is booked than is there. Pure.

Bytes that move from one object to another are booked twice for a moment, and never not at all: first whatever rises, then
whatever falls. A process may end after any write, and the next one's plan goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ullage.ledger.amounts import NOTHING, Takings
from ullage.ledger.charging.stamps import Stamp
from ullage.space.controllers.follow.model import Change


@dataclass(frozen=True, slots=True)
class Plan:
    """`raises` may be written at once, in any order; `lowers` when all of them have been."""

    raises: tuple[Change, ...] = ()
    lowers: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.raises or self.lowers)


def ordered(changes: Iterable[Change]) -> Plan:
    """A change that takes more of one account and less of another is written in two steps, unless nobody here takes anything
    of the other account any more: then nothing can have moved there."""
    found = list(changes)
    still_used = {cell for change in found for cell in change.stamp.takes}
    raises: list[Change] = []
    lowers: list[Change] = []
    for change in found:
        before, after = _before(change), change.stamp.takes
        if after <= before and _in_ledger(change):
            lowers.append(change)
        elif before <= after or not still_used.intersection(before.beyond(after)):
            raises.append(change)
        else:
            raises.append(replace(change, stamp=_both(change)))
            lowers.append(change)
    return Plan(tuple(raises), tuple(lowers))


def _in_ledger(change: Change) -> bool:
    """Whether it is counted where it is to be: otherwise all of it is new there, and what cannot be read is in no sum."""
    bearer = change.bearer
    return bearer.stamp is not None and (not change.namespace or change.namespace == bearer.namespace)


def _before(change: Change) -> Takings:
    stamp = change.bearer.stamp
    return stamp.takes if stamp is not None and _in_ledger(change) else NOTHING


def _both(change: Change) -> Stamp:
    before = change.bearer.stamp or change.stamp
    return Stamp({**change.stamp.cells, **(before.takes | change.stamp.takes).cells})
