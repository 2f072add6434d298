"""What wakes a record besides itself: what people edit of its snapshot, and the class that it failed with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ullage.snapshots.controllers.record.sync.rules import edited_snapshot
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import CUT
from ullage.snapshots.volume_queue import RecordKey


def matters(lookup: SnapshotLookup) -> Callable[[Any, Any], bool]:
    """A record cares whether its snapshot is there and is to stay, what people edit, and the word that it waits for; but not
    what the status says."""

    def facts(obj: Any) -> tuple[object, ...]:
        word = obj.metadata.annotations.get(CUT)
        return obj.metadata.deletion_timestamp, word, edited_snapshot(lookup.dialect.read_snapshot(obj))

    return lambda old, new: old is None or new is None or facts(old) != facts(new)


def failed_of_class(lookup: SnapshotLookup) -> Callable[[Any], Iterable[RecordKey]]:
    """Those that a class may have been edited for."""
    return lambda one: [RecordKey(lookup.dialect.name, name) for name in lookup.failed_of_class(one.metadata.name)]
