"""Binds a group to a content that an administrator has made, for a group snapshot that the storage system had already.

Members of such a group are made by hand, as the content is: VolumeSnapshotContents that name the handles, and VolumeSnapshots
that name those. What is done here is the binding, and that the group says what its content says.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ullage.clock import Clock, SystemClock
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import hold, patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import Json, is_deleting
from ullage.policies.groups.api import GROUP_CONTENTS, GROUPS, GroupStatus, VolumeGroupSnapshot, VolumeGroupSnapshotContent
from ullage.policies.groups.lookup import GroupLookup
from ullage.policies.groups.model import GROUP_FINALIZER, RETRY_SECONDS
from ullage.snapshots.api.ga.errors import error_of, problem_of
from ullage.snapshots.model import Problem
from ullage.snapshots.settings import Settings

# Whether a group and a content that was made by hand belong together, and what the group says then.


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


class GroupAdopter:
    def __init__(self, client: Client, lookup: GroupLookup, *, settings: Settings, clock: Clock | None = None) -> None:
        self._client = client
        self._lookup = lookup
        self._settings = settings
        self._clock = clock or SystemClock()

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        look = self._lookup
        sources: list[Source[Any, Key]] = [own(look.groups), Source(look.contents, look.keys_of_content)]
        return Controller("group-imports", sources, self.reconcile, clock=self._clock, metrics=metrics)

    async def reconcile(self, key: Key) -> Requeue | None:
        group = self._lookup.group(key)
        if group is None or is_deleting(group.metadata):
            return None
        wanted = group.spec.source.volume_group_snapshot_content_name
        if not wanted:
            return None
        content = self._lookup.content(wanted)
        if content is None:
            if not self._settings.alone:
                return None  # whose driver it will be, nothing tells
            problem = Problem("ContentMissing", f"{wanted} does not exist; an administrator makes it")
            return await self._refuse(group, problem)
        if not self._settings.managed(content.spec.driver):
            return None
        if problem_found := mismatch(group, content):
            return await self._refuse(group, problem_found)
        group = await hold(self._client, GROUPS, group, GROUP_FINALIZER)
        content = await self._bind(group, content)
        await self._write(group, mirrored(group, content, self._clock.now()))
        return None

    async def _bind(self, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent) -> VolumeGroupSnapshotContent:
        spec: Json = {}
        if not content.spec.volume_group_snapshot_ref.uid:
            spec["volumeGroupSnapshotRef"] = {"uid": group.metadata.uid}
        name = group.spec.volume_group_snapshot_class_name
        if name and not content.spec.volume_group_snapshot_class_name:
            spec["volumeGroupSnapshotClassName"] = name
        return await patch_seen(self._client, GROUP_CONTENTS, content, {"spec": spec}) if spec else content

    async def _refuse(self, group: VolumeGroupSnapshot, problem: Problem) -> Requeue:
        old = group.status
        await self._write(
            group, replace(old, ready_to_use=False, error=error_of(problem, old.error or UNSET, self._clock.now()))
        )
        return Requeue(RETRY_SECONDS)

    async def _write(self, group: VolumeGroupSnapshot, status: GroupStatus) -> None:
        await patch_status(self._client, GROUPS, group, old=group.status, new=status)
