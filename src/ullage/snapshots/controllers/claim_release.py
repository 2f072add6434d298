"""Takes the finalizer off claims of which no snapshot is being taken any more.

`snapshot/bind` puts it on before it creates a record; only this controller takes it off. It looks at all snapshots of a claim
together, so that a broken one beside a good one holds nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from ullage.kube.builtin import core
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.errors import NotFound
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.snapshots.binding import in_progress
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup
from ullage.snapshots.model import DRIVER, Record, Snapshot
from ullage.snapshots.settings import Settings
from ullage.snapshots.source_volume import source_volume_of

# Whether a claim is still held for one of its snapshots.


def needs_claim(snapshot: Snapshot, record: Record | None) -> bool:
    """Whether the claim must stay for this snapshot: it is being taken, or is about to be."""
    if record is not None:
        return in_progress(snapshot, record)
    state = snapshot.state
    return snapshot.meta.deletion_timestamp is None and not state.record and state.problem is None


def snapshot_facts(snapshot: Snapshot) -> tuple[object, ...]:
    meta, state = snapshot.meta, snapshot.state
    return meta.uid, meta.deletion_timestamp, state.record, state.problem is None, snapshot.claim


def record_facts(record: Record) -> tuple[object, ...]:
    problem = record.state.problem
    return record.meta.uid, record.ref, record.handle, record.begun, problem is None, problem and problem.reason


class ClaimReleaser:
    """Releases a claim as soon as no snapshot of it is being taken, whatever became of the snapshots."""

    def __init__(self, client: Client, lookups: Iterable[SnapshotLookup], volumes: VolumeLookup, *, settings: Settings) -> None:
        self._client = client
        self._lookups = tuple(lookups)
        self._volumes = volumes
        self._settings = settings

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [own(self._volumes.claims)]
        for lookup in self._lookups:
            sources.append(Source(lookup.snapshots, _claim_of_snapshot(lookup), when=_snapshot_moved(lookup)))
            sources.append(Source(lookup.records, _claim_of_record(lookup), when=_record_moved(lookup)))
        return Controller("snapshot-sources", sources, self.reconcile, metrics=metrics)

    async def reconcile(self, key: Key) -> None:
        claim = self._volumes.claims.get(key)
        if claim is None:
            return
        held = [lookup for lookup in self._lookups if lookup.dialect.claim_finalizer in claim.metadata.finalizers]
        idle = {lookup.dialect.claim_finalizer for lookup in held if not self._needed(lookup, key)}
        if not idle or not self._ours(claim):
            return
        kept = [one for one in claim.metadata.finalizers if one not in idle]
        patch: dict[str, Any] = {"finalizers": kept}
        if len(idle) == len(held):
            patch["annotations"] = {DRIVER: None}
        with contextlib.suppress(NotFound):
            await self._volumes.claims.shows(await patch_seen(self._client, core.CLAIMS, claim, {"metadata": patch}))

    def _needed(self, lookup: SnapshotLookup, key: Key) -> bool:
        snapshots = lookup.of_claim(key.namespace, key.name)
        return any(needs_claim(one, lookup.record(lookup.record_name(one))) for one in snapshots)

    def _ours(self, claim: core.PersistentVolumeClaim) -> bool:
        """The finalizer has the same name for every snapshotter: it is ours where a note says so, or the volume's driver is."""
        volume = self._volumes.context(claim.metadata.namespace, claim.metadata.name).volume
        source = source_volume_of(volume) if volume is not None else None
        managed = source is not None and self._settings.managed(source.driver)
        return self._settings.alone or managed or DRIVER in claim.metadata.annotations


def _claim_of_snapshot(lookup: SnapshotLookup) -> Callable[[Any], Iterable[Key]]:
    def keys(obj: Any) -> Iterable[Key]:
        claim = lookup.dialect.read_snapshot(obj).claim
        return (Key(obj.metadata.namespace, claim),) if claim else ()

    return keys


def _claim_of_record(lookup: SnapshotLookup) -> Callable[[Any], Iterable[Key]]:
    def keys(obj: Any) -> Iterable[Key]:
        ref = lookup.dialect.read_record(obj).ref
        snapshot = lookup.snapshot(ref.namespace, ref.name)
        return (Key(ref.namespace, snapshot.claim),) if snapshot and snapshot.claim else ()

    return keys


def _snapshot_moved(lookup: SnapshotLookup) -> Callable[[Any, Any], bool]:
    return _differ(lambda obj: snapshot_facts(lookup.dialect.read_snapshot(obj)))


def _record_moved(lookup: SnapshotLookup) -> Callable[[Any, Any], bool]:
    return _differ(lambda obj: record_facts(lookup.dialect.read_record(obj)))


def _differ(facts: Callable[[Any], tuple[object, ...]]) -> Callable[[Any, Any], bool]:
    return lambda old, new: old is None or new is None or facts(old) != facts(new)
