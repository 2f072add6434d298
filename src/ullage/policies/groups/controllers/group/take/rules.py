"""What comes next for a group, from what is seen of it, its content and its members. Pure.

    planned ──▶ members made, held ──▶ all measured: booked ──▶ hooks ──▶ cutting ──▶ all cut and stored: complete
       │                 │                      │                │           │
       └─────────────────┴──────────────────────┴────────────────┴───────────┴──▶ failed: nothing is kept

That it is being cut is written down before the first member is told, or the driver is asked; that it has failed, before the
first member is deleted. Whoever comes after a kill goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ullage.policies.groups.api.contents import VolumeGroupSnapshotContent
from ullage.policies.groups.controllers.group.take.members import GroupMember
from ullage.policies.groups.model import BEING_CREATED, BY_DRIVER, CUT_BY, CUTTING, FAILED, phase_of
from ullage.snapshots.api.ga.errors import problem_of
from ullage.snapshots.model import PASSING, Problem

_SHOWN: Final = 5  # claims in a message

# For how long, after the first member was cut, another is tried whose driver says that it cannot be now. One that is merely
# slow, such as the copy of a large directory, is waited for.
LATE: Final = timedelta(hours=1)
APART: Final = timedelta(minutes=1)  # moments of members that are further apart are told


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStep:
    """The one thing to do next; what is absent is not done."""

    create: tuple[GroupMember, ...] = ()  # snapshots
    records: tuple[GroupMember, ...] = ()
    release: tuple[GroupMember, ...] = ()  # to be booked, and then cut
    handles: tuple[GroupMember, ...] = ()  # the driver has cut them: that is written on their records
    name: tuple[GroupMember, ...] = ()  # the group is complete: each is to say whose member it is
    delete: tuple[GroupMember, ...] = ()
    complete: bool = False
    failure: Problem | None = None
    problem: Problem | None = None  # that may pass


def next_step(content: VolumeGroupSnapshotContent, members: Sequence[GroupMember], *, now: datetime) -> GroupStep:
    """Of a group that is to stay, and is not complete."""
    phase = phase_of(content.metadata)
    if phase == FAILED:
        return _undone(content, members)
    if failure := _failure(content, members, cutting=phase == CUTTING) or _late(members, now):
        return GroupStep(failure=failure)
    if CUT_BY not in content.metadata.annotations:
        return GroupStep(problem=problem_of(content.status.error))  # whoever can ask the driver says who cuts
    missing = tuple(one for one in members if one.snapshot is None)
    if missing:
        return GroupStep(create=missing)
    unrecorded = tuple(one for one in members if one.record is None)
    if unrecorded:
        return GroupStep(records=unrecorded)
    if is_by_driver(content):
        return _by_driver(content, members, cutting=phase == CUTTING)
    return _by_members(members)


def is_by_driver(content: VolumeGroupSnapshotContent) -> bool:
    return content.metadata.annotations.get(CUT_BY) == BY_DRIVER


def _by_members(members: Sequence[GroupMember]) -> GroupStep:
    waiting = tuple(one for one in members if not one.cut and not one.released)
    if waiting:
        ready = all(one.estimate is not None and one.fresh for one in waiting)
        return GroupStep(release=waiting) if ready else GroupStep(problem=_troubled(members))
    if all(one.ready for one in members):
        return _completed(members)
    return GroupStep(problem=_troubled(members))


def _by_driver(content: VolumeGroupSnapshotContent, members: Sequence[GroupMember], *, cutting: bool) -> GroupStep:
    status = content.status
    if status.volume_group_snapshot_handle:
        told = tuple(one for one in members if one.info is not None and not _says(one))
        if told:
            return GroupStep(handles=told)
        ready = status.ready_to_use is True and all(one.ready for one in members)
        return _completed(members) if ready else GroupStep(problem=_troubled(members))
    if cutting:
        return GroupStep(problem=problem_of(status.error))
    waiting = tuple(members)
    ready = all(one.estimate is not None and one.fresh for one in waiting)
    return GroupStep(release=waiting) if ready else GroupStep(problem=_troubled(members))


def _says(member: GroupMember) -> bool:
    """Whether the record of a member says what the driver does: its handle, and that it is ready once it is."""
    record, info = member.record, member.info
    if record is None or info is None:
        return False
    return record.handle == info.snapshot_handle and (record.state.ready or info.ready_to_use is not True)


def _completed(members: Sequence[GroupMember]) -> GroupStep:
    unnamed = tuple(one for one in members if one.snapshot is None or not one.snapshot.status.volume_group_snapshot_name)
    return GroupStep(name=unnamed, complete=True)


# --- failing ---------------------------------------------------------------------------------------------------------


def _failure(content: VolumeGroupSnapshotContent, members: Sequence[GroupMember], *, cutting: bool) -> Problem | None:
    told = problem_of(content.status.error)
    if told is not None and told.reason not in PASSING:
        return told
    found = [(one, problem) for one in members if (problem := one.failure or _gone(one, content, cutting=cutting))]
    if not found:
        return None
    member, problem = found[0]
    more = f"; {len(found) - 1} more of its {len(members)} members failed, too" if len(found) > 1 else ""
    return Problem(problem.reason, f"claim {member.claim}: {problem.message}{more}")


def _late(members: Sequence[GroupMember], now: datetime) -> Problem | None:
    """A member that is cut hours after the others is of another moment."""
    first = min(_moments(members), default=now)
    late = [one for one in members if not one.cut and one.problem is not None]
    if not late or now - first <= LATE:
        return None
    why = late[0].problem.message if late[0].problem is not None else ""
    return Problem("CutApart", f"claim {late[0].claim}: others were cut an hour ago, and it still cannot be: {why}")


def _moments(members: Sequence[GroupMember]) -> list[datetime]:
    return [one.record.state.cut for one in members if one.record is not None and one.record.state.cut is not None]


def apart_text(members: Sequence[GroupMember]) -> str:
    """Of a group that is complete: that its members are of different moments, where that may matter. Empty: they are not."""
    moments = _moments(members)
    if not moments or (apart := max(moments) - min(moments)) <= APART:
        return ""
    return (
        f"Its volumes were cut one after the other, within {apart.total_seconds():.0f} s. They are of one moment only if "
        "nothing was written meanwhile: see that hooks stop the application for as long."
    )


def _gone(member: GroupMember, content: VolumeGroupSnapshotContent, *, cutting: bool) -> Problem | None:
    """A member that was not told yet is simply made again. One that was has a moment that does not come back."""
    if is_by_driver(content) and is_cut_alone(member):
        return Problem("CutAlone", f"VolumeSnapshot {member.name} was, or is being, cut alone, and not with the others")
    if content.status.volume_group_snapshot_handle and member.info is None:
        return Problem("DriverIncomplete", "the driver's group snapshot has none of its volume")
    if cutting and member.snapshot is None:
        return Problem("SnapshotMissing", f"VolumeSnapshot {member.name} is gone, and the others may be cut already")
    if cutting and member.record is None:
        return Problem("RecordMissing", f"the record of VolumeSnapshot {member.name} is gone")
    return None


def is_cut_alone(member: GroupMember) -> bool:
    """Whether its driver was asked for it by its own name. What that has made would be forgotten if another handle were written
    over its own."""
    record = member.record
    return record is not None and not record.cut_in_group and (bool(record.handle) or record.begun)


def is_undone(content: VolumeGroupSnapshotContent) -> bool:
    """Whether the driver keeps nothing of a group that has failed."""
    return not content.status.volume_group_snapshot_handle and BEING_CREATED not in content.metadata.annotations


def _undone(content: VolumeGroupSnapshotContent, members: Sequence[GroupMember]) -> GroupStep:
    """What the driver has cut in one call goes first: members alone may be more than it lets go."""
    if is_by_driver(content) and not is_undone(content):
        return GroupStep(problem=None)
    return GroupStep(delete=tuple(one for one in members if one.mine))


def _troubled(members: Sequence[GroupMember]) -> Problem | None:
    """What keeps members from being ready, where something is wrong with one."""
    found = [(one, problem) for one in members if not one.ready and (problem := one.problem) is not None]
    if not found:
        return None
    (member, problem), others = found[0], found[1:]
    names = ", ".join(one.claim for one, _ in others[:_SHOWN])
    more = f"; so do {names}{f' and {len(others) - _SHOWN} more' if len(others) > _SHOWN else ''}" if others else ""
    return Problem(
        "MemberNotReady", f"nothing is cut before all are ready; claim {member.claim} waits: {problem.message}{more}"
    )
