"""Volumes of Longhorn's engines, where those are ours to ask: the volume goes back to the snapshot, inside its engine.

The volume is attached without a frontend first, as Longhorn demands: from then on nobody writes to it. Then what is in it
becomes a snapshot of its own, `undo-UID`, which is charged like every other, and the volume is reverted. Whether it was is told
by the engine: as long as that snapshot is below the head, it was not. Undone, the volume is reverted to it.

An engine answers while the volume is attached. A process that was killed may have reverted it all the same, and then `undo-UID`
is all there is of what the claim had: while that snapshot is there and no engine answers, nothing is given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from ullage.clock import Clock
from ullage.engines import tickets
from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUMES, TicketOwner
from ullage.engines.chain import HEAD, Entry
from ullage.engines.client.errors import Reason
from ullage.engines.client.interface import EngineClient, EngineClients
from ullage.engines.handles import NAMESPACE, SnapshotHandle
from ullage.errors import Impossible, NotNow, Terminal, Uncertain
from ullage.kube.cache.indexer import Key
from ullage.kube.client.interface import ObjectClient
from ullage.kube.errors import NotFound
from ullage.policies.restores import model
from ullage.policies.restores.api import SNAPSHOT_RESTORES, EarlierClaim, SnapshotRestore
from ullage.policies.restores.methods.base import Unused
from ullage.policies.restores.model import RestoreJob
from ullage.policies.restores.pods import ClaimInUse
from ullage.snapshots.backends.base import Backend, Creation, InProgress, VolumeHandle

TICKET_SECONDS: Final = 300.0  # a process that was killed keeps a volume from being used no longer than that
MOST_UNDOS: Final = 20  # tries; each leaves a snapshot only if somebody wrote to the volume between two of them


class RevertMethod:
    name = model.REVERT

    def __init__(self, client: ObjectClient, backend: Backend, engines: EngineClients, *, clock: Clock) -> None:
        self._client = client
        self._backend = backend
        self._engines = engines
        self._clock = clock

    async def prepare(self, job: RestoreJob) -> None:
        """There is nothing to make ready: the data is in the volume."""
        _target(job)

    async def remembered(self, job: RestoreJob) -> EarlierClaim | None:
        return None  # it stays

    async def switch(self, job: RestoreJob, unused: Unused) -> str:
        volume = _volume(job).handle
        entries = await self._entries(volume)
        if entries is None or not is_reverted(job, entries):
            is_known = entries is not None or not await self._is_kept(job.restore)
            await self._go_back(job, volume, unused, is_known=is_known)
        await self._release(job.restore, volume)
        return job.restore.status.claim_uid

    async def _go_back(self, job: RestoreJob, volume: str, unused: Unused, *, is_known: bool) -> None:
        """`is_known`: that the volume is not reverted."""
        with _what_is_known(volume, is_known=is_known):
            engine = await self._attached(job, volume, unused)
        try:
            with _what_is_known(volume, is_known=is_known):
                entries = await engine.list()
            if not is_reverted(job, entries):
                _, target = _target(job)  # not before: once it is reverted, the snapshot may go
                await unused()
                await self._revert(job, engine, target=target.snapshot, entries=entries)
        except (NotNow, Terminal):
            await self._release(job.restore, volume)  # nothing has changed, and pods may have it meanwhile
            raise

    async def _revert(self, job: RestoreJob, engine: EngineClient, *, target: str, entries: Mapping[str, Entry]) -> None:
        """With all that is in it now as a snapshot. One of an earlier try is good as long as nobody has written since: neither
        into the head, nor into a snapshot that was taken of it meanwhile."""
        if target not in entries or entries[target].removed:
            raise Impossible(f"volume {job.name}: its engine has no snapshot {target} any more")
        undo = undo_name(job, entries)
        if not undo or entries[HEAD].parent != undo or entries[HEAD].size > 0:
            undo = next_name(job, entries)
            assert job.source is not None
            creation = Creation(name=undo, volume=job.source.volume, owner=job.restore.metadata.namespace)
            try:
                await self._backend.create(creation)
            except NotNow as error:
                raise Impossible(f"what the claim has now could not be kept: {error}") from error
            raise InProgress("what the claim has now is kept in a snapshot of its volume")
        await engine.revert(target)

    async def undo(self, job: RestoreJob, unused: Unused) -> str:
        volume = _volume(job).handle
        seen = await self._entries(volume)
        if seen is not None and is_undone(job, seen):
            await self._release(job.restore, volume)
            return job.restore.status.claim_uid
        engine = await self._attached(job, volume, unused)
        try:
            with _what_is_known(volume, is_known=False):
                entries = await engine.list()
            undo = undo_name(job, entries)
            if not undo:
                raise Impossible(f"volume {volume} has no snapshot any more of what the claim had before")
            if not is_below_head(entries, undo):
                await unused()
                await engine.revert(undo)
        except (NotNow, Terminal):
            await self._release(job.restore, volume)
            raise
        await self._release(job.restore, volume)
        return job.restore.status.claim_uid

    async def settle(self, restore: SnapshotRestore) -> None:
        """By the names alone: only we can have made snapshots of these names, and each says of which volume it is."""
        for name in undo_names(restore):
            found = await self._client.find(ENGINE_SNAPSHOTS, name, NAMESPACE)
            if found is None:
                continue
            await self._release(restore, found.spec.volume)
            await self._backend.delete(str(SnapshotHandle(found.spec.volume, name)))

    async def abandon(self, restore: SnapshotRestore) -> None:
        await self.settle(restore)

    async def forget(self, key: Key, *, uid: str) -> None:
        return  # a snapshot that is left is charged to its namespace, and is seen there

    # --- attached without a frontend ---

    async def _entries(self, volume: str) -> Mapping[str, Entry] | None:
        """What its engine has, whoever uses the volume; None: it does not say."""
        try:
            return await self._engines.of(volume).list()
        except (NotNow, Impossible):
            return None

    async def _is_kept(self, restore: SnapshotRestore) -> bool:
        """Whether there is a snapshot of what the claim had: nothing is reverted before there is."""
        for name in undo_names(restore):
            if await self._client.find(ENGINE_SNAPSHOTS, name, NAMESPACE) is not None:
                return True
        return False

    async def _attached(self, job: RestoreJob, volume: str, unused: Unused) -> EngineClient:
        """The volume's engine, once it runs and nobody can write."""
        found = await self._client.find(VOLUMES, volume, NAMESPACE)
        if found is None:
            raise Impossible(f"volume {volume} does not exist, in namespace {NAMESPACE}")
        now, ticket = self._clock.now(), _ticket(job.restore)
        held = (found.spec.attachment_tickets or {}).get(ticket)
        if held is None or not tickets.is_valid(held, now):
            await unused()
            meta = job.restore.metadata
            owner = TicketOwner(kind=SNAPSHOT_RESTORES.kind, name=meta.name, uid=meta.uid)
            change = tickets.maintenance(ticket, owner, now=now, seconds=TICKET_SECONDS)
            await self._client.patch(VOLUMES, volume, NAMESPACE, merge=change, uid=found.metadata.uid)
            raise InProgress(f"volume {volume} is being attached without a frontend")
        engine = self._engines.of(volume)
        try:
            with _what_is_known(volume, is_known=False):
                offered = await engine.is_offered()
        except NotNow as error:
            if error.reason != Reason.DETACHED:
                raise
            raise InProgress(f"volume {volume} is being attached without a frontend") from error
        if offered:
            raise InProgress(f"volume {volume} still has its frontend; it is waited until that is shut down")
        return engine

    async def _release(self, restore: SnapshotRestore, volume: str) -> None:
        found = await self._client.find(VOLUMES, volume, NAMESPACE)
        if found is None or _ticket(restore) not in (found.spec.attachment_tickets or {}):
            return
        try:
            change = tickets.without(_ticket(restore))
            await self._client.patch(VOLUMES, volume, NAMESPACE, merge=change, uid=found.metadata.uid)
        except NotFound:
            return


