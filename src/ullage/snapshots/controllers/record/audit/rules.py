"""Which records are audited, when one is suspect, and what it says once its snapshot is lost or found. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from ullage.kube.objects import is_deleting
from ullage.snapshots.backends.base import BackendSnapshot
from ullage.snapshots.model import LOST, Problem, Record, State

MISSES: Final = 2  # lists in a row without a snapshot, before it is looked for by its handle
CUT_TOLERANCE: Final = timedelta(seconds=1)  # records of the prototype API know it to the second


def is_audited(record: Record) -> bool:
    """One whose snapshot was ready once. What is still being taken, imported or deleted is asked about anyway."""
    return bool(record.handle) and (record.state.ready or record.lost) and not is_deleting(record.meta)


def is_here(record: Record, *, node: str) -> bool:
    """Whether a backend can know a record's snapshot: one that serves the volumes of one node knows no others. `node` is the
    backend's."""
    return not node or record.node == node


def is_the_same(record: Record, found: BackendSnapshot) -> bool:
    """Whether what has the handle is what was taken. A name can be taken again, and then there is other data behind it."""
    return record.state.cut is None or abs(record.state.cut - found.cut) <= CUT_TOLERANCE


def lost(record: Record) -> State:
    message = f"{record.driver} does not have it any more, and nothing can be restored from it: delete it, and take another"
    return replace(record.state, ready=False, problem=Problem(LOST, message))


def found_again(record: Record) -> State:
    return replace(record.state, ready=True, problem=None)


class Misses:
    """How often in a row each record's snapshot was not in a list. Only in memory: after a restart the count begins anew."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def count(self, records: Iterable[Record], handles: frozenset[str]) -> list[Record]:
        """Takes a list down; the records that have to be looked at: missing often enough, or back."""
        found: list[Record] = []
        for record in records:
            uid = record.meta.uid
            if record.handle in handles:
                self._counts.pop(uid, None)
            else:
                self._counts[uid] = self._counts.get(uid, 0) + 1
            if self.is_missing(uid) != record.lost:
                found.append(record)
        return found

    def is_missing(self, uid: str) -> bool:
        return self._counts.get(uid, 0) >= MISSES

    def forget(self, uid: str) -> None:
        self._counts.pop(uid, None)
