"""Remembers whose data went with their record: nothing is left of such a snapshot that anybody has to pay for.

A snapshot that still pays is let go only when its charge has been lowered, which is a write of its own. This one need not wait:
its charge goes with it. It is memory only: after a restart the charge is lowered first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ullage.engines.handles import DRIVER as ENGINES
from ullage.kube.cache.indexer import Key
from ullage.snapshots.lookup import SnapshotLookup, records_with_handle


class Freed:
    """Snapshots of one API, by uid."""

    def __init__(self, lookup: SnapshotLookup, everywhere: Collection[SnapshotLookup]) -> None:
        """`everywhere` has the records of both APIs: any of them may stand for the same data."""
        self._lookup = lookup
        self._everywhere = everywhere
        self._uids: set[str] = set()
        lookup.records.handle(self._seen)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def forget(self, uid: str) -> None:
        self._uids.discard(uid)

    def _seen(self, old: Any, new: Any) -> None:
        """Notes the snapshot of a record that is gone. An engine merges what it deletes into other snapshots, which have to be
        charged for it first; a record that is retained or shared leaves its data behind."""
        if old is None or new is not None:
            return
        record = self._lookup.dialect.read_record(old)
        snapshot = self._lookup.snapshots.get(Key(record.ref.namespace, record.ref.name))
        if snapshot is None or snapshot.metadata.uid != record.ref.uid:
            return
        if record.driver != ENGINES and record.policy == "Delete" and not records_with_handle(self._everywhere, record):
            self._uids.add(record.ref.uid)
