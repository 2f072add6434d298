"""The accounts of a namespace's ledger that machines are paid from: one share for what runs, one for what moves.

Pure.
"""

from __future__ import annotations

from typing import Final

from ullage.ledger.amounts import Amounts, Cell, Limits
from ullage.ledger.charging.stamps import Stamp

ABOUT: Final = "compute"  # limits are set for these accounts alone: `set_limits(…, about=ABOUT)`
VMS: Final = "compute/vms"
MAINTENANCE: Final = "compute/maintenance"
CPU: Final = "cpu"
MEMORY: Final = "memory"
RESOURCES: Final = (CPU, MEMORY)


def stamp_for(account: str, amounts: Amounts) -> Stamp:
    """So much from an account. The account is on the stamp although nothing is taken: it may grow."""
    return Stamp({Cell(account, resource): amounts[resource] for resource in RESOURCES})


def amounts_in(stamp: Stamp, account: str) -> Amounts:
    """What a stamp has of an account."""
    return Amounts({cell.resource: quantity for cell, quantity in stamp.cells.items() if cell.account == account})


def limits_for(account: str, share: Amounts, *, limited: tuple[str, ...] = RESOURCES) -> Limits:
    """The limits of a share, for those resources that have one: nothing of such a resource means that none is allowed."""
    return {Cell(account, resource): share[resource] for resource in limited}
