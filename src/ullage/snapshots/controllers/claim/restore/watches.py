"""Which claims want which snapshot, and what wakes a claim that waits for one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.controller.controller import Source
from ullage.kube.objects import without_finalizer
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.controllers.claim.restore.eligibility import (
    RESTORING,
    DataSource,
    data_source_of,
    has_begun,
    snapshot_keys,
)
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup
from ullage.snapshots.model import Snapshot
from ullage.snapshots.restored_volume import is_ours

BY_SNAPSHOT: Final = "snapshot"
BY_CLASS: Final = "class of a restore"
_GROUPS: Final = {dialect.name: dialect.snapshots.group for dialect in (GA, PROTOTYPE)}


# --- which claims restore from a snapshot ----------------------------------------------------------------------------


def index_claims(claims: Cache[PersistentVolumeClaim]) -> None:
    """Has claims found by what they are filled from. Several controllers share the cache: whoever comes first sets it."""
    with contextlib.suppress(ValueError):
        claims.index(BY_SNAPSHOT, snapshot_keys)
        claims.index(BY_CLASS, _class_keys)


def restoring_claims(claims: Cache[PersistentVolumeClaim], source: DataSource) -> list[PersistentVolumeClaim]:
    """The claims that are being filled from a snapshot right now: it must not go before that is done, or undone."""
    return [claim for claim in claims.by(BY_SNAPSHOT, str(source)) if has_begun(claim)]


def pending(claims: Cache[PersistentVolumeClaim]) -> Callable[[str, Snapshot], Iterable[str]]:
    """For whoever deletes snapshots: from a dialect's name and a snapshot to the claims that hold it."""

    def restoring(dialect: str, snapshot: Snapshot) -> Iterable[str]:
        source = DataSource(_GROUPS[dialect], snapshot.meta.namespace, snapshot.meta.name)
        return [str(key_of(claim)) for claim in restoring_claims(claims, source)]

    return restoring


def snapshot_of(claim: PersistentVolumeClaim, group: str) -> Iterable[Key]:
    """For whoever deletes snapshots: the one to look at again when a claim has changed."""
    source = data_source_of(claim)
    return (Key(source.namespace, source.name),) if source is not None and source.group == group else ()


# --- what wakes a claim ------------------------------------------------------------------------------------------------


def sources(volumes: VolumeLookup, lookups: Iterable[SnapshotLookup]) -> list[Source[Any, Key]]:
    """A claim is looked at when it changes, and when anything does that it is made from."""
    claims = volumes.claims

    def of_class(found: StorageClass) -> Iterable[Key]:
        return (key_of(claim) for claim in claims.by(BY_CLASS, found.metadata.name))

    found: list[Source[Any, Key]] = [
        Source(claims, _own, when=_matters),
        Source(volumes.classes, of_class),
        Source(volumes.volumes, _claim_of),
    ]
    for lookup in lookups:
        found += _of_lookup(claims, lookup)
    return found


def _of_lookup(claims: Cache[PersistentVolumeClaim], lookup: SnapshotLookup) -> list[Source[Any, Key]]:
    group = lookup.dialect.snapshots.group

    def wanting(namespace: str, name: str) -> Iterable[Key]:
        return (key_of(claim) for claim in claims.by(BY_SNAPSHOT, str(DataSource(group, namespace, name))))

    def of_snapshot(found: Any) -> Iterable[Key]:
        return wanting(found.metadata.namespace, found.metadata.name)

    def of_record(found: Any) -> Iterable[Key]:
        ref = lookup.dialect.read_record(found).ref
        return wanting(ref.namespace, ref.name)

    return [Source(lookup.snapshots, of_snapshot), Source(lookup.records, of_record)]


def _own(claim: PersistentVolumeClaim) -> Iterable[Key]:
    return (key_of(claim),) if data_source_of(claim) is not None else ()


def _class_keys(claim: PersistentVolumeClaim) -> Iterable[str]:
    waits = data_source_of(claim) is not None and not claim.spec.volume_name
    return (claim.spec.storage_class_name,) if waits and claim.spec.storage_class_name else ()


def _claim_of(volume: PersistentVolume) -> Iterable[Key]:
    ref = volume.spec.claim_ref
    return (Key(ref.namespace, ref.name),) if is_ours(volume) and ref is not None else ()


def _matters(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> bool:
    """Our own finalizer is no news: taking it off after a failure would be the reason for the next try."""
    return old is None or new is None or _rest(old) != _rest(new)


def _rest(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    meta = msgspec.structs.replace(without_finalizer(claim.metadata, RESTORING), resource_version="")
    return msgspec.structs.replace(claim, metadata=meta)
