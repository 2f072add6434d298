"""Whose turn it is: of one volume, one snapshot is taken at a time.

Whoever may have been begun goes first, since the storage system may be at work on it; then whoever has not been tried; the
failed ones last. The order is a function of the records alone, so it is the same after a restart.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

from ullage.snapshots.model import Record

SLACK: Final = 64  # stale entries that a short line may have


class Rank(NamedTuple):
    """The place of a record in the line of its volume: smaller goes first."""

    not_begun: bool
    failed: bool
    created: str
    name: str


def line_of(record: Record) -> str:
    """The line that a record stands in; empty once the cut is made, and for what was there already."""
    return "" if record.handle or record.imported else line_at(record.driver, record.volume)


def line_at(driver: str, volume: str) -> str:
    """The line of a volume, which its driver knows by this handle."""
    return f"{driver} {volume}"


def rank_of(record: Record) -> Rank:
    return Rank(not record.begun, record.state.problem is not None, record.meta.creation_timestamp, record.meta.name)


def may_go(record: Record, first: Rank | None) -> bool:
    """Whether a record may be begun, or gone on with, while `first` is at the head of its line."""
    own = rank_of(record)
    if first is None or own <= first:
        return True
    # Nobody is at work, and whoever is left has failed: all may try again, each in its own time.
    return first.not_begun and first.failed and own.failed


class Place(NamedTuple):
    """Which record, of which API: a volume may have snapshots of both."""

    dialect: str
    name: str


class Lines:
    """The lines of all volumes, kept by increments: one change costs what one record costs, however long the line is."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    def move(self, dialect: str, old: Record | None, new: Record | None) -> None:
        """To be told of every change of a record, in order."""
        before = line_of(old) if old else ""
        after = line_of(new) if new else ""
        if old and before and before != after:
            self._drop(before, Place(dialect, old.meta.name))
        if new and after:
            self._lines.setdefault(after, _Line()).put(Place(dialect, new.meta.name), rank_of(new))

    def first(self, line: str) -> Rank | None:
        found = self._lines.get(line)
        return found.head()[0] if found else None

    def first_place(self, line: str) -> Place | None:
        found = self._lines.get(line)
        return found.head()[1] if found else None

    def _drop(self, line: str, place: Place) -> None:
        found = self._lines.get(line)
        if found is not None:
            found.members.pop(place, None)
            if not found.members:
                del self._lines[line]


class _Line:
    """One line that is never empty. Entries of the heap that `members` contradict are stale."""

    def __init__(self) -> None:
        self.members: dict[Place, Rank] = {}
        self._heap: list[tuple[Rank, Place]] = []

    def put(self, place: Place, rank: Rank) -> None:
        if self.members.get(place) == rank:
            return
        self.members[place] = rank
        heapq.heappush(self._heap, (rank, place))
        if len(self._heap) > 2 * len(self.members) + SLACK:  # whoever fails again and again leaves entries behind
            self._heap = [(rank, place) for place, rank in self.members.items()]
            heapq.heapify(self._heap)

    def head(self) -> tuple[Rank, Place]:
        while self.members.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0]
