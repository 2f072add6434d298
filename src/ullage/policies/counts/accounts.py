"""Where snapshots are counted: accounts of the namespace's ledger for all of it, and for each claim. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ullage.kube.objects import name_for
from ullage.ledger.amounts import EACH, Cell, Takings
from ullage.ledger.book import Book
from ullage.names import LABEL_LIMIT, is_subdomain
from ullage.policies.counts.api import SnapshotLimit
from ullage.quantity import Quantity

COUNTS: Final = "snapshot-count"  # the account whose limits follow from SnapshotLimits, and all under it
RESOURCE: Final = "snapshots"
CLAIM_PREFIX: Final = f"{COUNTS}/claim/"
NAMESPACE_CELL: Final = Cell(f"{COUNTS}/namespace", RESOURCE)
EACH_CLAIM: Final = Cell(f"{CLAIM_PREFIX}{EACH}", RESOURCE)
ONE: Final = Quantity.of(1)


def claim_cell(claim: str) -> Cell:
    """A name that no claim can have, or that is long, is shortened: a tenant may write what he likes, and all of it is in
    each write of the ledger."""
    plain = len(claim) <= LABEL_LIMIT and is_subdomain(claim)
    return Cell(f"{CLAIM_PREFIX}{claim if plain else name_for('x', claim, limit=LABEL_LIMIT)}", RESOURCE)


def claim_of(cell: Cell) -> str:
    """The claim whose account this is; empty: it is none of those."""
    found = cell.account.removeprefix(CLAIM_PREFIX) if cell.account.startswith(CLAIM_PREFIX) else ""
    return "" if found == EACH else found


def is_count(cell: Cell) -> bool:
    return cell.account.startswith(f"{COUNTS}/")


def one_of(claim: str = "") -> Takings:
    """What one snapshot takes: a place in its namespace, and one of its claim."""
    return Takings({NAMESPACE_CELL: ONE, **({claim_cell(claim): ONE} if claim else {})})


# --- limits ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CountLimits:
    """What several SnapshotLimits of one namespace say together: the strictest of each. None: there is no limit."""

    snapshots: int | None = None
    per_claim: int | None = None
    delete_oldest: bool = False

    @property
    def cells(self) -> dict[Cell, Quantity]:
        wanted = {NAMESPACE_CELL: self.snapshots, EACH_CLAIM: self.per_claim}
        return {cell: Quantity.of(limit) for cell, limit in wanted.items() if limit is not None}


def together(limits: Iterable[SnapshotLimit]) -> CountLimits:
    """Nothing is deleted unless all of them say so: one that does not is an administrator's word, too."""
    found = [one.spec for one in limits]
    whole = [one.snapshots for one in found if isinstance(one.snapshots, int)]
    each = [one.snapshots_per_claim for one in found if isinstance(one.snapshots_per_claim, int)]
    return CountLimits(
        snapshots=min(whole, default=None),
        per_claim=min(each, default=None),
        delete_oldest=bool(found) and all(one.delete_oldest for one in found),
    )


def in_words(limits: CountLimits) -> str:
    """`50 snapshots in the namespace, 5 of each claim; the oldest makes room`."""
    parts = [f"{pieces(limits.snapshots)} in the namespace"] if limits.snapshots is not None else []
    if limits.per_claim is not None:
        parts.append(f"{pieces(limits.per_claim)} of each claim" if not parts else f"{limits.per_claim} of each claim")
    return f"{', '.join(parts)}{'; the oldest makes room for a new one' if limits.delete_oldest else ''}"


def pieces(number: int) -> str:
    return f"{number} snapshot{'' if number == 1 else 's'}"


# --- what is there ---------------------------------------------------------------------------------------------------


def number_in(book: Book, cell: Cell) -> int:
    """How many there are, with those that were admitted and are not counted yet."""
    return (book.used[cell] + book.reserved[cell]).value()


def by_claim(book: Book) -> dict[str, int]:
    cells = {*book.used, *book.reserved}
    return {claim: number_in(book, cell) for cell in cells if (claim := claim_of(cell))}
