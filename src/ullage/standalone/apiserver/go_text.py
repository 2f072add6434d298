"""Values as the server's language writes them: clients compare messages and field keys to the letter."""

from __future__ import annotations

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


def go_text(value: Any) -> str:
    """What `%v` prints: `map[a:1 b:[x y]]`."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "<nil>"
        case list():
            return f"[{' '.join(map(go_text, value))}]"
        case dict():
            return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
        case _:
            return str(value)
