"""Who waits for room, as one compact string, for `status.waiting`.

Version 1 (`strings.py`) is one MessagePack array, with an entry for each: its key, what it takes (a list of account, resource
and canonical quantity), and when it first and last asked, in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

import msgspec

from ullage.ledger.amounts import Cell, Takings, Waiter, parse_amount
from ullage.ledger.packing.strings import Packing

_Moment = Annotated[int, msgspec.Meta(ge=0)]


class _Entry(NamedTuple):
    key: str
    takes: list[tuple[str, str, str]]
    since: _Moment
    asked: _Moment


_PACKING: Final = Packing("status.waiting", "1", list[_Entry])


def encode(waiting: Mapping[str, Waiter]) -> str:
    """The same waiters always give the same string; none give the empty one."""
    entries = [
        (key, [(*cell, text) for cell, text in one.takes.listed()], one.since, one.asked)
        for key, one in sorted(waiting.items())
    ]
    return _PACKING.pack(entries) if entries else ""


def decode(text: str, *, ledger: str) -> dict[str, Waiter]:
    """What `encode` was given. Any other string is an error that names the ledger."""
    return _PACKING.unpack(text, _waiters, ledger=ledger) if text else {}


def _waiters(entries: list[_Entry]) -> dict[str, Waiter]:
    found = {one.key: Waiter(_takes(one), one.since, one.asked) for one in entries}
    if len(found) != len(entries):
        raise ValueError("a key comes twice")
    return found


def _takes(entry: _Entry) -> Takings:
    cells = ((Cell(account, resource), text) for account, resource, text in entry.takes)
    return Takings({cell: parse_amount(text, field=".".join(cell)) for cell, text in cells})
