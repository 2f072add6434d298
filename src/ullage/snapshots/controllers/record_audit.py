"""Looks at one record whose snapshot may be lost, or back: asks the storage system for its handle, and writes what it says.

It is woken by Longhorn's Snapshots, which are watched, and by the lists of `listing`. Neither is believed: a cache may be
behind, and a list may have been cut. Only the storage system's own answer about this handle counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from ullage.clock import Clock, SystemClock
from ullage.engines.api import Snapshot as EngineSnapshot
from ullage.engines.handles import DRIVER, NAMESPACE, SnapshotHandle
from ullage.engines.model import comes_or_goes
from ullage.errors import Retryable, Terminal
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.snapshots.backends.base import Backend, BackendSnapshot
from ullage.snapshots.backends.longhorn.status import backend_snapshot_of
from ullage.snapshots.class_parameters import list_secret, stamped_parameters
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import LOST, Problem, Record, Ref, State
from ullage.snapshots.secrets import find_secrets, read_secrets
from ullage.snapshots.volume_queue import RecordKey

# Which records are audited, when one is suspect, and what it says once its snapshot is lost or found.


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


class RecordAuditor:
    """`watched` are Longhorn's Snapshots, where this process calls Longhorn; all other drivers are listed, and `misses` says
    what came of it."""

    def __init__(
        self,
        client: Client,
        lookups: Sequence[SnapshotLookup],
        backends: Mapping[str, Backend],
        *,
        misses: Misses,
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
        if record.driver not in self._backends or not is_audited(record) or self._seems_lost(record) == record.lost:
            return
        is_there = await self._is_there(lookup, record)
        if is_there:
            self._misses.forget(record.meta.uid)
        if is_there == record.lost:
            await self._write(lookup, obj, found_again(record) if is_there else lost(record))

    def _seems_lost(self, record: Record) -> bool:
        if record.driver != DRIVER or self._watched is None:
            return self._misses.is_missing(record.meta.uid)
        handle = SnapshotHandle.parse(record.handle)
        seen = self._watched.get(Key(NAMESPACE, handle.snapshot)) if handle is not None else None
        if seen is None or handle is None or seen.spec.volume != handle.volume:
            return True
        found = backend_snapshot_of(seen)
        return found is None or not is_the_same(record, found)

    async def _is_there(self, lookup: SnapshotLookup, record: Record) -> bool:
        ref = list_secret(record, lookup.snapshot_class(record.class_name))
        secrets = await read_secrets(self._client, ref)
        found = await self._backends[record.driver].find(record.handle, secrets=secrets)
        if found is None:
            return False
        if record.driver == DRIVER:  # its handles are names
            return is_the_same(record, found)
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
        return record.meta.uid, record.handle, is_audited(record)

    return lambda old, new: new is not None and (old is None or facts(old) != facts(new))


# Lists what each driver has, at a set interval, and has the records looked at whose snapshots were missing twice in a
# row. It is a controller whose keys, the drivers, come back by themselves. A driver that cannot list is not audited; a
# list that fails counts for nothing.


logger = logging.getLogger(__name__)

LONGEST_LIST: Final = 3600.0  # seconds: a driver with very many snapshots gives them page by page
_BREATH: Final = 200  # records that are looked at before others get their turn


class SnapshotLister:
    def __init__(
        self,
        client: Client,
        lookups: Sequence[SnapshotLookup],
        backends: Mapping[str, Backend],
        *,
        misses: Misses,
        look: Callable[[RecordKey], None],
        interval: float,
        clock: Clock | None = None,
    ) -> None:
        """`look` has a record looked at, `interval` is in seconds."""
        self._client = client
        self._lookups = tuple(lookups)
        self._backends = backends
        self._misses = misses
        self._look = look
        self._interval = interval
        self._clock = clock or SystemClock()
        self._next: dict[str, float] = {}  # by driver: when it is listed again
        self._silent: set[str] = set()  # drivers that cannot list, and of which that was said

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[str]:
        sources: list[Source[Any, str]] = [
            Source(lookup.records, self._driver_of(lookup), when=lambda old, new: old is None) for lookup in self._lookups
        ]
        name, clock = "snapshot-lists", self._clock
        return Controller(name, sources, self.reconcile, clock=clock, metrics=metrics, longest_run=LONGEST_LIST)

    def _driver_of(self, lookup: SnapshotLookup) -> Any:
        def keys(obj: Any) -> tuple[str, ...]:
            driver = lookup.dialect.read_record(obj).driver
            return (driver,) if driver in self._backends else ()

        return keys

    async def reconcile(self, driver: str) -> Requeue | None:
        now = self._clock.monotonic()
        due = self._next.get(driver, now)
        if due > now:
            return Requeue(due - now)
        self._next[driver] = now + self._interval
        for secret, found in (await self._records(driver, node=self._backends[driver].node)).items():
            try:
                await self._audit(driver, secret, found)
                self._silent.discard(driver)
            except (Retryable, Terminal) as error:
                self._tell(driver, error)
        return Requeue(self._interval)

    def _tell(self, driver: str, error: Exception) -> None:
        if isinstance(error, Retryable):
            logger.warning("snapshots of a driver were not listed", extra={"driver": driver, "error": str(error)})
        elif driver not in self._silent:
            self._silent.add(driver)
            logger.info("a driver cannot list: lost snapshots are not noticed", extra={"driver": driver, "error": str(error)})

    async def _audit(self, driver: str, secret: Ref | None, found: Sequence[tuple[RecordKey, Record]]) -> None:
        secrets = await find_secrets(self._client, secret)
        if secrets is None:
            return  # what cannot be asked is not missing
        handles = frozenset([one.handle async for one in self._backends[driver].list(secrets=secrets)])
        keys = {record.meta.uid: key for key, record in found}
        for record in self._misses.count((record for _, record in found), handles):
            self._look(keys[record.meta.uid])

    async def _records(self, driver: str, *, node: str) -> dict[Ref | None, list[tuple[RecordKey, Record]]]:
        """Those to audit, by the Secret that a list needs."""
        found: dict[Ref | None, list[tuple[RecordKey, Record]]] = defaultdict(list)
        for lookup in self._lookups:
            for number, obj in enumerate(lookup.records.items()):
                if number % _BREATH == 0:
                    await asyncio.sleep(0)
                record = lookup.dialect.read_record(obj)
                if record.driver != driver or not is_audited(record) or not is_here(record, node=node):
                    continue
                chosen = lookup.snapshot_class(record.class_name)
                if chosen is None and record.class_name and stamped_parameters(record) is None:
                    continue  # which Secret a list needs is not known any more
                found[list_secret(record, chosen)].append((RecordKey(lookup.dialect.name, record.meta.name), record))
        return found
