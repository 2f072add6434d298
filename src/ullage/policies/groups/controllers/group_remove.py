"""Deletes groups: what the storage system has of them first, then the members, then the group itself.

A driver that has cut all in one call may refuse to delete a member alone, so its group snapshot goes before the members do.
Nothing is deleted while a claim is being filled from a member, and no group snapshot of a driver while another namespace has
one of its members (by a share): members are told to go before that is looked at, so that none is given away afterwards. With
the policy Retain the data and the content stay, and so do the members' records; the members themselves go with their group.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Final

from ullage.clock import Clock, SystemClock
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import let_go, patch_seen
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting, is_owned_by
from ullage.policies.cut_hooks.interface import CutHooks, holder_of
from ullage.policies.groups.api import GROUP_CONTENTS, GROUPS, VolumeGroupSnapshot, VolumeGroupSnapshotContent
from ullage.policies.groups.dropping import drop_member, keep_data
from ullage.policies.groups.lookup import GroupLookup
from ullage.policies.groups.model import (
    BEING_CREATED,
    BEING_DELETED,
    BY_MEMBERS,
    CONTENT_FINALIZER,
    CUT_BY,
    GROUP_FINALIZER,
    RETRY_SECONDS,
    YES,
    content_name,
    handle_of,
    is_bound,
    is_incomplete,
    keeps_data,
    snapshot_handles,
)
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.ga.types import VOLUME_SNAPSHOTS, VolumeSnapshot
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.cut.members import ORPHAN, delete_member
from ullage.snapshots.data_source import DataSource
from ullage.snapshots.live_records import LiveRecords
from ullage.snapshots.model import GROUP_HANDLE, IN_GROUP
from ullage.snapshots.settings import Settings

# In which order a group goes.


_SHOWN: Final = 5  # names in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalFacts:
    """Of a group that is going. `content` is bound to it; `busy` are claims that are being filled from its members; `orphans`
    are VolumeSnapshots that the driver has cut with it, and that are to stay: it was deleted without them."""

    content: VolumeGroupSnapshotContent | None
    members: tuple[VolumeSnapshot, ...] = ()
    busy: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What to do, in this order."""

    busy: str = ""  # nothing, and why
    note_content: bool = False  # say on the content that its group is going
    mark: tuple[VolumeSnapshot, ...] = ()  # delete them; their finalizer keeps them, and nobody is given them any more
    keep: tuple[VolumeSnapshot, ...] = ()  # write on their records that the data stays
    alone: bool = False  # go on only where no other namespace uses what the driver has
    drop: tuple[VolumeSnapshot, ...] = ()
    delete_content: bool = False
    let_content_go: bool = False  # nobody who calls a driver has to
    let_group_go: bool = False


def plan_removal(facts: RemovalFacts) -> Removal:
    content = facts.content
    if facts.busy:
        return Removal(busy=f"Being filled from its members: claims {_shown(facts.busy)}. It goes as soon as that is done.")
    if content is None:
        return Removal(drop=facts.members, let_group_go=True)
    note = BEING_DELETED not in content.metadata.annotations
    if keeps_data(content):
        return Removal(note_content=note, keep=facts.members, drop=facts.members, let_group_go=True)
    delete = not is_deleting(content.metadata)
    if is_called_for(content) and facts.orphans:
        names = _shown(facts.orphans)
        return Removal(
            busy=f"It was deleted without VolumeSnapshots {names}, whose data its driver deletes with it. Delete these."
        )
    if is_called_for(content):
        standing = tuple(one for one in facts.members if not is_deleting(one.metadata))
        return Removal(note_content=note, mark=standing, alone=delete, delete_content=delete)
    # Each member was cut for itself, or nothing was: its own record has its data deleted.
    return Removal(note_content=note, drop=facts.members, delete_content=delete, let_content_go=True)


