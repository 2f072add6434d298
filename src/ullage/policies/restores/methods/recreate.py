"""A new volume under an old claim's name: neither a volume's source nor a claim's volume can be changed, so the claim is made
again. For every driver that can make a volume from a snapshot.

    prepare   a claim of another name is filled from the snapshot: its volume is the new one
    switch    both volumes are marked and kept from being deleted; the other claim goes; the new volume is reserved for the
              claim's name; the claim goes, and is made again with the new volume
    undo      the same with the volumes' parts exchanged; a volume that somebody has deleted is not waited for, and the claim
              has the other one then
    settle    each volume has its own reclaim policy again: the one that no claim has goes by it, unless snapshots would go too

The claim goes with the cluster's own means: while it goes no pod that uses it is scheduled or started, and it does not go
while one does. Whoever makes a claim of the name in that moment, as a StatefulSet does, is bound to the reserved volume.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from ullage.errors import Impossible, NotNow, Uncertain
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import patch_seen
from ullage.kube.client.interface import ObjectClient
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from ullage.kube.kinds import Kind
from ullage.kube.objects import Json, is_deleting
from ullage.policies.restores import model
from ullage.policies.restores.api import EarlierClaim, SnapshotRestore
from ullage.policies.restores.methods import marks
from ullage.policies.restores.methods.base import Unused
from ullage.policies.restores.methods.marks import NEW, OLD, WHOLE_CLAIMS
from ullage.policies.restores.model import RestoreJob
from ullage.policies.restores.pods import ClaimInUse, Lister
from ullage.snapshots.backends.base import InProgress
from ullage.snapshots.model import PROGRESS

BY_RESTORE: Final = "restore in place"
GONE: Final = {OLD: "the volume with what the claim had before", NEW: "the new volume"}
TERMINATING: Final = "NamespaceTerminating"  # why an API server makes nothing in a namespace that goes


class RecreateClient(ObjectClient, Lister, Protocol):
    """Lists, too."""


class RecreateMethod:
    name = model.RECREATE

    def __init__(
        self,
        client: RecreateClient,
        volumes: Cache[PersistentVolume],
        *,
        snapshots: Mapping[str, Kind[Any]],
        has_snapshots: Callable[[PersistentVolume], bool] = lambda volume: False,
    ) -> None:
        """`snapshots`: the kinds, by API group. `has_snapshots`: whether a volume has snapshots that would go with it."""
        self._snapshots = snapshots
        self._has_snapshots = has_snapshots
        self._client = client
        self._volumes = volumes
        volumes.index(BY_RESTORE, lambda one: map(str, marks.restores_of(one)))

    # --- the new volume ---

    async def prepare(self, job: RestoreJob) -> None:
        """Whoever fills the new claim goes by the snapshot's name alone. So it is looked at once more when the volume is there:
        if the one that was asked for is there still, no other one had its name before."""
        restore = job.restore
        if job.snapshot is None or job.record is None or is_deleting(job.snapshot.meta):
            raise _snapshot_gone(restore)
        temporary = await self._temporary(restore)
        if temporary is None:
            await self._ask_for_volume(job)
            raise InProgress("a new volume is asked for")
        if await self._volume_of(temporary) is None or temporary.status.phase != "Bound":
            told = temporary.metadata.annotations.get(PROGRESS, "")
            raise InProgress(f"the new volume is made, for claim {temporary.metadata.name}{f': {told}' if told else ''}")
        source = restore.spec.source
        snapshot = await self._client.find(self._snapshots[source.api_group], source.name, restore.metadata.namespace)
        if snapshot is None or snapshot.metadata.uid != restore.status.snapshot_uid:
            raise _snapshot_gone(restore)

    async def _ask_for_volume(self, job: RestoreJob) -> None:
        claim = await self._client.find(WHOLE_CLAIMS, job.restore.spec.claim_name, job.restore.metadata.namespace)
        if claim is None or job.volume is None or not job.has_its_claim:
            raise Impossible(f"claim {job.restore.spec.claim_name} is gone, or another one has its name by now")
        wanted = marks.temporary_claim(job.restore, claim, volume=job.volume)
        try:
            await self._client.create(WHOLE_CLAIMS, wanted)
        except AlreadyExists:
            return
        except (Forbidden, Invalid) as error:
            raise Impossible(f"claim {wanted.metadata.name}, for the new volume, was refused: {error.message}") from error

    async def _temporary(self, restore: SnapshotRestore) -> PersistentVolumeClaim | None:
        name = marks.temporary_name(restore)
        found = await self._client.find(CLAIMS, name, restore.metadata.namespace)
        if found is not None and not marks.is_temporary(found, restore):
            raise Impossible(f"claim {name} is there already, and was not made for this restore; delete it")
        return found

    async def _volume_of(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Only one that is this very claim's: a user may write any name into a claim."""
        found = await self._client.find(PERSISTENT_VOLUMES, claim.spec.volume_name) if claim.spec.volume_name else None
        ref = found.spec.claim_ref if found is not None else None
        return found if ref is not None and ref.uid == claim.metadata.uid else None

    # --- the switch ---

    async def remembered(self, job: RestoreJob) -> EarlierClaim | None:
        claim = await self._client.find(WHOLE_CLAIMS, job.restore.spec.claim_name, job.restore.metadata.namespace)
        if claim is None or claim.metadata.uid != job.restore.status.claim_uid:
            raise NotNow(f"claim {job.restore.spec.claim_name} is gone, or another one has its name by now")
        return marks.remembered(claim)

    async def switch(self, job: RestoreJob, unused: Unused) -> str:
        try:
            temporary = await self._to_be_emptied(job.restore)
        except Impossible:
            await self._give_back(job.restore, OLD, unused)
            raise
        if temporary is not None:
            await self._keep_both(job, temporary, unused)
        return await self._give(job.restore, give=NEW, keep=OLD, unused=unused)

    async def _to_be_emptied(self, restore: SnapshotRestore) -> PersistentVolumeClaim | None:
        """The claim that the new volume was made for, if it is there. Before that volume is marked it must be; afterwards the
        claim itself may be gone, and nothing that others do is a reason to give up."""
        try:
            found = await self._temporary(restore)
        except Impossible:
            if await self._has_new(restore):
                return None
            raise
        if found is None and not await self._has_new(restore):
            raise Impossible("the claim that the new volume was made for was deleted by somebody else, and the volume with it")
        return found

    async def _has_new(self, restore: SnapshotRestore) -> bool:
        return await self._marked(restore, NEW) is not None

    async def undo(self, job: RestoreJob, unused: Unused) -> str:
        return await self._give(job.restore, give=OLD, keep=NEW, unused=unused)

    async def _keep_both(self, job: RestoreJob, temporary: PersistentVolumeClaim, unused: Unused) -> None:
        """Neither volume goes with its claim from now on. Up to the first mark nothing has changed."""
        mark = marks.mark_of(job.restore)
        new = await self._volume_of(temporary)
        if not is_deleting(temporary.metadata) and not self._seen(mark):
            await unused()
            if not job.has_its_claim or job.volume is None:
                raise Impossible(f"claim {job.restore.spec.claim_name} is gone, or another one has its name by now")
        if job.has_its_claim and job.volume is not None:
            await self._mark(job.volume, mark, OLD)
        if new is not None:
            await self._mark(new, mark, NEW)
        if not is_deleting(temporary.metadata):
            await self._delete(temporary)
        if await self._temporary(job.restore) is not None:
            raise InProgress("the claim that the new volume was made for is being deleted")

    async def _mark(self, volume: PersistentVolume, mark: str, role: str) -> None:
        other = volume.metadata.annotations.get(marks.RESTORE)
        if other not in (None, mark):
            raise NotNow(f"volume {volume.metadata.name} still belongs to another restore, {other}")
        if change := marks.marking(volume, mark, role):
            volume = await patch_seen(self._client, PERSISTENT_VOLUMES, volume, change)
        await self._change(volume, marks.holding(volume))

    async def _give(self, restore: SnapshotRestore, *, give: str, keep: str, unused: Unused) -> str:
        """The claim has the one volume, and the other stays. Each call does what is next; the last gives the claim's uid."""
        wanted, other = await self._marked(restore, give), await self._marked(restore, keep)
        if wanted is None:
            await self._give_back(restore, keep, unused)
            raise Impossible(f"{GONE[give]} is gone: somebody has deleted it. The claim keeps what it has")
        return await self._bind(restore, wanted, other=other, unused=unused)

    async def _give_back(self, restore: SnapshotRestore, role: str, unused: Unused) -> None:
        """What the claim was to get is not there. So it keeps what it has; if it was deleted already, it is made again with
        that: otherwise its volume would be one that no claim has, and would go by its policy."""
        volume = await self._marked(restore, role)
        if volume is not None:
            await self._bind(restore, volume, other=None, unused=unused)

    async def _bind(
        self, restore: SnapshotRestore, wanted: PersistentVolume, *, other: PersistentVolume | None, unused: Unused
    ) -> str:
        """`other` is None where it is gone."""
        claim = await self._client.find(CLAIMS, restore.spec.claim_name, restore.metadata.namespace)
        goes = other is None and claim is not None and is_deleting(claim.metadata)  # by us perhaps: it is to be made again
        if claim is not None and marks.is_bound(claim, wanted) and not goes:
            await self._change(wanted, marks.policy_back(wanted))
            return claim.metadata.uid
        if other is not None:
            other = await self._change(other, marks.holding(other))
        wanted = await self._change(wanted, marks.holding(wanted))
        await self._reserve(restore, wanted, claim)
        if claim is None:
            await self._make(restore, wanted)
            raise InProgress(f"claim {restore.spec.claim_name} was made again, and is being bound")
        ref = other.spec.claim_ref if other is not None else None
        if ref is not None and ref.uid == claim.metadata.uid:
            await self._remove(claim, unused)
            goes = True
        if goes:
            raise InProgress(f"claim {restore.spec.claim_name} is being deleted, to be made again")
        raise self._not_bound(claim, wanted)

    def _not_bound(self, claim: PersistentVolumeClaim, wanted: PersistentVolume) -> Uncertain | NotNow:
        name = claim.metadata.name
        if claim.spec.volume_name in ("", wanted.metadata.name):
            return InProgress(f"claim {name} is being bound to volume {wanted.metadata.name}")
        return NotNow(
            f"another claim {name} was made meanwhile, with volume {claim.spec.volume_name}; nothing is lost: scale down what "
            f"uses it and delete it: kubectl delete persistentvolumeclaim {name} -n {claim.metadata.namespace}"
        )

    async def _reserve(
        self, restore: SnapshotRestore, volume: PersistentVolume, claim: PersistentVolumeClaim | None
    ) -> PersistentVolume:
        ref = volume.spec.claim_ref
        uid = ref.uid if ref is not None else ""
        if marks.is_reserved(volume, restore) and (not uid or (claim is not None and uid == claim.metadata.uid)):
            return volume
        return await patch_seen(self._client, PERSISTENT_VOLUMES, volume, marks.reserving(restore))

    async def _remove(self, claim: PersistentVolumeClaim, unused: Unused) -> None:
        if is_deleting(claim.metadata):
            return
        try:
            await unused()
        except ClaimInUse as used:  # it is too late to wait from the beginning: volumes are marked
            raise NotNow(str(used)) from used
        await self._delete(claim)

    async def _make(self, restore: SnapshotRestore, volume: PersistentVolume) -> None:
        earlier = restore.status.earlier_claim
        if earlier is None:
            raise NotNow(f"nothing is written down of claim {restore.spec.claim_name}; make it again with its volume by hand")
        try:
            await self._client.create(WHOLE_CLAIMS, marks.claim_again(restore, earlier, volume=volume))
        except AlreadyExists:
            return
        except (Forbidden, Invalid) as error:
            if any(one.reason == TERMINATING for one in error.causes):
                await self._change(volume, marks.unreserving(restore))
                raise Impossible(f"namespace {restore.metadata.namespace} is being deleted, and the claim with it") from error
            raise NotNow(f"claim {restore.spec.claim_name} could not be made again: {error.message}") from error

    # --- afterwards ---

    async def settle(self, restore: SnapshotRestore) -> None:
        await self.let_go(marks.mark_of(restore))

    async def abandon(self, restore: SnapshotRestore) -> None:
        with suppress(Impossible):  # somebody else's claim of that name
            temporary = await self._temporary(restore)
            if temporary is not None and not is_deleting(temporary.metadata):
                await self._delete(temporary)
        await self.settle(restore)

    async def forget(self, key: Key, *, uid: str) -> None:
        """The volumes have their own policies again."""
        found = {one.metadata.annotations[marks.RESTORE] for one in self._volumes.by(BY_RESTORE, str(key))}
        for mark in sorted(found - {f"{key}/{uid}"}):
            await self.let_go(mark)

    async def let_go(self, mark: str) -> None:
        for seen in self._seen(mark):
            volume = await self._client.find(PERSISTENT_VOLUMES, seen.metadata.name)
            if volume is not None and marks.role_of(volume, mark):
                stays = self._has_snapshots(volume) and not await self._has_claim(volume)
                await patch_seen(self._client, PERSISTENT_VOLUMES, volume, marks.letting_go(volume, stays=stays))

    async def _has_claim(self, volume: PersistentVolume) -> bool:
        ref = volume.spec.claim_ref
        found = await self._client.find(CLAIMS, ref.name, ref.namespace) if ref is not None and ref.uid else None
        return found is not None and ref is not None and found.metadata.uid == ref.uid

    # --- within ---

    def _seen(self, mark: str) -> list[PersistentVolume]:
        namespace, name, _ = mark.split("/")
        return [one for one in self._volumes.by(BY_RESTORE, str(Key(namespace, name))) if marks.role_of(one, mark)]

    async def _marked(self, restore: SnapshotRestore, role: str) -> PersistentVolume | None:
        """The one of the two volumes that has this role. That there is none is believed of nobody but the API."""
        mark = marks.mark_of(restore)
        seen = next((one for one in self._seen(mark) if marks.role_of(one, mark) == role), None)
        found = await self._client.find(PERSISTENT_VOLUMES, seen.metadata.name) if seen is not None else None
        if found is not None and marks.role_of(found, mark) == role:
            return found
        listed = await self._client.list(PERSISTENT_VOLUMES)
        return next((one for one in listed.items if marks.role_of(one, mark) == role), None)

    async def _change(self, volume: PersistentVolume, change: Json | None) -> PersistentVolume:
        return volume if change is None else await patch_seen(self._client, PERSISTENT_VOLUMES, volume, change)

    async def _delete(self, claim: PersistentVolumeClaim) -> None:
        meta = claim.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(CLAIMS, meta.name, meta.namespace, uid=meta.uid)


def _snapshot_gone(restore: SnapshotRestore) -> Impossible:
    where = f"VolumeSnapshot {restore.metadata.namespace}/{restore.spec.source.name}"
    return Impossible(f"{where} is gone or being deleted, or another one has its name by now; the claim is as it was")
