"""How long ago, in the few characters that a column has: `5s`, `3m12s`, `2d3h`.

The server prints ages, not the client, so these must read the same as kube-apiserver's to the character.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ullage.standalone.apiserver.objects import Json, dig

UNKNOWN = "<unknown>"
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def parse_time(text: Any) -> datetime | None:
    """An RFC 3339 timestamp, or None for anything else. One without a zone is no timestamp."""
    if not isinstance(text, str) or len(text) < 20 or text[10] != "T":
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def human(seconds: float) -> str:
    """A duration in at most two units; the smaller unit disappears as the larger one grows."""
    whole = int(seconds)  # towards zero: a clock one second ahead still reads as "now"
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return _two(whole, MINUTE, "m", 1, "s")
    if whole < 3 * HOUR:
        return f"{whole // MINUTE}m"
    if whole < 8 * HOUR:
        return _two(whole, HOUR, "h", MINUTE, "m")
    if whole < 2 * DAY:
        return f"{whole // HOUR}h"
    if whole < 8 * DAY:
        return _two(whole, DAY, "d", HOUR, "h")
    if whole < 2 * YEAR:
        return f"{whole // DAY}d"
    if whole < 8 * YEAR:
        return _two(whole, YEAR, "y", DAY, "d")
    return f"{whole // YEAR}y"


def _two(whole: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = whole % large // small
    return f"{whole // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")


def since(stamp: Any, now: datetime) -> str:
    """The age of a timestamp in an object; absent ones are unknown, not old."""
    found = parse_time(stamp)
    return UNKNOWN if found is None else human((now - found).total_seconds())


def age(obj: Json, now: datetime) -> str:
    return since(dig(obj, "metadata", "creationTimestamp"), now)
