"""The kinds of `snapshot.storage.k8s.io/v1`: VolumeSnapshot, VolumeSnapshotContent and VolumeSnapshotClass.

Every field that the group's own controllers write is here, those that we do not use too, so that their objects are kept whole
and either side can take over from the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value
from ullage.snapshots.api.common import INT64, TIME, WHOLE, ObjectReference, Size

GROUP: Final = "snapshot.storage.k8s.io"
VERSION: Final = "v1"


class SnapshotError(Value):
    """What went wrong last. It is cleared once all is well."""

    time: Annotated[str, TIME] = ""
    """When it was first seen."""
    message: str = ""
    """What went wrong: one word for programs, a colon, and a sentence for people. It holds no secrets."""


# --- VolumeSnapshot --------------------------------------------------------------------------------------------------


class SnapshotSource(Value):
    """What the snapshot is of: exactly one of the fields is set."""

    persistent_volume_claim_name: str = ""
    """A claim in the same namespace: a snapshot of its volume is taken."""
    volume_snapshot_content_name: str = ""
    """A VolumeSnapshotContent that an administrator has made for a snapshot which exists already."""


class SnapshotSpec(Value):
    """What is asked for."""

    source: SnapshotSource
    """What the snapshot is of: exactly one of the fields is set. It cannot be changed."""
    volume_snapshot_class_name: str = ""
    """The VolumeSnapshotClass that says how it is taken. Absent: the class that is marked as the default of the volume's
    driver; there must be exactly one."""


class SnapshotStatus(Value):
    """What came of it. Users read this and never write it."""

    bound_volume_snapshot_content_name: str = ""
    """The VolumeSnapshotContent that stands for the snapshot. Whoever relies on it checks that the content names this
    snapshot too, by namespace, name and uid."""
    creation_time: Annotated[str, TIME] = ""
    """The moment whose data the snapshot has. Once it is set, the application may write again."""
    ready_to_use: bool | UnsetType = UNSET
    """Whether a volume can be made from it."""
    restore_size: Size = ""
    """The least size, in bytes, that a volume made from it must have (`10Gi`). Absent: not known."""
    error: SnapshotError | UnsetType = UNSET
    """What went wrong last, until it is put right."""
    volume_group_snapshot_name: str = ""
    """The VolumeGroupSnapshot that this is a member of, if any."""


class VolumeSnapshot(Object):
    """Asks for a snapshot of a claim's volume, or stands for one that exists already."""

    spec: SnapshotSpec
    """What is asked for."""
    status: SnapshotStatus = SnapshotStatus()
    """What came of it."""


# --- VolumeSnapshotContent -------------------------------------------------------------------------------------------


class ContentSource(Value):
    """Where the snapshot comes from: exactly one of the fields is set."""

    volume_handle: str = ""
    """The volume that it is taken of, as its driver knows it."""
    snapshot_handle: str = ""
    """A snapshot that exists already, as its driver knows it."""


class ContentSpec(Value):
    """What it stands for."""

    volume_snapshot_ref: Annotated[ObjectReference, WHOLE]
    """The VolumeSnapshot that this belongs to. Name and namespace must be set; the uid is filled in when they are bound."""
    deletion_policy: Literal["Delete", "Retain"]
    """What happens when the VolumeSnapshot is deleted. Delete: the driver's snapshot goes first, and then this object. Retain:
    both stay."""
    driver: str
    """The driver that has the snapshot."""
    volume_snapshot_class_name: str = ""
    """The VolumeSnapshotClass that it was taken with. The class may be gone or changed by now."""
    source: ContentSource
    """Where the snapshot comes from: exactly one of the fields is set. It cannot be changed."""
    source_volume_mode: str = ""
    """Whether the volume had a file system or was a raw device: Filesystem or Block. Once set, it cannot be changed."""


class ContentStatus(Value):
    """What the driver says."""

    snapshot_handle: str = ""
    """The snapshot, as its driver knows it. Absent: it is being taken, or could not be."""
    creation_time: Annotated[int, INT64] | UnsetType = UNSET
    """The moment whose data the snapshot has, in nanoseconds since the beginning of 1970, UTC."""
    restore_size: Annotated[int, INT64, msgspec.Meta(extra_json_schema={"minimum": 0})] | UnsetType = UNSET
    """The least size, in bytes, that a volume made from it must have. Absent: not known."""
    ready_to_use: bool | UnsetType = UNSET
    """Whether a volume can be made from it."""
    error: SnapshotError | UnsetType = UNSET
    """What went wrong last, until it is put right."""
    volume_group_snapshot_handle: str = ""
    """The group snapshot that this is a member of, as its driver knows it, if any."""


