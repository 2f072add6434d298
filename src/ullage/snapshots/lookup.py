"""Lookups in the caches: snapshots, records and classes of one API; claims, PersistentVolumes and StorageClasses for both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.kube.builtin import core, storage
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import is_deleting
from ullage.kube.slices import Wiring
from ullage.snapshots.data_source import DataSource, data_source_of, has_begun, snapshot_keys, waits_for
from ullage.snapshots.model import Dialect, Record, Snapshot, SnapshotClass
from ullage.snapshots.source_volume import ClaimContext
from ullage.snapshots.volume_queue import VolumeQueues

BY_CLAIM: Final = "claim"
BY_HANDLE: Final = "handle"
BY_SNAPSHOT: Final = "snapshot"
BY_CLASS: Final = "class of a restore"
BY_REF: Final = "snapshot of a record"
FAILED_BY_CLASS: Final = "class of a failure"


class VolumeLookup:
    """Claims, PersistentVolumes and StorageClasses: the built-in kinds that both APIs are about."""

    def __init__(
        self,
        claims: Cache[core.PersistentVolumeClaim],
        volumes: Cache[core.PersistentVolume],
        classes: Cache[storage.StorageClass],
    ) -> None:
        self.claims = claims
        self.volumes = volumes
        self.classes = classes
        with contextlib.suppress(ValueError):  # several lookups share a cache: the first one sets the indexes
            claims.index(BY_SNAPSHOT, snapshot_keys)
            claims.index(BY_CLASS, _class_keys)

    def context(self, namespace: str, claim: str) -> ClaimContext:
        found = self.claims.get(Key(namespace, claim)) if claim else None
        if found is None:
            return ClaimContext()
        return ClaimContext(
            claim=found,
            volume=self.volumes.get(Key("", found.spec.volume_name)),
            storage_class=self.classes.get(Key("", found.spec.storage_class_name or "")),
        )

    def claims_from(self, source: DataSource) -> list[core.PersistentVolumeClaim]:
        """The claims that are to be filled from a snapshot, or were."""
        return self.claims.by(BY_SNAPSHOT, str(source))

    def claims_of_class(self, name: str) -> list[core.PersistentVolumeClaim]:
        """The claims of a StorageClass that wait for a volume made from a snapshot."""
        return self.claims.by(BY_CLASS, name)

    def restoring(self, source: DataSource) -> list[Key]:
        """The claims that are being filled from a snapshot right now: it must not go before that is done, or undone."""
        return [key_of(claim) for claim in self.claims_from(source) if has_begun(claim)]

    def waiting(self, source: DataSource, snapshot: Meta) -> list[Key]:
        """The claims that are still to be filled from a snapshot, for which nothing was begun yet."""
        return [key_of(one) for one in self.claims_from(source) if not has_begun(one) and waits_for(one, snapshot)]


def _class_keys(claim: core.PersistentVolumeClaim) -> Iterable[str]:
    waits = data_source_of(claim) is not None and not claim.spec.volume_name
    return (claim.spec.storage_class_name,) if waits and claim.spec.storage_class_name else ()


class SnapshotLookup:
    """One API's snapshots, records and classes."""

    def __init__(self, dialect: Dialect[Any, Any], snapshots: Cache[Any], records: Cache[Any], classes: Cache[Any]) -> None:
        self.dialect = dialect
        self.snapshots = snapshots
        self.records = records
        self.classes = classes
        with contextlib.suppress(ValueError):  # several slices share the caches: the first lookup sets the indexes
            snapshots.index(BY_CLAIM, self._claims)
            records.index(BY_HANDLE, self._handles)
            records.index(FAILED_BY_CLASS, self._failed_classes)
            records.index(BY_REF, self._refs)

    def snapshot(self, namespace: str, name: str) -> Snapshot | None:
        found = self.snapshots.get(Key(namespace, name))
        return self.dialect.read_snapshot(found) if found is not None else None

    def record(self, name: str) -> Record | None:
        found = self.records.get(Key("", name)) if name else None
        return self.dialect.read_record(found) if found is not None else None

    def record_name(self, snapshot: Snapshot) -> str:
        """The record that a snapshot is bound to, asks for, or will get."""
        return snapshot.imported_record or snapshot.state.record or self.dialect.record_name(snapshot)

    def snapshot_class(self, name: str) -> SnapshotClass | None:
        found = self.classes.get(Key("", name)) if name else None
        return self.dialect.read_class(found) if found is not None else None

    def all_classes(self) -> Sequence[SnapshotClass]:
        return [self.dialect.read_class(one) for one in self.classes.items()]

    def of_claim(self, namespace: str, name: str) -> Iterable[Snapshot]:
        """The newest first: those are the ones that something is still to be done about."""
        for one in reversed(self.snapshots.by(BY_CLAIM, f"{namespace}/{name}")):
            yield self.dialect.read_snapshot(one)

    def with_handle(self, driver: str, handle: str) -> list[Record]:
        return [self.dialect.read_record(one) for one in self.records.by(BY_HANDLE, f"{driver} {handle}")]

    def of_snapshot(self, key: Key) -> list[Record]:
        """The records that name a snapshot, whether it is bound to them or not."""
        return [self.dialect.read_record(one) for one in self.records.by(BY_REF, str(key))]

    def failed_of_class(self, name: str) -> list[str]:
        """The records of a class whose driver has answered with an error, or could not be asked."""
        return [one.metadata.name for one in self.records.by(FAILED_BY_CLASS, name)]

    def enqueue_records(self, queues: VolumeQueues) -> None:
        """Keeps the queues of volumes up to date with the records."""

        def moved(old: Any, new: Any) -> None:
            read = self.dialect.read_record
            queues.update(self.dialect.name, read(old) if old is not None else None, read(new) if new is not None else None)

        self.records.handle(moved)

    def _claims(self, obj: Any) -> Iterable[str]:
        claim = self.dialect.read_snapshot(obj).claim
        return (f"{obj.metadata.namespace}/{claim}",) if claim else ()

    def _handles(self, obj: Any) -> Iterable[str]:
        record = self.dialect.read_record(obj)
        return (f"{record.driver} {record.handle}",) if record.handle else ()

    def _refs(self, obj: Any) -> Iterable[str]:
        ref = self.dialect.read_record(obj).ref
        return (str(Key(ref.namespace, ref.name)),) if ref.name else ()

    def _failed_classes(self, obj: Any) -> Iterable[str]:
        record = self.dialect.read_record(obj)
        return (record.class_name,) if record.class_name and record.state.problem is not None else ()


