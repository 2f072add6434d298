"""Calls drivers, record by record: gathers, takes the one step that its rules names, and writes down what came of it.

It runs in the controller for the drivers that are reached from there, and in a sidecar beside a CSI driver. That the driver
is about to be asked is in the API before it is asked; what it answers is written there, or asked for again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ullage.clock import Clock, SystemClock
from ullage.engines.handles import DRIVER as LONGHORN
from ullage.errors import NotNow, Retryable, Terminal
from ullage.kube.backoff import Backoff
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.attempts import AFTER_REFUSAL, Attempts
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import ApiError, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.kinds import Object
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.ledger.charging.raising import NoRoom
from ullage.ledger.charging.release import seconds_held
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
from ullage.snapshots.controllers.record_sync_before_cut import BeforeCut
from ullage.snapshots.controllers.record_sync_rules import (
    Decision,
    RecordFacts,
    Step,
    edited_record,
    edited_snapshot,
    mark_after,
    notes_after,
    plan_record,
    poll_after,
    problem_of,
    settled,
    size_so_far,
)
from ullage.snapshots.live_records import LiveRecords
from ullage.snapshots.lookup import NamedRecord, SnapshotLookup, records_with_handle
from ullage.snapshots.model import ABOUT_TO, ASK_AGAIN, CREATING, CUT, PROGRESS, SIZE, Change, Record, Ref, State
from ullage.snapshots.secrets import find_secrets
from ullage.snapshots.volume_queue import RecordKey, VolumeQueues, queue_name, queue_of

# What wakes a record besides itself: what people edit of its snapshot, and the class that it failed with.


def matters(lookup: SnapshotLookup) -> Callable[[Any, Any], bool]:
    """A record cares whether its snapshot is there and is to stay, what people edit, and the word that it waits for; but not
    what the status says."""

    def facts(obj: Any) -> tuple[object, ...]:
        word = obj.metadata.annotations.get(CUT)
        return obj.metadata.deletion_timestamp, word, edited_snapshot(lookup.dialect.read_snapshot(obj))

    return lambda old, new: old is None or new is None or facts(old) != facts(new)


def failed_of_class(lookup: SnapshotLookup) -> Callable[[Any], Iterable[RecordKey]]:
    """Those that a class may have been edited for."""
    return lambda one: [RecordKey(lookup.dialect.name, name) for name in lookup.failed_of_class(one.metadata.name)]


# Says in Events that a driver's snapshot stays although a record of it was deleted: another record names it too.


KEPT: Final = Reason("SnapshotKept", action="Delete")
RETAINED: Final = Reason("SnapshotKept", action="Delete", type="Warning")
MOST_TOLD: Final = 10  # records that get an Event each


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """An Event to be recorded on a record."""

    about: NamedRecord
    reason: Reason
    note: str


def kept_events(deleted: NamedRecord, others: Sequence[NamedRecord]) -> Iterator[KeptEvent]:
    """The Events for a record that was deleted while others keep its snapshot: one on it, one on each of them."""
    if not others:
        return
    snapshot = f"snapshot {deleted.record.handle} of {deleted.record.driver}"
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    yield KeptEvent(deleted, KEPT, f"The {snapshot} was not deleted: {others[0]}{more} has the same handle.")
    for other in others[:MOST_TOLD]:
        if other.record.policy == "Delete":
            reason, next_step = KEPT, "It is deleted with the last object that has its handle."
        else:
            reason = RETAINED
            next_step = "The deletion policy here is Retain: to have it deleted with this object, set the policy to Delete."
        yield KeptEvent(other, reason, f"{deleted} was deleted, and the {snapshot} stays for this object. {next_step}")


# What is written to a record, each on condition that it is still the one that was looked at.


class RecordWriter:
    """Each call gives back the record as it is then."""

    def __init__(self, client: Client, recorder: EventRecorder, *, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock

    async def mark(self, lookup: SnapshotLookup, obj: Any, mark: str | None) -> Any:
        return await self.annotate(lookup, obj, {CREATING: mark})

    async def annotate(self, lookup: SnapshotLookup, obj: Any, notes: dict[str, str | None]) -> Any:
        return await self.patch(lookup, obj, {"metadata": {"annotations": notes}}) if notes else obj

    async def settle(self, lookup: SnapshotLookup, obj: Any, parameters: Parameters | None, size: str | None) -> Any:
        return await self.annotate(lookup, obj, settled(lookup.dialect.read_record(obj), parameters, size))

    async def write_state(self, lookup: SnapshotLookup, obj: Any, state: State) -> Any:
        change: Change = lookup.dialect.record_change(obj, state, now=self._clock.now())
        if change.main is not None:
            obj = await self.patch(lookup, obj, change.main)
        if change.status is not None:
            obj = await self.patch(lookup, obj, change.status, subresource="status")
        return obj

    async def release(
        self, lookup: SnapshotLookup, obj: Any, *, deleted: bool = False, kept_by: Sequence[NamedRecord] = ()
    ) -> Requeue | None:
        """Lets it go; or, where it pays for bytes that stay and that somebody else is about to be booked for, not yet.
        `deleted`: its own are gone for good. `kept_by`: the records for which its snapshot stays, which are told."""
        held = 0.0 if deleted else seconds_held(obj.metadata, self._clock.now())
        if held:
            return Requeue(held)
        kept = [one for one in obj.metadata.finalizers if one != lookup.dialect.record_finalizer]
        with contextlib.suppress(NotFound):
            await self.patch(lookup, obj, {"metadata": {"finalizers": kept}})
        for event in kept_events(NamedRecord(lookup.dialect.records, lookup.dialect.read_record(obj)), kept_by):
            about = Object(metadata=event.about.record.meta)
            self._recorder.record(event.about.kind, about, event.reason, note=event.note)
        return None

    async def patch(self, lookup: SnapshotLookup, obj: Any, merge: dict[str, Any], *, subresource: str = "") -> Any:
        return await patch_seen(self._client, lookup.dialect.records, obj, merge, subresource=subresource)


# What a driver is asked with, from a record and its class; and how large it says a snapshot is. Secrets are read when
# it is asked: they may change.


def creation_of(lookup: SnapshotLookup, record: Record, secrets: Secrets, *, strict: bool) -> Creation:
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


async def secrets_of(client: Client, ref: Ref | None) -> Secrets:
    found = await find_secrets(client, ref)
    if ref is not None and found is None:
        raise NotNow(f"secret {ref.namespace}/{ref.name} does not exist")
    return found or NO_SECRETS


async def size_of(
    backends: Mapping[str, Backend], record: Record, secrets: Secrets, *, seconds: float | None = None
) -> str | None:
    """What a snapshot takes, in bytes, as it is written on its record; ASK_AGAIN where that is not known within the time, or
    for now; None where the driver does not tell.

    An engine's snapshot changes whenever one before it is purged: whoever counts those looks at the Engine.
    """
    if record.driver == LONGHORN:
        return None
    try:
        async with asyncio.timeout(seconds):
            size = await backends[record.driver].size(record.handle, secrets=secrets)
    except (Retryable, TimeoutError):
        return ASK_AGAIN
    except Terminal:
        return None
    return None if size is None else str(size)


BACKOFF: Final = Backoff(first=0.5, cap=60.0)
RETRY_SECONDS: Final = 0.5  # where a cache is behind
AWAIT_SECONDS: Final = 2.0  # where another snapshot of the volume is being taken, and a whole group waits for this one
BEFORE_CUT: Final = (Step.MEASURE, Step.MARK, Step.CREATE)
SIZE_SECONDS: Final = 2.0  # the next snapshot of the volume waits for no longer until the size of one is known
WEIGH_SECONDS: Final = 60.0  # until it is asked for again
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
        recorder: EventRecorder,
        clock: Clock | None = None,
        backoff: Backoff = BACKOFF,
        after_refusal: Backoff = AFTER_REFUSAL,
        books: bool = True,
    ) -> None:
        """`queues` follow the records already: they learn of every change before this controller does. `books`: this process
        has an identity that may say what a snapshot takes; a sidecar has none."""
        self._client = client
        self._lookups = {lookup.dialect.name: lookup for lookup in lookups}
        self._backends = backends
        self._live = LiveRecords(client, (lookup.dialect for lookup in self._lookups.values()))
        self._queues = queues
        self._clock = clock or SystemClock()
        self._attempts: Attempts[RecordKey] = Attempts(backoff, after_refusal=after_refusal)
        self._writer = RecordWriter(client, recorder, clock=self._clock)
        self._before_cut = BeforeCut(client, clock=self._clock, books=books)
        # The volume queues for which a driver is being called, whatever the caches show, and the records that came meanwhile.
        self._busy: dict[str, set[RecordKey]] = {}
        self._wake: Callable[[RecordKey], None] = lambda key: None

    def controller(self, *, workers: int = 16, metrics: KubeMetrics | None = None) -> Controller[RecordKey]:
        sources: list[Source[Any, RecordKey]] = []
        for lookup in self._lookups.values():
            sources.append(Source(lookup.records, self._of_record(lookup)))
            sources.append(Source(lookup.snapshots, self._of_snapshot(lookup), when=matters(lookup)))
            sources.append(Source(lookup.classes, failed_of_class(lookup)))
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
            self._before_cut.forget(key)
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
        if decision.step is Step.AWAIT:
            return Requeue(AWAIT_SECONDS)
        if decision.step in (Step.REST, Step.HOLD, Step.RELEASE, Step.SETTLE):
            return await self._at_rest(lookup, obj, decision)
        facts = self._fingerprint(lookup, record, decision)
        wait = self._attempts.wait(key, facts, self._clock.monotonic())
        if wait:
            return Requeue(wait)
        asked = False
        try:
            secrets = await secrets_of(self._client, record.secret)
            creation = creation_of(lookup, record, secrets, strict=decision.step in BEFORE_CUT)
            ready = await self._prepare(lookup, obj, decision.step, creation) if decision.step in BEFORE_CUT else None
            if ready is not None:
                self._attempts.forget(key)
                return ready
            asked = True
            step = decision.step if decision.step is not Step.MEASURE else Step.CREATE if record.begun else Step.MARK
            again = await self._call_driver(lookup, obj, step, creation)
        except InProgress as error:
            return await self._going_on(lookup, key, error)
        except ApiError:
            raise  # says nothing of what the driver did: that is asked for again
        except (Retryable, Terminal) as error:
            return await self._failed(lookup, key, error, _Failure(asked, facts, undoing=decision.step is Step.ABANDON))
        self._attempts.forget(key)
        self._before_cut.forget(key)
        return again

    def _facts(self, lookup: SnapshotLookup, obj: Any, record: Record) -> RecordFacts:
        seen = lookup.snapshots.get(Key(record.ref.namespace, record.ref.name))
        return RecordFacts(
            record=record,
            held=lookup.dialect.record_finalizer in obj.metadata.finalizers,
            snapshot=lookup.dialect.read_snapshot(seen) if seen is not None else None,
            gate=self._before_cut.gate(record, seen) if seen is not None and not record.handle else None,
            first=self._queues.first(queue_of(record)),
            shared=bool(records_with_handle(self._lookups.values(), record)),
        )

    def _fingerprint(self, lookup: SnapshotLookup, record: Record, decision: Decision) -> tuple[object, ...]:
        """What a failure was about: whatever an edit could mend."""
        found = lookup.classes.get(Key("", record.class_name)) if record.class_name else None
        version = found.metadata.resource_version if found is not None else ""
        snapshot = lookup.snapshot(record.ref.namespace, record.ref.name)
        step = Step.CREATE if decision.step in BEFORE_CUT else decision.step
        return (record.meta.uid, edited_record(record), version, edited_snapshot(snapshot) if snapshot else (), step)

    # --- steps ---

    async def _at_rest(self, lookup: SnapshotLookup, obj: Any, decision: Decision) -> Requeue | None:
        name, meta, record = lookup.dialect.record_finalizer, obj.metadata, lookup.dialect.read_record(obj)
        if decision.step is Step.HOLD:
            await self._writer.patch(lookup, obj, {"metadata": {"finalizers": [*meta.finalizers, name]}})
        elif decision.step is Step.RELEASE:
            others = records_with_handle(self._lookups.values(), record) if record.policy == "Delete" else []
            return await self._writer.release(lookup, obj, kept_by=others)
        elif decision.step is Step.SETTLE:
            await self._writer.settle(lookup, obj, self._parameters(lookup, obj), size_so_far(record))
        elif decision.problem is not None:
            await self._writer.write_state(lookup, obj, replace(record.state, problem=decision.problem))
        return None

    async def _prepare(self, lookup: SnapshotLookup, obj: Any, step: Step, creation: Creation) -> Requeue | None:
        """Has a snapshot paid for before it is cut. None: the driver may be asked."""
        record = lookup.dialect.read_record(obj)
        if record.handle:
            return None
        live = lookup.snapshots.get(Key(record.ref.namespace, record.ref.name)) if step is Step.CREATE else None
        live = live or await self._live_snapshot(lookup, record)  # another snapshotter may have let it go, before it is marked
        if live is None or is_deleting(live.metadata):
            return Requeue(RETRY_SECONDS)  # the cache of snapshots is behind that of records, and will tell
        backend = self._backends[record.driver]
        try:
            if step is not Step.MEASURE:
                return None if await self._before_cut.ready(lookup, obj, live, backend) else Requeue(RETRY_SECONDS)
            obj, again = await self._before_cut.publish(lookup, obj, live, backend)
            if again is not None:
                await self._writer.write_state(lookup, obj, replace(record.state, problem=None))
            return again
        except NoRoom:
            if record.begun:  # it may have been made by an earlier call, before its volume grew: nobody was told of it
                await backend.undo(creation)
            raise

    async def _call_driver(self, lookup: SnapshotLookup, obj: Any, step: Step, creation: Creation) -> Requeue | None:
        record = lookup.dialect.read_record(obj)
        backend = self._backends[record.driver]
        if step is Step.DELETE:
            others = await self._live.others(record)  # the caches were looked at; what they do not show yet counts too
            if not others:
                await backend.delete(record.handle, secrets=creation.secrets)
            # An engine has only marked it, perhaps: its bytes go to the snapshot that was taken after it.
            gone = not others and record.driver != LONGHORN
            return await self._writer.release(lookup, obj, deleted=gone, kept_by=others)
        if step is Step.UNDO:
            # A driver may have to make it once more to find it. If the record is gone by now, nothing would tell of that.
            live = await self._client.find(lookup.dialect.records, obj.metadata.name)
            if live is not None and live.metadata.uid == obj.metadata.uid:
                await backend.undo(creation)
                await self._writer.release(lookup, live, deleted=True)
            return None
        if step is Step.WEIGH:
            size = await size_of(self._backends, record, creation.secrets)
            await self._writer.settle(lookup, obj, None, size)
            return Requeue(WEIGH_SECONDS) if size == ASK_AGAIN else None
        if step is Step.ABANDON:
            return await self._abandon(lookup, obj, creation)
        if step is Step.FIND:
            found = await backend.find(record.handle, secrets=creation.secrets)
            if found is None:
                raise NotNow(f"{record.driver} has no snapshot {record.handle}")
            return await self._found(lookup, obj, found, secrets=creation.secrets)
        if step is Step.MARK:
            obj = await self._writer.mark(lookup, obj, ABOUT_TO)
        parameters = self._parameters(lookup, obj)  # as they are when the driver is asked
        made = await backend.create(creation)
        unseen = lookup.snapshot(record.ref.namespace, record.ref.name) is None
        if unseen and not record.handle and record.policy == "Delete" and await self._live_snapshot(lookup, record) is None:
            return await self._abandon(lookup, obj, creation)  # while its mark is all that tells of it
        if not record.handle and made.ready:
            live = await self._live_snapshot(lookup, record)
            if not await self._before_cut.is_booked(lookup, obj, live, backend, made, creation):
                return Requeue(RETRY_SECONDS)  # the word that comes wakes us
            weighed = await self._before_cut.pay_for_cut(lookup, live, backend, made, creation)
            if weighed is not None:  # before it is cut by its word: else it would be booked with a bound for a moment
                obj = await self._writer.annotate(lookup, obj, {SIZE: str(weighed)})
        return await self._found(lookup, obj, made, parameters, secrets=creation.secrets)

    async def _abandon(self, lookup: SnapshotLookup, obj: Any, creation: Creation) -> Requeue | None:
        """Nobody has ever been told of what may have been made, and nobody ever will."""
        record = lookup.dialect.read_record(obj)
        if await self._live_snapshot(lookup, record) is not None:
            return Requeue(RETRY_SECONDS)  # the caches do not show it yet
        await self._backends[record.driver].undo(creation)
        await self._writer.mark(lookup, obj, None)
        return None

    async def _live_snapshot(self, lookup: SnapshotLookup, record: Record) -> Any:
        """The snapshot of a record, by the word of the API itself: another snapshotter may have let it go while the record was
        being made."""
        live = await self._client.find(lookup.dialect.snapshots, record.ref.name, record.ref.namespace)
        return live if live is not None and live.metadata.uid == record.ref.uid else None

    async def _found(
        self,
        lookup: SnapshotLookup,
        obj: Any,
        snapshot: BackendSnapshot,
        parameters: Parameters | None = None,
        *,
        secrets: Secrets,
    ) -> Requeue | None:
        """The handle first: until it is written down, the mark is all that tells of the snapshot."""
        state = State(handle=snapshot.handle, cut=snapshot.cut, ready=snapshot.ready, restore_size=snapshot.restore_size)
        obj = await self._writer.write_state(lookup, obj, state)
        found = lookup.dialect.read_record(obj)
        size = await size_of(self._backends, found, secrets, seconds=SIZE_SECONDS) if snapshot.ready else None
        obj = await self._writer.settle(lookup, obj, parameters, size)
        # Whoever looks next, at this one or at its queue, must see that it is cut: it would ask the driver once more.
        await lookup.records.reached(int(obj.metadata.resource_version))
        return None if snapshot.ready else Requeue(poll_after(snapshot.cut, self._clock.now()))

    def _parameters(self, lookup: SnapshotLookup, obj: Any) -> Parameters | None:
        found = lookup.snapshot_class(lookup.dialect.read_record(obj).class_name)
        return found.parameters if found is not None else None

    # --- writing ---

    async def _going_on(self, lookup: SnapshotLookup, key: RecordKey, error: InProgress) -> Requeue | None:
        """Shows how far it is. The mark stays, and so does the claim: it is being taken."""
        self._attempts.forget(key)
        obj = await self._client.find(lookup.dialect.records, key.name)
        if obj is None:
            return None
        record = lookup.dialect.read_record(obj)
        if record.meta.annotations.get(PROGRESS) != str(error):
            obj = await self._writer.annotate(lookup, obj, {PROGRESS: str(error)})
        await self._writer.write_state(lookup, obj, replace(record.state, problem=None))
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
        given_up = isinstance(error, Terminal) and mark is None and bool(queue_of(record))
        obj = await self._writer.annotate(lookup, obj, notes_after(record, mark, given_up=given_up))
        if given_up:
            await self._before_cut.give_back(lookup, record)
        await self._writer.write_state(lookup, obj, replace(record.state, problem=problem_of(error, asked=failure.asked)))
        if queue_of(record):
            await lookup.records.reached(int(obj.metadata.resource_version))  # whoever is next must see the mark
        return again


@dataclass(frozen=True, slots=True)
class _Failure:
    asked: bool  # the driver was: before that, an error says nothing of what it may have done earlier
    facts: tuple[object, ...]
    undoing: bool = False  # what was begun may still be there, whatever the driver said