class VolumeSnapshotContent(Object):
    """Stands for a snapshot in the storage system. It belongs to administrators; users see their VolumeSnapshots."""

    spec: ContentSpec
    """What it stands for."""
    status: ContentStatus = ContentStatus()
    """What the driver says."""


# --- VolumeSnapshotClass ---------------------------------------------------------------------------------------------


class VolumeSnapshotClass(Object):
    """Says how snapshots of a driver's volumes are taken. With the annotation snapshot.storage.kubernetes.io/is-default-class:
    "true" it is used for snapshots that name no class."""

    driver: str
    """The driver that it is for."""
    parameters: Mapping[str, str] = {}
    """What the driver is told, in its own words."""
    deletion_policy: Literal["Delete", "Retain"]
    """What happens to the driver's snapshot when a VolumeSnapshot of this class is deleted: it goes too, or it stays."""


# --- where they live -------------------------------------------------------------------------------------------------

_CLAIM, _CONTENT = "persistentVolumeClaimName", "volumeSnapshotContentName"

VOLUME_SNAPSHOTS: Final = Kind(
    GROUP,
    VERSION,
    "VolumeSnapshot",
    "volumesnapshots",
    VolumeSnapshot,
    short_names=("vs",),
    columns=(
        Column("ReadyToUse", ".status.readyToUse", type="boolean", description="Whether a volume can be made from it."),
        Column("SourcePVC", f".spec.source.{_CLAIM}", description="The claim that it is taken of."),
        Column("SourceSnapshotContent", f".spec.source.{_CONTENT}", description="Or the content that it stands for."),
        Column("RestoreSize", ".status.restoreSize", description="The least size of a volume made from it."),
        Column("SnapshotClass", ".spec.volumeSnapshotClassName", description="The class that says how it is taken."),
        Column("SnapshotContent", ".status.boundVolumeSnapshotContentName", description="The content that stands for it."),
        Column("CreationTime", ".status.creationTime", type="date", description="The moment whose data it has."),
        AGE,
    ),
    rules=(
        Rule(
            f"has(self.{_CLAIM}) != has(self.{_CONTENT})",
            f"set exactly one: {_CLAIM} (take a snapshot) or {_CONTENT} (use one that exists)",
            path="spec.source",
        ),
        Rule("self == oldSelf", "the source of a snapshot cannot be changed", path="spec.source"),
        Rule(
            "size(self) > 0", "name a class, or leave the field out for the default class", path="spec.volumeSnapshotClassName"
        ),
    ),
)

CONTENTS: Final = Kind(
    GROUP,
    VERSION,
    "VolumeSnapshotContent",
    "volumesnapshotcontents",
    VolumeSnapshotContent,
    namespaced=False,
    short_names=("vsc", "vscs"),
    columns=(
        Column("ReadyToUse", ".status.readyToUse", type="boolean", description="Whether a volume can be made from it."),
        Column("RestoreSize", ".status.restoreSize", type="integer", description="The least size of a volume made from it."),
        Column("DeletionPolicy", ".spec.deletionPolicy", description="What happens when the VolumeSnapshot is deleted."),
        Column("Driver", ".spec.driver", description="The driver that has the snapshot."),
        Column("VolumeSnapshotClass", ".spec.volumeSnapshotClassName", description="The class that it was taken with."),
        Column("VolumeSnapshot", ".spec.volumeSnapshotRef.name", description="The VolumeSnapshot that it belongs to."),
        Column("VolumeSnapshotNamespace", ".spec.volumeSnapshotRef.namespace", description="The namespace of that."),
        AGE,
    ),
    rules=(
        Rule(
            "has(self.volumeHandle) != has(self.snapshotHandle)",
            "set exactly one: volumeHandle (take a snapshot) or snapshotHandle (use one that exists)",
            path="spec.source",
        ),
        Rule("self == oldSelf", "the source of a snapshot cannot be changed", path="spec.source"),
        Rule(
            "has(self.name) && has(self.__namespace__)",
            "name and namespace of the VolumeSnapshot must both be set",
            path="spec.volumeSnapshotRef",
        ),
        Rule(
            "!has(oldSelf.sourceVolumeMode) || "
            "(has(self.sourceVolumeMode) && self.sourceVolumeMode == oldSelf.sourceVolumeMode)",
            "sourceVolumeMode cannot be changed once it is set",
            path="spec",
        ),
    ),
)

SNAPSHOT_CLASSES: Final = Kind(
    GROUP,
    VERSION,
    "VolumeSnapshotClass",
    "volumesnapshotclasses",
    VolumeSnapshotClass,
    namespaced=False,
    status=False,
    short_names=("vsclass", "vsclasses"),
    columns=(
        Column("Driver", ".driver", description="The driver that it is for."),
        Column("DeletionPolicy", ".deletionPolicy", description="What happens when a VolumeSnapshot is deleted."),
        AGE,
    ),
)
