"""Limits whose requests are on their way, as one compact string, for `status.limitsInFlight`.

Version 1 (`strings.py`) is one MessagePack array:

    0  attempts: a list of [key, uid, version of the object that is changed, or nil for a create, time of booking in
       milliseconds since 1970, limits: a list of [account, resource, canonical quantity]]
    1  what was seen: a list of [source, version]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, NamedTuple

import msgspec

from ullage.ledger.amounts import Cell, LimitAttempt, LimitId, parse_amount
from ullage.ledger.packing.strings import Packing

_Count = Annotated[int, msgspec.Meta(ge=0)]


class _LimitEntry(NamedTuple):
    key: str
    uid: str
    on_version: _Count | None
    booked: _Count
    limits: list[tuple[str, str, str]]


class _LimitColumns(NamedTuple):
    attempts: list[_LimitEntry]
    reached: list[tuple[str, _Count]]


_PACKING: Final = Packing("status.limitsInFlight", "1", _LimitColumns)


@dataclass(frozen=True, slots=True)
class InFlight:
    """The attempts, and by source the version up to which its objects must be seen."""

    attempts: Mapping[LimitId, LimitAttempt] = field(default_factory=dict)
    reached: Mapping[str, int] = field(default_factory=dict)


def encode(found: InFlight) -> str:
    """Gives the same string for the same limits, and the empty one for none."""
    if not found.attempts and not found.reached:
        return ""
    ordered = sorted(found.attempts.items(), key=lambda item: (item[0].key, item[1].booked))
    attempts = [
        (
            one.key,
            one.uid,
            one.on_version,
            attempt.booked,
            [(*cell, str(attempt.limits[cell])) for cell in sorted(attempt.limits)],
        )
        for one, attempt in ordered
    ]
    return _PACKING.pack((attempts, sorted(found.reached.items())))


def decode(text: str, *, ledger: str) -> InFlight:
    """Returns what `encode` was given. Any other string is an error that names the ledger."""
    return _PACKING.unpack(text, _in_flight, ledger=ledger) if text else InFlight()


def _in_flight(columns: _LimitColumns) -> InFlight:
    attempts = {
        LimitId(one.key, one.uid, one.on_version): LimitAttempt(
            {
                Cell(account, resource): parse_amount(text, field=f"{account}.{resource}")
                for account, resource, text in one.limits
            },
            one.booked,
        )
        for one in columns.attempts
    }
    if len(attempts) != len(columns.attempts) or len(dict(columns.reached)) != len(columns.reached):
        raise ValueError("an attempt or a source comes twice")
    if any(one.key.count("/") < 3 for one in attempts):
        raise ValueError("an attempt has no key")
    return InFlight(attempts, dict(columns.reached))
