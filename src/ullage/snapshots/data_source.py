"""The snapshot that a claim is to be filled from, as its `dataSource` or `dataSourceRef` says; and whether that has begun.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ullage.kube.builtin.core import PersistentVolumeClaim
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.kube.objects import is_deleting
from ullage.snapshots.api.ga.types import GROUP as GA_GROUP
from ullage.snapshots.api.prototype.types import GROUP as PROTOTYPE_GROUP
from ullage.times import read_time

SNAPSHOT_KIND: Final = "VolumeSnapshot"

# On a claim: the storage system may have been asked for its volume.
RESTORING: Final = "ullage.io/restoring"


# On a claim: the uid of the snapshot that it is filled from, or was, by us.
RESTORED_FROM_UID: Final = "ullage.io/restored-from-uid"


class DataSource(NamedTuple):
    """The snapshot that a claim is to be filled from."""

    group: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.group}/{self.namespace}/{self.name}"


def data_source_of(claim: PersistentVolumeClaim) -> DataSource | None:
    """None where a claim is to be filled from something else, or from nothing.

    `dataSource` is there for the GA group alone: an API server drops any other from it without a word.
    """
    found, groups = claim.spec.data_source_ref, {GA_GROUP, PROTOTYPE_GROUP}
    if found is None:
        found, groups = claim.spec.data_source, {GA_GROUP}
    if found is None or found.api_group is None or found.api_group not in groups or found.kind != SNAPSHOT_KIND:
        return None
    return DataSource(found.api_group, found.namespace or claim.metadata.namespace, found.name)


def snapshot_keys(claim: PersistentVolumeClaim) -> Iterable[str]:
    """For an index of claims: the snapshot that each wants, as `group/namespace/name`. Another namespace's counts as none."""
    source = data_source_of(claim)
    return (str(source),) if source is not None and source.namespace == claim.metadata.namespace else ()


def snapshot_key(claim: PersistentVolumeClaim, group: str) -> Iterable[Key]:
    """The snapshot of one API that a claim is to be filled from."""
    source = data_source_of(claim)
    return (Key(source.namespace, source.name),) if source is not None and source.group == group else ()


def has_begun(claim: PersistentVolumeClaim) -> bool:
    """Whether a volume may have been made for it that nothing but its finalizer tells of."""
    return RESTORING in claim.metadata.finalizers


def waits_for(claim: PersistentVolumeClaim, snapshot: Meta) -> bool:
    """Whether a claim that names a snapshot is still to be filled from it, though nothing was begun. One that came after the
    snapshot's deletion was asked for does not: otherwise a snapshot could be kept from going for ever."""
    created, deleted = read_time(claim.metadata.creation_timestamp), read_time(snapshot.deletion_timestamp or "")
    late = created is not None and deleted is not None and created > deleted
    return not (late or claim.spec.volume_name or is_deleting(claim.metadata))


def volume_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"
