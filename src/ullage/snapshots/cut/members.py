"""Members in caches and in the API: found, created, told to be cut, deleted.

Each step may be repeated, and is on condition that the object is the one that was looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from ullage.clock import Clock
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from ullage.kube.objects import is_owned_by
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotContent
from ullage.snapshots.cut.rules import Member
from ullage.snapshots.gate import FRESH, Estimate, estimate_of
from ullage.snapshots.model import CUT, GO, Problem

M = TypeVar("M", bound=Member)

ORPHAN: Final = "orphan"  # the finalizer with which the garbage collector holds what is deleted without its dependents
LATE_SECONDS: Final = 120.0  # for which all members have been measured, and never all of them at about the same time


# --- finding ---------------------------------------------------------------------------------------------------------


class Freshness:
    """Whether what members would take was measured a few seconds ago, by our own clock. It is memory only: after a restart
    everything was just seen.

    An estimate is as old as the time since it was first seen here: the worker may be on another machine, whose clock is off.
    It looks by its own clock once more when it is told.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}  # by record: its last estimate, and when it was first seen here
        self._measured: dict[str, float] = {}  # by the uid of the whole: since when all its members have been measured

    def forget_record(self, name: str) -> None:
        self._seen.pop(name, None)

    def forget(self, whole: str) -> None:
        self._measured.pop(whole, None)

    def is_fresh(self, record: str, estimate: Estimate | None) -> bool:
        now = self._clock.monotonic()
        if estimate is None:
            self._seen.pop(record, None)
            return False
        at, since = self._seen.get(record, ("", now))
        if at != estimate.at:
            self._seen[record] = estimate.at, now
            return True
        return now - since < FRESH.total_seconds()

    def is_late(self, whole: str, members: Sequence[Member]) -> bool:
        """Whether all have been measured for long, and never within a few seconds: their volumes take long to look at. They
        count as fresh, then: what has grown since, each finds out when it is told."""
        if all(one.estimate is not None or one.cut for one in members) and not all(one.cut for one in members):
            now = self._clock.monotonic()
            return now - self._measured.setdefault(whole, now) > LATE_SECONDS
        self.forget(whole)
        return False


class MemberReader:
    """Reads members from the caches. Of one that looks as if it had gone, or were another's, the API knows best: caches may be
    behind."""

    def __init__(
        self, client: Client, snapshots: Cache[VolumeSnapshot], records: Cache[VolumeSnapshotContent], *, clock: Clock
    ) -> None:
        self._client = client
        self._snapshots = snapshots
        self._records = records
        self._fresh = Freshness(clock)
        records.handle(self._forget_record)

    def _forget_record(self, old: VolumeSnapshotContent | None, new: VolumeSnapshotContent | None) -> None:
        if old is not None and new is None:
            self._fresh.forget_record(old.metadata.name)

    def forget(self, whole: str) -> None:
        """The whole with this uid waits for no estimates any more."""
        self._fresh.forget(whole)

    async def read(self, whole: str, members: Sequence[M], namespace: str, *, settled: bool) -> list[M]:
        """The members of the whole with this uid, with what is there of each. `settled`: all of them were there, so one that
        the cache lacks is asked for."""
        found = [await self._read(one, namespace, settled=settled) for one in members]
        return [replace(one, fresh=True) for one in found] if self._fresh.is_late(whole, found) else found

    async def _read(self, member: M, namespace: str, *, settled: bool) -> M:
        found = self._snapshots.get(Key(namespace, member.name))
        read = self._with(member, found)
        if read.mine if found is not None else not settled:
            return read
        return self._with(member, await self._client.find(VOLUME_SNAPSHOTS, member.name, namespace))

    def _with(self, member: M, found: VolumeSnapshot | None) -> M:
        if found is None:
            return member
        snapshot = GA.read_snapshot(found)
        record = self._records.get(Key("", member.record_name(snapshot)))
        if record is None:
            return replace(member, snapshot=snapshot, seen=found)
        estimate = estimate_of(record.metadata)
        fresh = self._fresh.is_fresh(record.metadata.name, estimate)
        return replace(member, snapshot=snapshot, seen=found, record=GA.read_record(record), estimate=estimate, fresh=fresh)


async def find_member(client: Client, name: str, namespace: str, *, owner: str) -> VolumeSnapshot | None:
    """The member of the whole with this uid, by the word of the API. None: it is gone, or is another's."""
    found = await client.find(VOLUME_SNAPSHOTS, name, namespace)
    return found if found is not None and is_owned_by(found.metadata, owner) else None


# --- acting ----------------------------------------------------------------------------------------------------------


async def create_member(client: Client, body: VolumeSnapshot, *, label: str) -> Problem | None:
    """Why it may not be: what it takes does not fit, for one thing. `label` names its volume for people."""
    try:
        await client.create(VOLUME_SNAPSHOTS, body)
    except AlreadyExists:
        return None  # ours, and not in the cache yet; or another's, which the next look tells
    except (Forbidden, Invalid) as error:
        name = body.metadata.name
        return Problem("SnapshotRefused", f"{label}: VolumeSnapshot {name} was refused: {error.message}")
    return None


async def tell_members(client: Client, members: Iterable[Member]) -> None:
    """Lets members be cut with what they take by their last estimates: all at once, so that they are cut as close together as
    can be."""
    await asyncio.gather(*(_tell(client, one) for one in members))


async def _tell(client: Client, member: Member) -> None:
    if member.snapshot is None or member.estimate is None:
        return
    meta = member.snapshot.meta
    merge = {"metadata": {"annotations": {CUT: f"{GO}{member.estimate.at}"}}}
    with contextlib.suppress(NotFound, Conflict):  # gone, or another one of the name: the next look says so
        await client.patch(VOLUME_SNAPSHOTS, meta.name, meta.namespace, merge=merge, uid=meta.uid)


async def delete_member(client: Client, snapshot: VolumeSnapshot) -> bool:
    """Deletes this very object. False: it is gone, or another one has its name."""
    meta = snapshot.metadata
    try:
        await client.delete(VOLUME_SNAPSHOTS, meta.name, meta.namespace, uid=meta.uid)
    except (NotFound, Conflict):
        return False
    return True
