"""The queue of each volume: one snapshot of it is taken at a time, and the queue says which record is next. Pure.

A record whose creation may have begun goes first, since the storage system may be at work on it; then those that were not tried
yet, the oldest first; the failed ones last, and with them those that got a final answer, whatever was begun before, and those
that wait for snapshots of other volumes: nobody waits for them. The order is a function of the records alone, so it is the same
after a restart.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

from ullage.snapshots.gate import waits_for_group
from ullage.snapshots.model import ASKED_AGAIN, Record

SLACK: Final = 64  # stale entries that a short queue may have


class QueuePosition(NamedTuple):
    """The position of a record in the queue of its volume: smaller goes first."""

    not_begun: bool  # or begun, and over
    failed: bool  # or waits for others
    created: str
    name: str


def queue_of(record: Record) -> str:
    """The queue that a record stands in; empty once the cut is made, and for what was there already."""
    return "" if record.handle or record.imported else queue_name(record.driver, record.volume)


def queue_name(driver: str, volume: str) -> str:
    """The queue of a volume, which its driver knows by this handle."""
    return f"{driver} {volume}"


def position_of(record: Record) -> QueuePosition:
    problem = record.state.problem
    rests = problem is not None and problem.reason not in ASKED_AGAIN
    later = problem is not None or waits_for_group(record.meta)
    return QueuePosition(not record.begun or rests, later, record.meta.creation_timestamp, record.meta.name)


def may_proceed(record: Record, first: QueuePosition | None, *, called: bool = False) -> bool:
    """Whether a record may be begun, or gone on with, while `first` is at the head of its queue. `called`: it is to be cut
    together with others, and all are waiting for it; only what is under way goes before it. If it had to be the first, two
    groups with the same volumes could wait for each other."""
    own = position_of(record)
    if first is None or own <= first or (called and first.not_begun):
        return True
    # Nothing is under way and all that are left have failed: each may be tried again, in its own time.
    return first.not_begun and first.failed and own.failed


class RecordKey(NamedTuple):
    """Which record, of which API: a volume may have snapshots of both."""

    dialect: str
    name: str


class VolumeQueues:
    """The queues of all volumes, kept by increments: one change costs what one record costs, however long the queue is."""

    def __init__(self) -> None:
        self._queues: dict[str, _VolumeQueue] = {}

    def update(self, dialect: str, old: Record | None, new: Record | None) -> None:
        """To be told of every change of a record, in order."""
        before = queue_of(old) if old else ""
        after = queue_of(new) if new else ""
        if old and before and before != after:
            self._drop(before, RecordKey(dialect, old.meta.name))
        if new and after:
            self._queues.setdefault(after, _VolumeQueue()).put(RecordKey(dialect, new.meta.name), position_of(new))

    def first(self, queue: str) -> QueuePosition | None:
        found = self._queues.get(queue)
        return found.head()[0] if found else None

    def first_key(self, queue: str) -> RecordKey | None:
        found = self._queues.get(queue)
        return found.head()[1] if found else None

    def _drop(self, queue: str, key: RecordKey) -> None:
        found = self._queues.get(queue)
        if found is not None:
            found.members.pop(key, None)
            if not found.members:
                del self._queues[queue]


class _VolumeQueue:
    """One queue that is never empty. Entries of the heap that `members` contradict are stale."""

    def __init__(self) -> None:
        self.members: dict[RecordKey, QueuePosition] = {}
        self._heap: list[tuple[QueuePosition, RecordKey]] = []

    def put(self, key: RecordKey, rank: QueuePosition) -> None:
        if self.members.get(key) == rank:
            return
        self.members[key] = rank
        heapq.heappush(self._heap, (rank, key))
        if len(self._heap) > 2 * len(self.members) + SLACK:  # whoever fails again and again leaves entries behind
            self._heap = [(rank, key) for key, rank in self.members.items()]
            heapq.heapify(self._heap)

    def head(self) -> tuple[QueuePosition, RecordKey]:
        while self.members.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0]
