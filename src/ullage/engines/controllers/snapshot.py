"""The controller of Snapshots, from the request until the last trace is gone: gather, decide by its rules, act.

It writes to the API that it is about to ask the engine, then asks the engine what it has, and only then tells it to do
anything: so no crash makes it take a snapshot twice. What the engine has then comes back through the Engine's status, which
only the engine monitor writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from ullage.clock import Clock, SystemClock
from ullage.engines import model, tickets
from ullage.engines.api import ENGINE_SNAPSHOTS, FINALIZER, VOLUMES, Engine, Snapshot, SnapshotStatus, Volume, to_bytes
from ullage.engines.chain import HEAD
from ullage.engines.client.errors import LIMITS
from ullage.engines.client.errors import Reason as Why
from ullage.engines.client.interface import EngineClients
from ullage.engines.controllers import snapshot_operations as operations
from ullage.engines.controllers import snapshot_rules as statuses
from ullage.engines.controllers.snapshot_rules import LOST, Decision, Removal, Step, plan, reason_of
from ullage.engines.lookup import Lookup, volume_key
from ullage.engines.metrics import Metrics
from ullage.engines.model import SnapshotFacts, blocked_before, comes_or_goes, has_failed, info_of, is_purging
from ullage.engines.settings import Settings
from ullage.errors import NotNow, Retryable, Terminal, Uncertain
from ullage.kube.backoff import Backoff
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.attempts import Attempts
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import ApiError, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting, merge_patch, without_finalizer
from ullage.ledger.charging.booking import book, give_back, payer
from ullage.ledger.charging.methods import ENGINE_HEAD
from ullage.ledger.charging.release import seconds_held
from ullage.ledger.charging.stamps import ESTIMATED_BY
from ullage.times import timestamp

# Which Snapshots are reconciled when an Engine or a Volume changes: with 30,000 of them, as few as possible. An
# engine's status changes all the time: its head grows, a snapshot is added or removed. Only the Snapshots whose own
# entry changed are queued; those being deleted when a purge makes progress; and all of a volume when it is attached or
# detached.


@dataclass(frozen=True, slots=True)
class EngineSource(Source[Engine, Key]):
    """`keys` gives all snapshots of an engine's volume, `going` those of them that are being deleted."""

    going: Callable[[Engine], Iterable[Key]] = lambda engine: ()

    def affected(self, old: Engine | None, new: Engine | None) -> Iterable[Key]:
        if old is None or new is None or _of_all(old) != _of_all(new):
            ends = [one for one in (old, new) if one is not None]
            return dict.fromkeys(key for one in ends for key in self.keys(one))
        found = dict.fromkeys(changed_entries(old, new))
        if (old.status.purge_status or {}) != (new.status.purge_status or {}):
            found |= dict.fromkeys(self.going(new))
        return found


def _of_all(engine: Engine) -> tuple[str, str, str]:
    """What every snapshot's status, or next step, depends on."""
    return engine.status.current_state, engine.spec.volume_size, engine.spec.volume_name


def changed_entries(old: Engine, new: Engine) -> Iterable[Key]:
    before, after = old.status.snapshots or {}, new.status.snapshots or {}
    namespace = new.metadata.namespace
    for name in before.keys() | after.keys():
        if name != HEAD and before.get(name) != after.get(name):
            yield Key(namespace, name)


def engine_source(lookup: Lookup) -> EngineSource:
    def of_volume(engine: Engine) -> Iterable[Key]:
        return lookup.keys_named(volume_key(engine))

    def going(engine: Engine) -> Iterable[Key]:
        return (key_of(one) for one in lookup.snapshots_named(volume_key(engine)) if is_deleting(one.metadata))

    return EngineSource(lookup.engines, of_volume, going=going)


def volume_source(lookup: Lookup) -> Source[Volume, Key]:
    return Source(lookup.volumes, lambda volume: lookup.keys_named(key_of(volume)), when=comes_or_goes)


