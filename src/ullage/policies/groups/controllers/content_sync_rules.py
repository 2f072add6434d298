"""The one call that is next for a group's content, and what its answer means. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from msgspec import UNSET
from msgspec.structs import replace

from ullage.errors import Retryable, Terminal, Uncertain
from ullage.kube.objects import is_deleting
from ullage.policies.groups.api import GroupContentStatus, GroupMemberInfo, VolumeGroupSnapshot, VolumeGroupSnapshotContent
from ullage.policies.groups.model import (
    BEING_CREATED,
    BY_MEMBERS,
    CONTENT_FINALIZER,
    CUT_BY,
    CUTTING,
    FAILED,
    handle_of,
    is_bound,
    keeps_data,
    phase_of,
)
from ullage.snapshots.api.common import write_nanoseconds, write_time
from ullage.snapshots.api.ga.errors import error_of
from ullage.snapshots.backends.base import BackendGroup
from ullage.snapshots.model import DRIVER_ERROR, DRIVER_RETRYING, NOT_ASKED, Problem


class GroupCall(Enum):
    """The one thing to do next."""

    REST = auto()  # nothing, until something changes
    HOLD = auto()  # put the finalizer on
    ASK = auto()  # ask whether the driver cuts all in one call
    FIND = auto()  # ask about a group snapshot that was there already
    CREATE = auto()  # write down that the driver is asked, and ask for the group, or how far it is
    DELETE = auto()  # delete the driver's group snapshot, then let go
    UNDO = auto()  # see to it that nothing is left of a creation whose outcome is not known, then let go
    GIVE_UP = auto()  # the same, of a group that has failed: its content stays
    RELEASE = auto()  # take the finalizer off


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentFacts:
    """`group` is the one that its reference names, if there is one under that name."""

    content: VolumeGroupSnapshotContent
    group: VolumeGroupSnapshot | None = None


def next_call(facts: ContentFacts) -> GroupCall:
    return _going(facts) if is_deleting(facts.content.metadata) else _standing(facts)


def _going(facts: ContentFacts) -> GroupCall:
    content, group = facts.content, facts.group
    if CONTENT_FINALIZER not in content.metadata.finalizers:
        return GroupCall.REST
    if group is not None and is_bound(group, content) and not is_deleting(group.metadata):
        return GroupCall.REST  # it does not go before its group
    if keeps_data(content):
        return GroupCall.RELEASE
    if content.metadata.annotations.get(CUT_BY) == BY_MEMBERS:
        return GroupCall.REST  # each member's own record has its data deleted; whoever does that lets this go
    if handle_of(content):
        return GroupCall.DELETE
    return GroupCall.UNDO if BEING_CREATED in content.metadata.annotations else GroupCall.RELEASE


def _standing(facts: ContentFacts) -> GroupCall:
    content, notes = facts.content, facts.content.metadata.annotations
    if content.spec.source.group_snapshot_handles:
        if not content.spec.volume_group_snapshot_ref.uid:
            return GroupCall.REST  # nobody is bound to it yet
        if CONTENT_FINALIZER not in content.metadata.finalizers:
            return GroupCall.HOLD
        return GroupCall.REST if content.status.ready_to_use is True else GroupCall.FIND
    if CONTENT_FINALIZER not in content.metadata.finalizers:
        return GroupCall.HOLD
    if CUT_BY not in notes:
        return GroupCall.ASK
    if notes[CUT_BY] == BY_MEMBERS:
        return GroupCall.REST
    if phase_of(content.metadata) == FAILED:
        return GroupCall.GIVE_UP if handle_of(content) or BEING_CREATED in notes else GroupCall.REST
    if content.status.ready_to_use is True:
        return GroupCall.CREATE if BEING_CREATED in notes else GroupCall.REST  # the mark has served
    cut = bool(content.status.volume_group_snapshot_handle)
    return GroupCall.CREATE if cut or phase_of(content.metadata) == CUTTING else GroupCall.REST


# --- what an answer means --------------------------------------------------------------------------------------------


def found_status(old: GroupContentStatus, group: BackendGroup) -> GroupContentStatus:
    infos = tuple(
        GroupMemberInfo(
            volume_handle=one.volume,
            snapshot_handle=one.handle,
            creation_time=write_nanoseconds(one.cut, UNSET),
            ready_to_use=one.ready,
            restore_size=UNSET if one.restore_size is None else one.restore_size,
        )
        for one in sorted(group.members, key=lambda one: one.volume)
    )
    return replace(
        old,
        volume_group_snapshot_handle=old.volume_group_snapshot_handle or group.handle,
        creation_time=write_time(group.cut, old.creation_time),
        ready_to_use=group.ready,
        error=UNSET,
        volume_snapshot_info_list=infos,
    )


def failed_status(old: GroupContentStatus, error: Retryable | Terminal, now: datetime, *, asked: bool) -> GroupContentStatus:
    reason = DRIVER_ERROR if isinstance(error, Terminal) else DRIVER_RETRYING
    problem = Problem(reason if asked else NOT_ASKED, str(error))
    return replace(old, ready_to_use=False, error=error_of(problem, old.error, now))


def mark_goes(content: VolumeGroupSnapshotContent, error: Retryable | Terminal) -> bool:
    """Whether nothing can have been made: the first call was the last, and its answer is final."""
    return not isinstance(error, Uncertain) and content.status.error is UNSET
