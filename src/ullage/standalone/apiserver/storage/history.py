"""How much of the database is history: what compaction would free, by the revision with which it became old.

Counted in steps of `GRAIN` bytes, so that neither memory nor time depends on how many revisions there are.
"""

from __future__ import annotations

from collections import deque

GRAIN = 1 << 20
ROW_BYTES = 128  # what a revision takes beside its object


class History:
    """`size` is in bytes. Each mark is a revision, and the bytes that became old since the mark before it."""

    __slots__ = ("_marks", "size")

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque()
        self.size = 0

    def add(self, revision: int, size: int) -> None:
        """With the revision, so many bytes became old."""
        size += ROW_BYTES
        self.size += size
        if self._marks and self._marks[-1][1] + size <= GRAIN:
            size += self._marks.pop()[1]
        self._marks.append((revision, size))

    def forget(self, upto: int) -> None:
        """History was compacted up to a revision."""
        while self._marks and self._marks[0][0] <= upto:
            self.size -= self._marks.popleft()[1]

    def reach(self, size: int) -> int:
        """The revision up to which a compaction frees at least so many bytes, or all there are; 0 for none."""
        reached = 0
        for revision, step in self._marks:
            if size <= 0:
                break
            reached, size = revision, size - step
        return reached

    def __len__(self) -> int:
        return len(self._marks)