# How many volumes of a node purge at the same time: a purge reads and writes all that goes, and the disks are shared.
# What purges is known from the Engines' statuses, and from what was begun here, or was seen to have ended, since; that
# is lost with the process, and known again after one poll. Whoever finds no place is woken when one is free.


class PurgeSlots:
    """The places for purges on each node. `wake` has a Snapshot that waits for one try again."""

    def __init__(self, lookup: Lookup, *, settings: Settings, clock: Clock) -> None:
        self._lookup = lookup
        self._settings = settings
        self._clock = clock
        self._begun: dict[Key, float] = {}  # by engine: until when a place is taken, unless it is given back before
        self._ended: dict[
            Key, str
        ] = {}  # by engine: the version of its status that is out of date, since it was seen not to purge
        self._waiting: dict[str, dict[Key, float]] = {}  # by node: the Snapshots, and since when
        self.wake: Callable[[Key], None] = lambda key: None  # set by whoever has the queue

    def take(self, engine: Engine | None, snapshot: Key) -> bool:
        """Takes a place for the engine, if there is one. An engine that purges has one."""
        if engine is None:
            return False
        now, key, node = self._clock.monotonic(), key_of(engine), engine.spec.node_id
        self._begun = {one: end for one, end in self._begun.items() if end > now}
        busy = {key_of(one) for one in self._lookup.engines_on(node) if self._purges(one)}
        if key not in busy and len(busy) >= self._settings.purges_per_node:
            self._waiting.setdefault(node, {}).setdefault(snapshot, now)
            return False
        self._begun[key] = now + 2 * self._settings.interval
        self._ended.pop(key, None)
        self._waiting.get(node, {}).pop(snapshot, None)
        return True

    def give_back(self, engine: Engine | None) -> None:
        """The engine has been seen not to purge: the next one may."""
        if engine is None:
            return
        key = key_of(engine)
        self._begun.pop(key, None)
        shown = self._lookup.engines.get(key)
        if shown is not None and is_purging(shown):
            self._ended[key] = shown.metadata.resource_version
        following = next(iter(self._waiting.get(engine.spec.node_id, {})), None)
        if following is not None:
            del self._waiting[engine.spec.node_id][following]
            self.wake(following)

    def waits_long(self, engine: Engine, snapshot: Key) -> bool:
        """Whether it is worth a word: most find a place in a moment."""
        since = self._waiting.get(engine.spec.node_id, {}).get(snapshot)
        return since is not None and self._clock.monotonic() - since >= self._settings.interval

    def _purges(self, engine: Engine) -> bool:
        key = key_of(engine)
        if key in self._begun:
            return True
        return is_purging(engine) and self._ended.get(key) != engine.metadata.resource_version


# Events on Snapshots, for `kubectl describe`. The cause decides whether one is a Warning. A Snapshot that the monitor
# made for what an engine already had gets no Event at first: an upgrade makes 30,000 of them.


READY: Final = Reason("SnapshotReady")
GONE: Final = Reason("SnapshotLost")
MARKED: Final = Reason("SnapshotMarked")
FAILED: Final = Reason("SnapshotFailed", type="Warning")
TROUBLED: Final = Reason("SnapshotTroubled", type="Warning")
WAITING: Final = Reason("SnapshotWaiting")


def record_events(recorder: EventRecorder, snapshot: Snapshot, new: SnapshotStatus, *, trouble: bool) -> None:
    """Tells what a new status means, compared with the one that the snapshot has. `trouble`: something went wrong; otherwise
    its error is only what it waits for."""
    for reason, note in events_for(snapshot, new, trouble=trouble):
        recorder.record(ENGINE_SNAPSHOTS, snapshot, reason, note=note)


def events_for(snapshot: Snapshot, new: SnapshotStatus, *, trouble: bool) -> list[tuple[Reason, str]]:
    old = snapshot.status
    found: list[tuple[Reason, str]] = []
    if new.ready_to_use is True and old.ready_to_use is not True and (snapshot.spec.create_snapshot or old.creation_time):
        found.append((READY, "The snapshot is ready to use."))
    if has_failed(new) and not has_failed(old):
        found.append((FAILED, new.error))
    elif new.error == LOST and old.error != LOST:
        found.append((GONE, "The snapshot is not in the engine any more."))
    elif new.error and new.error != old.error:
        found.append((TROUBLED if trouble else WAITING, new.error))
    blocked = blocked_before(new)
    if blocked is not None and blocked_before(old) is None:
        found.append((MARKED, f"The snapshot is marked as removed: {blocked.message}."))
    return found


