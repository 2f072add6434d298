"""The controller of Volumes: deletes a Volume's Snapshots with it, and removes attachment tickets that nobody needs.

A Volume keeps its finalizer until no Snapshot with its uid remains. The Snapshots' controller releases them at once, in
whatever state they are, since the volume is being deleted: so neither waits for the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from ullage.clock import Clock, SystemClock
from ullage.engines import tickets
from ullage.engines.api import ENGINE_SNAPSHOTS, FINALIZER, VOLUME_LABEL, VOLUMES, Snapshot, TicketOwner, Volume
from ullage.engines.lookup import Lookup
from ullage.engines.model import SnapshotFacts, belongs_to
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import NotFound
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting, with_finalizer, without_finalizer

RECHECK_SECONDS = 0.5  # seconds; the cache does not show yet what a live read did


class NeedsAttachment(Protocol):
    def __call__(self, facts: SnapshotFacts, *, now: datetime) -> bool: ...


class VolumeController:
    """The controller of Volumes, as far as their snapshots are concerned."""

    def __init__(
        self, client: Client, lookup: Lookup, *, needs_attachment: NeedsAttachment, clock: Clock | None = None
    ) -> None:
        """`needs_attachment`: whether a snapshot needs its volume attached, which the snapshots' own rules tell."""
        self._client = client
        self._lookup = lookup
        self._needs_attachment = needs_attachment
        self._clock = clock or SystemClock()

    def controller(self, *, workers: int = 4, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [own(self._lookup.volumes), Source(self._lookup.snapshots, self._of_snapshot)]
        return Controller("engine-volumes", sources, self.reconcile, workers=workers, clock=self._clock, metrics=metrics)

    def _of_snapshot(self, snapshot: Snapshot) -> Iterable[Key]:
        """Only a volume that is going, or held, cares about what becomes of its snapshots."""
        key = Key(snapshot.metadata.namespace, snapshot.spec.volume)
        volume = self._lookup.volumes.get(key)
        if volume is not None and (is_deleting(volume.metadata) or volume.spec.attachment_tickets):
            yield key

    async def reconcile(self, key: Key) -> Requeue | None:
        volume = self._lookup.volumes.get(key)
        if volume is None:
            return None
        try:
            if is_deleting(volume.metadata):
                return await self._end(volume)
            return await self._keep(volume)
        except NotFound:
            return None

    # --- while it stands ---

    async def _keep(self, volume: Volume) -> Requeue | None:
        meta = volume.metadata
        held = with_finalizer(meta, FINALIZER)
        if held is not meta:
            await self._patch(volume, {"metadata": {"finalizers": list(held.finalizers)}})
            return None  # its own change brings it back
        change = tickets.reap(volume, lambda owner: self._needs(volume, owner), now=self._clock.now())
        if change is not None:
            await self._patch(volume, change)
            return None
        end = tickets.next_end(volume, self._clock.now())
        return None if end is None else Requeue(end + 1.0)

    def _needs(self, volume: Volume, owner: TicketOwner) -> bool:
        found = self._lookup.snapshots.get(Key(volume.metadata.namespace, owner.name))
        if found is None or found.metadata.uid != owner.uid:
            return False
        return self._needs_attachment(self._lookup.facts(found), now=self._clock.now())

    # --- while it goes ---

    async def _end(self, volume: Volume) -> Requeue | None:
        meta = volume.metadata
        if FINALIZER not in meta.finalizers:
            return None
        left = list(self._lookup.snapshots_of(volume)) or await self._left(volume)
        for one in left:
            if not is_deleting(one.metadata):
                await self._delete(one)
        if left:
            return Requeue(RECHECK_SECONDS)
        await self._patch(volume, {"metadata": {"finalizers": list(without_finalizer(meta, FINALIZER).finalizers)}})
        return None

    async def _left(self, volume: Volume) -> list[Snapshot]:
        """What the API has of its snapshots now: one may have come that the cache does not show."""
        meta = volume.metadata
        found = await self._client.list(ENGINE_SNAPSHOTS, meta.namespace, labels=f"{VOLUME_LABEL}={meta.name}")
        return [one for one in found.items if belongs_to(one, volume)]

    async def _delete(self, snapshot: Snapshot) -> None:
        meta = snapshot.metadata
        try:
            await self._client.delete(ENGINE_SNAPSHOTS, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            return

    async def _patch(self, volume: Volume, merge: dict[str, Any]) -> None:
        await patch_seen(self._client, VOLUMES, volume, merge)
