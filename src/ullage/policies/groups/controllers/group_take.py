"""Takes group snapshots: gathers, has its rules say what comes next, does it.

Every step is worked out anew from the API, so a process may die after any of them. What several steps are one after the other
for, such as the creation of 200 members, is gone on with where it was left. Groups of drivers that are not ours to manage are
left alone: another snapshotter may answer for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from ullage.clock import Clock, SystemClock
from ullage.errors import BadInput
from ullage.kube.builtin.core import PersistentVolumeClaim
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import hold, patch_seen
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import AlreadyExists
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.ledger.charging.raising import NoRoom
from ullage.policies.cut_hooks.api import hooks_of
from ullage.policies.cut_hooks.interface import CutHooks, HooksFailed, HooksWaiting, holder_of
from ullage.policies.groups.api import GROUP_CONTENTS, GROUPS, VolumeGroupSnapshot, VolumeGroupSnapshotContent
from ullage.policies.groups.controllers import group_take_rules as rules
from ullage.policies.groups.controllers.group_take_gathering import Gatherer
from ullage.policies.groups.controllers.group_take_members import GroupMember
from ullage.policies.groups.controllers.group_take_rules import GroupPlan, new_content
from ullage.policies.groups.controllers.group_take_writes import DELAYED, GroupWriter
from ullage.policies.groups.dropping import keep_data
from ullage.policies.groups.lookup import GroupLookup
from ullage.policies.groups.model import (
    CUTTING,
    FAILED,
    GROUP_FINALIZER,
    MEMBERS,
    PHASE,
    RETRY_SECONDS,
    is_bound,
    keeps_data,
    phase_of,
)
from ullage.snapshots.cut.members import tell_members
from ullage.snapshots.model import NO_ROOM, Problem
from ullage.snapshots.settings import Settings

# When the claims of a namespace are gone through for a group that waits for some. Whoever may write there can have
# thousands of groups wait, and thousands of claims, each of whose changes wakes all of them. A look at the claims takes
# time by their number; so the groups of a namespace take turns, and the next one comes so much later that all of them
# together take a hundredth of a process at most.


SECONDS_PER_CLAIM: Final = 0.0005  # between two looks: 5 s for 10,000 claims, a tenth of a second for 200


class PlanPace:
    """It is memory only: after a restart everybody's turn comes anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: dict[Key, float] = {}  # when it is a group's turn
        self._next: dict[str, float] = {}  # by namespace: the first moment that is nobody's yet

    def wait(self, group: Key, claims: Callable[[], int]) -> float:
        """Seconds until it is the group's turn; 0: now, and then not again before the others'."""
        now, turn = self._clock.monotonic(), self._turns.get(group)
        if turn is None:
            turn = max(now, self._next.get(group.namespace, now))
            self._next[group.namespace] = turn + claims() * SECONDS_PER_CLAIM
            self._turns[group] = turn
        if turn > now:
            return turn - now
        self.forget(group)
        return 0.0

    def forget(self, group: Key) -> None:
        """It has had its turn, or needs none any more."""
        self._turns.pop(group, None)
        if self._next.get(group.namespace, 0.0) <= self._clock.monotonic():
            self._next.pop(group.namespace, None)


STARTED_EVENT: Final = Reason("GroupSnapshotStarted")
CUT_EVENT: Final = Reason("GroupSnapshotCut")
READY_EVENT: Final = Reason("GroupSnapshotReady")
APART_EVENT: Final = Reason("GroupSnapshotCutApart", type="Warning")
FAILED_EVENT: Final = Reason("GroupSnapshotFailed", type="Warning")
DELAY_SECONDS: Final = 2.0  # between two requests for a member that is not admitted yet
HOOKS_SECONDS: Final = 1.0  # between two looks at hooks that run


