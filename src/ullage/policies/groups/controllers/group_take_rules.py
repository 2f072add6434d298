"""What comes next for a group, from what is seen of it, its content and its members. Pure.

    planned ──▶ members made, held ──▶ all measured: booked ──▶ hooks ──▶ cutting ──▶ all cut and stored: complete
       │                 │                      │                │           │
       └─────────────────┴──────────────────────┴────────────────┴───────────┴──▶ failed: nothing is kept

That it is being cut is written down before the first member is told, or the driver is asked; that it has failed, before the
first member is deleted. Whoever comes after a kill goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ullage.errors import BadInput
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json
from ullage.policies.groups.api import (
    GROUP_CONTENTS,
    GROUPS,
    GroupContentStatus,
    GroupMemberInfo,
    GroupStatus,
    VolumeGroupSnapshot,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
)
from ullage.policies.groups.class_choice import choose_class, secret_for
from ullage.policies.groups.controllers.group_take_members import GroupMember
from ullage.policies.groups.model import (
    BEING_CREATED,
    BY_DRIVER,
    BY_MEMBERS,
    CONTENT_FINALIZER,
    CUT_BY,
    CUTTING,
    FAILED,
    MEMBERS,
    MOST_MEMBERS,
    SECRET_NAME,
    SECRET_NAMESPACE,
    content_name,
    phase_of,
    write_members,
)
from ullage.selectors import LabelSelector, SelectorError
from ullage.snapshots.api.common import reference, write_nanoseconds, write_time
from ullage.snapshots.api.ga.errors import error_of, problem_of
from ullage.snapshots.cut import rules as cut
from ullage.snapshots.model import PASSING, Policy, Problem, Ref, Snapshot
from ullage.snapshots.source_volume import ClaimContext, SourceVolume, find_source_volume
from ullage.times import timestamp

# What a group is of: the claims that its selector chooses now, and the class that it is taken with.


_SHOWN: Final = 5  # names in a message

# Of a selector: each claim of the namespace is held against all of them, in a process that other tenants wait for.
MOST_TERMS: Final = 32
MOST_VALUES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What is to be cut together, and how."""

    driver: str
    volumes: Mapping[str, str]  # handles, by claim
    class_name: str
    policy: Policy
    secret: Ref | None = None


def selector_of(group: VolumeGroupSnapshot) -> LabelSelector | Problem:
    found = group.spec.source.selector
    if isinstance(found, UnsetType):
        return Problem("NoSource", "spec.source: neither a selector nor a content is named")
    terms = len(found.match_labels) + len(found.match_expressions)
    values = sum(len(one.values) for one in found.match_expressions)
    if terms > MOST_TERMS or values > MOST_VALUES:
        return Problem(
            "SelectorTooLarge",
            f"spec.source.selector: it has {terms} labels and expressions with {values} values; "
            f"{MOST_TERMS} with {MOST_VALUES} values are the most. Give the claims a label of their own",
        )
    try:
        return LabelSelector.of(msgspec.to_builtins(found))
    except SelectorError as error:
        return Problem("SelectorInvalid", f"spec.source.selector: {error}")


def plan_of(
    group: VolumeGroupSnapshot,
    contexts: Mapping[str, ClaimContext],
    classes: Sequence[VolumeGroupSnapshotClass],
    *,
    chosen: int,
) -> GroupPlan | Problem:
    """Of the claims that the selector chooses, so many in all, or why there is none (yet). Whatever it is may be otherwise in a
    moment, so the group waits: nothing was made."""
    if not contexts:
        return Problem("NoClaims", "no claim of the namespace has the labels that spec.source.selector asks for")
    if chosen > MOST_MEMBERS:
        return Problem(
            "TooManyMembers",
            f"spec.source.selector: it chooses {chosen} claims; a group has {MOST_MEMBERS} at most. Choose fewer, and "
            "make several groups",
        )
    sources = _sources(group.metadata, contexts)
    if isinstance(sources, Problem):
        return sources
    driver = next(iter(sources.values())).driver
    found = choose_class(group.spec.volume_group_snapshot_class_name, driver, classes)
    if isinstance(found, Problem):
        return found
    try:
        secret = secret_for(found, group.metadata, content=content_name(group.metadata))
    except BadInput as error:
        return Problem("ClassInvalid", f"class {found.metadata.name}: {error}")
    volumes = {claim: source.volume.handle for claim, source in sources.items()}
    return GroupPlan(
        driver=driver, volumes=volumes, class_name=found.metadata.name, policy=found.deletion_policy, secret=secret
    )


