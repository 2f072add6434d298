"""A list that stays quick when it is long and changed at its start.

Python's list moves every item behind an insertion or a removal. Ten thousand operations of one JSON patch on a list of half a
million items would take seconds; here an operation moves the items of one block only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

BLOCK: Final = 8192  # items: a list no longer than this is quick as it is


class LongList:
    """The part of a list's interface that a patch needs. Indexes are not negative and within bounds."""

    __slots__ = ("_blocks", "_size")

    def __init__(self, items: list[Any]) -> None:
        self._blocks = [items[start : start + BLOCK] for start in range(0, len(items), BLOCK)]
        self._size = len(items)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        for block in self._blocks:
            yield from block

    def __getitem__(self, index: int) -> Any:
        block, index = self._find(index)
        return self._blocks[block][index]

    def __setitem__(self, index: int, value: Any) -> None:
        block, index = self._find(index)
        self._blocks[block][index] = value

    def __delitem__(self, index: int) -> None:
        block, index = self._find(index)
        del self._blocks[block][index]
        self._size -= 1

    def insert(self, index: int, value: Any) -> None:
        block, index = self._find(index)
        items = self._blocks[block]
        items.insert(index, value)
        self._size += 1
        if len(items) > 2 * BLOCK:
            self._blocks[block : block + 1] = [items[:BLOCK], items[BLOCK:]]

    def append(self, value: Any) -> None:
        self.insert(self._size, value)

    def plain(self) -> list[Any]:
        return [item for block in self._blocks for item in block]

    def _find(self, index: int) -> tuple[int, int]:
        """The block of an index and the place in it. The place behind the last item is in the last block."""
        for number, block in enumerate(self._blocks):
            if index < len(block):
                return number, index
            index -= len(block)
        return len(self._blocks) - 1, index + len(self._blocks[-1])