BACKOFF: Final = Backoff(first=0.5, cap=60.0)
RECHECK_SECONDS: Final = 0.5  # seconds, after an engine was told to do something that takes a while
TAKING: Final = "taking"
REMOVING: Final = "removing"

PollNow = Callable[[Key], None]  # has the engine monitor poll an engine now


class SnapshotController:
    """The controller of Snapshots."""

    def __init__(
        self,
        client: Client,
        lookup: Lookup,
        engines: EngineClients,
        *,
        settings: Settings,
        recorder: EventRecorder,
        metrics: Metrics,
        poll_now: PollNow,
        clock: Clock | None = None,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self._client = client
        self._lookup = lookup
        self._engines = engines
        self._settings = settings
        self._recorder = recorder
        self._poll_now = poll_now
        self._clock = clock or SystemClock()
        self._attempts: Attempts[str] = Attempts(backoff)
        self._purges = PurgeSlots(lookup, settings=settings, clock=self._clock)
        self._taken: dict[str, float] = {}  # by uid: since when the engine has what its Engine does not show yet
        self._purged: dict[str, frozenset[str]] = {}  # by uid: the children that it had when the engine was told to purge
        lookup.snapshots.handle(metrics.seen)
        lookup.snapshots.handle(self._forget)

    def controller(self, *, workers: int = 16, metrics: KubeMetrics | None = None) -> Controller[Key]:
        lookup = self._lookup
        sources: list[Source[Any, Key]] = [own(lookup.snapshots), engine_source(lookup), volume_source(lookup)]
        made = Controller("engine-snapshots", sources, self.reconcile, workers=workers, clock=self._clock, metrics=metrics)
        self._purges.wake = made.queue.add
        return made

    def _forget(self, old: Snapshot | None, new: Snapshot | None) -> None:
        if old is not None and new is None:
            uid = old.metadata.uid
            self._attempts.forget(uid)
            self._taken.pop(uid, None)
            self._purged.pop(uid, None)

    # --- reconcile ---

    async def reconcile(self, key: Key) -> Requeue | None:
        snapshot = self._lookup.snapshots.get(key)
        if snapshot is None:
            return None
        facts = self._lookup.facts(snapshot)
        decision = plan(facts, now=self._clock.now())
        try:
            await self._set_ticket(facts, wanted=decision.ticket)
            if decision.status is not None:
                await self._write_status(snapshot, decision.status)
            return await self._step(facts, decision)
        except NotFound:
            return None  # it went, or its volume did: the caches will say so

    async def _step(self, facts: SnapshotFacts, decision: Decision) -> Requeue | None:
        match decision.step:
            case Step.STAMP if facts.volume is not None:
                meta = facts.snapshot.metadata
                await self._patch(facts.snapshot, {"metadata": merge_patch(meta, model.stamped(meta, facts.volume))})
            case Step.WAIT if decision.ticket:
                return Requeue(self._settings.ticket_seconds / 4)  # a ticket that is needed for long is renewed
            case Step.INTEND | Step.CREATE:
                return await self._create(facts, decision.step)
            case Step.REMOVE:
                return await self._remove(facts)
            case Step.RELEASE:
                return await self._release(facts)
        return None

    async def _set_ticket(self, facts: SnapshotFacts, *, wanted: bool) -> None:
        """Has the volume attached for the snapshot, or not any more."""
        volume, snapshot = facts.volume, facts.snapshot
        if volume is None:
            return
        if wanted:
            change = tickets.demand(volume, snapshot, now=self._clock.now(), seconds=self._settings.ticket_seconds)
        else:
            change = tickets.release(volume, snapshot)
        if change is not None:
            meta = volume.metadata
            await self._client.patch(VOLUMES, meta.name, meta.namespace, merge=change, uid=meta.uid)

    # --- taking ---

    async def _create(self, facts: SnapshotFacts, step: Step) -> Requeue | None:
        snapshot = facts.snapshot
        uid, now = snapshot.metadata.uid, self._clock.monotonic()
        wait = max(self._settling(uid, now), self._attempts.wait(uid, TAKING, now))
        if wait:
            return Requeue(wait)
        try:
            paid = await self._pay(snapshot, step)
        except ApiError:
            raise  # no engine has said anything
        except (Retryable, Terminal) as error:
            return await self._not_taken(snapshot, error)
        if paid is None:
            return None  # it is going: the cache will say so
        snapshot = paid
        if step is Step.INTEND:
            asked = replace(snapshot.status, requested_time=timestamp(self._clock.now()), error="")
            snapshot = await self._write_status(snapshot, asked)
        try:
            limits = model.wanted_limits(facts.volume or Volume())
            await operations.take(self._engines.of(snapshot.spec.volume), snapshot, limits=limits)
        except (Retryable, Terminal) as error:
            return await self._not_taken(snapshot, error)
        self._attempts.forget(uid)
        self._taken[uid] = now
        self._poll(facts)
        return Requeue(self._settling(uid, now))

    async def _pay(self, snapshot: Snapshot, step: Step) -> Snapshot | None:
        """Brings the stamp of one that pays to what its volume would put into it now, as the engine itself says; NoRoom where
        that does not fit. Once the engine may have been asked for it, the stamp does not fall: it may have it in a moment."""
        if payer(snapshot.metadata) is None:
            return snapshot
        listed, whole = await self._engines.of(snapshot.spec.volume).list(), self._lookup.facts(snapshot).volume
        if step is Step.CREATE and snapshot.metadata.name in listed:
            return snapshot
        amount = model.next_size(listed, volume_size=to_bytes(whole.spec.size) if whole is not None else 0)
        also = {ESTIMATED_BY: ENGINE_HEAD}
        return await book(self._client, ENGINE_SNAPSHOTS, snapshot, amount, lower=step is Step.INTEND, also=also)

    def _settling(self, uid: str, now: float) -> float:
        """Seconds for which the engine need not be asked about a snapshot that it is known to have."""
        return max(0.0, self._taken.get(uid, -float("inf")) + 2 * self._settings.interval - now)

    async def _not_taken(self, snapshot: Snapshot, error: Retryable | Terminal) -> Requeue | None:
        uid = snapshot.metadata.uid
        if isinstance(error, NotNow) and error.reason == Why.DETACHED:  # its Engine will say so too: no try of it was made
            await self._write_status(snapshot, statuses.troubled(snapshot.status, str(error)))
            return Requeue(self._settings.interval)
        delay = self._attempts.failed(uid, TAKING, self._clock.monotonic())
        tries, reason = self._attempts.count(uid, TAKING), reason_of(error)
        final = isinstance(error, Terminal) or reason in LIMITS
        if final or tries >= self._settings.tries:
            problem = str(error) if final else f"{error} (after {tries} tries)"
            if not isinstance(error, Uncertain):  # first: of one that has failed nobody asks any more
                snapshot = await give_back(self._client, ENGINE_SNAPSHOTS, snapshot)
            await self._write_status(snapshot, statuses.failed(snapshot, problem, reason=reason, now=self._clock.now()))
            return None
        await self._write_status(snapshot, statuses.troubled(snapshot.status, str(error)), trouble=True)
        return Requeue(delay)

    # --- removing ---

    async def _remove(self, facts: SnapshotFacts) -> Requeue | None:
        snapshot = facts.snapshot
        uid, now = snapshot.metadata.uid, self._clock.monotonic()
        if wait := self._attempts.wait(uid, REMOVING, now):
            return Requeue(wait)
        engine = self._engines.of(snapshot.spec.volume)
        try:
            found = await operations.remove(
                engine,
                snapshot,
                purged_with=self._purged.get(uid),
                may_purge=lambda: self._purges.take(facts.engine, key_of(snapshot)),
            )
        except (Retryable, Terminal) as error:
            self._purges.give_back(facts.engine)
            self._purged.pop(uid, None)
            delay = self._attempts.failed(uid, REMOVING, now)
            await self._write_status(snapshot, statuses.troubled(snapshot.status, str(error)), trouble=True)
            return Requeue(delay)
        self._attempts.forget(uid)
        if found.removal in (Removal.GONE, Removal.NOT_MERGED):
            self._purges.give_back(facts.engine)
        return await self._removed(facts, found)

    async def _removed(self, facts: SnapshotFacts, found: operations.Removed) -> Requeue | None:
        snapshot, entry, engine = facts.snapshot, found.entry, facts.engine
        uid = snapshot.metadata.uid
        if entry is None and model.entry_of(engine, snapshot.metadata.name) is not None:
            # The next one of this name would be taken for what its Engine still shows.
            self._poll(facts)
            return Requeue(min(RECHECK_SECONDS, self._settings.interval))
        if entry is None or engine is None:
            return await self._release(facts)
        self._poll(facts)
        status = statuses.mirrored(snapshot, info_of(entry), engine)
        match found.removal:
            case Removal.PARENT_OF_HEAD:
                status = statuses.logically_removed(snapshot, status, "ParentOfHead", now=self._clock.now())
            case Removal.NOT_MERGED:
                status = statuses.logically_removed(snapshot, status, "NotMerged", now=self._clock.now())
            case Removal.QUEUED if self._purges.waits_long(engine, key_of(snapshot)):
                limit = self._settings.purges_per_node
                status = statuses.queued(status, node=engine.spec.node_id, purges=limit)
            case _:
                status = replace(status, error="")
        await self._write_status(snapshot, status)
        if found.removal is Removal.PURGE:
            self._purged[uid] = entry.children
            return Requeue(min(RECHECK_SECONDS, self._settings.interval))
        waits = found.removal in (Removal.PURGING, Removal.QUEUED)
        return Requeue(self._settings.interval) if waits else None

    async def _release(self, facts: SnapshotFacts) -> Requeue | None:
        """The ticket first: nobody looks for it once the snapshot is gone, but the reaper. Nothing goes that pays for bytes
        which somebody else is about to be booked for."""
        snapshot, volume = facts.snapshot, facts.volume
        if held := seconds_held(snapshot.metadata, self._clock.now()):
            return Requeue(held)
        if volume is None and await self._is_there(snapshot):
            return Requeue(RECHECK_SECONDS)  # the cache of volumes is behind that of snapshots
        if volume is not None:
            await self._set_ticket(facts, wanted=False)
        meta = snapshot.metadata
        await self._patch(snapshot, {"metadata": {"finalizers": list(without_finalizer(meta, FINALIZER).finalizers)}})
        return None

    async def _is_there(self, snapshot: Snapshot) -> bool:
        found = await self._client.find(VOLUMES, snapshot.spec.volume, snapshot.metadata.namespace)
        return found is not None and model.belongs_to(snapshot, found) and not is_deleting(found.metadata)

    # --- writing ---

    def _poll(self, facts: SnapshotFacts) -> None:
        if facts.engine is not None:
            self._poll_now(key_of(facts.engine))

    async def _write_status(self, snapshot: Snapshot, status: SnapshotStatus, *, trouble: bool = False) -> Snapshot:
        """Writes a status if it says something new; the snapshot as it is then."""
        change = merge_patch(snapshot.status, status) if status != snapshot.status else None
        if change is None:
            return snapshot
        written = await self._patch(snapshot, {"status": change}, subresource="status")
        record_events(self._recorder, snapshot, status, trouble=trouble)
        return written

    async def _patch(self, snapshot: Snapshot, merge: dict[str, Any], *, subresource: str = "") -> Snapshot:
        return await patch_seen(self._client, ENGINE_SNAPSHOTS, snapshot, merge, subresource=subresource)
