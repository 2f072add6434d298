"""Which virtual machines pay for the snapshots of a claim, as things are now."""

from __future__ import annotations

from collections.abc import Callable

from ullage.kube.cache.indexer import Key
from ullage.ledger.amounts import Cell
from ullage.ledger.keys import ledger_name
from ullage.space.accounts import payers, vm_cell
from ullage.space.controllers.follow.facts import Payers
from ullage.space.controllers.follow.lookup import Lookup


def payers_by(lookup: Lookup, is_limited: Callable[[str, Cell], bool]) -> Payers:
    """`is_limited` tells of a ledger and an account of it: those with a limit go first. What is there is charged whatever
    their number, to as many as can be."""

    def found(namespace: str, claim: str) -> tuple[str, ...]:
        ledger = ledger_name(namespace)
        machines = (one.metadata for one in lookup.machines_using(Key(namespace, claim)))
        return payers(machines, limited=lambda vm: is_limited(ledger, vm_cell(vm)), strict=False)

    return found
