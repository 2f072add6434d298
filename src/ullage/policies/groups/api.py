"""VolumeGroupSnapshot: asks for snapshots of all volumes whose claims have some labels, taken at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final, Literal

from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, ATOMIC, Column, Kind, Object, Rule, Value
from ullage.snapshots.api.common import INT64, TIME, WHOLE, ObjectReference
from ullage.snapshots.api.ga.types import SnapshotError

# What the three kinds share.


GROUP: Final = "groupsnapshot.storage.k8s.io"
VERSION: Final = "v1beta2"
NEXT_VERSION: Final = "v1"  # of the same fields; newer snapshotters speak it


# VolumeGroupSnapshotClass: how group snapshots of a driver's volumes are taken.


class VolumeGroupSnapshotClass(Object):
    """Says how group snapshots of a driver's volumes are taken. With the annotation
    groupsnapshot.storage.kubernetes.io/is-default-class: "true" it is used for groups that name no class."""

    driver: str
    """The driver that it is for. It cannot be changed."""
    parameters: Mapping[str, str] = {}
    """What the driver is told, in its own words. They cannot be changed."""
    deletion_policy: Literal["Delete", "Retain"]
    """What happens to the driver's snapshots when a VolumeGroupSnapshot of this class is deleted: they go too, or they stay. It
    cannot be changed."""


GROUP_CLASSES: Final = Kind(
    GROUP,
    VERSION,
    "VolumeGroupSnapshotClass",
    "volumegroupsnapshotclasses",
    VolumeGroupSnapshotClass,
    namespaced=False,
    status=False,
    short_names=("vgsclass", "vgsclasses"),
    columns=(
        Column("Driver", ".driver", description="The driver that it is for."),
        Column("DeletionPolicy", ".deletionPolicy", description="What happens when a VolumeGroupSnapshot is deleted."),
        AGE,
    ),
    rules=(
        Rule("self == oldSelf", "the driver of a class cannot be changed: make another class", path="driver"),
        Rule("self == oldSelf", "the parameters of a class cannot be changed: make another class", path="parameters"),
        Rule("self == oldSelf", "the deletion policy of a class cannot be changed: make another class", path="deletionPolicy"),
    ),
)
NEXT_GROUP_CLASSES: Final = replace(GROUP_CLASSES, version=NEXT_VERSION)


# VolumeGroupSnapshotContent: stands for a group snapshot in the storage system, for administrators.


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


class GroupSelectorTerm(Value):
    """One requirement on the labels of a claim."""

    key: str
    """The label that it is about."""
    operator: str
    """In, NotIn, Exists or DoesNotExist."""
    values: Annotated[tuple[str, ...], ATOMIC] = ()
    """With In and NotIn: the values of the label. With Exists and DoesNotExist: none."""


class GroupSelector(Value):
    """Chooses claims by their labels. All requirements must hold."""

    match_labels: Mapping[str, str] = {}
    """Labels that a claim must have, with these values."""
    match_expressions: Annotated[tuple[GroupSelectorTerm, ...], ATOMIC] = ()
    """Further requirements on the labels of a claim. With the labels 32 at most, with 256 values."""


class GroupSource(Value):
    """What the group is of: exactly one of the fields is set."""

    selector: Annotated[GroupSelector, WHOLE] | UnsetType = UNSET
    """The claims of the namespace that are snapshotted together: 200 at most, all of one driver. It is looked at once: a claim
    that gets the label later is no member."""
    volume_group_snapshot_content_name: str = ""
    """A VolumeGroupSnapshotContent that an administrator has made for a group snapshot which exists already."""


class GroupSpec(Value):
    """What is asked for."""

    source: GroupSource
    """What the group is of: exactly one of the fields is set. It cannot be changed."""
    volume_group_snapshot_class_name: str = ""
    """The VolumeGroupSnapshotClass that says how it is taken. Absent: the class that is marked as the default of the volumes'
    driver; there must be exactly one."""


class GroupStatus(Value):
    """What came of it. Users read this and never write it."""

    bound_volume_group_snapshot_content_name: str = ""
    """The VolumeGroupSnapshotContent that stands for the group snapshot. Whoever relies on it checks that the content names
    this group too, by namespace, name and uid."""
    creation_time: Annotated[str, TIME] = ""
    """The moment whose data the group has: the latest of its members'."""
    ready_to_use: bool | UnsetType = UNSET
    """Whether volumes can be made from all members."""
    error: SnapshotError | UnsetType = UNSET
    """What went wrong last, until it is put right. A group that has failed keeps no member: delete it, and create another."""


class VolumeGroupSnapshot(Object):
    """Asks for snapshots of several claims' volumes at one moment, all or none, or stands for a group snapshot that exists
    already. Its members are VolumeSnapshots, and go with it."""

    spec: GroupSpec
    """What is asked for."""
    status: GroupStatus = GroupStatus()
    """What came of it."""


_CONTENT: Final = "volumeGroupSnapshotContentName"

GROUPS: Final = Kind(
    GROUP,
    VERSION,
    "VolumeGroupSnapshot",
    "volumegroupsnapshots",
    VolumeGroupSnapshot,
    short_names=("vgs",),
    columns=(
        Column("ReadyToUse", ".status.readyToUse", type="boolean", description="Whether volumes can be made from all members."),
        Column(
            "VolumeGroupSnapshotClass", ".spec.volumeGroupSnapshotClassName", description="The class that says how it is taken."
        ),
        Column(
            "VolumeGroupSnapshotContent",
            ".status.boundVolumeGroupSnapshotContentName",
            description="The content that stands for it.",
        ),
        Column("CreationTime", ".status.creationTime", type="date", description="The moment whose data it has."),
        AGE,
    ),
    rules=(
        Rule(
            f"has(self.selector) != has(self.{_CONTENT})",
            f"set exactly one: selector (take a group snapshot) or {_CONTENT} (use one that exists)",
            path="spec.source",
        ),
        Rule("self == oldSelf", "the source of a group snapshot cannot be changed", path="spec.source"),
        Rule(
            "size(self) > 0",
            "name a class, or leave the field out for the default class",
            path="spec.volumeGroupSnapshotClassName",
        ),
        Rule(
            "self == oldSelf",
            "the content that a group is bound to cannot be changed",
            path="status.boundVolumeGroupSnapshotContentName",
        ),
    ),
)
NEXT_GROUPS: Final = replace(GROUPS, version=NEXT_VERSION)
