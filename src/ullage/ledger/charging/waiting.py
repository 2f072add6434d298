"""Snapshots of claims that are not there: each takes a place in one account of its namespace, which has a limit of its own.

Such a snapshot costs nothing else, and controllers look at it again and again. That it waits stands on it, in an annotation
that only Ullage writes, so it is counted in the ledger like all else. The place is given back when what the snapshot takes is
booked, right before the cut. Pure.
"""

from __future__ import annotations

from typing import Final

from ullage.kube.kinds import Meta
from ullage.ledger.amounts import NOTHING, Cell, Takings
from ullage.ledger.charging.stamps import Marks
from ullage.quantity import Quantity

WAITS: Final = "ullage.io/waits-for-source"
YES: Final = "true"
ACCOUNT: Final = "snapshots-waiting"  # its limit follows from the setting
PLACE: Final = Cell(f"{ACCOUNT}/namespace", "snapshots")
MOST_WAITING: Final = 300  # in one namespace, unless it is set otherwise
ONE_PLACE: Final = Takings({PLACE: Quantity.of(1)})
WAITING: Final[Marks] = {WAITS: YES}
# Said, and not taken off: a mark that is missing is put back, as one that a person has removed.
ARRIVED: Final = {WAITS: "false"}


def waits(meta: Meta) -> bool:
    return meta.annotations.get(WAITS) == YES


def place_of(meta: Meta) -> Takings:
    """What a snapshot takes for waiting."""
    return ONE_PLACE if waits(meta) else NOTHING
