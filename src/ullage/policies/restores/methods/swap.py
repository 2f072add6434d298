"""Directories of a node: the claim's volume changes places with a copy of the snapshot. The claim itself stays."""

from __future__ import annotations

from typing import Protocol

from ullage.errors import Impossible, NotNow
from ullage.kube.cache.indexer import Key
from ullage.kube.client.reader import Listing
from ullage.kube.kinds import Kind
from ullage.policies.restores import model
from ullage.policies.restores.api import RESTORES, EarlierClaim, SnapshotRestore
from ullage.policies.restores.eligibility import capacity_of
from ullage.policies.restores.methods.base import Unused
from ullage.policies.restores.model import RestoreJob
from ullage.snapshots.backends.base import Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath.in_place.backend import InPlaceBackend


class RestoreLister(Protocol):
    async def list(self, kind: Kind[SnapshotRestore]) -> Listing[SnapshotRestore]: ...


class SwapMethod:
    name = model.SWAP

    def __init__(self, backend: InPlaceBackend) -> None:
        self._backend = backend

    async def prepare(self, job: RestoreJob) -> None:
        if job.record is None:
            raise Impossible("the snapshot is gone")
        restoration = Restoration(
            name=job.name, snapshot=job.record.handle, size=capacity_of(job), owner=job.restore.metadata.namespace
        )
        await self._backend.prepare(restoration, _volume(job))

    async def remembered(self, job: RestoreJob) -> EarlierClaim | None:
        return None  # it stays

    async def switch(self, job: RestoreJob, unused: Unused) -> str:
        volume = _volume(job)
        if not await self._backend.is_swapped(job.name, volume):
            await unused()
        await self._backend.swap(job.name, volume)
        return job.restore.status.claim_uid

    async def undo(self, job: RestoreJob, unused: Unused) -> str:
        volume = _volume(job)
        if await self._backend.is_swapped(job.name, volume):
            await unused()
        await self._backend.swap_back(job.name, volume)
        return job.restore.status.claim_uid

    async def settle(self, restore: SnapshotRestore) -> None:
        await self._backend.discard(RestoreJob(restore=restore).name)

    async def abandon(self, restore: SnapshotRestore) -> None:
        await self.settle(restore)

    async def forget(self, key: Key, *, uid: str) -> None:
        return  # its uid is not known any more: `sweep` finds what it kept

    async def sweep(self, client: RestoreLister) -> None:
        """Removes what is kept for restores that are gone, though they were to be held. What is there is looked at first: a
        restore is there before anything is made for it."""
        names = await self._backend.kept()
        if not names:
            return
        found = await client.list(RESTORES)
        there = {RestoreJob(restore=one).name for one in found.items}
        for name in names:
            if name not in there:
                await self._backend.discard(name)


def _volume(job: RestoreJob) -> VolumeHandle:
    """As the PersistentVolume has it, each time anew: nothing that is written in a status leads to a directory."""
    name = job.restore.spec.claim_name
    if not job.has_its_claim:
        raise Impossible(f"claim {name} is gone, or another one has its name by now")
    if job.source is None:  # its directory may have changed all the same
        raise NotNow(f"claim {name} has no PersistentVolume that is its own; it must have the one that it had")
    return job.source.volume
