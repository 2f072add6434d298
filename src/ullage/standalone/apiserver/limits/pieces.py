"""How answers are cut: a client may be slow to read, or never do, and what waits for it must not be copied for it.

Objects are stored once and shared by all answers. Only the piece that is on its way is a copy; the next one is made when the
connection has taken it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

PIECE: Final = 64 * 1024  # bytes

Part = bytes | memoryview


def pieces(parts: Iterable[Part]) -> Iterator[bytes]:
    """The parts in their order: small ones together, large ones cut. No part is asked for before its turn."""
    waiting: list[Part] = []
    size = 0
    for part in parts:
        if waiting and size + len(part) > PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
        if len(part) <= PIECE:
            waiting.append(part)
            size += len(part)
            continue
        for start in range(0, len(part), PIECE):
            yield bytes(part[start : start + PIECE])
    if waiting:
        yield b"".join(waiting)
