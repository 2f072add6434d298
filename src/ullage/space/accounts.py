"""Where snapshots are paid from: a ledger for each namespace, with an account for all of it and one for each virtual machine.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ullage.errors import Terminal
from ullage.kube.kinds import Meta
from ullage.ledger.amounts import Cell
from ullage.ledger.charging.booking import RESOURCE
from ullage.ledger.charging.stamps import Stamp
from ullage.quantity import Format, Quantity

NAMESPACE_ACCOUNT: Final = "snapshots/namespace"
VM_PREFIX: Final = "snapshots/vm/"
NAMESPACE_CELL: Final = Cell(NAMESPACE_ACCOUNT, RESOURCE)
MOST_VMS: Final = 16  # that pay for one claim: so many accounts are on each of its snapshots


def vm_account(vm: str) -> str:
    return f"{VM_PREFIX}{vm}"


def vm_cell(vm: str) -> Cell:
    return Cell(vm_account(vm), RESOURCE)


def vm_of(account: str) -> str:
    """The virtual machine whose account this is; empty: it is none of those."""
    return account.removeprefix(VM_PREFIX) if account.startswith(VM_PREFIX) else ""


def quantity(amount: int) -> Quantity:
    return Quantity.of(amount, Format.BINARY_SI)


def stamp_for(amount: int, vms: Iterable[str] = ()) -> Stamp:
    """This many bytes, from the namespace once and from each of the virtual machines."""
    return Stamp({NAMESPACE_CELL: quantity(amount), **{vm_cell(vm): quantity(amount) for vm in vms}})


def bytes_of(stamp: Stamp) -> int:
    """What the namespace pays."""
    return stamp.takes[NAMESPACE_CELL].value()


class TooManyMachines(Terminal):
    """More virtual machines with a limit share a claim than can all be charged for it."""


def payers(machines: Iterable[Meta], *, limited: Callable[[str], bool], strict: bool = True) -> tuple[str, ...]:
    """Which of the virtual machines that reference a claim pay for its snapshots: all of them, up to a number. Those with a
    limit go first, then the oldest. Raises where not even those with a limit are all among them: theirs would not hold. What
    is there already cannot be refused: it is not so `strict`."""
    ranked = sorted(machines, key=lambda one: (not limited(one.name), one.creation_timestamp, one.name))
    if strict and sum(limited(one.name) for one in ranked[: MOST_VMS + 1]) > MOST_VMS:
        count = sum(limited(one.name) for one in ranked)
        raise TooManyMachines(
            f"{count} virtual machines that have a limit reference the claim, and {MOST_VMS} can be charged for one: take the"
            " claim, or the limit, from some of them"
        )
    return tuple(sorted(one.name for one in ranked[:MOST_VMS]))
