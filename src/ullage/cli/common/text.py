"""Words and tables that all commands print. Pure: the time is an argument.

Messages were written by drivers and by other people: control characters in them never reach the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
import yaml

from ullage.kube.objects import Json
from ullage.ledger.amounts import spell
from ullage.quantity import Format, Quantity
from ullage.times import read_time, timestamp

NONE: Final = "-"
GAP: Final = "   "


def structured(value: Json, output: str) -> str:
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip()


def size(count: int | None) -> str:
    return NONE if count is None else spell("storage", Quantity.of(count, Format.BINARY_SI))


def free(resource: str, amount: Quantity | None) -> str:
    """What is left of a limit: `2Gi`; `2Gi over`, where it is passed; nothing is said where there is none."""
    if amount is None:
        return NONE
    return spell(resource, amount, down=True) if amount.sign >= 0 else f"{spell(resource, -amount)} over"


def free_bytes(amount: int | None) -> str:
    return free("storage", None if amount is None else Quantity.of(amount, Format.BINARY_SI))


def moment(time: datetime | None) -> str:
    return timestamp(time) if time else NONE


def age(since: str, now: datetime) -> str:
    began = read_time(since)
    return ago(now - began) if began else NONE


def ago(span: timedelta) -> str:
    seconds = max(0, int(span.total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def plain(text: str) -> str:
    """On one line, and with nothing in it that a terminal obeys."""
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
