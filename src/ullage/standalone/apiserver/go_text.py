"""Values as the server's language writes them: clients compare messages and field keys to the letter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

_ESCAPES: Final = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"})


def go_json(value: Any) -> str:
    """Compact JSON with sorted keys, safe inside HTML."""
    if type(value) is int:
        return str(value)
    text = msgspec.json.encode(value, order="deterministic").decode()
    if "<" in text or ">" in text or "&" in text or not text.isascii():
        return text.translate(_ESCAPES)
    return text


MOST_TEXT: Final = 64 * 1024  # characters: a message repeats no more of a value


def go_text(value: Any) -> str:
    """What `%v` prints: `map[a:1 b:[x y]]`. A long text ends in `...`, and what follows is not looked at."""
    parts: list[str] = []
    room = MOST_TEXT
    for part in _parts(value):
        parts.append(part)
        room -= len(part)
        if room < 0:
            return "".join(parts)[:MOST_TEXT] + "..."
    return "".join(parts)


def _parts(value: Any) -> Iterator[str]:
    match value:
        case bool():
            yield "true" if value else "false"
        case None:
            yield "<nil>"
        case list():
            yield "["
            for place, item in enumerate(value):
                yield " " if place else ""
                yield from _parts(item)
            yield "]"
        case dict():
            yield "map["
            for place, key in enumerate(sorted(value)):
                yield f" {key}:" if place else f"{key}:"
                yield from _parts(value[key])
            yield "]"
        case str():
            yield value[: MOST_TEXT + 1]
        case _:
            yield str(value)
