"""Directories of a node: the claim's volume changes places with a copy of the snapshot. The claim itself stays.

A directory may be more than one PersistentVolume's: that is how namespaces share one. Whoever has it mounted by another keeps
the one that is moved away, and loses what he writes when that goes. So a directory that others have too stays where it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from ullage.clock import Clock
from ullage.errors import Impossible, NotNow, UllageError
from ullage.kube.builtin.core import PERSISTENT_VOLUMES, PersistentVolume
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.policies.restores import model
from ullage.policies.restores.api import SNAPSHOT_RESTORES, EarlierClaim, SnapshotRestore
from ullage.policies.restores.eligibility import capacity_of
from ullage.policies.restores.methods.base import Unused
from ullage.policies.restores.model import RestoreJob
from ullage.policies.restores.pods import ClaimInUse, Lister
from ullage.snapshots.backends.base import Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath.in_place import InPlaceBackend
from ullage.snapshots.settings import HOSTPATH
from ullage.snapshots.source_volume import SourceVolume, source_volume_of

SWEEP_PAUSE: Final = 30.0  # seconds, between two looks for what nobody's restore keeps
# Its claim is gone, and no other one can have it before somebody edits it: no pod uses it.
_UNUSED: Final = frozenset({"Released", "Failed"})


class SharedDirectory(ClaimInUse):
    """Another PersistentVolume has the directory, too. Whose it is, is not told: that may be another tenant."""

    def __init__(self, job: RestoreJob) -> None:
        super().__init__(job.restore.spec.claim_name, (), message=_shared(job))


def _shared(job: RestoreJob) -> str:
    volume = job.source.volume_name if job.source is not None else "(none)"
    return (
        f"volume {volume} of claim {job.restore.spec.claim_name}: another PersistentVolume has the same directory, one that it "
        "is in, or one in it; whoever uses that would keep what is moved away, and lose what he writes"
    )


class SwapMethod:
    name = model.SWAP

    def __init__(self, backend: InPlaceBackend, client: Lister, volumes: Cache[PersistentVolume], *, clock: Clock) -> None:
        self._backend = backend
        self._client = client
        self._volumes = volumes
        self._clock = clock
        self._swept: float | None = None  # when that was, for a restore that this process never saw
        self._uids: dict[Key, str] = {}  # of the restores that were seen

    async def prepare(self, job: RestoreJob) -> None:
        if job.record is None:
            raise Impossible("the snapshot is gone")
        volume = _volume(job)
        if is_shared(job, self._volumes.items()):
            raise Impossible(_advice(job))
        restoration = Restoration(
            name=job.name, snapshot=job.record.handle, size=capacity_of(job), owner=job.restore.metadata.namespace
        )
        await self._backend.prepare(restoration, volume)

    async def remembered(self, job: RestoreJob) -> EarlierClaim | None:
        return None  # it stays

    async def switch(self, job: RestoreJob, unused: Unused) -> str:
        volume = _volume(job)
        if not await self._backend.is_swapped(job.name, volume):
            await unused()
            if await self._is_shared(job):
                raise Impossible(_advice(job))
        await self._backend.swap(job.name, volume)
        return job.restore.status.claim_uid

    async def undo(self, job: RestoreJob, unused: Unused) -> str:
        volume = _volume(job)
        if await self._backend.is_swapped(job.name, volume):
            await unused()
            if await self._is_shared(job):
                raise SharedDirectory(job)
        await self._backend.swap_back(job.name, volume)
        return job.restore.status.claim_uid

    async def _is_shared(self, job: RestoreJob) -> bool:
        """That it is not is believed of nobody but the API."""
        return is_shared(job, self._volumes.items()) or is_shared(job, (await self._client.list(PERSISTENT_VOLUMES)).items)

    async def settle(self, restore: SnapshotRestore) -> None:
        await self._backend.discard(_kept_name(restore.metadata.uid))

    async def abandon(self, restore: SnapshotRestore) -> None:
        await self.settle(restore)

    async def forget(self, key: Key, *, uid: str) -> None:
        """What was kept for a restore that is gone by force goes at once: otherwise whoever makes one after the other and takes
        it away heaps copies up. Of one that this process never saw it is found by what is there."""
        earlier = self._uids.get(key, "")
        if earlier == uid and uid:
            return
        if earlier:
            await self._backend.discard(_kept_name(earlier))
        elif not uid:
            await self._sweep_now_and_then()
        self._uids.pop(key, None)
        if uid:
            self._uids[key] = uid

    async def _sweep_now_and_then(self) -> None:
        """Anybody can have a name looked for that no restore ever had."""
        now = self._clock.monotonic()
        if self._swept is None or now - self._swept >= SWEEP_PAUSE:
            self._swept = now
            await self.sweep()

    async def sweep(self) -> None:
        """Removes what is kept for restores that are gone, though they were to be held. What is there is looked at first: a
        restore is there before anything is made for it."""
        names = await self._backend.kept()
        if not names:
            return
        found = await self._client.list(SNAPSHOT_RESTORES)
        there = {_kept_name(one.metadata.uid) for one in found.items}
        problems = []
        for name in names:
            if name not in there:
                try:
                    await self._backend.discard(name)
                except UllageError as error:  # others are not kept for that
                    problems.append(error)
        if problems:
            raise problems[0]


def _volume(job: RestoreJob) -> VolumeHandle:
    """As the PersistentVolume has it, each time anew: nothing that is written in a status leads to a directory."""
    name = job.restore.spec.claim_name
    if not job.has_its_claim:
        raise Impossible(f"claim {name} is gone, or another one has its name by now")
    if job.source is None:  # its directory may have changed all the same
        raise NotNow(f"claim {name} has no PersistentVolume that is its own; it must have the one that it had")
    return job.source.volume


def is_shared(job: RestoreJob, volumes: Iterable[PersistentVolume]) -> bool:
    """Whether another volume has the directory, one above it or one in it, on the same node as far as is known."""
    mine = job.source
    assert mine is not None
    others = (source_volume_of(one) for one in volumes if one.status.phase not in _UNUSED)
    return any(one is not None and one.volume_name != mine.volume_name and _overlap(mine, one) for one in others)


def _overlap(one: SourceVolume, other: SourceVolume) -> bool:
    if other.driver != HOSTPATH or (one.volume.node and other.volume.node and one.volume.node != other.volume.node):
        return False
    mine, theirs = _parts(one.volume.handle), _parts(other.volume.handle)
    common = min(len(mine), len(theirs))
    return mine[:common] == theirs[:common]


def _parts(path: str) -> list[str]:
    return [part for part in os.path.normpath(path).split("/") if part]


def _advice(job: RestoreJob) -> str:
    name = job.restore.spec.source.name
    return f"{_shared(job)}. Restore it to a new claim: ullage snapshot restore {name} --to NEW-CLAIM"


def _kept_name(uid: str) -> str:
    """As `RestoreJob.name`, for a restore that is gone."""
    return f"restore-{uid}"