def _shown(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def is_called_for(content: VolumeGroupSnapshotContent) -> bool:
    """Whether the driver has to be called before the content may go."""
    if content.metadata.annotations.get(CUT_BY) == BY_MEMBERS:
        return False
    return bool(handle_of(content)) or BEING_CREATED in content.metadata.annotations


def is_abandoned(content: VolumeGroupSnapshotContent, group: VolumeGroupSnapshot | None) -> bool:
    """Whether the group that a content was made for is gone before it was complete: somebody took its finalizer off. What the
    driver has of it, or is about to make, nobody would pay for. What was complete is data, and stays."""
    uid = content.spec.volume_group_snapshot_ref.uid
    return bool(uid) and not (group is not None and group.metadata.uid == uid) and is_incomplete(content)


IN_USE_EVENT: Final = Reason("GroupSnapshotInUse", type="Warning")
SHARED: Final = (
    "Another namespace was given a member of it. It goes as soon as that is deleted there, or the SnapshotShare is taken back: "
    "the driver deletes all of a group or nothing."
)


class GroupRemover:
    def __init__(
        self,
        client: Client,
        lookup: GroupLookup,
        *,
        settings: Settings,
        hooks: CutHooks,
        recorder: EventRecorder,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._settings = settings
        self._hooks = hooks
        self._recorder = recorder
        self._clock = clock or SystemClock()
        self._live = LiveRecords(client, (GA, PROTOTYPE))

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        look = self._lookup
        sources: list[Source[Any, Key]] = [
            own(look.groups),
            Source(look.contents, look.keys_of_content),
            Source(look.snapshots, look.keys_of_member),
        ]
        return Controller("group-removals", sources, self.reconcile, clock=self._clock, metrics=metrics)

    async def reconcile(self, key: Key) -> Requeue | None:
        group = self._lookup.group(key)
        strays, handle = self._strays(key, group), self._handle(group)
        await self._let_go(key, group, [one for one in strays if not self._is_of(one, handle)])
        for one in self._lookup.contents_for(key):
            if is_abandoned(one, group) and self._settings.managed(one.spec.driver):
                await self._abandon(one)
        if group is None:
            return None
        meta = group.metadata
        if not is_deleting(meta) or GROUP_FINALIZER not in meta.finalizers or ORPHAN in meta.finalizers:
            return None
        content = await self._content(group)
        if content is not None and not self._settings.managed(content.spec.driver):
            return None  # another snapshotter's
        await self._hooks.leave(holder_of(GROUPS, group))
        members = [one for one in self._lookup.members(key) if is_owned_by(one.metadata, meta.uid)]
        orphans = [one.metadata.name for one in strays if self._is_of(one, handle) and not is_deleting(one.metadata)]
        facts = RemovalFacts(
            content=content, members=tuple(members), busy=tuple(map(str, self._busy(members))), orphans=tuple(orphans)
        )
        plan = plan_removal(facts)
        return await self._act(group, content, plan)

    async def _content(self, group: VolumeGroupSnapshot) -> VolumeGroupSnapshotContent | None:
        """By the word of the API: what is not there any more needs no deletion."""
        named = group.spec.source.volume_group_snapshot_content_name or content_name(group.metadata)
        found = await self._client.find(GROUP_CONTENTS, named)
        return found if found is not None and is_bound(group, found) else None

    def _busy(self, members: list[VolumeSnapshot]) -> list[Key]:
        """The claims that are being filled from members."""
        volumes = self._lookup.volumes
        sources = [DataSource(VOLUME_SNAPSHOTS.group, one.metadata.namespace, one.metadata.name) for one in members]
        return [key for one in sources for key in volumes.restoring(one)]

    async def _act(
        self, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent | None, plan: Removal
    ) -> Requeue | None:
        if plan.busy:
            self._recorder.record(GROUPS, group, IN_USE_EVENT, note=plan.busy)
            return Requeue(RETRY_SECONDS)
        if content is not None and plan.note_content:
            notes = {"metadata": {"annotations": {BEING_DELETED: YES}}}
            content = await patch_seen(self._client, GROUP_CONTENTS, content, notes)
        for one in plan.mark:
            await delete_member(self._client, one)
        if content is not None and plan.alone and await self._used_elsewhere(content):
            self._recorder.record(GROUPS, group, IN_USE_EVENT, note=SHARED)
            return Requeue(RETRY_SECONDS)
        for one in plan.keep:
            await keep_data(self._client, one.status.bound_volume_snapshot_content_name)
        for one in plan.drop:
            await drop_member(self._client, one.metadata.name, one.metadata.namespace, group=group.metadata.uid)
        if content is not None and plan.delete_content:
            with contextlib.suppress(NotFound):
                await self._client.delete(GROUP_CONTENTS, content.metadata.name, uid=content.metadata.uid)
                content = await self._client.find(GROUP_CONTENTS, content.metadata.name)
        if content is not None and plan.let_content_go and is_deleting(content.metadata):
            await let_go(self._client, GROUP_CONTENTS, content, CONTENT_FINALIZER)
        if not plan.let_group_go:
            return Requeue(RETRY_SECONDS)
        await let_go(self._client, GROUPS, group, GROUP_FINALIZER)
        return None

    async def _used_elsewhere(self, content: VolumeGroupSnapshotContent) -> bool:
        namespace, driver = content.spec.volume_group_snapshot_ref.namespace, content.spec.driver
        handles = snapshot_handles(content)
        return bool(handles) and await self._live.used_outside(namespace, driver, handles)

    # --- what is left of a group that is gone ---

    async def _abandon(self, content: VolumeGroupSnapshotContent) -> None:
        """By the word of the API: a cache may be behind. Whoever calls the driver undoes what it has, and lets go."""
        ref = content.spec.volume_group_snapshot_ref
        now = await self._client.find(GROUP_CONTENTS, content.metadata.name)
        if now is None or not is_abandoned(now, await self._client.find(GROUPS, ref.name, ref.namespace)):
            return
        with contextlib.suppress(NotFound, Conflict):
            if not is_deleting(now.metadata):
                await self._client.delete(GROUP_CONTENTS, now.metadata.name, uid=now.metadata.uid)
                now = await self._client.find(GROUP_CONTENTS, now.metadata.name)
            if now is not None and not is_called_for(now):
                await let_go(self._client, GROUP_CONTENTS, now, CONTENT_FINALIZER)

    def _strays(self, key: Key, group: VolumeGroupSnapshot | None) -> list[VolumeSnapshot]:
        """What is held as a member, and is none of this group: that is gone for good, or was deleted without its members."""
        uid = group.metadata.uid if group is not None else ""
        found = (one for one in self._lookup.members(key) if IN_GROUP in one.metadata.finalizers)
        return [one for one in found if not (uid and is_owned_by(one.metadata, uid))]

    def _handle(self, group: VolumeGroupSnapshot | None) -> str:
        content = self._lookup.content(group.status.bound_volume_group_snapshot_content_name) if group is not None else None
        return handle_of(content) if content is not None else ""

    def _is_of(self, snapshot: VolumeSnapshot, handle: str) -> bool:
        """Whether the driver has cut it with this group snapshot."""
        record = self._lookup.records.get(Key("", snapshot.status.bound_volume_snapshot_content_name))
        return bool(handle) and record is not None and record.metadata.annotations.get(GROUP_HANDLE) == handle

    async def _let_go(self, key: Key, group: VolumeGroupSnapshot | None, strays: list[VolumeSnapshot]) -> None:
        """Nothing keeps them any more: what was deleted, by the garbage collector for one, can go."""
        for one in strays:
            if not is_deleting(one.metadata):
                continue
            record = self._lookup.records.get(Key("", one.status.bound_volume_snapshot_content_name))
            if record is not None and not (self._settings.alone or self._settings.managed(record.spec.driver)):
                continue
            now = await self._client.find(GROUPS, key.name, key.namespace) if key.name else None
            if now is None or (group is not None and now.metadata.uid == group.metadata.uid):
                await let_go(self._client, VOLUME_SNAPSHOTS, one, IN_GROUP)
