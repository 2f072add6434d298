"""What is written for a group: members, their records and bookings, the group's status and its content's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ullage.clock import Clock
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import annotate, patch_seen, patch_status
from ullage.kube.errors import AlreadyExists, NotFound, TooManyRequests
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
from ullage.policies.groups.controllers.group_take_members import GroupMember, new_snapshot
from ullage.policies.groups.model import handle_of
from ullage.snapshots.api.ga.types import CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshotContent
from ullage.snapshots.cut.members import create_member
from ullage.snapshots.model import GROUP_HANDLE, Problem

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
        body = new_snapshot(group.metadata, member, owner=owner)
        try:
            return await create_member(self._client, body, label=member.label)
        except TooManyRequests as error:  # an older one is being deleted for it, or the server is busy
            return Problem(DELAYED, f"{member.label}: VolumeSnapshot {member.name} is not admitted yet: {error.message}")

    async def create_record(self, body: dict[str, Any]) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._client.create(CONTENTS, msgspec.convert(body, VolumeSnapshotContent))

    async def book(self, members: Iterable[GroupMember]) -> bool:
        """Has each member pay for what it would take by its last estimate. False: one is gone. Raises NoRoom."""
        for one in members:
            if one.seen is None or one.estimate is None:
                return False
            also = {ESTIMATED_BY: one.estimate.by} if one.estimate.by else None
            if await book(self._client, VOLUME_SNAPSHOTS, one.seen, one.estimate.bytes, lower=not one.cut, also=also) is None:
                return False
        return True

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
        if member.seen is None:
            return
        status = {"status": {"volumeGroupSnapshotName": group.name}}
        with contextlib.suppress(NotFound):
            await patch_seen(self._client, VOLUME_SNAPSHOTS, member.seen, status, subresource="status")
