"""VolumeGroupSnapshotClass: how group snapshots of a driver's volumes are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule
from ullage.policies.groups.api.common import GROUP, NEXT_VERSION, VERSION


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
