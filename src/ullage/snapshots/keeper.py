"""Claims are held while a snapshot of them is being taken, and not a moment longer.

The binder holds a claim before it makes the record; only this lets go. It looks at all snapshots of the claim together, so
that a broken one beside a good one holds nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.errors import NotFound
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.snapshots import types
from ullage.snapshots.model import Snapshot
from ullage.snapshots.rules import in_progress
from ullage.snapshots.settings import Settings
from ullage.snapshots.shelves import Shelf, Volumes
from ullage.snapshots.sources import origin_of


class Keeper:
    """Lets claims go as soon as no snapshot of them is being taken, whatever became of the snapshots."""

    def __init__(self, client: Client, shelves: Iterable[Shelf], volumes: Volumes, *, settings: Settings) -> None:
        self._client = client
        self._shelves = tuple(shelves)
        self._volumes = volumes
        self._settings = settings

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [own(self._volumes.claims)]
        for shelf in self._shelves:
            sources.append(Source(shelf.snapshots, _claim_of_snapshot(shelf), when=_snapshot_moved(shelf)))
            sources.append(Source(shelf.records, _claim_of_record(shelf), when=_record_moved(shelf)))
        return Controller("snapshot-sources", sources, self.reconcile, metrics=metrics)

    async def reconcile(self, key: Key) -> None:
        claim = self._volumes.claims.get(key)
        if claim is None:
            return
        held = [shelf for shelf in self._shelves if shelf.dialect.claim_finalizer in claim.metadata.finalizers]
        idle = {shelf.dialect.claim_finalizer for shelf in held if not self._needed(shelf, key)}
        if not idle or not self._ours(key):
            return
        kept = [one for one in claim.metadata.finalizers if one not in idle]
        with contextlib.suppress(NotFound):
            await patch_seen(self._client, types.CLAIMS, claim, {"metadata": {"finalizers": kept}})

    def _needed(self, shelf: Shelf, key: Key) -> bool:
        return any(self._holds(shelf, one) for one in shelf.of_claim(key.namespace, key.name))

    def _holds(self, shelf: Shelf, snapshot: Snapshot) -> bool:
        record = shelf.record(shelf.record_name(snapshot))
        if record is not None:
            return in_progress(snapshot, record)
        state = snapshot.state
        return snapshot.meta.deletion_timestamp is None and not state.record and state.problem is None

    def _ours(self, key: Key) -> bool:
        """The finalizer has the same name for every snapshotter: it is ours where the volume's driver is."""
        volume = self._volumes.around(*key).volume
        origin = origin_of(volume) if volume is not None else None
        return self._settings.alone or (origin is not None and self._settings.managed(origin.driver))


def _claim_of_snapshot(shelf: Shelf) -> Callable[[Any], Iterable[Key]]:
    def keys(obj: Any) -> Iterable[Key]:
        claim = shelf.dialect.read_snapshot(obj).claim
        return (Key(obj.metadata.namespace, claim),) if claim else ()

    return keys


def _claim_of_record(shelf: Shelf) -> Callable[[Any], Iterable[Key]]:
    def keys(obj: Any) -> Iterable[Key]:
        ref = shelf.dialect.read_record(obj).ref
        snapshot = shelf.snapshot(ref.namespace, ref.name)
        return (Key(ref.namespace, snapshot.claim),) if snapshot and snapshot.claim else ()

    return keys


# Of a long line each snapshot changes several times, and a claim is looked at with all of its snapshots. So it is looked at
# only where something has changed that it may be held for.


def _snapshot_moved(shelf: Shelf) -> Callable[[Any, Any], bool]:
    def facts(obj: Any) -> tuple[object, ...]:
        found = shelf.dialect.read_snapshot(obj)
        return found.meta.uid, found.meta.deletion_timestamp, found.state.record, found.state.problem is None, found.claim

    return _differ(facts)


def _record_moved(shelf: Shelf) -> Callable[[Any, Any], bool]:
    def facts(obj: Any) -> tuple[object, ...]:
        found = shelf.dialect.read_record(obj)
        return found.meta.uid, found.ref, found.handle, found.begun, found.state.problem is None

    return _differ(facts)


def _differ(facts: Callable[[Any], tuple[object, ...]]) -> Callable[[Any, Any], bool]:
    return lambda old, new: old is None or new is None or facts(old) != facts(new)
