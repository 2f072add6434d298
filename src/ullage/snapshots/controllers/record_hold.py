"""Puts holds on Longhorn's Snapshots and Volumes, and takes off those that no record needs any more: volume by volume.

The backend puts a hold on before it has a snapshot taken. This controller does so for what was there already (imports, and
snapshots from before there were holds), and is the only one that takes them off. What a cache does not show may be there: a
hold goes only when the API says, at that moment, that nobody needs it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUMES, Volume
from ullage.engines.api import Snapshot as EngineSnapshot
from ullage.engines.handles import DRIVER, NAMESPACE, SnapshotHandle
from ullage.engines.holds import Hold, change, holds_of, unneeded
from ullage.engines.model import comes_or_goes
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller, Source
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.kinds import Object
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Write
from ullage.snapshots.binding import hold_of, needs_data
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import Record, Snapshot

# Which records hold which Snapshot of Longhorn, and what of its holds a Volume keeps.


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldFacts:
    """A record of Longhorn's driver, the kind that it has, and the snapshot that it names, where there is one."""

    record: Record
    kind: str
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The holds of one volume, by the record's uid: on each Snapshot by its name, and on the Volume itself."""

    snapshots: Mapping[str, Mapping[str, Hold]] = field(default_factory=dict)
    volume: Mapping[str, Hold] = field(default_factory=dict)


def engine_snapshot_of(record: Record) -> SnapshotHandle | None:
    """The Snapshot that a record stands for, also while it is only being asked for. None: it stands for none."""
    if record.driver != DRIVER:
        return None
    if record.handle:
        return SnapshotHandle.parse(record.handle)
    return SnapshotHandle(record.volume, record.backend_name) if record.begun and record.volume else None


def wanted(records: Iterable[HoldFacts], snapshots: Mapping[str, EngineSnapshot]) -> Wanted:
    """What the records of one volume hold. `snapshots` are the Snapshots that are there, by name.

    A Volume is held for a snapshot that it has, or is about to take: not for one that is lost.
    """
    found: dict[str, dict[str, Hold]] = {}
    volume: dict[str, Hold] = {}
    for facts in records:
        handle = engine_snapshot_of(facts.record)
        if handle is None or not needs_data(facts.record, facts.snapshot):
            continue
        hold = hold_of(facts.record, kind=facts.kind)
        there = snapshots.get(handle.snapshot)
        if there is not None and there.spec.volume == handle.volume and not is_deleting(there.metadata):
            found.setdefault(handle.snapshot, {})[hold.id] = hold
            volume[hold.id] = hold
        elif there is None and not facts.record.handle and not is_deleting(facts.record.meta):
            volume[hold.id] = hold
    return Wanted(found, volume)


WRITES: Final = (Write(ENGINE_SNAPSHOTS, ("patch",)), Write(VOLUMES, ("patch",)))

_BY_VOLUME: Final = "volume of Longhorn"
_HELD: Final = "held"


