"""Deletes what schedules have made and are not to keep.

Snapshots are found by the label of their group, whichever schedule made them and whether it is still there. A deletion names
the version that was judged: one that was protected a moment ago stays. Before a snapshot that a claim is filled from is gone,
the snapshot controller waits for that claim, whatever was asked for here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from ullage.clock import Clock, SystemClock
from ullage.errors import BadInput
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting, merge_patch
from ullage.policies.schedules.api import SCHEDULES, SnapshotSchedule
from ullage.policies.schedules.controllers import retain_rules as rules
from ullage.policies.schedules.lookup import DIALECTS, ScheduleLookup
from ullage.policies.schedules.model import SEEN, Scheduled
from ullage.policies.schedules.pace import Pace
from ullage.policies.schedules.retention import read_limits
from ullage.snapshots.data_source import DataSource
from ullage.snapshots.model import READ_BY, is_held
from ullage.times import timestamp

BATCH: Final = 50  # deletions in one look at a schedule
LOOK_SECONDS: Final = 300.0  # at the latest
BETWEEN_SECONDS: Final = 5.0  # two looks at one schedule: snapshots change often while they are made

DELETED_EVENT: Final = Reason("SnapshotsDeleted")


class ScheduleRetainer:
    def __init__(self, client: Client, lookup: ScheduleLookup, *, recorder: EventRecorder, clock: Clock | None = None) -> None:
        self._client = client
        self._lookup = lookup
        self._recorder = recorder
        self._clock = clock or SystemClock()
        self._looked: dict[Key, tuple[int, float]] = {}  # by schedule: the generation that was looked at, and when
        self._pace = Pace(self._clock)
        lookup.schedules.handle(self._forget)

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [own(self._lookup.schedules)]
        sources += [Source(cache, partial(self._lookup.sharing, name)) for name, cache in self._lookup.snapshots.items()]
        sources.append(Source(self._lookup.volumes.claims, lambda one: ()))  # it is waited for, and wakes nobody
        return Controller("schedule-retention", sources, self.reconcile, workers=1, clock=self._clock, metrics=metrics)

    def _forget(self, old: SnapshotSchedule | None, new: SnapshotSchedule | None) -> None:
        if old is not None and new is None:
            self._looked.pop(key_of(old), None)
            self._pace.forget(key_of(old))

    async def reconcile(self, key: Key) -> Requeue | None:
        schedule = self._lookup.schedules.get(key)
        if schedule is None or is_deleting(schedule.metadata):
            return None
        if wait := self._wait(schedule):
            return Requeue(wait)
        try:
            limits = read_limits(schedule.spec.retention)
        except BadInput:
            return None  # the run of the schedule says so
        began = self._clock.monotonic()
        snapshots, now = self._lookup.of_group(schedule), self._clock.now()
        verdict = rules.judge(snapshots, limits, now=now, in_use=self._is_in_use)
        self._pause(schedule, began)
        await self._mark(verdict.ahead[:BATCH])
        if schedule.spec.suspend:
            await self._count(schedule, kept=verdict.kept + sum(one.good for one in verdict.delete), broken=verdict.broken)
            return Requeue(LOOK_SECONDS)
        deleted = await self._delete(verdict.delete[:BATCH])
        waits = sum(one.good for one in verdict.delete[BATCH:])
        await self._count(schedule, kept=verdict.kept + waits, broken=verdict.broken)
        if deleted:
            self._tell(schedule, deleted)
        if len(verdict.delete) > BATCH:
            return Requeue(BETWEEN_SECONDS)
        expiry = verdict.next_expiry
        return Requeue(min(LOOK_SECONDS, max(1.0, (expiry - now).total_seconds() + 1.0)) if expiry else LOOK_SECONDS)

    # --- pace ---

    def _wait(self, schedule: SnapshotSchedule) -> float:
        """Seconds until this schedule may be looked at. An edit of its spec need not wait for its own last look."""
        now, (generation, since) = self._clock.monotonic(), self._looked.get(key_of(schedule), (-1, 0.0))
        own = since + BETWEEN_SECONDS - now if generation == schedule.metadata.generation else 0.0
        return own if own > 0.0 else self._pace.wait(key_of(schedule))

    def _pause(self, schedule: SnapshotSchedule, began: float) -> None:
        """However many schedules and snapshots somebody makes, most of the time is left to others."""
        self._looked[key_of(schedule)] = schedule.metadata.generation, self._clock.monotonic()
        self._pace.looked(key_of(schedule), began)

    # --- acting ---

    def _is_in_use(self, one: Scheduled) -> bool:
        """Whether a claim is being filled from it, or is to be; or somebody else holds it or reads it, for whatever they do."""
        meta, volumes, api = one.snapshot.meta, self._lookup.volumes, DIALECTS[one.dialect]
        source = DataSource(api.snapshots.group, meta.namespace, meta.name)
        held = is_held(meta, api) or READ_BY in meta.annotations
        return held or bool(volumes.restoring(source) or volumes.waiting(source, meta))

    async def _delete(self, snapshots: Iterable[Scheduled]) -> list[Scheduled]:
        done = []
        for one in snapshots:
            kind, meta = DIALECTS[one.dialect].snapshots, one.snapshot.meta
            with contextlib.suppress(NotFound, Conflict):  # gone, or not the one any more that was judged
                await self._client.delete(kind, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version)
                done.append(one)
        return done

    async def _mark(self, snapshots: Iterable[Scheduled]) -> None:
        """Writes down that they are there by now. Once the time of their cut has come, nothing else would tell that they are
        older than what was cut meanwhile."""
        merge = {"metadata": {"annotations": {SEEN: timestamp(self._clock.now())}}}
        for one in snapshots:
            kind, meta = DIALECTS[one.dialect].snapshots, one.snapshot.meta
            with contextlib.suppress(NotFound, Conflict):  # gone, or looked at anew
                await self._client.patch(
                    kind, meta.name, meta.namespace, merge=merge, uid=meta.uid, resource_version=meta.resource_version
                )

    async def _count(self, schedule: SnapshotSchedule, *, kept: int, broken: int) -> None:
        """These two fields are ours alone, so it does not matter what others have written meanwhile; and where another schedule
        has the name by now, it is about the same group, and is counted with the next look."""
        old = {"kept": schedule.status.kept, "broken": schedule.status.broken}
        new = {"kept": kept, "broken": broken}
        change = merge_patch({key: value for key, value in old.items() if isinstance(value, int)}, new)
        if change is not None:
            meta = schedule.metadata
            with contextlib.suppress(NotFound):
                await self._client.patch(SCHEDULES, meta.name, meta.namespace, merge={"status": change}, subresource="status")

    def _tell(self, schedule: SnapshotSchedule, deleted: list[Scheduled]) -> None:
        many = f"{len(deleted)} snapshots" if len(deleted) > 1 else f"VolumeSnapshot {deleted[0].name}"
        note = f"Retention has deleted {many}; the newest of these was of {deleted[-1].born:%Y-%m-%d %H:%M} UTC."
        self._recorder.record(SCHEDULES, schedule, DELETED_EVENT, note=note)