@contextmanager
def _what_is_known(volume: str, *, is_known: bool) -> Iterator[None]:
    """What keeps an engine from being asked says nothing about what an earlier process had it do."""
    try:
        yield
    except ClaimInUse as used:
        if is_known:
            raise
        raise NotNow(f"{used}; whether volume {volume} was reverted already is seen only while its engine runs") from used
    except Impossible as error:
        if is_known:
            raise
        raise Uncertain(str(error)) from error


def undo_names(restore: SnapshotRestore) -> list[str]:
    """Of the snapshots with what the claim had before, in the order in which they are taken."""
    first = f"undo-{restore.metadata.uid}"
    return [first, *(f"{first}-{number}" for number in range(2, MOST_UNDOS + 1))]


def undo_name(job: RestoreJob, entries: Mapping[str, Entry]) -> str:
    """The snapshot with what the claim had before: the latest of those that were taken for this restore; empty: none was."""
    names = reversed(undo_names(job.restore))
    return next((one for one in names if one in entries and not entries[one].removed), "")


def next_name(job: RestoreJob, entries: Mapping[str, Entry]) -> str:
    free = next((one for one in undo_names(job.restore) if one not in entries), "")
    if not free:
        raise Impossible(f"the volume was written to {MOST_UNDOS} times while it was to be restored")
    return free


def is_reverted(job: RestoreJob, entries: Mapping[str, Entry]) -> bool:
    undo = undo_name(job, entries)
    return bool(undo) and not is_below_head(entries, undo)


def is_undone(job: RestoreJob, entries: Mapping[str, Entry]) -> bool:
    undo = undo_name(job, entries)
    return bool(undo) and is_below_head(entries, undo)


def is_below_head(entries: Mapping[str, Entry], name: str) -> bool:
    """Whether what is in the volume builds on a snapshot."""
    above = entries[HEAD].parent if HEAD in entries else ""
    for _ in entries:
        if above == name:
            return True
        above = entries[above].parent if above in entries else ""
    return False


def _ticket(restore: SnapshotRestore) -> str:
    return f"restore-{restore.metadata.uid}"


def _volume(job: RestoreJob) -> VolumeHandle:
    name = job.restore.spec.claim_name
    if not job.has_its_claim:
        raise Impossible(f"claim {name} is gone, or another one has its name by now")
    if job.source is None:  # its data may have changed all the same
        raise NotNow(f"claim {name} has no PersistentVolume that is its own; it must have the one that it had")
    return job.source.volume


def _target(job: RestoreJob) -> tuple[str, SnapshotHandle]:
    """The volume, and the snapshot in it. Both names come from objects that no user of a namespace can write."""
    volume = _volume(job).handle
    handle = SnapshotHandle.parse(job.record.handle) if job.record is not None else None
    if handle is None or handle.volume != volume:
        raise Impossible(f"the snapshot is not one of volume {volume}, or is gone")
    return volume, handle
