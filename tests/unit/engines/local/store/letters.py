"""Volumes as texts: a letter for each block."""

from __future__ import annotations

from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.volume import StoredVolume

NOW = "2026-01-02T03:04:05Z"
SIZE = 16 * BLOCK


def put(volume: StoredVolume, block: int, letters: str) -> None:
    volume.write_at(block * BLOCK, b"".join(letter.encode() * BLOCK for letter in letters))


def cut(volume: StoredVolume, *names: str, user_created: bool = True) -> None:
    for name in names:
        volume.snapshot(name, created=NOW, user_created=user_created)


def shown(volume: StoredVolume, snapshot: str | None = None) -> str:
    """A letter for each block, a dot for zeros."""
    length = volume.view().size
    data = volume.read_at(0, length) if snapshot is None else volume.read_snapshot(snapshot, offset=0, length=length)
    letters = []
    for at in range(0, len(data), BLOCK):
        assert data[at : at + BLOCK] == data[at : at + 1] * BLOCK
        letters.append("." if data[at] == 0 else chr(data[at]))
    return "".join(letters).rstrip(".")


def sizes(volume: StoredVolume) -> dict[str, int]:
    """In blocks."""
    return {name: entry.size // BLOCK for name, entry in volume.view().entries.items()}
