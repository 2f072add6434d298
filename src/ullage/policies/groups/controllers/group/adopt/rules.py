"""Whether a group and a content that was made by hand belong together, and what the group says then. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec import UNSET
from msgspec.structs import replace

from ullage.policies.groups.api.contents import VolumeGroupSnapshotContent
from ullage.policies.groups.api.groups import GroupStatus, VolumeGroupSnapshot
from ullage.snapshots.api.ga.errors import error_of, problem_of
from ullage.snapshots.model import Problem


def mismatch(group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent) -> Problem | None:
    """What keeps the two from being bound. Whose the content is instead is not told: a user may name any."""
    name, ref, meta = content.metadata.name, content.spec.volume_group_snapshot_ref, group.metadata
    if not content.spec.source.group_snapshot_handles:
        return Problem(
            "ContentMismatch", f"{name} was made for a group snapshot that is taken; an import needs one that names handles"
        )
    if (ref.namespace, ref.name) != (meta.namespace, meta.name) or ref.uid not in ("", meta.uid):
        return Problem("ContentMisbound", f"{name} belongs to another group, not to this one")
    return None


def mirrored(group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, now: datetime) -> GroupStatus:
    """The group says what its content says."""
    old, said = group.status, content.status
    ready = said.ready_to_use is True
    problem = None if ready else problem_of(said.error)
    return replace(
        old,
        bound_volume_group_snapshot_content_name=content.metadata.name,
        ready_to_use=ready,
        creation_time=old.creation_time or said.creation_time,
        error=error_of(problem, old.error, now) if problem else UNSET,
    )
