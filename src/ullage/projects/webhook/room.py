"""How a project stands on this seed, from the book of its ledger, and on all seeds, from the copy of its quota. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ullage.kube.objects import find_condition
from ullage.ledger.amounts import Amounts, BadAmount, Cell
from ullage.ledger.book import Book
from ullage.projects.api.quotas import USAGE_FRESH, ResourceQuota
from ullage.projects.escrow.record import leading
from ullage.projects.machines.facts import Room
from ullage.projects.machines.wholes import Whole, Wholes
from ullage.projects.names import ACCOUNT, RESOURCES
from ullage.projects.quota import amounts_of, is_counted
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


def wholes_in(book: Book, quotas: Iterable[ResourceQuota]) -> Wholes:
    """The whole quota, by resource, where what limits here is a part of it, with what all seeds use as the seed's copy of the
    quota has it."""
    limits = {cell.resource: whole for cell, whole in book.grants.items() if cell.account == ACCOUNT}
    copy = leading(quotas)
    used = _used_in(copy) if copy is not None else None
    fresh = find_condition(copy.status.conditions, USAGE_FRESH) if copy is not None else None
    stale = fresh.message if fresh is not None and fresh.status != "True" else ""
    return Wholes({name: Whole(limit, used[name] if used is not None else None) for name, limit in limits.items()}, stale)


def _used_in(copy: ResourceQuota) -> Amounts | None:
    """None: nobody has counted, or what is written there is no amount."""
    found = copy.status.global_usage
    try:
        return amounts_of(found, field="status.globalUsage") if is_counted(found) else None
    except BadAmount:
        return None
