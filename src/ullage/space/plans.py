"""What stamp follows from the plan of a backup: who pays for its claims. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ullage.ledger.charging.plans import Plan
from ullage.ledger.charging.stamps import Stamp
from ullage.space.accounts import NAMESPACE_CELL, quantity, vm_cell


def shares_of(plan: Plan, payers: Callable[[str], Iterable[str]]) -> dict[str, int]:
    """What each virtual machine pays: for the claims that it references. `payers` are those of a claim."""
    found: dict[str, int] = {}
    for claim, amount in plan.items():
        for vm in payers(claim):
            found[vm] = found.get(vm, 0) + amount
    return found


def stamp_of_plan(plan: Plan, payers: Callable[[str], Iterable[str]]) -> Stamp:
    """The namespace pays for all, each virtual machine for its own."""
    shares = {vm_cell(vm): quantity(share) for vm, share in shares_of(plan, payers).items()}
    return Stamp({NAMESPACE_CELL: quantity(sum(plan.values())), **shares})