def _sources(group: Meta, contexts: Mapping[str, ClaimContext]) -> dict[str, SourceVolume] | Problem:
    found: dict[str, SourceVolume] = {}
    for claim, context in sorted(contexts.items()):
        source = find_source_volume(Snapshot(meta=Meta(namespace=group.namespace), claim=claim), context)
        if isinstance(source, Problem):
            return source
        found[claim] = source
    drivers = sorted({one.driver for one in found.values()})
    if len(drivers) > 1:
        return Problem(
            "SeveralDrivers",
            f"the claims have volumes of {len(drivers)} drivers ({', '.join(drivers[:_SHOWN])}); a group is of one",
        )
    handles = [one.volume.handle for one in found.values()]
    if len(set(handles)) < len(handles):
        return Problem("VolumeShared", "two of the claims have the same volume; choose one of them")
    return found


def new_content(group: VolumeGroupSnapshot, plan: GroupPlan, *, by_driver: bool | None) -> Json:
    """`by_driver`: whether the driver cuts all in one call; None: whoever can ask it will say."""
    meta = group.metadata
    annotations = {MEMBERS: write_members(plan.volumes)}
    if by_driver is False:
        annotations[CUT_BY] = BY_MEMBERS
    if plan.secret is not None:
        annotations |= {SECRET_NAME: plan.secret.name, SECRET_NAMESPACE: plan.secret.namespace}
    return {
        "apiVersion": GROUP_CONTENTS.api_version,
        "kind": GROUP_CONTENTS.kind,
        "metadata": {"name": content_name(meta), "annotations": annotations, "finalizers": [CONTENT_FINALIZER]},
        "spec": {
            "volumeGroupSnapshotRef": reference(
                Ref(meta.namespace, meta.name, meta.uid), kind=GROUPS.kind, api_version=GROUPS.api_version
            ),
            "deletionPolicy": plan.policy,
            "driver": plan.driver,
            "volumeGroupSnapshotClassName": plan.class_name,
            "source": {"volumeHandles": [handle for _, handle in sorted(plan.volumes.items())]},
        },
    }


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
    if missing := cut.missing(members):
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
    if waiting := cut.waiting(members):
        return _gate(waiting, members)
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
    return _gate(tuple(members), members)


def _gate(waiting: tuple[GroupMember, ...], members: Sequence[GroupMember]) -> GroupStep:
    return GroupStep(release=waiting) if cut.all_measured(waiting) else GroupStep(problem=_troubled(members))


def _says(member: GroupMember) -> bool:
    """Whether the record of a member says what the driver does: its handle, and that it is ready once it is."""
    record, info = member.record, member.info
    if record is None or info is None:
        return False
    return record.handle == info.snapshot_handle and (record.state.ready or info.ready_to_use is not True)


def _completed(members: Sequence[GroupMember]) -> GroupStep:
    unnamed = tuple(one for one in members if one.seen is None or not one.seen.status.volume_group_snapshot_name)
    return GroupStep(name=unnamed, complete=True)


# --- failing ---------------------------------------------------------------------------------------------------------


def _failure(content: VolumeGroupSnapshotContent, members: Sequence[GroupMember], *, cutting: bool) -> Problem | None:
    told = problem_of(content.status.error)
    if told is not None and told.reason not in PASSING:
        return told
    return cut.failure_of(members, lambda one: _gone(one, content, cutting=cutting))


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
    apart = cut.apart(_moments(members))
    if apart <= APART:
        return ""
    return (
        f"Its volumes were cut one after the other, within {apart.total_seconds():.0f} s. They are of one moment only if "
        "nothing was written meanwhile: see that hooks stop the application for as long."
    )


def _gone(member: GroupMember, content: VolumeGroupSnapshotContent, *, cutting: bool) -> Problem | None:
    """What is wrong with a member in view of its content."""
    if is_by_driver(content) and is_cut_alone(member):
        return Problem("CutAlone", f"VolumeSnapshot {member.name} was, or is being, cut alone, and not with the others")
    if content.status.volume_group_snapshot_handle and member.info is None:
        return Problem("DriverIncomplete", "the driver's group snapshot has none of its volume")
    if missing := cut.gone(member, cutting=cutting):
        return missing
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
    return GroupStep(delete=cut.undone(members))


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


# What a group and its content say.


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
    problem = cut.damage(broken, otherwise="is gone")
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
