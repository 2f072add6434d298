"""What a restore is about, as it is now: the caches to be woken by, and the API itself for what decides about data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.interface import Finder
from ullage.policies.restores.api import SnapshotRestore
from ullage.policies.restores.model import PENDING, RestoreJob
from ullage.snapshots.binding import refers_to
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import Snapshot
from ullage.snapshots.source_volume import source_volume_of

BY_CLAIM: Final = "claim of a restore"


class RestoreFinder:
    def __init__(self, client: Finder, restores: Cache[SnapshotRestore], lookups: Sequence[SnapshotLookup]) -> None:
        self._client = client
        self._restores = restores
        self._lookups = {lookup.dialect.snapshots.group: lookup for lookup in lookups}
        restores.index(BY_CLAIM, lambda one: (f"{one.metadata.namespace}/{one.spec.claim_name}",))

    async def job(self, restore: SnapshotRestore) -> RestoreJob:
        """The claim and its volume are asked of the API: what is done to them depends on what they are at this moment. Each
        step looks anew whose the record is: a status, of the snapshot or of the restore, may be anybody's writing."""
        claim = await self._client.find(CLAIMS, restore.spec.claim_name, restore.metadata.namespace)
        volume = await self._volume(claim)
        lookup = self._lookups.get(restore.spec.source.api_group)
        snapshot = lookup.snapshot(restore.metadata.namespace, restore.spec.source.name) if lookup else None
        if snapshot is not None and restore.status.snapshot_uid not in ("", snapshot.meta.uid):
            snapshot = None  # the one that it was begun with is gone
        record = lookup.record(snapshot.state.record) if lookup and snapshot else None
        begun = restore.status.phase not in ("", PENDING)  # before that it is told why such a record is not taken
        if begun and record is not None and snapshot is not None and not refers_to(record, snapshot):
            record = None
        return RestoreJob(
            restore=restore,
            claim=claim,
            volume=volume,
            source=source_volume_of(volume) if volume is not None else None,
            snapshot=snapshot,
            record=record,
        )

    async def _volume(self, claim: PersistentVolumeClaim | None) -> PersistentVolume | None:
        """Only if it is the claim's own, by uid: a user may write any volume's name into a claim."""
        if claim is None or not claim.spec.volume_name:
            return None
        volume = await self._client.find(PERSISTENT_VOLUMES, claim.spec.volume_name)
        ref = volume.spec.claim_ref if volume is not None else None
        return volume if ref is not None and ref.uid == claim.metadata.uid else None

    def snapshots_of(self, restore: SnapshotRestore) -> Iterable[Snapshot]:
        """All snapshots of the claim, of both APIs."""
        for lookup in self._lookups.values():
            yield from lookup.of_claim(restore.metadata.namespace, restore.spec.claim_name)

    def of_claim(self, namespace: str, claim: str) -> list[SnapshotRestore]:
        return self._restores.by(BY_CLAIM, str(Key(namespace, claim)))

    # --- to be woken by ---

    def keys_of_claim(self, namespace: str, claim: str) -> Iterable[Key]:
        """All restores of a claim but those that nothing is to be done about any more."""
        return (key_of(one) for one in self.of_claim(namespace, claim) if not one.status.settled)

    def keys_of_snapshot(self, lookup: SnapshotLookup) -> Callable[[Any], Iterable[Key]]:
        def keys(obj: Any) -> Iterable[Key]:
            claim = lookup.dialect.read_snapshot(obj).claim
            return self.keys_of_claim(obj.metadata.namespace, claim) if claim else ()

        return keys
