"""Whose turn it is: of one volume, one snapshot is taken at a time.

Whoever may have been begun goes first, since the storage system may be at work on it; then whoever has not been tried; the
failed ones last. The order is a function of the records alone, so it is the same after a restart.
"""

from __future__ import annotations

from typing import NamedTuple

from ullage.snapshots.model import Record


class Rank(NamedTuple):
    """The place of a record in the line of its volume: smaller goes first."""

    not_begun: bool
    failed: bool
    created: str
    name: str


def line_of(record: Record) -> str:
    """The line that a record stands in; empty once the cut is made, and for what was there already."""
    return "" if record.handle or record.imported else f"{record.driver} {record.volume}"


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
    """The lines of all volumes, kept by increments: one change costs what one record costs."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[Place, Rank]] = {}
        self._heads: dict[str, tuple[Rank, Place]] = {}

    def move(self, dialect: str, old: Record | None, new: Record | None) -> None:
        """To be told of every change of a record, in order."""
        before = line_of(old) if old else ""
        after = line_of(new) if new else ""
        if old and before and before != after:
            self._drop(before, Place(dialect, old.meta.name))
        if new and after:
            self._lines.setdefault(after, {})[Place(dialect, new.meta.name)] = rank_of(new)
            self._heads.pop(after, None)

    def first(self, line: str) -> Rank | None:
        head = self._head(line)
        return head[0] if head else None

    def first_place(self, line: str) -> Place | None:
        head = self._head(line)
        return head[1] if head else None

    def _head(self, line: str) -> tuple[Rank, Place] | None:
        if line not in self._lines:
            return None
        if line not in self._heads:
            place, rank = min(self._lines[line].items(), key=lambda item: item[1])
            self._heads[line] = (rank, place)
        return self._heads[line]

    def _drop(self, line: str, place: Place) -> None:
        members = self._lines.get(line, {})
        members.pop(place, None)
        self._heads.pop(line, None)
        if not members:
            self._lines.pop(line, None)
