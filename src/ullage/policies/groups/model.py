"""The terms of decisions about groups: names, marks, and what a group is planned to be of. Pure.

A group and its content are bound when each names the other, as snapshots and their records are. The content has on it what
must outlive a process, since users cannot write there: which claims the members are of, whether the driver cuts them all in one
call, and how far the group is. Names, finalizers and marks that external-snapshotter has too are the same here, so that either
can go on with what the other has left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from ullage.kube.kinds import Meta
from ullage.policies.groups.api import VolumeGroupSnapshot, VolumeGroupSnapshotContent

_PREFIX: Final = "groupsnapshot.storage.kubernetes.io"
GROUP_FINALIZER: Final = f"{_PREFIX}/volumegroupsnapshot-bound-protection"
CONTENT_FINALIZER: Final = f"{_PREFIX}/volumegroupsnapshotcontent-bound-protection"
DEFAULT_CLASS: Final = f"{_PREFIX}/is-default-class"
BEING_CREATED: Final = f"{_PREFIX}/volumegroupsnapshot-being-created"  # on a content: the driver was, or is being, asked
BEING_DELETED: Final = f"{_PREFIX}/volumegroupsnapshot-being-deleted"  # on a content: its group is going
SECRET_NAME: Final = f"{_PREFIX}/deletion-secret-name"
SECRET_NAMESPACE: Final = f"{_PREFIX}/deletion-secret-namespace"
YES: Final = "yes"

MEMBERS: Final = "ullage.io/members"  # on a content: the handle of each member's volume, by claim, as JSON
CUT_BY: Final = "ullage.io/cut-by"  # on a content: who cuts the volumes
BY_DRIVER: Final = "driver"  # the driver, all in one call
BY_MEMBERS: Final = "members"  # each member is told to be cut
PHASE: Final = "ullage.io/phase"  # on a content: how far the group is
CUTTING: Final = "cutting"  # members may have been cut
FAILED: Final = "failed"  # none is kept
MOST_MEMBERS: Final = 200
RETRY_SECONDS: Final = 15.0  # where somebody else has to act: his doing wakes us, but for what we do not watch


def content_name(group: Meta) -> str:
    return f"groupsnapcontent-{group.uid}"


def driver_name(group_uid: str) -> str:
    """What the driver's group snapshot is called."""
    return f"groupsnapshot-{group_uid}"


def member_name(group_uid: str, volume: str) -> str:
    """The VolumeSnapshot for a volume: it follows from the two, so that making it twice makes one."""
    return f"snapshot-{hashlib.sha256(f'{group_uid}{volume}'.encode()).hexdigest()}"


def read_members(content: Meta) -> dict[str, str] | None:
    """The handles of the members' volumes, by claim; None: nobody has written them down, or not readably."""
    text = content.annotations.get(MEMBERS)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def write_members(volumes: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(sorted(volumes.items()))).decode()


def phase_of(content: Meta) -> str:
    return content.annotations.get(PHASE, "")


def is_bound(group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent) -> bool:
    """Whether the content is this very group's."""
    ref, meta = content.spec.volume_group_snapshot_ref, group.metadata
    return (ref.namespace, ref.name, ref.uid) == (meta.namespace, meta.name, meta.uid)


def is_incomplete(content: VolumeGroupSnapshotContent) -> bool:
    """Whether it was planned here, and its group was not complete. What there is of it is no data yet: all goes, or all of it
    will be there, whatever its policy says."""
    notes = content.metadata.annotations
    if MEMBERS not in notes or content.spec.source.volume_handles is UNSET:
        return False  # another's, or made by hand
    return phase_of(content.metadata) in (CUTTING, FAILED) or not handle_of(content)


def keeps_data(content: VolumeGroupSnapshotContent) -> bool:
    """Whether the data stays when its group goes."""
    return content.spec.deletion_policy == "Retain" and not is_incomplete(content)


def handle_of(content: VolumeGroupSnapshotContent) -> str:
    """The driver's group snapshot; empty: there is none yet, for all that is known."""
    imported = content.spec.source.group_snapshot_handles
    return content.status.volume_group_snapshot_handle or (imported.volume_group_snapshot_handle if imported else "")


def snapshot_handles(content: VolumeGroupSnapshotContent) -> tuple[str, ...]:
    """The members, as the driver knows them."""
    imported = content.spec.source.group_snapshot_handles
    told = tuple(one.snapshot_handle for one in content.status.volume_snapshot_info_list)
    return told or (imported.volume_snapshot_handles if imported else ())
