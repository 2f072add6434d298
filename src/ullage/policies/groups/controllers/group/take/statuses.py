"""What a group and its content say. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import UNSET
from msgspec.structs import replace

from ullage.policies.groups.api.contents import GroupContentStatus, GroupMemberInfo, VolumeGroupSnapshotContent
from ullage.policies.groups.api.groups import GroupStatus
from ullage.policies.groups.controllers.group.take.members import GroupMember
from ullage.snapshots.api.common import write_nanoseconds, write_time
from ullage.snapshots.api.ga.errors import error_of
from ullage.snapshots.model import LOST, Problem
from ullage.times import timestamp


def waiting(old: GroupStatus, content: str, problem: Problem | None, now: datetime) -> GroupStatus:
    """Not complete yet. `content` is empty where there is none."""
    bound = old.bound_volume_group_snapshot_content_name or content
    return replace(
        old, bound_volume_group_snapshot_content_name=bound, ready_to_use=False, error=error_of(problem, old.error, now)
    )


def failed(old: GroupStatus, content: str, problem: Problem, now: datetime) -> GroupStatus:
    """A failed group keeps nothing: its members are deleted, and it is not tried again."""
    message = f"{problem.message}. None of its snapshots is kept; delete this group, and create another"
    return replace(waiting(old, content, Problem(problem.reason, message), now), creation_time="")


def completed(old: GroupStatus, content: VolumeGroupSnapshotContent, now: datetime) -> GroupStatus:
    cut = content.status.creation_time or timestamp(now)
    return replace(
        old,
        bound_volume_group_snapshot_content_name=content.metadata.name,
        ready_to_use=True,
        creation_time=old.creation_time or cut,
        error=UNSET,
    )


def standing(old: GroupStatus, members: Sequence[GroupMember], now: datetime) -> GroupStatus:
    """Of a group that was complete: what has become of it. Nothing of it is deleted, since it is data."""
    broken = [one for one in members if one.lost or one.snapshot is None]
    if not broken:
        return replace(old, ready_to_use=True, error=UNSET)
    first, more = broken[0], f"; {len(broken) - 1} more are like it" if len(broken) > 1 else ""
    reason, what = (LOST, "has lost its data") if first.lost else ("SnapshotMissing", "is gone")
    problem = Problem(reason, f"claim {first.claim}: VolumeSnapshot {first.name} {what}{more}")
    return replace(old, ready_to_use=False, error=error_of(problem, old.error, now))


def content_of_members(content: VolumeGroupSnapshotContent, members: Sequence[GroupMember]) -> GroupContentStatus:
    """Where each member was cut for itself: what the records say, and the latest of their moments."""
    found = [one.record for one in members if one.record is not None]
    latest = max((one.state.cut for one in found if one.state.cut is not None), default=None)
    infos = tuple(
        GroupMemberInfo(
            volume_handle=one.volume,
            snapshot_handle=one.handle,
            creation_time=write_nanoseconds(one.state.cut, UNSET),
            ready_to_use=True,
            restore_size=UNSET if one.state.restore_size is None else one.state.restore_size,
        )
        for one in found
    )
    old = content.status
    return replace(
        old,
        volume_group_snapshot_handle=old.volume_group_snapshot_handle or content.metadata.name,
        creation_time=write_time(latest, old.creation_time),
        ready_to_use=True,
        error=UNSET,
        volume_snapshot_info_list=infos,
    )
