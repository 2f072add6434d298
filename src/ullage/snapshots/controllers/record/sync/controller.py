"""Calls drivers, record by record: gathers, takes the one step that `rules.py` names, and writes down what came of it.

It runs in the controller for the drivers that are reached from there, and in a sidecar beside a CSI driver. That the driver
is about to be asked is in the API before it is asked; what it answers is written there, or asked for again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ullage.clock import Clock, SystemClock
from ullage.errors import NotNow, Retryable, Terminal
from ullage.kube.backoff import Backoff
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.attempts import AFTER_REFUSAL, Attempts
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import ApiError, NotFound
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.snapshots.backends.base import (
    NO_SECRETS,
    Backend,
    BackendSnapshot,
    Creation,
    InProgress,
    Parameters,
    Secrets,
    VolumeHandle,
)
from ullage.snapshots.binding import hold_of
from ullage.snapshots.class_parameters import SNAPSHOT_ROLES, driver_parameters
from ullage.snapshots.controllers.record.sync import triggers
from ullage.snapshots.controllers.record.sync.live_records import LiveRecords
from ullage.snapshots.controllers.record.sync.rules import (
    Decision,
    RecordFacts,
    Step,
    edited_record,
    edited_snapshot,
    mark_after,
    plan_record,
    poll_after,
    problem_of,
    settled,
)
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import ABOUT_TO, CREATING, PROGRESS, Change, Record, Ref, State
from ullage.snapshots.secrets import find_secrets
from ullage.snapshots.volume_queue import RecordKey, VolumeQueues, queue_name, queue_of

BACKOFF: Final = Backoff(first=0.5, cap=60.0)
RETRY_SECONDS: Final = 0.5  # where a cache is behind
PROGRESS_SECONDS: Final = 2.0  # between two looks at a copy that takes long


class RecordSyncer:
    """The controller of both APIs' records, for the drivers that this process calls."""

    def __init__(
        self,
        client: Client,
        lookups: Iterable[SnapshotLookup],
        backends: Mapping[str, Backend],
        *,
        queues: VolumeQueues,
        clock: Clock | None = None,
        backoff: Backoff = BACKOFF,
        after_refusal: Backoff = AFTER_REFUSAL,
    ) -> None:
        """`queues` follow the records already: they learn of every change before this controller does."""
        self._client = client
        self._lookups = {lookup.dialect.name: lookup for lookup in lookups}
        self._backends = backends
        self._live = LiveRecords(client, (lookup.dialect for lookup in self._lookups.values()))
        self._queues = queues
        self._clock = clock or SystemClock()
        self._attempts: Attempts[RecordKey] = Attempts(backoff, after_refusal=after_refusal)
        # The volume queues for which a driver is being called, whatever the caches show, and the records that came meanwhile.
        self._busy: dict[str, set[RecordKey]] = {}
        self._wake: Callable[[RecordKey], None] = lambda key: None

    def controller(self, *, workers: int = 16, metrics: KubeMetrics | None = None) -> Controller[RecordKey]:
        sources: list[Source[Any, RecordKey]] = []
        for lookup in self._lookups.values():
            sources.append(Source(lookup.records, self._of_record(lookup)))
            sources.append(Source(lookup.snapshots, self._of_snapshot(lookup), when=triggers.matters(lookup)))
            sources.append(Source(lookup.classes, triggers.failed_of_class(lookup)))
        made = Controller("records", sources, self.reconcile, workers=workers, clock=self._clock, metrics=metrics)
        self._wake = made.queue.add
        return made

    def _of_record(self, lookup: SnapshotLookup) -> Any:
        def keys(obj: Any) -> Iterable[RecordKey]:
            yield RecordKey(lookup.dialect.name, obj.metadata.name)
            record = lookup.dialect.read_record(obj)
            following = self._queues.first_key(queue_name(record.driver, record.volume))
            if following is not None:
                yield following

        return keys

    def _of_snapshot(self, lookup: SnapshotLookup) -> Any:
        def keys(obj: Any) -> Iterable[RecordKey]:
            snapshot = lookup.dialect.read_snapshot(obj)
            yield RecordKey(lookup.dialect.name, lookup.record_name(snapshot))

        return keys

    # --- reconcile ---

    async def reconcile(self, key: RecordKey) -> Requeue | None:
        lookup = self._lookups[key.dialect]
        obj = lookup.records.get(Key("", key.name))
        if obj is None:
            self._attempts.forget(key)
            return None
        record = lookup.dialect.read_record(obj)
        if record.driver not in self._backends:
            return None
        if plan_record(self._facts(lookup, obj, record)).step is Step.REST:
            return await self._step(lookup, key)
        queue = queue_of(record) or key.name  # once it is cut, it waits for no other record
        if queue in self._busy:
            self._busy[queue].add(key)
            return None
        self._busy[queue] = set()
        try:
            return await self._step(lookup, key)
        finally:
            for waiting in self._busy.pop(queue):
                self._wake(waiting)

    async def _step(self, lookup: SnapshotLookup, key: RecordKey) -> Requeue | None:
        obj = lookup.records.get(Key("", key.name))
        if obj is None:
            return None
        record = lookup.dialect.read_record(obj)
        decision = plan_record(self._facts(lookup, obj, record))
        if decision.step in (Step.REST, Step.HOLD, Step.RELEASE, Step.SETTLE):
            await self._at_rest(lookup, obj, decision)
            return None
        facts = self._fingerprint(lookup, record, decision)
        wait = self._attempts.wait(key, facts, self._clock.monotonic())
        if wait:
            return Requeue(wait)
        asked = False
        try:
            secrets = await self._secrets(record.secret)
            creation = self._creation(lookup, record, secrets, strict=decision.step in (Step.MARK, Step.CREATE))
            asked = True
            again = await self._call_driver(lookup, obj, decision.step, creation)
        except InProgress as error:
            return await self._going_on(lookup, key, error)
        except ApiError:
            raise  # says nothing of what the driver did: that is asked for again
        except (Retryable, Terminal) as error:
            return await self._failed(lookup, key, error, _Failure(asked, facts, undoing=decision.step is Step.ABANDON))
        self._attempts.forget(key)
        return again

    def _facts(self, lookup: SnapshotLookup, obj: Any, record: Record) -> RecordFacts:
        others = [
            one
            for other in self._lookups.values()
            for one in (other.with_handle(record.driver, record.handle) if record.handle else ())
            if one.meta.uid != record.meta.uid and one.meta.deletion_timestamp is None
        ]
        return RecordFacts(
            record=record,
            held=lookup.dialect.record_finalizer in obj.metadata.finalizers,
            snapshot=lookup.snapshot(record.ref.namespace, record.ref.name),
            first=self._queues.first(queue_of(record)),
            shared=bool(others),
        )

    def _fingerprint(self, lookup: SnapshotLookup, record: Record, decision: Decision) -> tuple[object, ...]:
        """What a failure was about: whatever an edit could mend."""
        found = lookup.classes.get(Key("", record.class_name)) if record.class_name else None
        version = found.metadata.resource_version if found is not None else ""
        snapshot = lookup.snapshot(record.ref.namespace, record.ref.name)
        step = Step.CREATE if decision.step is Step.MARK else decision.step
        return (record.meta.uid, edited_record(record), version, edited_snapshot(snapshot) if snapshot else (), step)

    # --- steps ---

    async def _at_rest(self, lookup: SnapshotLookup, obj: Any, decision: Decision) -> None:
        name, meta = lookup.dialect.record_finalizer, obj.metadata
        if decision.step is Step.HOLD:
            await self._patch(lookup, obj, {"metadata": {"finalizers": [*meta.finalizers, name]}})
        elif decision.step is Step.RELEASE:
            await self._release(lookup, obj)
        elif decision.step is Step.SETTLE:
            await self._settle(lookup, obj, self._parameters(lookup, obj))
        elif decision.problem is not None:
            await self._write_state(lookup, obj, replace(lookup.dialect.read_record(obj).state, problem=decision.problem))

    async def _call_driver(self, lookup: SnapshotLookup, obj: Any, step: Step, creation: Creation) -> Requeue | None:
        record = lookup.dialect.read_record(obj)
        backend = self._backends[record.driver]
        if step is Step.DELETE:
            if not await self._live.shares(record):  # what the caches show was looked at; what they do not show yet counts too
                await backend.delete(record.handle, secrets=creation.secrets)
            await self._release(lookup, obj)
            return None
        if step is Step.UNDO:
            # A driver may have to make it once more to find it. If the record is gone by now, nothing would tell of that.
            live = await self._client.find(lookup.dialect.records, obj.metadata.name)
            if live is not None and live.metadata.uid == obj.metadata.uid:
                await backend.undo(creation)
                await self._release(lookup, live)
            return None
        if step is Step.ABANDON:
            return await self._abandon(lookup, obj, creation)
        if step is Step.FIND:
            found = await backend.find(record.handle, secrets=creation.secrets)
            if found is None:
                raise NotNow(f"{record.driver} has no snapshot {record.handle}")
            return await self._found(lookup, obj, found)
        if step is Step.MARK:
            live = await self._live_snapshot(lookup, record)
            if live is None or is_deleting(live.metadata):
                return None  # the cache of snapshots is behind that of records, and will tell
            obj = await self._mark(lookup, obj, ABOUT_TO)
        parameters = self._parameters(lookup, obj)  # as they are when the driver is asked
        made = await backend.create(creation)
        unseen = lookup.snapshot(record.ref.namespace, record.ref.name) is None
        if unseen and not record.handle and record.policy == "Delete" and await self._live_snapshot(lookup, record) is None:
            return await self._abandon(lookup, obj, creation)  # while its mark is all that tells of it
        return await self._found(lookup, obj, made, parameters)

    async def _abandon(self, lookup: SnapshotLookup, obj: Any, creation: Creation) -> Requeue | None:
        """Nobody has ever been told of what may have been made, and nobody ever will."""
        record = lookup.dialect.read_record(obj)
        if await self._live_snapshot(lookup, record) is not None:
            return Requeue(RETRY_SECONDS)  # the caches do not show it yet
        await self._backends[record.driver].undo(creation)
        await self._mark(lookup, obj, None)
        return None

    async def _live_snapshot(self, lookup: SnapshotLookup, record: Record) -> Any:
        """The snapshot of a record, by the word of the API itself: another snapshotter may have let it go while the record was
        being made."""
        live = await self._client.find(lookup.dialect.snapshots, record.ref.name, record.ref.namespace)
        return live if live is not None and live.metadata.uid == record.ref.uid else None

    async def _found(
        self, lookup: SnapshotLookup, obj: Any, snapshot: BackendSnapshot, parameters: Parameters | None = None
    ) -> Requeue | None:
        """The handle first: until it is written down, the mark is all that tells of the snapshot."""
        state = State(handle=snapshot.handle, cut=snapshot.cut, ready=snapshot.ready, restore_size=snapshot.restore_size)
        if PROGRESS in obj.metadata.annotations:
            obj = await self._patch(lookup, obj, {"metadata": {"annotations": {PROGRESS: None}}})
        obj = await self._write_state(lookup, obj, state)
        obj = await self._settle(lookup, obj, parameters)
        # Whoever looks next, at this one or at its queue, must see that it is cut: it would ask the driver once more.
        await lookup.records.reached(int(obj.metadata.resource_version))
        return None if snapshot.ready else Requeue(poll_after(snapshot.cut, self._clock.now()))

    def _parameters(self, lookup: SnapshotLookup, obj: Any) -> Parameters | None:
        found = lookup.snapshot_class(lookup.dialect.read_record(obj).class_name)
        return found.parameters if found is not None else None

    async def _settle(self, lookup: SnapshotLookup, obj: Any, parameters: Parameters | None) -> Any:
        changes = settled(lookup.dialect.read_record(obj), parameters)
        return await self._patch(lookup, obj, {"metadata": {"annotations": changes}}) if changes else obj

    def _creation(self, lookup: SnapshotLookup, record: Record, secrets: Secrets, *, strict: bool) -> Creation:
        """`strict`: the class must be there. To undo something it need not: the name alone says what is meant."""
        found = lookup.snapshot_class(record.class_name)
        if found is None and record.class_name and strict:
            raise NotNow(f"class {record.class_name} does not exist")
        if found is not None and found.problem is not None and strict:
            raise Terminal(found.problem.message)
        parameters = driver_parameters(found.parameters, roles=SNAPSHOT_ROLES) if found is not None else {}
        volume = VolumeHandle(handle=record.volume, node=record.node)
        hold = hold_of(record, kind=lookup.dialect.records.kind)
        owner = record.ref.namespace
        return Creation(name=record.backend_name, volume=volume, parameters=parameters, secrets=secrets, owner=owner, hold=hold)

    async def _secrets(self, ref: Ref | None) -> Secrets:
        found = await find_secrets(self._client, ref)
        if ref is not None and found is None:
            raise NotNow(f"secret {ref.namespace}/{ref.name} does not exist")
        return found or NO_SECRETS

    # --- writing ---

    async def _going_on(self, lookup: SnapshotLookup, key: RecordKey, error: InProgress) -> Requeue | None:
        """Shows how far it is. The mark stays, and so does the claim: it is being taken."""
        self._attempts.forget(key)
        obj = await self._client.find(lookup.dialect.records, key.name)
        if obj is None:
            return None
        record = lookup.dialect.read_record(obj)
        if record.meta.annotations.get(PROGRESS) != str(error):
            obj = await self._patch(lookup, obj, {"metadata": {"annotations": {PROGRESS: str(error)}}})
        await self._write_state(lookup, obj, replace(record.state, problem=None))
        return Requeue(PROGRESS_SECONDS)

    async def _failed(
        self, lookup: SnapshotLookup, key: RecordKey, error: Retryable | Terminal, failure: _Failure
    ) -> Requeue | None:
        """Shows the error on the record, as it is by now, and takes the mark off where nothing can have been made."""
        obj = await self._client.find(lookup.dialect.records, key.name)
        if obj is None:
            return None
        note = self._attempts.refused if isinstance(error, Terminal) else self._attempts.failed
        again = Requeue(note(key, failure.facts, self._clock.monotonic()))
        record = lookup.dialect.read_record(obj)
        mark = mark_after(record, error, asked=failure.asked and not failure.undoing)
        if mark != record.meta.annotations.get(CREATING):
            obj = await self._mark(lookup, obj, mark)
        await self._write_state(lookup, obj, replace(record.state, problem=problem_of(error, asked=failure.asked)))
        if queue_of(record):
            await lookup.records.reached(int(obj.metadata.resource_version))  # whoever is next must see the mark
        return again

    async def _mark(self, lookup: SnapshotLookup, obj: Any, mark: str | None) -> Any:
        return await self._patch(lookup, obj, {"metadata": {"annotations": {CREATING: mark}}})

    async def _write_state(self, lookup: SnapshotLookup, obj: Any, state: State) -> Any:
        change: Change = lookup.dialect.record_change(obj, state, now=self._clock.now())
        if change.main is not None:
            obj = await self._patch(lookup, obj, change.main)
        if change.status is not None:
            obj = await self._patch(lookup, obj, change.status, subresource="status")
        return obj

    async def _release(self, lookup: SnapshotLookup, obj: Any) -> None:
        kept = [one for one in obj.metadata.finalizers if one != lookup.dialect.record_finalizer]
        with contextlib.suppress(NotFound):
            await self._patch(lookup, obj, {"metadata": {"finalizers": kept}})

    async def _patch(self, lookup: SnapshotLookup, obj: Any, merge: dict[str, Any], *, subresource: str = "") -> Any:
        return await patch_seen(self._client, lookup.dialect.records, obj, merge, subresource=subresource)


@dataclass(frozen=True, slots=True)
class _Failure:
    asked: bool  # the driver was: before that, an error says nothing of what it may have done earlier
    facts: tuple[object, ...]
    undoing: bool = False  # what was begun may still be there, whatever the driver said
