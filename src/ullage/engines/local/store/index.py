"""Which layer of a chain holds each block: a byte for each, in pages that exist only where something was written.

A chain has at most 250 layers, so a layer is a number from 1 to 255 here, and 0 is nobody. Numbers stay as layers come and
go: a snapshot only gives the head's number a new name, which costs the same for any size of volume.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ullage.engines.local.store.spans import Span

_PAGE: Final = 1 << 15  # blocks
_ALIKE: Final = re.compile(rb"(.)\1*", re.DOTALL)


class Run(NamedTuple):
    """Blocks side by side that one layer holds; None where none does."""

    start: int
    end: int
    layer: str | None


class Index:
    """A chain's blocks, by number of the block."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self._names: list[str | None] = [None] * 256
        self._numbers: dict[str, int] = {}

    def put(self, layer: str, spans: Iterable[Span] = ()) -> None:
        """Lays a layer over those that are there."""
        number = self._names.index(None, 1)
        self._names[number] = layer
        self._numbers[layer] = number
        for span in spans:
            self.mark(layer, span)

    def mark(self, layer: str, span: Span) -> int:
        """The layer holds these blocks from now on. Gives how many of them it did not hold before."""
        number, new = self._numbers[layer], 0
        for page, start, end in _parts(span):
            blocks = self._pages.get(page)
            if blocks is None:
                blocks = self._pages[page] = bytearray(_PAGE)
            new += end - start - blocks.count(number, start, end)
            blocks[start:end] = bytes((number,)) * (end - start)
        return new

    def runs(self, span: Span) -> Iterator[Run]:
        """Without a gap, in order."""
        for page, start, end in _parts(span):
            base, blocks = page * _PAGE, self._pages.get(page)
            if blocks is None:
                yield Run(base + start, base + end, None)
                continue
            for found in _ALIKE.finditer(blocks, start, end):
                yield Run(base + found.start(), base + found.end(), self._names[blocks[found.start()]])

    def held(self, layer: str | None = None) -> Iterator[Span]:
        """Blocks that a reader gets from a layer, or from any, in order."""
        for page in sorted(self._pages):
            for start, end, owner in self.runs(Span(page * _PAGE, (page + 1) * _PAGE)):
                if owner is not None and layer in (None, owner):
                    yield Span(start, end)

    def count(self, layers: Iterable[str]) -> int:
        """How many blocks a reader gets from these."""
        numbers = [self._numbers[layer] for layer in layers]
        return sum(blocks.count(number) for blocks in self._pages.values() for number in numbers)

    def rename(self, old: str, new: str) -> None:
        number = self._numbers.pop(old)
        self._names[number] = new
        self._numbers[new] = number

    def merge(self, old: str, into: str) -> None:
        """What one layer held, another does. Layers outside the chain are left alone."""
        number = self._numbers.pop(old, None)
        if number is None:
            return
        table = bytes(self._numbers[into] if one == number else one for one in range(256))
        for page, blocks in self._pages.items():
            self._pages[page] = blocks.translate(table)
        self._names[number] = None


def _parts(span: Span) -> Iterator[tuple[int, int, int]]:
    """A page and the blocks of it, for each page that a span touches."""
    at = span.start
    while at < span.end:
        page, start = divmod(at, _PAGE)
        end = min(_PAGE, start + span.end - at)
        yield page, start, end
        at += end - start
