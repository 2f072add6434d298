"""Objects as plain values: what every layer may ask of one."""

from __future__ import annotations

from typing import Any

import msgspec

Json = dict[str, Any]


def dig(obj: Any, *path: str) -> Any:
    """The value at a path of keys, or None where any step is missing."""
    for key in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def is_terminating(data: bytes) -> bool:
    """Whether an object is being deleted. Most are not: looking at the bytes spares decoding them."""
    return b'"deletionTimestamp"' in data and bool(msgspec.json.decode(data)["metadata"].get("deletionTimestamp"))
