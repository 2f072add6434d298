"""Binds snapshots and their records to each other: gathers, has its rules make a plan, and carries it out.

Nothing here talks to a storage system: `controllers/record_sync` does, perhaps in another process. Every write carries the
version that was looked at, so a decision that something overtook is made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from ullage.clock import Clock, SystemClock
from ullage.engines.handles import DRIVER as ENGINES
from ullage.kube.builtin import core
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.controller.rewrites import Rewrites
from ullage.kube.errors import AlreadyExists, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.ledger.charging.release import seconds_held
from ullage.snapshots.binding import refers_to, was_shared
from ullage.snapshots.controllers.snapshot_bind_rules import (
    CREATING_NOW,
    WAITING,
    SnapshotFacts,
    SnapshotPlan,
    guarded,
    is_anothers,
    is_orphan,
    may_be_anothers,
    plan_snapshot,
    wants_other_class,
)
from ullage.snapshots.data_source import DataSource, has_begun, snapshot_key
from ullage.snapshots.gate import gate_of
from ullage.snapshots.guard import PolicyWatch
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup, records_with_handle
from ullage.snapshots.metrics import Metrics
from ullage.snapshots.model import CUT, DRIVER, GUARD, HOOKED, Problem, Record, Snapshot, State
from ullage.snapshots.settings import Settings
from ullage.snapshots.source_volume import SourceVolume, find_source_volume
from ullage.snapshots.volume_queue import VolumeQueues, may_proceed, queue_name, queue_of
from ullage.times import read_time

# Tells of a snapshot that was begun only if it is not ready soon after: most are, which is one write and one Event
# less. It is memory only: a process that starts anew tells of what it sees at once.


TOLD_AFTER: Final = 1.0  # seconds


class Begun:
    """Snapshots whose record was made by this process, and that do not say so yet, by uid."""

    def __init__(self, seconds: float = TOLD_AFTER) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}

    def note(self, uid: str, now: float) -> None:
        """The record of a snapshot was made."""
        self._since[uid] = now

    def wait(self, uid: str, state: State, now: float) -> float:
        """For how many seconds this is not worth telling; 0: it is."""
        since = self._since.get(uid)
        if since is not None and state.waiting in (CREATING_NOW, WAITING) and now < since + self._seconds:
            return since + self._seconds - now
        self.forget(uid)
        return 0.0

    def forget(self, uid: str) -> None:
        self._since.pop(uid, None)


# Remembers whose data went with their record: nothing is left of such a snapshot that anybody has to pay for. A
# snapshot that still pays is let go only when its charge has been lowered, which is a write of its own. This one need
# not wait: its charge goes with it. It is memory only: after a restart the charge is lowered first.


class Freed:
    """Snapshots of one API, by uid."""

    def __init__(self, lookup: SnapshotLookup, everywhere: Collection[SnapshotLookup]) -> None:
        """`everywhere` has the records of both APIs: any of them may stand for the same data."""
        self._lookup = lookup
        self._everywhere = everywhere
        self._uids: set[str] = set()
        lookup.records.handle(self._seen)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def forget(self, uid: str) -> None:
        self._uids.discard(uid)

    def _seen(self, old: Any, new: Any) -> None:
        """Notes the snapshot of a record that is gone. An engine merges what it deletes into other snapshots, which have to be
        charged for it first; a record that is retained or shared leaves its data behind."""
        if old is None or new is not None:
            return
        record = self._lookup.dialect.read_record(old)
        snapshot = self._lookup.snapshots.get(Key(record.ref.namespace, record.ref.name))
        if snapshot is None or snapshot.metadata.uid != record.ref.uid:
            return
        if record.driver != ENGINES and record.policy == "Delete" and not records_with_handle(self._everywhere, record):
            self._uids.add(record.ref.uid)


# Lets another snapshotter make a snapshot's record first, where there may be one. The GA snapshot-controller makes
# records for the snapshots of every CSI driver. Where it makes one a moment after we did, it is refused, keeps its own
# copy all the same and does not see the real one change until it is started anew: it takes the error off the snapshot
# as often as it is put there. So for a while nothing is made here, until it has turned out that nobody else does. It is
# memory only: a process that starts anew waits once.


FOR_OTHERS: Final = 2.0  # seconds: the other one makes a record within milliseconds of seeing the snapshot


class OtherSnapshotter:
    def __init__(self, seconds: float = FOR_OTHERS) -> None:
        self._seconds = seconds
        self._expected = seconds > 0
        self._until: dict[str, float] = {}  # by the uid of a snapshot

    def wait(self, uid: str, now: float) -> float:
        """Seconds that are left to the other one for this snapshot; 0: it is ours to make."""
        if not self._expected:
            return 0.0
        return max(0.0, self._until.setdefault(uid, now + self._seconds) - now)

    def was_there(self) -> None:
        """A record was seen that we did not make."""
        self._expected = self._seconds > 0

    def was_not_there(self, uid: str) -> None:
        """We have made the record of a snapshot: if that was left to the other one first, there is none."""
        if self._until.pop(uid, None) is not None:
            self._expected = False

    def forget(self, uid: str) -> None:
        self._until.pop(uid, None)


# Snapshots that were shared with a namespace, and are taken back: claims that wait to be filled from one do not keep
# it.


def is_taken_back(snapshot: Snapshot, record: Record | None) -> bool:
    if record is None or not was_shared(record):
        return False
    return is_deleting(snapshot.meta) and not is_deleting(record.meta)


async def begun_among(client: Client, waiting: Sequence[Key]) -> list[Key]:
    """Of claims that seem to wait, those that are being filled by now: the cache may be behind."""
    found = await client.list(CLAIMS, waiting[0].namespace)
    return [key for one in found.items if has_begun(one) and (key := key_of(one)) in waiting]


# Records whose snapshots are gone: those that stand for nothing are removed at once, those with data as their policy
# says. A snapshot that is deleted in order is held until its record is gone. A tenant who may edit it can take the
# finalizers off, and then the data would stay for ever. That a snapshot is gone is only believed of the API itself.
# Before data is deleted the API is asked twice, so far apart that no request of the time before can still change
# anything. The first time is remembered in memory only: a process that starts anew begins again.


REQUEST_SECONDS: Final = 75.0  # in which a request that was sent may still be committed; the ledger's time for it, too
ABANDONED: Final = Reason("SnapshotGone", action="Delete", type="Warning")


def is_abandoned(record: Record, snapshot: Snapshot | None, settings: Settings) -> bool:
    """Whether a record has data that its policy says to delete, and no snapshot that it could be for. Not an import, whose data
    an administrator has named; nor a member that was cut with its group, which goes with that."""
    if snapshot is not None and refers_to(record, snapshot):
        return False
    kept = record.policy == "Retain" or bool(record.imported) or record.cut_in_group
    has_data = bool(record.handle) and bool(record.ref.uid) and not is_deleting(record.meta)
    return has_data and not kept and settings.managed(record.driver)


class Orphans:
    """Removes records. `request_seconds` is the time between the two looks."""

    def __init__(
        self,
        client: Client,
        lookup: SnapshotLookup,
        *,
        settings: Settings,
        recorder: Recorder,
        clock: Clock,
        request_seconds: float,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._dialect = lookup.dialect
        self._settings = settings
        self._recorder = recorder
        self._clock = clock
        self._request_seconds = request_seconds
        self._gone: dict[Key, dict[str, float]] = {}  # by the snapshot's name, and the record's uid: when it was first seen

    async def remove(self, key: Key, seen: Any) -> float:
        """Those that name a snapshot of this name, and not the one that is seen. Gives the seconds until they are to be looked
        at again; 0: not before something changes."""
        before, self._gone[key] = self._gone.get(key, {}), {}
        for record in self._lookup.of_snapshot(key):
            if self._is_left(record, seen):
                await self._look(key, record, before.get(record.meta.uid))
        if waiting := self._gone[key].values():
            return max(0.1, min(waiting) + self._request_seconds - self._clock.monotonic())
        del self._gone[key]
        return 0.0

    def _is_left(self, record: Record, snapshot: Any) -> bool:
        read = self._dialect.read_snapshot(snapshot) if snapshot is not None else None
        return is_orphan(record, read, self._settings) or is_abandoned(record, read, self._settings)

    async def _look(self, key: Key, seen: Record, since: float | None) -> None:
        snapshot = await self._client.find(self._dialect.snapshots, key.name, key.namespace)
        obj = await self._client.find(self._dialect.records, seen.meta.name)
        record = self._dialect.read_record(obj) if obj is not None else None
        if obj is None or record is None or record.meta.uid != seen.meta.uid or not self._is_left(record, snapshot):
            return
        if record.handle:
            now = self._clock.monotonic()
            if since is None:
                note = (
                    f"VolumeSnapshot {key} is gone although this stands: its finalizers were taken off. The data is deleted "
                    f"after {self._request_seconds:.0f} s; to keep it, set the deletion policy to Retain"
                )
                self._recorder.record(self._dialect.records, obj, ABANDONED, note=note)
            if since is None or now - since < self._request_seconds:
                self._gone[key][seen.meta.uid] = now if since is None else since
                return
        with contextlib.suppress(NotFound):  # gone already: the cache will say so
            await self._client.delete(self._dialect.records, record.meta.name, uid=record.meta.uid)


CREATING_EVENT: Final = Reason("CreatingSnapshot")
READY_EVENT: Final = Reason("SnapshotReady")
WAITING_EVENT: Final = Reason("SnapshotWaiting")
UNNAMED: Final = "SnapshotError"
FOR_GROUP: Final = Problem("WaitingForGroup", "waits until all volumes of the backup are ready to be cut")
FOR_HOOKS: Final = Problem("WaitingForHooks", "waits for commands that are run in pods before it is cut")
EVENT_AFTER: Final = 5.0  # seconds of waiting that are worth an event
RETRY_SECONDS: Final = 0.2  # where something was made that the cache does not show yet


class Binder:
    """The controller of one API's snapshots."""

    def __init__(
        self,
        client: Client,
        lookup: SnapshotLookup,
        volumes: VolumeLookup,
        *,
        settings: Settings,
        queues: VolumeQueues,
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock | None = None,
        others: OtherSnapshotter | None = None,
        hooked: Callable[[Snapshot], bool] = lambda snapshot: False,
        request_seconds: float = REQUEST_SECONDS,
        lookups: Collection[SnapshotLookup] = (),
    ) -> None:
        """`hooked`: whether commands are to be run in pods before this snapshot is cut. `request_seconds`: for how long a
        request may still change something. `lookups` are those of all APIs, whose records may share data."""
        self._client = client
        self._lookup = lookup
        self._dialect = lookup.dialect
        self._volumes = volumes
        self._settings = settings
        self._queues = queues
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock or SystemClock()
        self._stopped: dict[str, str] = {}  # by uid: the problem that was last told in an event
        self._begun = Begun()
        self._freed = Freed(lookup, lookups or (lookup,))
        self._holding: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()  # by claim
        self._rewrites: Rewrites[str] = Rewrites()
        self._others = others or OtherSnapshotter()
        self._hooked = hooked
        self._orphans = Orphans(
            client, lookup, settings=settings, recorder=recorder, clock=self._clock, request_seconds=request_seconds
        )
        self._policy = PolicyWatch(client, clock=self._clock)
        lookup.snapshots.handle(self._seen)

    def controller(self, *, workers: int = 16, metrics: KubeMetrics | None = None) -> Controller[Key]:
        lookup = self._lookup
        sources: list[Source[Any, Key]] = [
            own(lookup.snapshots),
            Source(lookup.records, self._of_record),
            Source(self._volumes.claims, lambda one: self._of_claim(one.metadata.namespace, one.metadata.name)),
            Source(self._volumes.claims, lambda one: snapshot_key(one, self._dialect.snapshots.group)),
            Source(self._volumes.volumes, self._of_volume),
            Source(lookup.classes, lambda one: self._unbegun()),
        ]
        if lookup.classes is not self._volumes.classes:  # a StorageClass may be what keeps a snapshot from its class
            sources.append(Source(self._volumes.classes, lambda one: self._unbegun()))
        name = f"snapshots-{self._dialect.name}"
        return Controller(name, sources, self.reconcile, workers=workers, clock=self._clock, metrics=metrics)

    # --- who is woken ---

    def _of_record(self, obj: Any) -> Iterable[Key]:
        record = self._dialect.read_record(obj)
        if is_anothers(record):
            self._others.was_there()
        ref = record.ref
        return (Key(ref.namespace, ref.name),) if ref.name else ()

    def _of_claim(self, namespace: str, name: str) -> Iterable[Key]:
        for snapshot in self._lookup.of_claim(namespace, name):
            if snapshot.state.cut is None or snapshot.meta.deletion_timestamp is not None:
                yield Key(snapshot.meta.namespace, snapshot.meta.name)

    def _of_volume(self, volume: core.PersistentVolume) -> Iterable[Key]:
        ref = volume.spec.claim_ref
        return self._of_claim(ref.namespace, ref.name) if ref else ()

    def _unbegun(self) -> Iterable[Key]:
        """A class came or changed: snapshots that were stopped for want of one may go on."""
        for obj in self._lookup.snapshots.items():
            snapshot = self._dialect.read_snapshot(obj)
            if not snapshot.imported_record and (not snapshot.state.record or self._lacks_class(snapshot)):
                yield Key(snapshot.meta.namespace, snapshot.meta.name)

    def _lacks_class(self, snapshot: Snapshot) -> bool:
        record = self._lookup.record(snapshot.state.record)
        return record is not None and wants_other_class(snapshot, record)

    def _seen(self, old: Any, new: Any) -> None:
        read = self._dialect.read_snapshot
        before, after = (read(one) if one is not None else None for one in (old, new))
        self._metrics.seen(self._dialect.name, before, after)
        if after is None and before is not None:
            self._stopped.pop(before.meta.uid, None)
            self._rewrites.forget(before.meta.uid)
            self._others.forget(before.meta.uid)
            self._begun.forget(before.meta.uid)
            self._freed.forget(before.meta.uid)

    # --- reconcile ---

    async def reconcile(self, key: Key) -> Requeue | None:
        obj = self._lookup.snapshots.get(key)
        again = await self._orphans.remove(key, obj)
        left = Requeue(again) if again else None
        if obj is None:
            return left
        facts = await self._facts(self._dialect.read_snapshot(obj))
        plan = plan_snapshot(facts)
        if may_be_anothers(facts, plan) and (wait := self._others.wait(facts.snapshot.meta.uid, self._clock.monotonic())):
            return Requeue(wait)
        try:
            held = await self._act(obj, facts, plan)
        except (AlreadyExists, NotFound):
            return Requeue(RETRY_SECONDS)  # what was made, or went, a moment ago is not in the caches yet
        return Requeue(held) if held else self._report_waiting(obj, plan) or left

    async def _facts(self, snapshot: Snapshot) -> SnapshotFacts:
        lookup = self._lookup
        name = lookup.record_name(snapshot)
        record = lookup.record(name)
        if record is None and (snapshot.state.record or snapshot.meta.deletion_timestamp is not None):
            record = await self._read_record(name)  # the cache of records may be behind that of snapshots
        context = self._volumes.context(snapshot.meta.namespace, snapshot.claim)
        source = self._as_source(snapshot)
        restoring, waiting = self._volumes.restoring(source), self._volumes.waiting(source, snapshot.meta)
        if waiting and is_taken_back(snapshot, record):
            restoring = [*restoring, *await begun_among(self._client, waiting)]
        begun = bool(snapshot.imported_record) or (record is not None and not wants_other_class(snapshot, record))
        facts = SnapshotFacts(
            snapshot=snapshot,
            record_name=name,
            record=record,
            context=context,
            classes=() if begun else lookup.all_classes(),
            defaults=self._dialect.defaults,
            settings=self._settings,
            hooked=record is None and bool(snapshot.claim) and CUT not in snapshot.meta.annotations and self._hooked(snapshot),
            restoring=tuple(map(str, restoring)),
            waiting_claims=tuple(map(str, waiting)),
        )
        return replace(facts, waiting=self._waiting(facts))

    def _as_source(self, snapshot: Snapshot) -> DataSource:
        return DataSource(self._dialect.snapshots.group, snapshot.meta.namespace, snapshot.meta.name)

    async def _read_record(self, name: str) -> Record | None:
        found = await self._client.find(self._dialect.records, name)
        return self._dialect.read_record(found) if found is not None else None

    def _waiting(self, facts: SnapshotFacts) -> Problem | None:
        if facts.record is not None:
            if facts.record.handle:
                return None
            gate = gate_of(facts.snapshot.meta, facts.record.meta, books=True)
            if gate is not None:
                return None if gate.open else FOR_HOOKS if HOOKED in facts.snapshot.meta.annotations else FOR_GROUP
            return None if may_proceed(facts.record, self._queues.first(queue_of(facts.record))) else WAITING
        source = find_source_volume(facts.snapshot, facts.context)
        if not isinstance(source, SourceVolume):
            return None
        return WAITING if self._queues.first(queue_name(source.driver, source.volume.handle)) else None

    def _report_waiting(self, obj: Any, plan: SnapshotPlan) -> Requeue | None:
        waiting = plan.state.waiting if plan.state is not None else None
        if waiting not in (WAITING, FOR_GROUP, FOR_HOOKS):
            return None
        requested = read_time(obj.metadata.creation_timestamp) or self._clock.now()
        left = EVENT_AFTER - (self._clock.now() - requested).total_seconds()
        if left > 0:
            return Requeue(left)
        self._recorder.record(self._dialect.snapshots, obj, WAITING_EVENT, note=waiting.message)
        return None

    # --- acting ---

    async def _act(self, obj: Any, facts: SnapshotFacts, plan: SnapshotPlan) -> float:
        """Gives the seconds after which it is to be looked at again; 0 for none."""
        seen, guard = obj, guarded(facts, plan)
        if plan.protect:
            obj = await self._protect(obj, facts.snapshot, plan, guard=bool(guard))
        if plan.hold_claim and facts.context.claim is not None:
            await self._hold_claim(facts.context.claim, driver=plan.driver)
        if plan.create_record is not None:
            await self._create_record(plan.create_record)
        if plan.bind is not None and facts.record is not None:
            await self._bind_record(facts.record, plan)
        if plan.reclass is not None:
            await self._reclass_record(plan.reclass)
        if plan.delete_record and facts.record is not None:
            await self._delete_record(facts.record)
        again = 0.0
        if plan.state is not None:
            obj, again = await self._write_state(obj, facts.snapshot, plan)
        if obj is not seen:
            await self._lookup.snapshots.shows(obj)
        if plan.release:
            return await self._release(obj) or again
        if guard is False:
            await self._take_off(obj, (GUARD,))
        return again

    async def _protect(self, obj: Any, snapshot: Snapshot, plan: SnapshotPlan, *, guard: bool) -> Any:
        meta = obj.metadata
        missing = [one for one in self._dialect.finalizers if one not in meta.finalizers]
        if guard and GUARD not in meta.finalizers and await self._policy.in_force():
            missing.append(GUARD)
        labels = {key: value for key, value in plan.labels.items() if meta.labels.get(key) != value}
        patch: dict[str, Any] = {}
        if missing:
            patch["finalizers"] = [*meta.finalizers, *missing]
        if labels:
            patch["labels"] = labels
        wanted = {**plan.stamps, **({DRIVER: plan.driver} if plan.driver else {})}
        if notes := {key: value for key, value in wanted.items() if meta.annotations.get(key) != value}:
            patch["annotations"] = notes
        merge: dict[str, Any] = {"metadata": patch} if patch else {}
        if self._dialect.class_field and plan.class_name and not snapshot.class_name:
            merge["spec"] = {self._dialect.class_field: plan.class_name}
        return await self._patch(obj, merge) if merge else obj

    async def _hold_claim(self, claim: core.PersistentVolumeClaim, *, driver: str) -> None:
        """Puts the finalizer on the claim. Several snapshots of a claim at the same moment write it once."""
        if self._holds(claim):
            return
        key = key_of(claim)
        lock = self._holding.setdefault(key, asyncio.Lock())
        async with lock:
            seen = self._volumes.claims.get(key)
            if seen is not None and seen.metadata.uid == claim.metadata.uid and self._holds(seen):
                return
            finalizers = [*claim.metadata.finalizers, self._dialect.claim_finalizer]
            merge = {"metadata": {"finalizers": finalizers, "annotations": {DRIVER: driver}}}
            await self._volumes.claims.shows(await patch_seen(self._client, core.CLAIMS, claim, merge))

    def _holds(self, claim: core.PersistentVolumeClaim) -> bool:
        return self._dialect.claim_finalizer in claim.metadata.finalizers

    async def _create_record(self, record: Record) -> None:
        kind = self._dialect.records
        made = await self._client.create(kind, msgspec.convert(self._dialect.new_record(record), kind.type))
        self._others.was_not_there(record.ref.uid)
        self._begun.note(record.ref.uid, self._clock.monotonic())
        await self._lookup.records.shows(made)

    async def _bind_record(self, record: Record, plan: SnapshotPlan) -> None:
        found = self._lookup.records.get(Key("", record.meta.name))
        if found is None or plan.bind is None:
            return
        change = self._dialect.record_binding(found, plan.bind)
        if change.main is not None:
            await patch_seen(self._client, self._dialect.records, found, change.main)

    async def _reclass_record(self, record: Record) -> None:
        """Not where the driver may have been asked meanwhile: then the record has changed, and is looked at anew."""
        found = self._lookup.records.get(Key("", record.meta.name))
        if found is not None and found.metadata.resource_version == record.meta.resource_version:
            change = self._dialect.record_class(found, record)
            if change.main is not None:
                await patch_seen(self._client, self._dialect.records, found, change.main)

    async def _delete_record(self, record: Record) -> None:
        with contextlib.suppress(NotFound):  # gone already: the cache will say so
            await self._client.delete(self._dialect.records, record.meta.name, uid=record.meta.uid)

    async def _write_state(self, obj: Any, snapshot: Snapshot, plan: SnapshotPlan) -> tuple[Any, float]:
        """Or, where another snapshotter undoes it each time, gives the seconds until it is worth another try: one that has lost
        sight of the record takes the record's error off the snapshot as often as it is put there."""
        state, uid = plan.state or State(), snapshot.meta.uid
        if left := self._begun.wait(uid, state, self._clock.monotonic()):
            return obj, left
        change = self._dialect.snapshot_change(obj, state, now=self._clock.now())
        if change and (wait := self._rewrites.wait(uid, state, self._clock.monotonic())):
            return obj, wait
        if change.main is not None:
            obj = await self._patch(obj, change.main)
        if change.status is not None:
            obj = await self._patch(obj, change.status, subresource="status")
        if change:
            self._rewrites.wrote(uid, state, self._clock.monotonic())
            self._metrics.moved(snapshot, state, driver=plan.driver)
        self._record_events(obj, snapshot, state, driver=plan.driver)
        return obj, 0.0

    def _record_events(self, obj: Any, snapshot: Snapshot, state: State, *, driver: str) -> None:
        kind, uid = self._dialect.snapshots, snapshot.meta.uid
        if state.waiting is not None and not snapshot.state.record:
            self._recorder.record(kind, obj, CREATING_EVENT, note=f"Asked {driver} for a snapshot of claim {snapshot.claim}.")
        if state.ready and not snapshot.state.ready:
            self._recorder.record(kind, obj, READY_EVENT, note="The snapshot is ready to use.")
        if state.problem is None:
            self._stopped.pop(uid, None)
        elif self._stopped.get(uid) != state.problem.message:
            self._stopped[uid] = state.problem.message
            reason = state.problem.reason or UNNAMED  # the GA snapshotter writes errors without one
            self._recorder.record(kind, obj, Reason(reason, type="Warning"), note=state.problem.message)

    async def _release(self, obj: Any) -> float:
        """Takes the finalizers off. Not while the snapshot pays for data that another object is about to be booked for."""
        held = seconds_held(obj.metadata, self._clock.now())
        if held and obj.metadata.uid not in self._freed:
            return held
        await self._take_off(obj, (*self._dialect.finalizers, GUARD), annotations={DRIVER: None})
        return 0.0

    async def _take_off(self, obj: Any, finalizers: tuple[str, ...], **metadata: Any) -> None:
        kept = [one for one in obj.metadata.finalizers if one not in finalizers]
        if len(kept) < len(obj.metadata.finalizers):
            with contextlib.suppress(NotFound):
                await self._patch(obj, {"metadata": {"finalizers": kept, **metadata}})

    async def _patch(self, obj: Any, merge: dict[str, Any], *, subresource: str = "") -> Any:
        return await patch_seen(self._client, self._dialect.snapshots, obj, merge, subresource=subresource)
