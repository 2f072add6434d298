"""VolumeGroupSnapshot: asks for snapshots of all volumes whose claims have some labels, taken at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final

from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, ATOMIC, Column, Kind, Object, Rule, Value
from ullage.policies.groups.api.common import GROUP, NEXT_VERSION, VERSION
from ullage.snapshots.api.common import TIME, WHOLE
from ullage.snapshots.api.ga.types import SnapshotError


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
