"""Which virtual machines pay for the snapshots of a claim, as things are now."""

from __future__ import annotations

from collections.abc import Callable

from ullage.kube.cache.indexer import Key
from ullage.ledger.book import Book
from ullage.ledger.keys import ledger_name
from ullage.space.accounts import TooManyMachines, payers, vm_cell
from ullage.space.controllers.follow.facts import Payers
from ullage.space.controllers.follow.lookup import Lookup


def payers_by(lookup: Lookup, look: Callable[[str], Book | None]) -> Payers:
    """`look` gives the book of a ledger, as this process last saw it: those with a limit go first. What is there is charged
    whatever their number, to as many as can be."""

    def found(namespace: str, claim: str) -> tuple[str, ...]:
        machines = [one.metadata for one in lookup.machines_using(Key(namespace, claim))]
        book = look(ledger_name(namespace)) if machines else None
        limits = book.limits if book is not None else {}
        try:
            return payers(machines, limited=lambda vm: vm_cell(vm) in limits)
        except TooManyMachines:
            return payers((one for one in machines if vm_cell(one.name) in limits), limited=lambda vm: False)

    return found
