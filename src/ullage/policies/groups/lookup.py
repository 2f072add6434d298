"""Typed reads of the caches: groups, contents, classes, and the members of a group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from ullage.kube.builtin.core import PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.slices import Wiring
from ullage.policies.groups.api import (
    GROUP_CLASSES,
    GROUP_CONTENTS,
    GROUPS,
    VolumeGroupSnapshot,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
)
from ullage.snapshots.api.ga.types import (
    CONTENTS,
    SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from ullage.snapshots.lookup import VolumeLookup, volume_lookup
from ullage.snapshots.model import IN_GROUP, group_of
from ullage.snapshots.source_volume import ClaimContext, source_volume_of

BY_GROUP: Final = "group of a member"
BY_NAMESPACE: Final = "namespace of a group without content"
BY_REF: Final = "group of a content"
BY_VOLUME: Final = "driver and handle"
CLAIMS_BY_NAMESPACE: Final = "namespace of a claim"


class GroupLookup:
    """What the controllers of groups see."""

    def __init__(
        self,
        groups: Cache[VolumeGroupSnapshot],
        contents: Cache[VolumeGroupSnapshotContent],
        classes: Cache[VolumeGroupSnapshotClass],
        *,
        snapshots: Cache[VolumeSnapshot],
        records: Cache[VolumeSnapshotContent],
        snapshot_classes: Cache[VolumeSnapshotClass],
        volumes: VolumeLookup,
        group_drivers: frozenset[str] = frozenset(),
    ) -> None:
        """`group_drivers` are those that may know groups: somebody else, who can reach them, asks."""
        self.group_drivers = group_drivers
        self.groups = groups
        self.contents = contents
        self.classes = classes
        self.snapshots = snapshots
        self.records = records
        self.snapshot_classes = snapshot_classes
        self.volumes = volumes
        with contextlib.suppress(ValueError):  # several lookups share the caches: the first one sets the indexes
            snapshots.index(BY_GROUP, lambda one: map(str, _group_keys(one)))
            contents.index(BY_REF, lambda one: map(str, self.keys_of_content(one)))
            groups.index(BY_NAMESPACE, _unplanned)
            volumes.volumes.index(BY_VOLUME, _volume_keys)
            volumes.claims.index(CLAIMS_BY_NAMESPACE, lambda one: (one.metadata.namespace,))

    def group(self, key: Key) -> VolumeGroupSnapshot | None:
        return self.groups.get(key)

    def content(self, name: str) -> VolumeGroupSnapshotContent | None:
        return self.contents.get(Key("", name)) if name else None

    def contents_for(self, group: Key) -> list[VolumeGroupSnapshotContent]:
        """Those that name a group of this name, of whatever uid."""
        return self.contents.by(BY_REF, str(group))

    def members(self, group: Key) -> list[VolumeSnapshot]:
        """Those that name a group of this name as their owner, whoever made them, or had one and say so. Without a name: those
        that nothing tells the group of."""
        return self.snapshots.by(BY_GROUP, str(group))

    def claims_in(self, namespace: str) -> list[PersistentVolumeClaim]:
        return self.volumes.claims.by(CLAIMS_BY_NAMESPACE, namespace)

    def all_unplanned(self) -> list[Key]:
        return [key_of(one) for one in self.groups.items() if any(_unplanned(one))]

    def unplanned(self, namespace: str) -> list[Key]:
        """The groups of a namespace that have no content yet."""
        return [key_of(one) for one in self.groups.by(BY_NAMESPACE, namespace)]

    def context_of_volume(self, driver: str, handle: str) -> ClaimContext:
        """The claim whose volume its driver knows by this handle, if there is one."""
        for volume in self.volumes.volumes.by(BY_VOLUME, f"{driver} {handle}"):
            ref = volume.spec.claim_ref
            found = self.volumes.context(ref.namespace, ref.name) if ref is not None else ClaimContext()
            if found.claim is not None and found.volume is volume:
                return found
        return ClaimContext()

    # --- who is woken ---

    def keys_of_content(self, content: VolumeGroupSnapshotContent) -> Iterable[Key]:
        ref = content.spec.volume_group_snapshot_ref
        return (Key(ref.namespace, ref.name),) if ref.name else ()

    def keys_of_member(self, snapshot: VolumeSnapshot) -> Iterable[Key]:
        return _group_keys(snapshot)

    def keys_of_record(self, record: VolumeSnapshotContent) -> Iterable[Key]:
        ref = record.spec.volume_snapshot_ref
        found = self.snapshots.get(Key(ref.namespace, ref.name))
        return _group_keys(found) if found is not None else ()


def _group_keys(snapshot: VolumeSnapshot) -> Iterable[Key]:
    meta = snapshot.metadata
    name = group_of(meta) or snapshot.status.volume_group_snapshot_name
    return (Key(meta.namespace, name),) if name or IN_GROUP in meta.finalizers else ()


def _unplanned(group: VolumeGroupSnapshot) -> Iterable[str]:
    return () if group.status.bound_volume_group_snapshot_content_name else (group.metadata.namespace,)


def _volume_keys(volume: PersistentVolume) -> Iterable[str]:
    found = source_volume_of(volume)
    return (f"{found.driver} {found.volume.handle}",) if found is not None else ()


def group_lookup(wiring: Wiring, group_drivers: frozenset[str] = frozenset()) -> GroupLookup:
    return GroupLookup(
        wiring.cache(GROUPS),
        wiring.cache(GROUP_CONTENTS),
        wiring.cache(GROUP_CLASSES),
        snapshots=wiring.cache(VOLUME_SNAPSHOTS),
        records=wiring.cache(CONTENTS),
        snapshot_classes=wiring.cache(SNAPSHOT_CLASSES),
        volumes=volume_lookup(wiring),
        group_drivers=group_drivers,
    )
