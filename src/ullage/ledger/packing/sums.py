"""What was counted as one compact string, for `status.sums`.

Beside it, `status.observed` has the positions that the sums belong to, as a typed map: the API server keeps those from going
back. Version 1 (`strings.py`) is one MessagePack array of columns:

    0  cells: a list of [account, resource]
    1  counts: a list of [source, list of [index into 0, canonical quantity]]
    2  limited: the accounts whose limits were noticed
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
    cells: list[tuple[str, str]]
    counts: list[tuple[str, list[tuple[_Index, str]]]]
    limited: list[str]


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
    cells: dict[Cell, int] = {}
    counts = [
        (source, [(cells.setdefault(cell, len(cells)), text) for cell, text in sums.counted[source].listed()])
        for source in sorted(sums.counted)
    ]
    return _PACKING.pack((list(cells), counts, sorted(sums.limited)))


def decode(text: str, *, ledger: str) -> Sums:
    """What `encode` was given. Any other string is an error that names the ledger."""
    return _PACKING.unpack(text, _sums, ledger=ledger) if text else Sums({})


def _sums(columns: _SumColumns) -> Sums:
    cells = [Cell(*names) for names in columns.cells]
    counted = {
        source: Takings(_once([(cells[cell], parse_amount(amount, field=".".join(cells[cell]))) for cell, amount in listed]))
        for source, listed in columns.counts
    }
    if len(counted) != len(columns.counts) or len(set(columns.limited)) != len(columns.limited):
        raise ValueError("a source or an account comes twice")
    return Sums(counted, frozenset(columns.limited))


def _once(listed: list[tuple[Cell, Quantity]]) -> dict[Cell, Quantity]:
    found = dict(listed)
    if len(found) != len(listed):
        raise ValueError("a sum comes twice")
    return found
