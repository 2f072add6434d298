"""Runs schedules: gathers, has its rules say what is due, and makes snapshots, a few at a time.

What is made has a name that follows from schedule, claim and time: two processes, or one that was killed, make one. All of it
is made with our own identity, in the schedule's namespace and like anybody's snapshots: webhooks, quotas and classes hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from ullage.clock import Clock, SystemClock
from ullage.errors import BadInput, Terminal
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import AlreadyExists, ApiError, TooManyRequests
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.policies.schedules.api import SCHEDULES, ScheduleRun, ScheduleStatus, SnapshotSchedule
from ullage.policies.schedules.controllers import run_rules as rules
from ullage.policies.schedules.controllers.run_queue import AGAIN_SECONDS, RunQueue, claim_at
from ullage.policies.schedules.controllers.run_rules import MESSAGE_LIMIT
from ullage.policies.schedules.cron import read_timetable
from ullage.policies.schedules.lookup import DIALECTS, ScheduleLookup
from ullage.policies.schedules.model import new_metadata, new_spec, snapshot_name
from ullage.policies.schedules.pace import Pace
from ullage.policies.schedules.retention import read_limits
from ullage.selectors import LabelSelector, SelectorError

BATCH: Final = 20  # snapshots that one look at a schedule makes: between two looks others have their turn
LOOK_SECONDS: Final = 300.0  # at the latest: the time of day may jump
BUSY_SECONDS: Final = (1.0, 60.0)  # between two tries where the API server asks for patience
MOST_BUSY: Final = 5  # claims for which it does, until it is left alone: room may have to be made for one, and not for others
UNSEEN_SECONDS: Final = 30.0  # for which a snapshot that was made here counts, though the cache has not seen it

STARTED_EVENT: Final = Reason("RunStarted")
ENDED_EVENT: Final = Reason("RunComplete")
INCOMPLETE_EVENT: Final = Reason("RunIncomplete", type="Warning")
MISSED_EVENT: Final = Reason("RunMissed", type="Warning")
REFUSED_EVENT: Final = Reason("SnapshotRefused", type="Warning")


class Busy(Exception):
    """The API server asks for patience."""

    def __init__(self, message: str, after: float) -> None:
        super().__init__(message)
        self.after = min(max(after, BUSY_SECONDS[0]), BUSY_SECONDS[1])


class ScheduleRunner:
    def __init__(self, client: Client, lookup: ScheduleLookup, *, recorder: EventRecorder, clock: Clock | None = None) -> None:
        self._client = client
        self._lookup = lookup
        self._recorder = recorder
        self._clock = clock or SystemClock()
        self._queues: dict[Key, RunQueue] = {}  # by schedule: what is left of a run
        self._unseen: dict[Key, dict[str, float]] = {}  # by schedule: names made here, and when
        self._written: dict[Key, int] = {}  # by schedule: the version that we wrote last
        self._pace = Pace(self._clock)  # of choosing claims
        lookup.schedules.handle(self._forget)

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [own(self._lookup.schedules)]
        sources += [Source(cache, partial(self._of_snapshot, name)) for name, cache in self._lookup.snapshots.items()]
        sources.append(Source(self._lookup.volumes.claims, lambda one: ()))  # it is waited for, and wakes nobody
        return Controller("schedule-runs", sources, self.reconcile, clock=self._clock, metrics=metrics)

    def _of_snapshot(self, dialect: str, obj: Any) -> Iterable[Key]:
        found = self._lookup.read(dialect, obj)
        return (Key(obj.metadata.namespace, found.schedule),) if found is not None else ()

    def _forget(self, old: SnapshotSchedule | None, new: SnapshotSchedule | None) -> None:
        if old is not None and new is None:
            self._queues.pop(key_of(old), None)
            self._unseen.pop(key_of(old), None)
            self._written.pop(key_of(old), None)
            self._pace.forget(key_of(old))

    # --- reconcile ---

    async def reconcile(self, key: Key) -> Requeue | None:
        schedule = self._lookup.schedules.get(key)
        if schedule is None or is_deleting(schedule.metadata):
            return None
        if int(schedule.metadata.resource_version or 0) < self._written.get(key, 0):
            return Requeue(AGAIN_SECONDS)  # the cache is behind what we wrote ourselves: a run would be gone through again
        now = self._clock.now()
        try:
            timetable = read_timetable(schedule.spec.schedule, schedule.spec.time_zone)
            selector = LabelSelector.of(msgspec.to_builtins(schedule.spec.claim_selector))
            read_limits(schedule.spec.retention)
        except (BadInput, SelectorError) as error:
            await self._write(schedule, rules.invalid(schedule, str(error), now))
            return None
        seen = replace(schedule, status=rules.resumed(schedule, now))
        moment = rules.moment_of(seen, timetable, now)
        if moment.begin is not None:
            schedule = await self._begin(schedule, rules.begun(seen, moment, now, left=self._left(seen)))
            self._recorder.record(SCHEDULES, schedule, STARTED_EVENT, note=f"The run for {_time(schedule)} begins.")
        else:
            schedule = await self._write(schedule, rules.waiting(seen, moment, now))
            if moment.late is not None or moment.bad_request:
                self._recorder.record(SCHEDULES, schedule, MISSED_EVENT, note=_error(schedule.status))
        after = LOOK_SECONDS
        if moment.next is not None:
            after = min(after, max(0.0, (moment.next - now).total_seconds()))
        if not isinstance(schedule.status.run, UnsetType):
            again = await self._go_on(schedule, schedule.status.run, selector)
            after = after if again is None else min(after, again)
        return Requeue(after)

    def _left(self, schedule: SnapshotSchedule) -> int | None:
        """How many claims the run that is under way has not dealt with. None: this process has not chosen them."""
        queue, run = self._queues.get(key_of(schedule)), schedule.status.run
        known = queue is not None and queue.known and not isinstance(run, UnsetType) and queue.mark == _mark(run)
        return queue.left if queue is not None and known else None

    async def _begin(self, schedule: SnapshotSchedule, status: ScheduleStatus) -> SnapshotSchedule:
        """Of a run that is let go for the new one, it is told."""
        had, old = schedule.status.run, rules.summary(schedule.status)
        schedule = await self._write(schedule, status)
        new = rules.summary(schedule.status)
        if not isinstance(had, UnsetType) and new != old:
            self._recorder.record(SCHEDULES, schedule, ENDED_EVENT if new[0] else INCOMPLETE_EVENT, note=new[1])
        return schedule

    async def _go_on(self, schedule: SnapshotSchedule, run: ScheduleRun, selector: LabelSelector) -> float | None:
        """Seconds until it goes on; None: when something changes."""
        called_off, queue = rules.is_called_off(schedule), self._queue(schedule, run)
        now = self._clock.monotonic()
        if queue.not_before > now and not called_off:
            return queue.not_before - now  # whatever wakes us, our own writes too
        queue.release(now)
        if wait := self._choose(schedule, run, selector, queue=queue):
            return wait
        room = schedule.spec.concurrency_limit - self._holding(schedule) - self._unseen_count(schedule)
        outcomes: list[rules.Outcome] = []
        busy: list[float] = []
        while (place := queue.first) is not None and len(outcomes) < min(room, BATCH) and not called_off:
            try:
                outcomes.append(await self._make(schedule, run, place=place, claim=claim_at(place)))
            except Busy as error:
                busy.append(self._clock.monotonic() + error.after)
                queue.wait(place, str(error), until=busy[-1])
                if len(busy) == MOST_BUSY:
                    queue.not_before = min(busy)
                    break
                continue
            except ApiError:
                await self._settle(schedule, outcomes, queue)  # what was made is written down before the error is told
                raise
            queue.done()
        if await self._settle(schedule, outcomes, queue):
            return AGAIN_SECONDS  # a request may wait, or a run that came due meanwhile
        return queue.pause(self._clock.monotonic(), room=room - len(outcomes))

    def _queue(self, schedule: SnapshotSchedule, run: ScheduleRun) -> RunQueue:
        """What is left of a run."""
        had = self._queues.get(key_of(schedule))
        if had is None or had.mark != _mark(run):
            had = self._queues[key_of(schedule)] = RunQueue(_mark(run), run.place)
        return had

    def _choose(
        self, schedule: SnapshotSchedule, run: ScheduleRun, selector: LabelSelector, *, queue: RunQueue
    ) -> float | None:
        """Chooses claims, where that is to be done: some hundreds at once, since to go through thousands with each look would
        take longer than to make the snapshots. The seconds to wait for a turn."""
        key, began = key_of(schedule), self._clock.monotonic()
        if not queue.needs_choice:
            return None
        if wait := self._pace.wait(key):
            return wait
        found = self._lookup.claims(key.namespace, selector)
        queue.choose(run.scheduled_time, (one.metadata.name for one in found if not is_deleting(one.metadata)))
        self._pace.looked(key, began)
        return None

    def _holding(self, schedule: SnapshotSchedule) -> int:
        """How many are in the making, of an earlier run or of this one, and hold others up."""
        now = self._clock.now()
        return sum(one.holds_up(now) for one in self._lookup.holding(schedule))

    @property
    def places_kept(self) -> int:
        """How many claims of all runs are in memory."""
        return sum(map(len, self._queues.values()))

    def _unseen_count(self, schedule: SnapshotSchedule) -> int:
        """How many were made here a moment ago, and have not been seen yet."""
        key, now = key_of(schedule), self._clock.monotonic()
        cache, made = self._lookup.snapshots[schedule.spec.dialect], self._unseen.get(key, {})
        for name, since in list(made.items()):
            if now - since > UNSEEN_SECONDS or cache.get(Key(key.namespace, name)) is not None:
                del made[name]
        return len(made)

    # --- acting ---

    async def _make(self, schedule: SnapshotSchedule, run: ScheduleRun, *, place: str, claim: str) -> rules.Outcome:
        """Raises Busy where it may be tried again in a moment."""
        name, dialect = snapshot_name(schedule.metadata.name, claim, run.scheduled_time), schedule.spec.dialect
        now = self._clock.now()
        making = any(not one.given_up(now) for one in self._lookup.making(schedule, claim))
        if making and self._lookup.get(dialect, Key(schedule.metadata.namespace, name)) is None:
            return rules.Outcome(place=place, claim=claim, error=f"claim {claim}: its last snapshot is not done yet")
        try:
            await self._create(schedule, claim, run.scheduled_time)
        except AlreadyExists:
            return await self._found(schedule, place=place, claim=claim, name=name)
        except TooManyRequests as error:
            raise Busy(f"claim {claim}: {error.message}", error.retry_after or 0.0) from error
        except ApiError as error:
            if not isinstance(error, Terminal):
                raise
            return rules.Outcome(place=place, claim=claim, error=f"claim {claim}: {error.message}", refused=True)
        self._unseen.setdefault(key_of(schedule), {})[name] = self._clock.monotonic()
        return rules.Outcome(place=place, claim=claim)

    async def _create(self, schedule: SnapshotSchedule, claim: str, time: str) -> None:
        kind = DIALECTS[schedule.spec.dialect].snapshots
        spec = new_spec(schedule.spec.dialect, claim, schedule.spec.snapshot_class_name)
        metadata = new_metadata(schedule, claim, time)
        await self._client.create(kind, msgspec.convert({"metadata": metadata, "spec": spec}, kind.type))

    async def _found(self, schedule: SnapshotSchedule, *, place: str, claim: str, name: str) -> rules.Outcome:
        """Made by us before we were killed, or by another process; or somebody else has taken the name."""
        dialect = DIALECTS[schedule.spec.dialect]
        obj = await self._client.find(dialect.snapshots, name, schedule.metadata.namespace)
        found = self._lookup.read(dialect.name, obj) if obj is not None else None
        if obj is None or (found is not None and not found.precedes):
            return rules.Outcome(place=place, claim=claim)
        text = f"claim {claim}: VolumeSnapshot {name} exists already, and no schedule made it"
        if found is not None:
            text = (
                f"claim {claim}: VolumeSnapshot {name} was there before that time came, when some clock was ahead;"
                " it has older data"
            )
        return rules.Outcome(place=place, claim=claim, error=text, refused=True)

    async def _settle(self, schedule: SnapshotSchedule, outcomes: list[rules.Outcome], queue: RunQueue) -> bool:
        """Writes down what was made; whether the run has ended."""
        now, waiting = self._clock.now(), queue.said
        status = rules.progressed(schedule.status, outcomes, now, left=queue)
        refused = sorted((one for one in outcomes if one.error), key=lambda one: not one.refused)  # the gravest first
        why, left = "", queue.left
        if waiting and rules.gives_up(schedule, now):
            why = f"the API server asked for patience until the deadline had passed ({waiting[0][1]})"
        elif not isinstance(status.run, UnsetType) and status.run.refused >= rules.MOST_REFUSED:
            why = f"{status.run.refused} snapshots in a row were refused ({_error(status)})"
        elif rules.is_called_off(schedule):
            why = "it was suspended"
        ends = not left or bool(why)
        if ends:
            status = rules.ended(schedule, status, now, left=left, why=why)
        elif waiting:
            status = rules.delayed(status, waiting, now)
        try:
            schedule = await self._write(schedule, status)
        except ApiError:
            queue.put_back(one.place for one in outcomes)  # what was made is found by its name
            raise
        if refused:
            more = f" {len(refused) - 1} more were refused with it." if len(refused) > 1 else ""
            self._recorder.record(SCHEDULES, schedule, REFUSED_EVENT, note=f"{refused[0].error}{more}"[:MESSAGE_LIMIT])
        if ends:
            self._queues.pop(key_of(schedule), None)
            reason, note = rules.summary(schedule.status)
            self._recorder.record(SCHEDULES, schedule, ENDED_EVENT if reason else INCOMPLETE_EVENT, note=note)
        return ends

    async def _write(self, schedule: SnapshotSchedule, status: ScheduleStatus) -> SnapshotSchedule:
        """The schedule as it is then. A Conflict where it has changed: it is looked at anew, from what is there by then."""
        done = await patch_status(self._client, SCHEDULES, schedule, old=schedule.status, new=status)
        if done is None:
            return schedule
        self._written[key_of(schedule)] = int(done.metadata.resource_version or 0)
        return done


def _mark(run: ScheduleRun) -> str:
    return f"{run.scheduled_time}/{run.started}"


def _time(schedule: SnapshotSchedule) -> str:
    run = schedule.status.run
    return "" if isinstance(run, UnsetType) else run.scheduled_time


def _error(status: ScheduleStatus) -> str:
    return "" if isinstance(status.last_error, UnsetType) else status.last_error.message
