"""What wakes a claim that waits for a snapshot: the claim itself, and anything that its volume is made from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.controller.controller import Source
from ullage.kube.objects import without_finalizer
from ullage.snapshots.data_source import RESTORED_FROM_UID, RESTORING, DataSource, data_source_of
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup
from ullage.snapshots.restored_volume import is_ours


def sources(volumes: VolumeLookup, lookups: Iterable[SnapshotLookup]) -> list[Source[Any, Key]]:
    """A claim is looked at when it changes, and when anything does that it is made from."""

    def of_class(found: StorageClass) -> Iterable[Key]:
        return map(key_of, volumes.claims_of_class(found.metadata.name))

    found: list[Source[Any, Key]] = [
        Source(volumes.claims, _own, when=_matters),
        Source(volumes.classes, of_class),
        Source(volumes.volumes, _claim_of),
    ]
    for lookup in lookups:
        found += _of_api(volumes, lookup)
    return found


def _of_api(volumes: VolumeLookup, lookup: SnapshotLookup) -> list[Source[Any, Key]]:
    group = lookup.dialect.snapshots.group

    def filled_from(namespace: str, name: str) -> Iterable[Key]:
        return map(key_of, volumes.claims_from(DataSource(group, namespace, name)))

    def of_snapshot(found: Any) -> Iterable[Key]:
        return filled_from(found.metadata.namespace, found.metadata.name)

    def of_record(found: Any) -> Iterable[Key]:
        ref = lookup.dialect.read_record(found).ref
        return filled_from(ref.namespace, ref.name)

    return [Source(lookup.snapshots, of_snapshot), Source(lookup.records, of_record)]


def _own(claim: PersistentVolumeClaim) -> Iterable[Key]:
    return (key_of(claim),) if data_source_of(claim) is not None else ()


def _claim_of(volume: PersistentVolume) -> Iterable[Key]:
    ref = volume.spec.claim_ref
    return (Key(ref.namespace, ref.name),) if is_ours(volume) and ref is not None else ()


def _matters(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> bool:
    """Our own finalizer and mark are no news: taking it off after a failure would be the reason for the next try."""
    return old is None or new is None or _rest(old) != _rest(new)


def _rest(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    held = without_finalizer(claim.metadata, RESTORING)
    notes = {key: value for key, value in held.annotations.items() if key != RESTORED_FROM_UID}
    meta = msgspec.structs.replace(held, resource_version="", annotations=notes)
    return msgspec.structs.replace(claim, metadata=meta)