class GroupController:
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
        self._pace = PlanPace(self._clock)
        self._gather = Gatherer(client, lookup, clock=self._clock)
        self._writer = GroupWriter(client, clock=self._clock)

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        look = self._lookup
        sources: list[Source[Any, Key]] = [
            own(look.groups),
            Source(look.contents, look.keys_of_content),
            Source(look.snapshots, look.keys_of_member),
            Source(look.records, look.keys_of_record),
            Source(look.volumes.claims, self._of_claim),
            Source(look.classes, lambda one: look.all_unplanned()),
        ]
        return Controller("group-snapshots", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        return self._lookup.unplanned(claim.metadata.namespace)

    # --- reconcile ---

    async def reconcile(self, key: Key) -> Requeue | None:
        group = self._lookup.group(key)
        if group is None or is_deleting(group.metadata) or group.spec.source.volume_group_snapshot_content_name:
            self._pace.forget(key)
            return None
        content = await self._gather.content(group)
        if content is None:
            return await self._plan(group)
        if not self._settings.managed(content.spec.driver):
            return None
        if not is_bound(group, content):
            return await self._wait(group, Problem("ContentMisbound", f"{content.metadata.name} belongs to another group"))
        if is_deleting(content.metadata):
            return await self._wait(group, Problem("ContentDeleting", f"{content.metadata.name} is being deleted"))
        return await self._go_on(group, content)

    # --- planning ---

    async def _plan(self, group: VolumeGroupSnapshot) -> Requeue | None:
        """Writes down what is to be made, before anything is."""
        if bound := group.status.bound_volume_group_snapshot_content_name:
            return await self._wait(group, Problem("ContentMissing", f"{bound} is gone, and with it what it stood for"))
        if wait := self._pace.wait(key_of(group), lambda: len(self._lookup.claims_in(group.metadata.namespace))):
            return Requeue(wait)
        plan, driver = self._gather.plan(group)
        if not self._settings.alone and not self._settings.managed(driver):
            return None
        if isinstance(plan, GroupPlan) and not self._settings.managed(driver):
            known = ", ".join(sorted(self._settings.drivers)) or "none"
            plan = Problem("DriverNotManaged", f"no backend is set up for driver {driver} (set up: {known})")
        if isinstance(plan, Problem):
            return await self._wait(group, plan)
        group = await hold(self._client, GROUPS, group, GROUP_FINALIZER)
        if not group.spec.volume_group_snapshot_class_name:
            group = await patch_seen(self._client, GROUPS, group, {"spec": {"volumeGroupSnapshotClassName": plan.class_name}})
        body = new_content(group, plan, by_driver=None if self._gather.may_know_groups(plan) else False)
        try:
            content = await self._client.create(GROUP_CONTENTS, msgspec.convert(body, VolumeGroupSnapshotContent))
        except AlreadyExists:
            return Requeue(1.0)  # the cache will show it
        note = f"Snapshots of {len(plan.volumes)} volumes of {plan.driver} are to be taken together."
        self._recorder.record(GROUPS, group, STARTED_EVENT, note=note)
        await self._writer.status(group, rules.waiting(group.status, content.metadata.name, None, self._clock.now()))
        return None

    async def _wait(self, group: VolumeGroupSnapshot, problem: Problem | None, content: str = "") -> Requeue | None:
        """Says what it waits for. Classes and volumes may come at any time."""
        await self._writer.status(group, rules.waiting(group.status, content, problem, self._clock.now()))
        return Requeue(RETRY_SECONDS)

    # --- going on ---

    async def _go_on(self, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent) -> Requeue | None:
        done = group.status.ready_to_use is True or bool(group.status.creation_time)
        if done and MEMBERS not in content.metadata.annotations:
            return None  # another snapshotter has made it, and it is complete
        volumes = self._gather.volumes(content)
        if isinstance(volumes, Problem):
            return await self._wait(group, volumes, content.metadata.name)
        content = await self._writer.annotate(content, self._gather.adopted(content, volumes))
        members = await self._gather.members(group, content, volumes)
        if done:
            await self._writer.status(group, rules.standing(group.status, members, self._clock.now()))
            await self._hooks.leave(holder_of(GROUPS, group))
            return None
        step = rules.next_step(content, members, now=self._clock.now())
        if step.failure is not None:
            return await self._fail(group, content, step.failure)
        if phase_of(content.metadata) == FAILED:
            await self._hooks.leave(holder_of(GROUPS, group))
            return await self._drop(group, step.delete)
        if step.create or step.records:
            return await self._make(group, content, step)
        if step.release:
            return await self._release(group, content, step.release)
        if step.handles:
            await self._give_handles(content, step.handles)
            return Requeue(1.0)
        if step.complete:
            return await self._complete(group, content, members, step.name)
        await self._leave_if_cut(group, members)
        return await self._wait(group, step.problem, content.metadata.name)

    async def _make(
        self, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, step: rules.GroupStep
    ) -> Requeue | None:
        """Snapshots first: each is charged for when it is admitted, and may be refused."""
        if refused := await self._writer.create_members(group, step.create):
            if refused.reason != DELAYED:
                return await self._fail(group, content, refused)
            await self._wait(group, refused, content.metadata.name)
            return Requeue(DELAY_SECONDS)
        for one in step.records:
            body = self._gather.new_record(content, one)
            if isinstance(body, Problem):
                return await self._fail(group, content, Problem(body.reason, f"claim {one.claim}: {body.message}"))
            await self._writer.create_record(body)
        await self._writer.status(group, rules.waiting(group.status, content.metadata.name, None, self._clock.now()))
        return Requeue(1.0)

    async def _release(
        self, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, members: tuple[GroupMember, ...]
    ) -> Requeue | None:
        """All are ready: they are paid for, hooks run, and then they are cut."""
        try:
            if not await self._writer.book(members):
                return Requeue(1.0)  # one is gone: the cache will show it
        except NoRoom as error:
            return await self._fail(group, content, Problem(NO_ROOM, str(error)))
        try:
            spec = hooks_of(group.metadata)
        except BadInput as error:
            return await self._fail(group, content, Problem("HookInvalid", str(error)))
        answer = await self._hooks.prepare(holder_of(GROUPS, group), [one.claim for one in members], spec)
        if isinstance(answer, HooksFailed):
            return await self._fail(group, content, answer.problem)
        if isinstance(answer, HooksWaiting):
            await self._wait(group, Problem("HooksRunning", answer.message), content.metadata.name)
            return Requeue(HOOKS_SECONDS)
        if phase_of(content.metadata) != CUTTING:
            self._recorder.record(GROUPS, group, CUT_EVENT, note="All volumes are ready and paid for; they are cut now.")
        content = await self._writer.annotate(content, {PHASE: CUTTING})
        if not rules.is_by_driver(content):
            await tell_members(self._client, members)
        return None

    async def _leave_if_cut(self, group: VolumeGroupSnapshot, members: Iterable[GroupMember]) -> None:
        """Post commands run when all are cut, and not when all are stored."""
        if all(one.cut for one in members):
            await self._hooks.leave(holder_of(GROUPS, group))

    async def _give_handles(self, content: VolumeGroupSnapshotContent, members: Iterable[GroupMember]) -> None:
        for one in members:
            seen = self._lookup.records.get(Key("", one.record.meta.name)) if one.record is not None else None
            if seen is not None:
                await self._writer.give_handle(content, one, seen)

    async def _complete(
        self,
        group: VolumeGroupSnapshot,
        content: VolumeGroupSnapshotContent,
        members: list[GroupMember],
        unnamed: Iterable[GroupMember],
    ) -> Requeue | None:
        await self._hooks.leave(holder_of(GROUPS, group))
        for one in unnamed:
            await self._writer.give_name(group.metadata, one)
        if not rules.is_by_driver(content):
            content = await self._writer.content_status(content, rules.content_of_members(content, members))
        content = await self._writer.annotate(content, {PHASE: None})
        if keeps_data(content):  # from now on: whoever deletes the group before all of them say so writes it himself
            for one in members:
                await keep_data(self._client, one.record.meta.name if one.record is not None else "")
        await self._writer.status(group, rules.completed(group.status, content, self._clock.now()))
        self._gather.forget(group.metadata)
        self._recorder.record(GROUPS, group, READY_EVENT, note=f"{len(members)} volumes can be restored.")
        if apart := rules.apart_text(members):
            self._recorder.record(GROUPS, group, APART_EVENT, note=apart)
        return None

    # --- failing ---

    async def _fail(self, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, problem: Problem) -> Requeue | None:
        """Why stands on the group before the first member goes."""
        name = content.metadata.name
        group = await self._writer.status(group, rules.failed(group.status, name, problem, self._clock.now()))
        await self._writer.annotate(content, {PHASE: FAILED})
        await self._hooks.leave(holder_of(GROUPS, group))
        self._recorder.record(GROUPS, group, FAILED_EVENT, note=f"{problem.reason}: {problem.message}")
        return None

    async def _drop(self, group: VolumeGroupSnapshot, members: Iterable[GroupMember]) -> Requeue | None:
        left = [await self._gather.dropped(group.metadata, one) for one in members]
        return Requeue(RETRY_SECONDS) if any(left) else None
