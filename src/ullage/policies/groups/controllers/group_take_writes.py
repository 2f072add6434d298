"""What is written for a group: members, their records and bookings, the group's status and its content's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import annotate, patch_seen, patch_status
from ullage.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, TooManyRequests
from ullage.kube.kinds import Kind, Meta
from ullage.ledger.charging.booking import book
from ullage.ledger.charging.stamps import ESTIMATED_BY
from ullage.policies.groups.api import (
    GROUP_CONTENTS,
    GROUPS,
    NEXT_GROUPS,
    GroupContentStatus,
    GroupStatus,
    VolumeGroupSnapshot,
    VolumeGroupSnapshotContent,
)
from ullage.policies.groups.controllers.group_take_members import GroupMember, new_member
from ullage.policies.groups.model import handle_of
from ullage.snapshots.api.ga.types import CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotContent
from ullage.snapshots.model import CUT, GO, GROUP_HANDLE, Problem

DELAYED: Final = "SnapshotDelayed"  # a member is to be asked for again, in a moment


class GroupWriter:
    """Each write is on condition that the object is the one that was looked at."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def status(self, group: VolumeGroupSnapshot, status: GroupStatus) -> VolumeGroupSnapshot:
        return await patch_status(self._client, GROUPS, group, old=group.status, new=status) or group

    async def content_status(
        self, content: VolumeGroupSnapshotContent, status: GroupContentStatus
    ) -> VolumeGroupSnapshotContent:
        return await patch_status(self._client, GROUP_CONTENTS, content, old=content.status, new=status) or content

    async def annotate(self, content: VolumeGroupSnapshotContent, notes: dict[str, str | None]) -> VolumeGroupSnapshotContent:
        return await annotate(self._client, GROUP_CONTENTS, content, notes)

    async def create_members(self, group: VolumeGroupSnapshot, members: Sequence[GroupMember]) -> Problem | None:
        """Why one may not be; those after it are not made."""
        if not members:
            return None
        owner = await self._owner()
        for one in members:
            if refused := await self._create_member(group, one, owner):
                return refused
        return None

    async def _owner(self) -> Kind[VolumeGroupSnapshot]:
        """By which version members name their group. Every release of external-snapshotter knows its own version alone: `v1`
        from 8.6 on, whose definitions serve that, and `v1beta2` before."""
        return NEXT_GROUPS if await self._client.served(NEXT_GROUPS) else GROUPS

    async def _create_member(
        self, group: VolumeGroupSnapshot, member: GroupMember, owner: Kind[VolumeGroupSnapshot]
    ) -> Problem | None:
        """Why it may not be: what it takes does not fit, for one thing."""
        body = new_member(group, member, owner=owner)
        try:
            await self._client.create(VOLUME_SNAPSHOTS, msgspec.convert(body, VolumeSnapshot))
        except AlreadyExists:
            return None  # ours, and not in the cache yet; or another's, which the next look tells
        except TooManyRequests as error:  # an older one is being deleted for it, or the server is busy
            return Problem(DELAYED, f"claim {member.claim}: VolumeSnapshot {member.name} is not admitted yet: {error.message}")
        except (Forbidden, Invalid) as error:
            message = f"claim {member.claim}: VolumeSnapshot {member.name} was refused: {error.message}"
            return Problem("SnapshotRefused", message)
        return None

    async def create_record(self, body: dict[str, Any]) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._client.create(CONTENTS, msgspec.convert(body, VolumeSnapshotContent))

    async def book(self, members: Iterable[GroupMember]) -> bool:
        """Has each member pay for what it would take by its last estimate. False: one is gone. Raises NoRoom."""
        for one in members:
            if one.snapshot is None or one.estimate is None:
                return False
            also = {ESTIMATED_BY: one.estimate.by} if one.estimate.by else None
            if (
                await book(self._client, VOLUME_SNAPSHOTS, one.snapshot, one.estimate.bytes, lower=not one.cut, also=also)
                is None
            ):
                return False
        return True

    async def tell(self, members: Iterable[GroupMember]) -> None:
        """All at once, so that they are cut as close together as can be."""
        await asyncio.gather(*(self._tell(one) for one in members))

    async def _tell(self, member: GroupMember) -> None:
        if member.snapshot is None or member.estimate is None:
            return
        meta = member.snapshot.metadata
        merge = {"metadata": {"annotations": {CUT: f"{GO}{member.estimate.at}"}}}
        with contextlib.suppress(NotFound, Conflict):  # gone, or another one of the name: the next look says so
            await self._client.patch(VOLUME_SNAPSHOTS, meta.name, meta.namespace, merge=merge, uid=meta.uid)

    async def give_handle(self, content: VolumeGroupSnapshotContent, member: GroupMember, seen: VolumeSnapshotContent) -> None:
        """Writes on a record what the driver has made of it. The mark of the group first: a record that has a handle and no
        such mark is asked for by its own name."""
        info, handle = member.info, handle_of(content)
        if info is None:
            return
        seen = await annotate(self._client, CONTENTS, seen, {GROUP_HANDLE: handle})
        new = msgspec.structs.replace(
            seen.status,
            snapshot_handle=info.snapshot_handle,
            creation_time=info.creation_time,
            ready_to_use=info.ready_to_use is True,
            restore_size=info.restore_size,
            error=msgspec.UNSET,
            volume_group_snapshot_handle=handle,
        )
        await patch_status(self._client, CONTENTS, seen, old=seen.status, new=new)

    async def give_name(self, group: Meta, member: GroupMember) -> None:
        """The member says whose it is."""
        if member.snapshot is None:
            return
        status = {"status": {"volumeGroupSnapshotName": group.name}}
        with contextlib.suppress(NotFound):
            await patch_seen(self._client, VOLUME_SNAPSHOTS, member.snapshot, status, subresource="status")