@dataclass(frozen=True, slots=True)
class NamedRecord:
    """A record with its kind, for messages that name it and Events on it."""

    kind: Kind[Any]
    record: Record

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.record.meta.name}"


def records_with_handle(lookups: Iterable[SnapshotLookup], record: Record) -> list[NamedRecord]:
    """The other records that are to stay and have the handle of this one, as far as the caches show."""
    return [
        NamedRecord(lookup.dialect.records, one)
        for lookup in lookups
        for one in (lookup.with_handle(record.driver, record.handle) if record.handle else ())
        if one.meta.uid != record.meta.uid and not is_deleting(one.meta)
    ]


def kinds_of(dialects: Iterable[Dialect[Any, Any]]) -> tuple[Kind[Any], ...]:
    """What the controllers have to watch."""
    builtin: tuple[Kind[Any], ...] = (core.CLAIMS, core.PERSISTENT_VOLUMES, storage.STORAGE_CLASSES)
    own = (kind for one in dialects for kind in (one.snapshots, one.records, one.classes))
    return tuple(dict.fromkeys((*builtin, *own)))


def volume_lookup(wiring: Wiring) -> VolumeLookup:
    return VolumeLookup(
        claims=wiring.cache(core.CLAIMS),
        volumes=wiring.cache(core.PERSISTENT_VOLUMES),
        classes=wiring.cache(storage.STORAGE_CLASSES),
    )


def snapshot_lookup(wiring: Wiring, dialect: Dialect[Any, Any]) -> SnapshotLookup:
    return SnapshotLookup(
        dialect, wiring.cache(dialect.snapshots), wiring.cache(dialect.records), wiring.cache(dialect.classes)
    )
