"""Looks at one record whose snapshot may be lost, or back: asks the storage system for its handle, and writes what it says.

It is woken by Longhorn's Snapshots, which are watched, and by the lists of `listing`. Neither is believed: a cache may be
behind, and a list may have been cut. Only the storage system's own answer about this handle counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ullage.clock import Clock, SystemClock
from ullage.engines.api import Snapshot as EngineSnapshot
from ullage.engines.handles import DRIVER, NAMESPACE, SnapshotHandle
from ullage.engines.model import comes_or_goes
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Source
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.snapshots.backends.base import Backend
from ullage.snapshots.backends.longhorn.status import backend_snapshot_of
from ullage.snapshots.class_parameters import list_secret
from ullage.snapshots.controllers.record.audit import rules
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import Record, State
from ullage.snapshots.secrets import read_secrets
from ullage.snapshots.volume_queue import RecordKey


class RecordAuditor:
    """`watched` are Longhorn's Snapshots, where this process calls Longhorn; all other drivers are listed, and `misses` says
    what came of it."""

    def __init__(
        self,
        client: Client,
        lookups: Sequence[SnapshotLookup],
        backends: Mapping[str, Backend],
        *,
        misses: rules.Misses,
        watched: Cache[EngineSnapshot] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._lookups = {lookup.dialect.name: lookup for lookup in lookups}
        self._backends = backends
        self._misses = misses
        self._watched = watched
        self._clock = clock or SystemClock()

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[RecordKey]:
        sources: list[Source[Any, RecordKey]] = []
        for lookup in self._lookups.values():
            sources.append(Source(lookup.records, _own(lookup), when=_matters(lookup)))
        if self._watched is not None:
            sources.append(Source(self._watched, self._of_engine_snapshot, when=comes_or_goes))
        return Controller("record-audit", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _of_engine_snapshot(self, snapshot: EngineSnapshot) -> Iterable[RecordKey]:
        handle = str(SnapshotHandle(snapshot.spec.volume, snapshot.metadata.name))
        for name, lookup in self._lookups.items():
            for record in lookup.with_handle(DRIVER, handle):
                yield RecordKey(name, record.meta.name)

    async def reconcile(self, key: RecordKey) -> None:
        lookup = self._lookups[key.dialect]
        obj = lookup.records.get(Key("", key.name))
        if obj is None:
            return
        record = lookup.dialect.read_record(obj)
        if record.driver not in self._backends or not rules.is_audited(record) or self._seems_lost(record) == record.lost:
            return
        is_there = await self._is_there(lookup, record)
        if is_there:
            self._misses.forget(record.meta.uid)
        if is_there == record.lost:
            await self._write(lookup, obj, rules.found_again(record) if is_there else rules.lost(record))

    def _seems_lost(self, record: Record) -> bool:
        if record.driver != DRIVER or self._watched is None:
            return self._misses.is_missing(record.meta.uid)
        handle = SnapshotHandle.parse(record.handle)
        seen = self._watched.get(Key(NAMESPACE, handle.snapshot)) if handle is not None else None
        if seen is None or handle is None or seen.spec.volume != handle.volume:
            return True
        found = backend_snapshot_of(seen)
        return found is None or not rules.is_the_same(record, found)

    async def _is_there(self, lookup: SnapshotLookup, record: Record) -> bool:
        ref = list_secret(record, lookup.snapshot_class(record.class_name))
        secrets = await read_secrets(self._client, ref)
        found = await self._backends[record.driver].find(record.handle, secrets=secrets)
        if found is None:
            return False
        if record.driver == DRIVER:  # its handles are names
            return rules.is_the_same(record, found)
        return found.ready or not record.lost

    async def _write(self, lookup: SnapshotLookup, obj: Any, state: State) -> None:
        change = lookup.dialect.record_change(obj, state, now=self._clock.now())
        if change.status is not None:
            await patch_seen(self._client, lookup.dialect.records, obj, change.status, subresource="status")


def _own(lookup: SnapshotLookup) -> Any:
    return lambda obj: (RecordKey(lookup.dialect.name, obj.metadata.name),)


def _matters(lookup: SnapshotLookup) -> Any:
    """Once it has a snapshot: one that was lost before the handle was written is noticed too."""

    def facts(obj: Any) -> tuple[object, ...]:
        record = lookup.dialect.read_record(obj)
        return record.meta.uid, record.handle, rules.is_audited(record)

    return lambda old, new: new is not None and (old is None or facts(old) != facts(new))
