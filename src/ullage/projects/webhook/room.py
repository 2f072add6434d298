"""How a project stands on this seed, from the book of its ledger. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ullage.ledger.amounts import Amounts, Cell
from ullage.ledger.book import Book
from ullage.projects.machines.facts import Room
from ullage.projects.names import ACCOUNT, RESOURCES
from ullage.quantity import Quantity


def room_in(book: Book) -> dict[str, Room]:
    """By resource."""
    cells = {name: Cell(ACCOUNT, name) for name in RESOURCES}
    return {name: Room(book.used[cell], book.reserved[cell], book.limits.get(cell)) for name, cell in cells.items()}


def over_with(room: Mapping[str, Room], asked: Amounts) -> dict[str, Quantity]:
    """By how much each resource would be over its limit with that much more; those that are not over are left out."""
    found = {
        name: one.used + one.reserved + asked[name] - one.limit
        for name, one in room.items()
        if one.limit is not None and asked[name].nanos
    }
    return {name: by for name, by in found.items() if by.sign > 0}


def wholes_in(book: Book) -> dict[str, Quantity]:
    """The whole quota, by resource, where what limits here is a part of it."""
    return {cell.resource: whole for cell, whole in book.grants.items() if cell.account == ACCOUNT}