class Holder:
    """The controller of holds: its keys are Volumes."""

    def __init__(
        self, client: Client, lookups: Sequence[SnapshotLookup], *, snapshots: Cache[EngineSnapshot], volumes: Cache[Volume]
    ) -> None:
        self._client = client
        self._lookups = tuple(lookups)
        self._snapshots = snapshots
        self._volumes = volumes
        for lookup in self._lookups:
            lookup.records.index(_BY_VOLUME, _volumes_of(lookup))
        snapshots.index(_HELD, lambda one: (one.spec.volume,) if holds_of(one.metadata) else ())

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            Source(self._volumes, lambda one: (key_of(one),), when=_matters),
            Source(self._snapshots, lambda one: (Key(one.metadata.namespace, one.spec.volume),), when=_matters),
        ]
        for lookup in self._lookups:
            sources.append(Source(lookup.records, _keys_of_record(lookup)))
            sources.append(Source(lookup.snapshots, _keys_of_snapshot(lookup), when=comes_or_goes))
        return Controller("engine-holds", sources, self.reconcile, metrics=metrics)

    async def reconcile(self, key: Key) -> None:
        if key.namespace != NAMESPACE:
            return
        volume = self._volumes.get(key)
        with contextlib.suppress(NotFound, Conflict):  # it went, or another one came: the caches will say so
            if volume is None or is_deleting(volume.metadata):
                await self._let_go(key)
            else:
                await self._keep(volume)

    async def _keep(self, volume: Volume) -> None:
        """The Volume first and, when holds go, last: it is held as long as one of its Snapshots is."""
        facts = list(self._facts(volume.metadata.name))
        there = dict(self._there(volume.metadata.name, facts))
        found = wanted(facts, there)
        await self._put(VOLUMES, volume, found.volume.values())
        for name, snapshot in there.items():
            if not is_deleting(snapshot.metadata):
                await self._put(ENGINE_SNAPSHOTS, snapshot, found.snapshots.get(name, {}).values())
                await self._take(ENGINE_SNAPSHOTS, snapshot, unneeded(snapshot.metadata, found.snapshots.get(name, {})))
        await self._take(VOLUMES, volume, unneeded(volume.metadata, found.volume))

    async def _let_go(self, key: Key) -> None:
        """Whatever made the Volume go: its Snapshots have nothing left to hold, and others have to delete them."""
        held = self._snapshots.by(_HELD, key.name)
        live = await self._client.find(VOLUMES, key.name, key.namespace) if held else None
        if live is not None and not is_deleting(live.metadata):
            return  # the cache of Volumes is behind
        for one in held:
            await self._patch(ENGINE_SNAPSHOTS, one, change(one.metadata, take=unneeded(one.metadata, {})))

    # --- gather ---

    def _facts(self, volume: str) -> Iterator[HoldFacts]:
        for lookup in self._lookups:
            kind = lookup.dialect.records.kind
            for obj in lookup.records.by(_BY_VOLUME, volume):
                record = lookup.dialect.read_record(obj)
                snapshot = lookup.snapshot(record.ref.namespace, record.ref.name)
                yield HoldFacts(record=record, kind=kind, snapshot=snapshot)

    def _there(self, volume: str, facts: Iterable[HoldFacts]) -> Iterator[tuple[str, EngineSnapshot]]:
        """The Snapshots that holds are wanted for, and those that have some."""
        names = [handle.snapshot for one in facts if (handle := engine_snapshot_of(one.record)) is not None]
        for name in names:
            found = self._snapshots.get(Key(NAMESPACE, name))
            if found is not None and found.spec.volume == volume:
                yield name, found
        for one in self._snapshots.by(_HELD, volume):
            yield one.metadata.name, one

    # --- act ---

    async def _put(self, kind: Any, obj: Object, holds: Iterable[Hold]) -> None:
        await self._patch(kind, obj, change(obj.metadata, put=holds))

    async def _take(self, kind: Any, obj: Object, holds: Sequence[Hold]) -> None:
        gone = [one for one in holds if not await self._is_needed(one)]
        await self._patch(kind, obj, change(obj.metadata, take=gone))

    async def _is_needed(self, hold: Hold) -> bool:
        """As the API has it now: records that came, and Snapshots that were made, are in no cache at first."""
        kind, _, name = hold.kept_by.partition("/")
        lookup = next((one for one in self._lookups if one.dialect.records.kind == kind), None)
        live = await self._client.find(lookup.dialect.records, name) if lookup is not None else None
        if lookup is None or live is None or live.metadata.uid != hold.id:
            return False
        record = lookup.dialect.read_record(live)
        handle, facts = engine_snapshot_of(record), self._live_facts(lookup, record)
        if handle is None:
            return False
        found = await self._client.find(ENGINE_SNAPSHOTS, handle.snapshot, NAMESPACE)
        return hold.id in wanted([facts], {handle.snapshot: found} if found is not None else {}).volume

    def _live_facts(self, lookup: SnapshotLookup, record: Any) -> HoldFacts:
        snapshot = lookup.snapshot(record.ref.namespace, record.ref.name)
        return HoldFacts(record=record, kind=lookup.dialect.records.kind, snapshot=snapshot)

    async def _patch(self, kind: Any, obj: Object, merge: Any) -> None:
        meta = obj.metadata
        if merge is not None:
            await self._client.patch(kind, meta.name, meta.namespace, merge=merge, uid=meta.uid)


def _volumes_of(lookup: SnapshotLookup) -> Callable[[Any], Iterable[str]]:
    def volumes(obj: Any) -> Iterable[str]:
        handle = engine_snapshot_of(lookup.dialect.read_record(obj))
        return (handle.volume,) if handle is not None else ()

    return volumes


def _keys_of_record(lookup: SnapshotLookup) -> Callable[[Any], Iterable[Key]]:
    return lambda obj: [Key(NAMESPACE, volume) for volume in _volumes_of(lookup)(obj)]


def _keys_of_snapshot(lookup: SnapshotLookup) -> Callable[[Any], Iterable[Key]]:
    def keys(obj: Any) -> Iterable[Key]:
        found = lookup.records.get(Key("", lookup.record_name(lookup.dialect.read_snapshot(obj))))
        return _keys_of_record(lookup)(found) if found is not None else ()

    return keys


def _matters(old: Object | None, new: Object | None) -> bool:
    """What changes holds, or what they may be on: not what an engine says every few seconds."""
    if old is None or new is None or comes_or_goes(old, new):
        return True
    return holds_of(old.metadata) != holds_of(new.metadata)
