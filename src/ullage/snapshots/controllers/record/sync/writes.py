"""What is written to a record, each on condition that it is still the one that was looked at."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ullage.clock import Clock
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Requeue
from ullage.kube.errors import NotFound
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Object
from ullage.ledger.charging.release import seconds_held
from ullage.snapshots.backends.base import Parameters
from ullage.snapshots.controllers.record.sync.kept import kept_events
from ullage.snapshots.controllers.record.sync.rules import settled
from ullage.snapshots.lookup import NamedRecord, SnapshotLookup
from ullage.snapshots.model import CREATING, Change, State


class RecordWriter:
    """Each call gives back the record as it is then."""

    def __init__(self, client: Client, recorder: EventRecorder, *, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock

    async def mark(self, lookup: SnapshotLookup, obj: Any, mark: str | None) -> Any:
        return await self.annotate(lookup, obj, {CREATING: mark})

    async def annotate(self, lookup: SnapshotLookup, obj: Any, notes: dict[str, str | None]) -> Any:
        return await self.patch(lookup, obj, {"metadata": {"annotations": notes}}) if notes else obj

    async def settle(self, lookup: SnapshotLookup, obj: Any, parameters: Parameters | None, size: str | None) -> Any:
        return await self.annotate(lookup, obj, settled(lookup.dialect.read_record(obj), parameters, size))

    async def write_state(self, lookup: SnapshotLookup, obj: Any, state: State) -> Any:
        change: Change = lookup.dialect.record_change(obj, state, now=self._clock.now())
        if change.main is not None:
            obj = await self.patch(lookup, obj, change.main)
        if change.status is not None:
            obj = await self.patch(lookup, obj, change.status, subresource="status")
        return obj

    async def release(
        self, lookup: SnapshotLookup, obj: Any, *, deleted: bool = False, kept_by: Sequence[NamedRecord] = ()
    ) -> Requeue | None:
        """Lets it go; or, where it pays for bytes that stay and that somebody else is about to be booked for, not yet.
        `deleted`: its own are gone for good. `kept_by`: the records for which its snapshot stays, which are told."""
        held = 0.0 if deleted else seconds_held(obj.metadata, self._clock.now())
        if held:
            return Requeue(held)
        kept = [one for one in obj.metadata.finalizers if one != lookup.dialect.record_finalizer]
        with contextlib.suppress(NotFound):
            await self.patch(lookup, obj, {"metadata": {"finalizers": kept}})
        for event in kept_events(NamedRecord(lookup.dialect.records, lookup.dialect.read_record(obj)), kept_by):
            about = Object(metadata=event.about.record.meta)
            self._recorder.record(event.about.kind, about, event.reason, note=event.note)
        return None

    async def patch(self, lookup: SnapshotLookup, obj: Any, merge: dict[str, Any], *, subresource: str = "") -> Any:
        return await patch_seen(self._client, lookup.dialect.records, obj, merge, subresource=subresource)
