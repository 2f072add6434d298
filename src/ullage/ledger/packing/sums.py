"""What was counted as one compact string, for `status.sums`.

Beside it, `status.observed` has the positions that the sums belong to, as a typed map: the API server keeps those from going
back. Version 1 (`strings.py`) is one MessagePack array of columns:

    0  accounts: a list of names
    1  cells: a list of [index into 0, resource]
    2  counts: a list of [source, list of [index into 1, canonical quantity]]
    3  limited: the accounts whose limits were noticed: a list of indexes into 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

import msgspec

from ullage.ledger.amounts import Cell, Takings, parse_amount
from ullage.ledger.packing.strings import Packing
from ullage.quantity import Quantity

_Index = Annotated[int, msgspec.Meta(ge=0)]


class _SumColumns(NamedTuple):
    accounts: list[str]
    cells: list[tuple[_Index, str]]
    counts: list[tuple[str, list[tuple[_Index, str]]]]
    limited: list[_Index]


_PACKING: Final = Packing("status.sums", "1", _SumColumns)


@dataclass(frozen=True, slots=True)
class Sums:
    """What is counted by source, and the accounts whose limits were noticed."""

    counted: Mapping[str, Takings]
    limited: frozenset[str] = frozenset()


def encode(sums: Sums) -> str:
    """The same sums always give the same string; none give the empty one."""
    if not sums.counted and not sums.limited:
        return ""
    accounts: dict[str, int] = {}
    cells: dict[Cell, int] = {}
    counts = [
        (source, [(cells.setdefault(cell, len(cells)), text) for cell, text in sums.counted[source].listed()])
        for source in sorted(sums.counted)
    ]
    places = [(accounts.setdefault(cell.account, len(accounts)), cell.resource) for cell in cells]
    limited = [accounts.setdefault(account, len(accounts)) for account in sorted(sums.limited)]
    return _PACKING.pack((list(accounts), places, counts, limited))


def decode(text: str, *, ledger: str) -> Sums:
    """What `encode` was given. Any other string is an error that names the ledger."""
    return _PACKING.unpack(text, _sums, ledger=ledger) if text else Sums({})


def _sums(columns: _SumColumns) -> Sums:
    cells = [Cell(columns.accounts[account], resource) for account, resource in columns.cells]
    counted = {
        source: Takings(_once([(cells[cell], parse_amount(amount, field=".".join(cells[cell]))) for cell, amount in listed]))
        for source, listed in columns.counts
    }
    limited = frozenset(columns.accounts[account] for account in columns.limited)
    if len(counted) != len(columns.counts) or len(limited) != len(columns.limited):
        raise ValueError("a source or an account comes twice")
    return Sums(counted, limited)


def _once(listed: list[tuple[Cell, Quantity]]) -> dict[Cell, Quantity]:
    found = dict(listed)
    if len(found) != len(listed):
        raise ValueError("a sum comes twice")
    return found
