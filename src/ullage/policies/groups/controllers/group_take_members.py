"""The members of a group: a VolumeSnapshot and its record for each claim, as they are found and as they are made. Pure.

A member is known by its name and its owner together. What somebody puts in its place, under the same name and with a forged
owner, never carries the word that lets a snapshot be cut, since Ullage alone writes that.
"""

from __future__ import annotations

from dataclasses import dataclass

from ullage.errors import BadInput
from ullage.kube.kinds import Kind, Meta
from ullage.kube.objects import Json, is_deleting, is_owned_by, owner_reference
from ullage.policies.groups.api import GroupMemberInfo, VolumeGroupSnapshot, VolumeGroupSnapshotContent
from ullage.policies.groups.model import BY_DRIVER, CUT_BY, SECRET_NAME, SECRET_NAMESPACE, member_name
from ullage.snapshots.api.common import read_secret
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS, VolumeSnapshot
from ullage.snapshots.binding import misbound, ref_of
from ullage.snapshots.class_parameters import SNAPSHOT_ROLES, SNAPSHOTTER, driver_parameters, secret_of, snapshot_variables
from ullage.snapshots.gate import Estimate, Gate
from ullage.snapshots.model import (
    CUT,
    HOLD,
    IN_GROUP,
    LOST,
    NODE,
    PASSING,
    SOURCE,
    Problem,
    Record,
    Ref,
    SnapshotClass,
    labels_for,
)
from ullage.snapshots.source_volume import ClaimContext, find_source_volume, source_stamps


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One volume of a group. `snapshot` is what is there under the member's name, whoever made it."""

    claim: str
    volume: str  # its handle
    owner: str  # the uid of the group
    snapshot: VolumeSnapshot | None = None
    record: Record | None = None
    estimate: Estimate | None = None  # what the snapshot would take, as the worker has written it on its record
    fresh: bool = False  # that was seen a few seconds ago at most
    info: GroupMemberInfo | None = None  # what the driver says of it, where that cuts all in one call

    @property
    def name(self) -> str:
        return member_name(self.owner, self.volume)

    @property
    def mine(self) -> bool:
        """Whether what is there was made for this group and this claim."""
        found = self.snapshot
        if found is None or not is_owned_by(found.metadata, self.owner):
            return False
        return found.spec.source.persistent_volume_claim_name == self.claim

    @property
    def going(self) -> bool:
        return self.snapshot is not None and is_deleting(self.snapshot.metadata)

    @property
    def word(self) -> str:
        return self.snapshot.metadata.annotations.get(CUT, "") if self.snapshot is not None else ""

    @property
    def cut(self) -> bool:
        """Whether the storage system has it, for all that is known."""
        return self.record is not None and self.record.is_cut

    @property
    def ready(self) -> bool:
        """Whether a volume can be made from it, as its record says and its snapshot too."""
        record, snapshot = self.record, self.snapshot
        return record is not None and record.state.ready and snapshot is not None and snapshot.status.ready_to_use is True

    @property
    def released(self) -> bool:
        """Whether it may be cut with what it would take by its last estimate."""
        return Gate(group=True, word=self.word, estimate=self.estimate).open

    @property
    def problem(self) -> Problem | None:
        if self.record is not None and self.record.state.problem is not None:
            return self.record.state.problem
        return GA.read_snapshot(self.snapshot).state.problem if self.snapshot is not None else None

    @property
    def lost(self) -> bool:
        return self.problem is not None and self.problem.reason == LOST

    @property
    def failure(self) -> Problem | None:
        """Why it will never be there, before the group was complete."""
        if self.snapshot is None:
            return None
        name = f"VolumeSnapshot {self.name}"
        if not self.mine:
            return Problem("SnapshotNameTaken", f"{name} exists already, and was not made for this group")
        if self.going:
            return Problem("SnapshotDeleted", f"{name} was deleted before the group was complete")
        if self.record is not None and (wrong := misbound(self.record, GA.read_snapshot(self.snapshot))):
            return wrong
        found = self.problem
        # All that do not pass by themselves are final: a group does not wait for somebody to edit a class.
        return None if found is None or found.reason in PASSING else found


def new_member(group: VolumeGroupSnapshot, member: GroupMember, *, owner: Kind[VolumeGroupSnapshot]) -> Json:
    """Held: nothing is cut until all of them are ready. `owner` is the kind of the group, in the version that the member names
    it by."""
    return {
        "apiVersion": VOLUME_SNAPSHOTS.api_version,
        "kind": VOLUME_SNAPSHOTS.kind,
        "metadata": {
            "name": member.name,
            "namespace": group.metadata.namespace,
            "annotations": {CUT: HOLD},
            "finalizers": [IN_GROUP],
            "ownerReferences": [owner_reference(owner, group.metadata, controller=True)],
        },
        "spec": {"source": {"persistentVolumeClaimName": member.claim}},
    }


def new_record(
    content: VolumeGroupSnapshotContent, member: GroupMember, context: ClaimContext, *, default: SnapshotClass | None
) -> Json | Problem:
    """The record of a member, for which nothing was begun. Where the driver is asked for each
    member, its `default` class of snapshots has the parameters; otherwise the Secret is that of the group."""
    if member.snapshot is None:
        return Problem("SnapshotMissing", f"VolumeSnapshot {member.name} is gone")
    snapshot = GA.read_snapshot(member.snapshot)
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
