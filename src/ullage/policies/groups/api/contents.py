"""VolumeGroupSnapshotContent: stands for a group snapshot in the storage system, for administrators."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value
from ullage.policies.groups.api.common import GROUP, NEXT_VERSION, VERSION
from ullage.snapshots.api.common import INT64, TIME, WHOLE, ObjectReference
from ullage.snapshots.api.ga.types import SnapshotError


class GroupHandles(Value):
    """A group snapshot that exists already, and its members."""

    volume_group_snapshot_handle: str
    """The group snapshot, as its driver knows it."""
    volume_snapshot_handles: tuple[str, ...]
    """Its members, as their driver knows them."""


class GroupContentSource(Value):
    """Where the group snapshot comes from: exactly one of the fields is set."""

    volume_handles: tuple[str, ...] | UnsetType = UNSET
    """The volumes that are snapshotted together, as their driver knows them."""
    group_snapshot_handles: GroupHandles | UnsetType = UNSET
    """A group snapshot that exists already."""


class GroupContentSpec(Value):
    """What it stands for."""

    volume_group_snapshot_ref: Annotated[ObjectReference, WHOLE]
    """The VolumeGroupSnapshot that this belongs to. Name and namespace must be set; the uid is filled in when they are
    bound."""
    deletion_policy: Literal["Delete", "Retain"]
    """What happens when the VolumeGroupSnapshot is deleted. Delete: the driver's group snapshot goes first, and then this
    object. Retain: both stay."""
    driver: str
    """The driver that has the volumes. It cannot be changed."""
    volume_group_snapshot_class_name: str = ""
    """The VolumeGroupSnapshotClass that it was taken with. The class may be gone by now."""
    source: GroupContentSource
    """Where the group snapshot comes from: exactly one of the fields is set. It cannot be changed."""


class GroupMemberInfo(Value):
    """One member, as the driver has it."""

    volume_handle: str = ""
    """The volume that it was taken of, as its driver knows it."""
    snapshot_handle: str = ""
    """The member, as its driver knows it."""
    creation_time: Annotated[int, INT64] | UnsetType = UNSET
    """The moment whose data it has, in nanoseconds since the beginning of 1970, UTC."""
    ready_to_use: bool | UnsetType = UNSET
    """Whether a volume can be made from it."""
    restore_size: Annotated[int, INT64] | UnsetType = UNSET
    """The least size, in bytes, that a volume made from it must have. Absent: not known."""


class GroupContentStatus(Value):
    """What the driver says."""

    volume_group_snapshot_handle: str = ""
    """The group snapshot, as its driver knows it. Of a driver that knows no groups: the name of this object."""
    creation_time: Annotated[str, TIME] = ""
    """The moment whose data the group has."""
    ready_to_use: bool | UnsetType = UNSET
    """Whether volumes can be made from all members."""
    error: SnapshotError | UnsetType = UNSET
    """What went wrong last, until it is put right."""
    volume_snapshot_info_list: tuple[GroupMemberInfo, ...] = ()
    """The members, as the driver has them."""


class VolumeGroupSnapshotContent(Object):
    """Stands for a group snapshot in the storage system. It belongs to administrators; users see their
    VolumeGroupSnapshots."""

    spec: GroupContentSpec
    """What it stands for."""
    status: GroupContentStatus = GroupContentStatus()
    """What the driver says."""


_REF: Final = "spec.volumeGroupSnapshotRef"

GROUP_CONTENTS: Final = Kind(
    GROUP,
    VERSION,
    "VolumeGroupSnapshotContent",
    "volumegroupsnapshotcontents",
    VolumeGroupSnapshotContent,
    namespaced=False,
    short_names=("vgsc", "vgscs"),
    columns=(
        Column("ReadyToUse", ".status.readyToUse", type="boolean", description="Whether volumes can be made from all members."),
        Column("DeletionPolicy", ".spec.deletionPolicy", description="What happens when the VolumeGroupSnapshot is deleted."),
        Column("Driver", ".spec.driver", description="The driver that has the group snapshot."),
        Column(
            "VolumeGroupSnapshotClass", ".spec.volumeGroupSnapshotClassName", description="The class that it was taken with."
        ),
        Column("VolumeGroupSnapshotNamespace", f".{_REF}.namespace", description="The namespace of its VolumeGroupSnapshot."),
        Column("VolumeGroupSnapshot", f".{_REF}.name", description="The VolumeGroupSnapshot that it belongs to."),
        AGE,
    ),
    rules=(
        Rule(
            "has(self.volumeHandles) != has(self.groupSnapshotHandles)",
            "set exactly one: volumeHandles (take a group snapshot) or groupSnapshotHandles (use one that exists)",
            path="spec.source",
        ),
        Rule("self == oldSelf", "the source of a group snapshot cannot be changed", path="spec.source"),
        Rule("self == oldSelf", "the driver of a group snapshot cannot be changed", path="spec.driver"),
        Rule(
            "self == oldSelf",
            "the class of a group snapshot cannot be changed once it is set",
            path="spec.volumeGroupSnapshotClassName",
        ),
        Rule(
            "has(self.name) && has(self.__namespace__)",
            "name and namespace of the VolumeGroupSnapshot must both be set",
            path=_REF,
        ),
        Rule(
            "self.name == oldSelf.name && self.__namespace__ == oldSelf.__namespace__",
            "name and namespace of the VolumeGroupSnapshot cannot be changed",
            path=_REF,
        ),
        Rule(
            "!has(oldSelf.uid) || (has(self.uid) && self.uid == oldSelf.uid)",
            "the uid of the VolumeGroupSnapshot cannot be changed once it is set",
            path=_REF,
        ),
        Rule(
            "self == oldSelf",
            "the handle of a group snapshot cannot be changed once it is set",
            path="status.volumeGroupSnapshotHandle",
        ),
    ),
)
NEXT_GROUP_CONTENTS: Final = replace(GROUP_CONTENTS, version=NEXT_VERSION)
