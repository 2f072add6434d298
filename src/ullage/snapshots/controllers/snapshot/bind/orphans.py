"""Records whose snapshots are gone: those that stand for nothing are removed at once, those with data as their policy says.

A snapshot that is deleted in order is held until its record is gone. A tenant who may edit it can take the finalizers off, and
then the data would stay for ever. That a snapshot is gone is only believed of the API itself. Before data is deleted the API is
asked twice, so far apart that no request of the time before can still change anything. The first time is remembered in memory
only: a process that starts anew begins again.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from ullage.clock import Clock
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import is_deleting
from ullage.snapshots.binding import refers_to
from ullage.snapshots.controllers.snapshot.bind.rules import is_orphan
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import Record, Snapshot
from ullage.snapshots.settings import Settings

REQUEST_SECONDS: Final = 75.0  # in which a request that was sent may still be committed; the ledger's time for it, too
ABANDONED: Final = Reason("SnapshotGone", action="Delete", type="Warning")


def is_abandoned(record: Record, snapshot: Snapshot | None, settings: Settings) -> bool:
    """Whether a record has data that its policy says to delete, and no snapshot that it could be for. Not an import, whose data
    an administrator has named; nor a member that was cut with its group, which goes with that."""
    if snapshot is not None and refers_to(record, snapshot):
        return False
    kept = record.policy == "Retain" or bool(record.imported) or record.cut_in_group
    has_data = bool(record.handle) and bool(record.ref.uid) and not is_deleting(record.meta)
    return has_data and not kept and settings.managed(record.driver)


class Orphans:
    """Removes records. `request_seconds` is the time between the two looks."""

    def __init__(
        self,
        client: Client,
        lookup: SnapshotLookup,
        *,
        settings: Settings,
        recorder: Recorder,
        clock: Clock,
        request_seconds: float,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._dialect = lookup.dialect
        self._settings = settings
        self._recorder = recorder
        self._clock = clock
        self._request_seconds = request_seconds
        self._gone: dict[Key, dict[str, float]] = {}  # by the snapshot's name, and the record's uid: when it was first seen

    async def remove(self, key: Key, seen: Any) -> float:
        """Those that name a snapshot of this name, and not the one that is seen. Gives the seconds until they are to be looked
        at again; 0: not before something changes."""
        before, self._gone[key] = self._gone.get(key, {}), {}
        for record in self._lookup.of_snapshot(key):
            if self._is_left(record, seen):
                await self._look(key, record, before.get(record.meta.uid))
        if waiting := self._gone[key].values():
            return max(0.1, min(waiting) + self._request_seconds - self._clock.monotonic())
        del self._gone[key]
        return 0.0

    def _is_left(self, record: Record, snapshot: Any) -> bool:
        read = self._dialect.read_snapshot(snapshot) if snapshot is not None else None
        return is_orphan(record, read, self._settings) or is_abandoned(record, read, self._settings)

    async def _look(self, key: Key, seen: Record, since: float | None) -> None:
        snapshot = await self._client.find(self._dialect.snapshots, key.name, key.namespace)
        obj = await self._client.find(self._dialect.records, seen.meta.name)
        record = self._dialect.read_record(obj) if obj is not None else None
        if obj is None or record is None or record.meta.uid != seen.meta.uid or not self._is_left(record, snapshot):
            return
        if record.handle:
            now = self._clock.monotonic()
            if since is None:
                note = (
                    f"VolumeSnapshot {key} is gone although this stands: its finalizers were taken off. The data is deleted "
                    f"after {self._request_seconds:.0f} s; to keep it, set the deletion policy to Retain"
                )
                self._recorder.record(self._dialect.records, obj, ABANDONED, note=note)
            if since is None or now - since < self._request_seconds:
                self._gone[key][seen.meta.uid] = now if since is None else since
                return
        with contextlib.suppress(NotFound):  # gone already: the cache will say so
            await self._client.delete(self._dialect.records, record.meta.name, uid=record.meta.uid)
