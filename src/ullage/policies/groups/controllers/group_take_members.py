"""The members of a group: a VolumeSnapshot and its record for each claim, as they are found and as they are made. Pure.

What they have in common with members of VM backups is in `snapshots/cut/rules.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ullage.errors import BadInput
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import Json, owner_reference
from ullage.policies.groups.api import GroupMemberInfo, VolumeGroupSnapshot, VolumeGroupSnapshotContent
from ullage.policies.groups.model import BY_DRIVER, CUT_BY, SECRET_NAME, SECRET_NAMESPACE, member_name
from ullage.snapshots.api.common import read_secret
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import VolumeSnapshot
from ullage.snapshots.binding import misbound, ref_of
from ullage.snapshots.class_parameters import SNAPSHOT_ROLES, SNAPSHOTTER, driver_parameters, secret_of, snapshot_variables
from ullage.snapshots.cut.rules import Member, Whole, new_member
from ullage.snapshots.model import (
    IN_GROUP,
    NODE,
    PASSING,
    SOURCE,
    Problem,
    Record,
    Ref,
    Snapshot,
    SnapshotClass,
    labels_for,
)
from ullage.snapshots.source_volume import ClaimContext, find_source_volume, source_stamps

GROUP: Final = Whole("group", parts="members", awaited=PASSING)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember(Member):
    """One volume of a group. It is judged by its record, too, which the driver of the group may have filled."""

    whole: Whole = GROUP
    volume: str  # its handle
    info: GroupMemberInfo | None = None  # what the driver says of it, where that cuts all in one call

    @property
    def cut(self) -> bool:
        """Whether the storage system has it, for all that is known."""
        return self.record is not None and self.record.is_cut

    @property
    def ready(self) -> bool:
        record, snapshot = self.record, self.snapshot
        return record is not None and record.state.ready and snapshot is not None and snapshot.state.ready

    @property
    def problem(self) -> Problem | None:
        if self.record is not None and self.record.state.problem is not None:
            return self.record.state.problem
        return self.snapshot.state.problem if self.snapshot is not None else None

    @property
    def defect(self) -> Problem | None:
        wrong = misbound(self.record, self.snapshot) if self.record is not None and self.snapshot is not None else None
        return wrong or self.whole.final(self.problem)

    def record_name(self, snapshot: Snapshot) -> str:
        """The record that the snapshot names: one that belongs to another fails the group."""
        return snapshot.state.record or GA.record_name(snapshot)


def member_of(group: Meta, claim: str, volume: str, *, info: GroupMemberInfo | None) -> GroupMember:
    """The member for the claim whose volume has this handle, before anything is known of its snapshot."""
    return GroupMember(name=member_name(group.uid, volume), claim=claim, owner=group.uid, volume=volume, info=info)


def new_snapshot(group: Meta, member: GroupMember, *, owner: Kind[VolumeGroupSnapshot]) -> VolumeSnapshot:
    """`owner` is the kind of the group, in the version that the member names it by."""
    named = owner_reference(owner, group, controller=True)
    return new_member(member, group.namespace, owner=named, finalizers=(IN_GROUP,))


def new_record(
    content: VolumeGroupSnapshotContent, member: GroupMember, context: ClaimContext, *, default: SnapshotClass | None
) -> Json | Problem:
    """The record of a member, for which nothing was begun. Where the driver is asked for each
    member, its `default` class of snapshots has the parameters; otherwise the Secret is that of the group."""
    if member.snapshot is None:
        return Problem("SnapshotMissing", f"VolumeSnapshot {member.name} is gone")
    snapshot = member.snapshot
    source = find_source_volume(snapshot, context)
    if isinstance(source, Problem):
        return source
    if (source.driver, source.volume.handle) != (content.spec.driver, member.volume):
        return Problem("VolumeChanged", f"claim {member.claim} has another volume than when the group was asked for")
    name, by_driver = GA.record_name(snapshot), content.metadata.annotations.get(CUT_BY) == BY_DRIVER
    try:
        secret = (
            read_secret(content.metadata, name=SECRET_NAME, namespace=SECRET_NAMESPACE)
            if by_driver
            else _secret(default, snapshot.meta, name)
        )
    except BadInput as error:
        return Problem("ClassInvalid", f"class {default.name if default else ''}: {error}")
    annotations = {SOURCE: source.volume.handle, **source_stamps(context, source)}
    if source.volume.node:
        annotations[NODE] = source.volume.node
    record = Record(
        meta=Meta(name=name, annotations=annotations, labels=labels_for(member.claim, source.volume_name)),
        ref=ref_of(snapshot),
        driver=source.driver,
        volume=source.volume.handle,
        volume_name=source.volume_name,
        volume_mode=source.mode,
        policy="Delete",  # until the group is complete
        class_name=default.name if default is not None and not by_driver else "",
        node=source.volume.node,
        secret=secret,
    )
    return GA.new_record(record)


def _secret(default: SnapshotClass | None, snapshot: Meta, record: str) -> Ref | None:
    if default is None:
        return None
    driver_parameters(default.parameters, roles=SNAPSHOT_ROLES)
    variables = snapshot_variables(namespace=snapshot.namespace, name=snapshot.name, record=record)
    return secret_of(default.parameters, SNAPSHOTTER, variables=variables)
