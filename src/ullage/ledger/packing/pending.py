"""Attempts as one compact string, for `status.pending`.

A typed map of 500 attempts costs the API server twenty times as much per write as one string of a few KiB. Version 2
(`strings.py`) is one MessagePack array of columns:

    0  cells: a list of [account, resource]
    1  amounts: a list of lists of [index into 0, canonical quantity]; each list is what one object takes
    2  places: a list of "resource.group/cluster/namespace"
    3  keys: a list of [index into 2, name, index into 1 (what is counted), number of attempts]
    4  the uids of all attempts, key by key: 16 bytes each, zeros for none; if any is no UUID, a list of strings instead
    5  the earliest time of booking, in milliseconds since 1970
    6  the time of each attempt: milliseconds after the earliest
    7  what each attempt takes: an index into 1
    8  the version of the object that each attempt changes, or nil for a create
    9  which attempts are growth that had happened: places in the columns 6 to 8, in order
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from ullage.ledger.amounts import Cell, Takings, parse_amount
from ullage.ledger.book import NO_UID, Attempt, Slot
from ullage.ledger.packing.strings import Packing

_UUIDS = re.compile(r"(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})+")
_NIL = "00000000-0000-0000-0000-000000000000"
Count = Annotated[int, msgspec.Meta(ge=0)]


class _Key(NamedTuple):
    place: Count
    name: str
    counted: Count
    attempts: Annotated[int, msgspec.Meta(ge=1)]


class _Columns(NamedTuple):
    cells: list[tuple[str, str]]
    amounts: list[list[tuple[Count, str]]]
    places: list[str]
    keys: list[_Key]
    uids: bytes | list[str]
    earliest: Count
    booked: list[Count]
    takes: list[Count]
    versions: list[Count | None]
    grown: list[Count]


_PACKING: Final = Packing("status.pending", "2", _Columns)


# --- writing ---------------------------------------------------------------------------------------------------------


def encode(pending: Mapping[str, Slot]) -> str:
    """The same attempts always give the same string; none give the empty one."""
    if not pending:
        return ""
    tables = _Tables()
    keys = [(key, pending[key], sorted(pending[key].attempts)) for key in sorted(pending)]
    attempts = [slot.attempts[uid] for _, slot, uids in keys for uid in uids]
    earliest = min(attempt.booked for attempt in attempts)
    columns = (
        [tables.key(key, slot) for key, slot, _ in keys],
        _packed([uid for _, _, uids in keys for uid in uids]),
        earliest,
        [attempt.booked - earliest for attempt in attempts],
        [tables.amount(attempt.takes) for attempt in attempts],
        [attempt.on_version for attempt in attempts],
        [place for place, attempt in enumerate(attempts) if attempt.grown],
    )
    return _PACKING.pack((list(tables.cells), list(tables.amounts), list(tables.places), *columns))


class _Tables:
    """What many attempts have in common, each written once and numbered in the order in which it came up."""

    def __init__(self) -> None:
        self.cells: dict[Cell, int] = {}
        self.amounts: dict[tuple[tuple[int, str], ...], int] = {}
        self.places: dict[str, int] = {}

    def key(self, key: str, slot: Slot) -> tuple[int, str, int, int]:
        place, _, name = key.rpartition("/")
        return self.places.setdefault(place, len(self.places)), name, self.amount(slot.counted), len(slot.attempts)

    def amount(self, takings: Takings) -> int:
        cells = self.cells
        listed = tuple((cells.setdefault(cell, len(cells)), text) for cell, text in takings.listed())
        return self.amounts.setdefault(listed, len(self.amounts))


def _packed(uids: list[str]) -> bytes | list[str]:
    text = "".join(uid or _NIL for uid in uids)
    if _UUIDS.fullmatch(text) and all(len(uid) in (0, 36) for uid in uids) and _NIL not in uids:
        return bytes.fromhex(text.replace("-", ""))
    return uids


# --- reading ---------------------------------------------------------------------------------------------------------


def decode(text: str, *, ledger: str) -> dict[str, Slot]:
    """What `encode` was given. Any other string is an error that names the ledger."""
    return _PACKING.unpack(text, _slots, ledger=ledger) if text else {}


def _slots(columns: _Columns) -> dict[str, Slot]:
    cells = [Cell(*names) for names in columns.cells]
    amounts = [
        Takings({cells[cell]: parse_amount(text, field=".".join(cells[cell])) for cell, text in listed})
        for listed in columns.amounts
    ]
    # strict: columns of different length are not what was written.
    rows = zip(_unpacked(columns.uids), columns.booked, columns.takes, columns.versions, strict=True)
    grown = frozenset(columns.grown)
    attempts = [
        (uid, Attempt(amounts[takes], columns.earliest + booked, version, place in grown))
        for place, (uid, booked, takes, version) in enumerate(rows)
    ]
    if columns.grown != [place for place, (_, one) in enumerate(attempts) if one.grown]:
        raise ValueError("growth of an attempt that is not there, or twice")
    pending: dict[str, Slot] = {}
    begin = 0
    for key in columns.keys:
        own = dict(attempts[begin : begin + key.attempts])
        begin += key.attempts
        if len(own) != key.attempts:
            raise ValueError(f"{key.name} does not have {key.attempts} attempts")
        pending[f"{columns.places[key.place]}/{key.name}"] = Slot(own, amounts[key.counted])
    if begin != len(attempts) or len(pending) != len(columns.keys):
        raise ValueError("there are attempts of no key, or a key comes twice")
    return pending


def _unpacked(uids: bytes | list[str]) -> Sequence[str]:
    if isinstance(uids, list):
        return uids
    if len(uids) % 16:
        raise ValueError("the uids are cut off")
    digits = (uids[begin : begin + 16].hex() for begin in range(0, len(uids), 16))
    found = (f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}" for one in digits)
    return [NO_UID if uid == _NIL else uid for uid in found]
