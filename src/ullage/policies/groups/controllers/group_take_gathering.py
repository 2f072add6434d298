"""What is seen of a group: its content, the claims it is of, and its members."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UnsetType

from ullage.clock import Clock
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json
from ullage.policies.groups.api import GROUP_CONTENTS, VolumeGroupSnapshot, VolumeGroupSnapshotContent
from ullage.policies.groups.controllers.group_take_members import GroupMember, member_of, new_record
from ullage.policies.groups.controllers.group_take_rules import GroupPlan, plan_of, selector_of
from ullage.policies.groups.dropping import drop_member
from ullage.policies.groups.lookup import GroupLookup
from ullage.policies.groups.model import MEMBERS, MOST_MEMBERS, content_name, phase_of, read_members, write_members
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.cut.members import MemberReader
from ullage.snapshots.model import Problem, SnapshotClass
from ullage.snapshots.source_volume import source_volume_of


class Gatherer:
    def __init__(self, client: Client, lookup: GroupLookup, *, clock: Clock) -> None:
        self._client = client
        self._lookup = lookup
        self._reader = MemberReader(client, lookup.snapshots, lookup.records, clock=clock)

    async def content(self, group: VolumeGroupSnapshot) -> VolumeGroupSnapshotContent | None:
        name = content_name(group.metadata)
        found = self._lookup.content(name)
        if found is None and group.status.bound_volume_group_snapshot_content_name:
            found = await self._client.find(GROUP_CONTENTS, name)
        return found

    def plan(self, group: VolumeGroupSnapshot) -> tuple[GroupPlan | Problem, str]:
        """The plan, and the driver that it is about, as far as anything tells: the volumes, or else the class."""
        look, named = self._lookup, group.spec.volume_group_snapshot_class_name
        known = look.classes.get(Key("", named)) if named else None
        driver = known.driver if known is not None else ""
        selector = selector_of(group)
        if isinstance(selector, Problem):
            return selector, driver
        namespace = group.metadata.namespace
        chosen = [one.metadata.name for one in look.claims_in(namespace) if selector.matches(one.metadata.labels)]
        contexts = {name: look.volumes.context(namespace, name) for name in sorted(chosen)[: MOST_MEMBERS + 1]}
        for context in contexts.values():
            source = source_volume_of(context.volume) if context.volume is not None else None
            driver = driver or (source.driver if source is not None else "")
        return plan_of(group, contexts, look.classes.items(), chosen=len(chosen)), driver

    def may_know_groups(self, plan: GroupPlan) -> bool:
        """Whether the driver may be one that cuts all in one call: CSI drivers may. Longhorn has CSI volumes too, and whoever
        calls it here knows that it is not."""
        return plan.driver in self._lookup.group_drivers

    def volumes(self, content: VolumeGroupSnapshotContent) -> dict[str, str] | Problem:
        """The handles of the members' volumes, by claim. Another snapshotter writes down the handles alone."""
        found = read_members(content.metadata)
        if found is not None:
            return found
        handles, made = content.spec.source.volume_handles, dict[str, str]()
        for handle in () if isinstance(handles, UnsetType) else handles:
            context = self._lookup.context_of_volume(content.spec.driver, handle)
            namespace = content.spec.volume_group_snapshot_ref.namespace
            if context.claim is None or context.claim.metadata.namespace != namespace:
                return Problem("ClaimNotFound", f"no claim of the namespace has volume {handle}")
            made[context.claim.metadata.name] = handle
        return made

    def adopted(self, content: VolumeGroupSnapshotContent, volumes: Mapping[str, str]) -> dict[str, str | None]:
        """What is to be written on a content that another snapshotter has made."""
        return {} if MEMBERS in content.metadata.annotations else {MEMBERS: write_members(volumes)}

    # --- members ---

    async def members(
        self, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, volumes: Mapping[str, str]
    ) -> list[GroupMember]:
        settled = bool(phase_of(content.metadata)) or group.status.ready_to_use is True
        infos = {one.volume_handle: one for one in content.status.volume_snapshot_info_list}
        planned = [member_of(group.metadata, claim, one, info=infos.get(one)) for claim, one in sorted(volumes.items())]
        return await self._reader.read(group.metadata.uid, planned, group.metadata.namespace, settled=settled)

    def forget(self, group: Meta) -> None:
        self._reader.forget(group.uid)

    def new_record(self, content: VolumeGroupSnapshotContent, member: GroupMember) -> Json | Problem:
        namespace = content.spec.volume_group_snapshot_ref.namespace
        context = self._lookup.volumes.context(namespace, member.claim)
        return new_record(content, member, context, default=self._default_class(content.spec.driver))

    def _default_class(self, driver: str) -> SnapshotClass | None:
        """The driver's own class of snapshots, for what it is told of each member; None: there is not exactly one."""
        classes = (GA.read_class(one) for one in self._lookup.snapshot_classes.items())
        found = [one for one in classes if one.is_default and one.driver == driver]
        return found[0] if len(found) == 1 else None

    async def dropped(self, group: Meta, member: GroupMember) -> bool:
        """Whether a member is still there after it was told to go."""
        return await drop_member(self._client, member.name, group.namespace, group=group.uid)
