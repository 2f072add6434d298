"""Where snapshots are paid from: a ledger for each namespace, with an account for all of it and one for each virtual machine.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ullage.ledger.amounts import Cell
from ullage.ledger.charging.stamps import Stamp
from ullage.quantity import Format, Quantity

RESOURCE: Final = "storage"  # bytes
NAMESPACE_ACCOUNT: Final = "snapshots/namespace"
VM_PREFIX: Final = "snapshots/vm/"
LEDGER_PREFIX: Final = "ns-"
NAMESPACE_CELL: Final = Cell(NAMESPACE_ACCOUNT, RESOURCE)


def ledger_name(namespace: str) -> str:
    """The ledger of a namespace: `ns-team-a`."""
    return f"{LEDGER_PREFIX}{namespace}"


def namespace_of(ledger: str) -> str:
    """The namespace whose ledger this is; empty: it is none of those."""
    return ledger.removeprefix(LEDGER_PREFIX) if ledger.startswith(LEDGER_PREFIX) else ""


def vm_account(vm: str) -> str:
    return f"{VM_PREFIX}{vm}"


def vm_cell(vm: str) -> Cell:
    return Cell(vm_account(vm), RESOURCE)


def vm_of(account: str) -> str:
    """The virtual machine whose account this is; empty: it is none of those."""
    return account.removeprefix(VM_PREFIX) if account.startswith(VM_PREFIX) else ""


def stamp_for(amount: int, vms: Iterable[str] = ()) -> Stamp:
    """This many bytes, from the namespace once and from each of the virtual machines."""
    quantity = Quantity.of(amount, Format.BINARY_SI)
    return Stamp({NAMESPACE_CELL: quantity, **{vm_cell(vm): quantity for vm in vms}})


def bytes_of(stamp: Stamp) -> int:
    """What the namespace pays."""
    return stamp.takes[NAMESPACE_CELL].value()


def vms_of(stamp: Stamp) -> tuple[str, ...]:
    """The virtual machines that pay, in order."""
    return tuple(sorted(filter(None, (vm_of(cell.account) for cell in stamp.cells if cell.resource == RESOURCE))))
