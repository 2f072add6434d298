"""Carries restores in place out, step by step; what is about to be done is written down before it is done.

    Pending → Preparing → Switching → Complete ─(undoUntil, a later restore, the claim or this object gone)→ settled
                  ╰→ Failed                ╰→ Undoing → Undone → settled

The restore itself is read from the API before each step: what is kept goes only if nobody has asked to have it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from ullage.clock import Clock, SystemClock
from ullage.engines.handles import DRIVER as LONGHORN
from ullage.errors import Impossible, NotNow, Retryable, Terminal
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import hold, let_go, patch_status
from ullage.kube.client.interface import Finder
from ullage.kube.controller.controller import Controller, Requeue, Source, own, owned
from ullage.kube.errors import ApiError
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import find_condition
from ullage.policies.restores import eligibility, model, pods
from ullage.policies.restores.api import SNAPSHOT_RESTORES, SnapshotRestore, SnapshotRestoreStatus
from ullage.policies.restores.controllers import restore_perform_rules as rules
from ullage.policies.restores.controllers.restore_perform_rules import RestoreStep
from ullage.policies.restores.in_use import SnapshotsInUse
from ullage.policies.restores.methods.base import RestoreMethod
from ullage.policies.restores.model import PENDING, RestoreJob
from ullage.policies.restores.pods import ClaimInUse
from ullage.snapshots.backends.base import InProgress
from ullage.snapshots.binding import refers_to
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import Problem, Snapshot
from ullage.snapshots.settings import HOSTPATH
from ullage.snapshots.source_volume import source_volume_of

# What a restore is about, as it is now: the caches to be woken by, and the API itself for what decides about data.


BY_CLAIM: Final = "claim of a restore"


class RestoreFinder:
    def __init__(self, client: Finder, restores: Cache[SnapshotRestore], lookups: Sequence[SnapshotLookup]) -> None:
        self._client = client
        self._restores = restores
        self._lookups = {lookup.dialect.snapshots.group: lookup for lookup in lookups}
        restores.index(BY_CLAIM, lambda one: (f"{one.metadata.namespace}/{one.spec.claim_name}",))

    async def job(self, restore: SnapshotRestore) -> RestoreJob:
        """The claim and its volume are asked of the API: what is done to them depends on what they are at this moment. Each
        step looks anew whose the record is: a status, of the snapshot or of the restore, may be anybody's writing."""
        claim = await self._client.find(CLAIMS, restore.spec.claim_name, restore.metadata.namespace)
        volume = await self._volume(claim)
        lookup = self._lookups.get(restore.spec.source.api_group)
        snapshot = lookup.snapshot(restore.metadata.namespace, restore.spec.source.name) if lookup else None
        if snapshot is not None and restore.status.snapshot_uid not in ("", snapshot.meta.uid):
            snapshot = None  # the one that it was begun with is gone
        record = lookup.record(snapshot.state.record) if lookup and snapshot else None
        begun = restore.status.phase not in ("", PENDING)  # before that it is told why such a record is not taken
        if begun and record is not None and snapshot is not None and not refers_to(record, snapshot):
            record = None
        return RestoreJob(
            restore=restore,
            claim=claim,
            volume=volume,
            source=source_volume_of(volume) if volume is not None else None,
            snapshot=snapshot,
            record=record,
        )

    async def _volume(self, claim: PersistentVolumeClaim | None) -> PersistentVolume | None:
        """Only if it is the claim's own, by uid: a user may write any volume's name into a claim."""
        if claim is None or not claim.spec.volume_name:
            return None
        volume = await self._client.find(PERSISTENT_VOLUMES, claim.spec.volume_name)
        ref = volume.spec.claim_ref if volume is not None else None
        return volume if ref is not None and ref.uid == claim.metadata.uid else None

    def snapshots_of(self, restore: SnapshotRestore) -> Iterable[Snapshot]:
        """All snapshots of the claim, of both APIs."""
        for lookup in self._lookups.values():
            yield from lookup.of_claim(restore.metadata.namespace, restore.spec.claim_name)

    def of_claim(self, namespace: str, claim: str) -> list[SnapshotRestore]:
        return self._restores.by(BY_CLAIM, str(Key(namespace, claim)))

    # --- to be woken by ---

    def keys_of_claim(self, namespace: str, claim: str) -> Iterable[Key]:
        """All restores of a claim but those that nothing is to be done about any more."""
        return (key_of(one) for one in self.of_claim(namespace, claim) if not one.status.settled)

    def keys_of_snapshot(self, lookup: SnapshotLookup) -> Callable[[Any], Iterable[Key]]:
        def keys(obj: Any) -> Iterable[Key]:
            claim = lookup.dialect.read_snapshot(obj).claim
            return self.keys_of_claim(obj.metadata.namespace, claim) if claim else ()

        return keys


DAY: Final = 24 * 3600.0
SOON: Final = 0.2  # seconds: something else has to happen first
PROGRESS_SECONDS: Final = 2.0  # between two looks at what takes long
LOOK_AGAIN: Final = 5.0  # seconds, while pods use a claim: nobody tells when they are gone

STARTED: Final = Reason("RestoreStarted", action="Restore")
COMPLETE: Final = Reason("RestoreComplete", action="Restore")
UNDONE: Final = Reason("RestoreUndone", action="Restore")
SETTLED: Final = Reason("UndoEnded", action="Restore")
FAILED: Final = Reason("RestoreFailed", action="Restore", type="Warning")
POD_STARTED: Final = Reason("PodStartedMeanwhile", action="Restore", type="Warning")


class SnapshotRestoreController:
    def __init__(
        self,
        client: Client,
        restores: Cache[SnapshotRestore],
        lookups: Sequence[SnapshotLookup],
        *,
        claims: Cache[PersistentVolumeClaim],
        methods: Mapping[str, RestoreMethod],
        recorder: EventRecorder,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._restores = restores
        self._lookups = lookups
        self._claims = claims
        self._methods = methods
        self._recorder = recorder
        self._clock = clock or SystemClock()
        self._found = RestoreFinder(client, restores, lookups)
        self._in_use_by = SnapshotsInUse(client, lookups)
        self._recent = pods.RecentUsers(client, clock=self._clock)

    def controller(self, *, metrics: KubeMetrics | None = None, more: Iterable[Source[Any, Key]] = ()) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            own(self._restores),
            Source(self._restores, lambda one: self._found.keys_of_claim(one.metadata.namespace, one.spec.claim_name)),
            Source(self._claims, lambda one: self._found.keys_of_claim(one.metadata.namespace, one.metadata.name)),
            owned(self._claims, by=SNAPSHOT_RESTORES),
            *(Source(lookup.snapshots, self._found.keys_of_snapshot(lookup)) for lookup in self._lookups),
            *self._in_use_by.sources(),
            *more,
        ]
        return Controller("snapshot-restores", sources, self.reconcile, clock=self._clock, metrics=metrics)

    # --- reconcile ---

    async def reconcile(self, key: Key) -> Requeue | None:
        restore = await self._client.find(SNAPSHOT_RESTORES, key.name, key.namespace)
        for method in self._methods.values():
            await method.forget(key, uid=restore.metadata.uid if restore is not None else "")
        await self._in_use_by.release(key, but=restore.metadata.uid if restore is not None and rules.reads(restore) else "")
        if restore is None:
            return None
        job, now = await self._found.job(restore), self._clock.now()
        gone, superseded = self._claim_gone(job), self._is_superseded(restore)
        served = not restore.status.method or restore.status.method in self._methods
        match rules.next_step(restore, now=now, claim_gone=gone, superseded=superseded, served=served):
            case RestoreStep.ADMIT:
                return await self._admit(job, now)
            case RestoreStep.PREPARE:
                return await self._prepare(job, now)
            case RestoreStep.SWITCH:
                return await self._switch(job, now)
            case RestoreStep.KEEP:
                return await self._keep(restore, now)
            case RestoreStep.UNDO:
                return await self._undo(job, now)
            case RestoreStep.SETTLE:
                return await self._settle(restore, rules.why_it_ends(restore, claim_gone=gone, superseded=superseded))
            case RestoreStep.ABANDON:
                return await self._abandon(restore)
            case RestoreStep.LET_GO:
                await let_go(self._client, SNAPSHOT_RESTORES, restore, model.FINALIZER)
        return None

    def _claim_gone(self, job: RestoreJob) -> bool:
        return bool(job.restore.status.claim_uid) and not job.has_its_claim

    def _is_superseded(self, restore: SnapshotRestore) -> bool:
        """A later one waits for nothing but the end of this one's time."""
        others = self._found.of_claim(restore.metadata.namespace, restore.spec.claim_name)
        said = (find_condition(one.status.conditions, model.IS_COMPLETE) for one in others if one.status.phase == model.PENDING)
        return any(one is not None and one.reason == model.ENDS_EARLIER for one in said)

    # --- before ---

    async def _admit(self, job: RestoreJob, now: datetime) -> Requeue | None:
        restore = job.restore
        others = self._found.of_claim(restore.metadata.namespace, restore.spec.claim_name)
        if restore.metadata.uid not in {one.metadata.uid for one in others}:
            return Requeue(SOON)  # the cache is behind: it could not tell whose turn it is
        first = model.first_in_turn(others)
        if first is not None and first.metadata.uid != restore.metadata.uid:
            done = "undone first: that was asked for" if model.asks_undo(first) else "carried out first"
            message = f"SnapshotRestore {first.metadata.name} of the same claim is {done}"
            return await self._wait(restore, Problem("OtherRestore", message), now)
        if (problem := eligibility.review(job)) is None:
            await self._in_use_by.hold(restore)
        if problem := problem or eligibility.being_taken(self._found.snapshots_of(restore)):
            if problem.reason in eligibility.WAITS:
                return await self._wait(restore, problem, now)
            return await self._fail(restore, problem, now)
        if waits := await self._in_use(restore, now):
            return waits
        kept = [one for one in model.undoable(others) if one.metadata.uid != restore.metadata.uid]
        if kept:
            message = f"what SnapshotRestore {kept[0].metadata.name} kept of the claim goes first: one is kept at a time"
            return await self._wait(restore, Problem(model.ENDS_EARLIER, message), now)
        return await self._begin(job, now)

    async def _in_use(self, restore: SnapshotRestore, now: datetime) -> Requeue | None:
        """What to do while pods use the claim; None: none does, for all that was seen a moment ago. It is looked again."""
        users = await self._recent.of(restore.metadata.namespace, restore.spec.claim_name)
        if not users:
            return None
        problem = Problem("ClaimInUse", pods.in_use(restore.spec.claim_name, users))
        return await self._wait(restore, problem, now, again=LOOK_AGAIN)

    async def _begin(self, job: RestoreJob, now: datetime) -> Requeue | None:
        assert job.claim is not None
        assert job.snapshot is not None
        method = self._choose(job)
        if method not in self._methods:
            driver = job.source.driver if job.source else ""
            return await self._fail(job.restore, Problem("NotServed", f"volumes of {driver} are not served here"), now)
        restore = await hold(self._client, SNAPSHOT_RESTORES, job.restore, model.FINALIZER)
        uids = {"claim_uid": job.claim.metadata.uid, "snapshot_uid": job.snapshot.meta.uid}
        restore = await self._write(restore, rules.begun(restore, method=method, now=now, **uids))
        note = f"Claim {restore.spec.claim_name} gets the data of snapshot {restore.spec.source.name}."
        self._recorder.record(SNAPSHOT_RESTORES, restore, STARTED, note=note)
        return Requeue(0)

    def _choose(self, job: RestoreJob) -> str:
        """A revert needs the snapshot to be in the very volume; a new volume can be made for every driver but directories."""
        assert job.source is not None
        assert job.record is not None
        if job.source.driver == HOSTPATH:
            return model.SWAP
        revert = self._methods.get(model.REVERT)
        if revert is not None and job.source.driver == LONGHORN and job.record.volume == job.source.volume.handle:
            return model.REVERT
        return model.RECREATE

    # --- the steps ---

    async def _prepare(self, job: RestoreJob, now: datetime) -> Requeue | None:
        restore = job.restore
        if not job.has_its_claim:
            return await self._fail(restore, Problem("ClaimGone", f"claim {restore.spec.claim_name} is gone"), now)
        try:
            await self._method(restore).prepare(job)
        except InProgress as progress:
            return await self._progress(restore, progress)
        except Terminal as error:
            return await self._fail(restore, Problem("NotPossible", str(error)), now)
        except Retryable as error:
            await self._tell(restore, error)
            raise
        if problem := eligibility.being_taken(self._found.snapshots_of(restore)):
            return await self._wait(restore, problem, now)
        if waits := await self._in_use(restore, now):
            return waits
        claim = await self._method(restore).remembered(job)
        await self._write(restore, rules.switching(restore, claim, now=now))
        return Requeue(0)

    async def _switch(self, job: RestoreJob, now: datetime) -> Requeue | None:
        restore = job.restore
        try:
            uid = await self._method(restore).switch(job, lambda: self._unused(restore))
        except ClaimInUse as used:  # the method knows that nothing has changed: it waits as before
            await self._write(restore, rules.waiting(restore, Problem("ClaimInUse", str(used)), now=now, phase=model.PREPARING))
            return Requeue(LOOK_AGAIN)
        except InProgress as progress:
            return await self._progress(restore, progress)
        except Impossible as error:  # here too. Nothing else ends it: what is kept may be all there is of the old data
            return await self._fail(restore, Problem("NotPossible", str(error)), now)
        except Terminal as error:
            await self._write(restore, replace(restore.status, progress=str(error)))
            raise NotNow(str(error)) from error  # it is tried again
        except Retryable as error:
            await self._tell(restore, error)
            raise
        late = await pods.users_of(self._client, restore.metadata.namespace, restore.spec.claim_name)
        restore = await self._write(restore, rules.complete(restore, claim_uid=uid, pods=late, now=now))
        note = f"Claim {restore.spec.claim_name} has the data of snapshot {restore.spec.source.name}."
        self._recorder.record(
            SNAPSHOT_RESTORES, restore, COMPLETE, note=f"{note} It can be undone until {restore.status.undo_until}."
        )
        if late:
            names = ", ".join(one.name for one in late)
            note = f"Started while the claim's data changed, and may see what it had before until restarted: {names}."
            self._recorder.record(SNAPSHOT_RESTORES, restore, POD_STARTED, note=note)
        return Requeue(0)

    async def _keep(self, restore: SnapshotRestore, now: datetime) -> Requeue | None:
        await self._write(restore, rules.kept(restore, now=now))
        end = model.undo_end(restore)
        return Requeue(max(0.0, (end - now).total_seconds())) if end is not None else None

    async def _undo(self, job: RestoreJob, now: datetime) -> Requeue | None:
        restore = job.restore
        try:
            if restore.status.phase != model.UNDOING:
                await self._unused(restore)
                claim = await self._method(restore).remembered(job)
                restore = await self._write(restore, rules.undoing(restore, claim))
                job = job.now_with(restore)
            uid = await self._method(restore).undo(job, lambda: self._unused(restore))
        except ClaimInUse as used:
            await self._write(restore, rules.undo_waits(restore, Problem("ClaimInUse", str(used)), now=now))
            return Requeue(LOOK_AGAIN)
        except InProgress as progress:
            return await self._progress(restore, progress)
        except Terminal as error:
            await self._write(restore, rules.undo_refused(restore, str(error), now=now))
            self._recorder.record(SNAPSHOT_RESTORES, restore, FAILED, note=f"It cannot be undone: {error}")
            return Requeue(SOON)
        except Retryable as error:
            await self._tell(restore, error)
            raise
        restore = await self._write(restore, rules.undone(restore, claim_uid=uid, now=now))
        self._recorder.record(
            SNAPSHOT_RESTORES, restore, UNDONE, note=f"Claim {restore.spec.claim_name} has again what it had before."
        )
        return Requeue(0)

    async def _settle(self, restore: SnapshotRestore, why: Problem) -> Requeue | None:
        """First it is said that it cannot be undone any more: whoever asks for that in the same moment wins, or comes late."""
        if restore.status.undo_until:
            if await self._still_runs(restore):
                return Requeue(LOOK_AGAIN)
            restore = await self._write(restore, rules.ending(restore, why, now=self._clock.now()))
        try:
            await self._method(restore).settle(restore)
        except (Retryable, Terminal) as error:
            await self._tell(restore, error)
            raise
        await self._write(restore, rules.settled(restore))
        if restore.status.phase == model.COMPLETE:
            self._recorder.record(SNAPSHOT_RESTORES, restore, SETTLED, note=f"It cannot be undone any more: {why.message}.")
        return Requeue(0)

    async def _still_runs(self, restore: SnapshotRestore) -> bool:
        """A pod that started while directories changed places may use the old one."""
        if not restore.status.pods:
            return False
        users = await pods.users_of(self._client, restore.metadata.namespace, restore.spec.claim_name)
        return any(str(one) in restore.status.pods for one in users)

    async def _abandon(self, restore: SnapshotRestore) -> Requeue | None:
        if restore.status.method:
            await self._method(restore).abandon(restore)
        if restore.status.phase != model.FAILED:
            problem = Problem("CalledOff", "the restore was deleted before the claim had changed")
            restore = await self._write(restore, rules.failed(restore, problem, now=self._clock.now()))
        await self._write(restore, rules.settled(restore))
        return Requeue(0)

    # --- within ---

    def _method(self, restore: SnapshotRestore) -> RestoreMethod:
        found = self._methods.get(restore.status.method)
        if found is None:
            raise NotNow(
                f"restores by {restore.status.method or '(nothing)'} are not carried out here any more: set the storage up "
                "again that they are for, or delete the restore, which leaves what it kept where it is"
            )
        return found

    async def _unused(self, restore: SnapshotRestore) -> None:
        users = await pods.users_of(self._client, restore.metadata.namespace, restore.spec.claim_name)
        if users:
            raise ClaimInUse(restore.spec.claim_name, users)

    async def _wait(self, restore: SnapshotRestore, problem: Problem, now: datetime, *, again: float = DAY) -> Requeue:
        """Only for as long as the restore may begin."""
        end = model.waits_until(restore)
        if end is None or now >= end:
            late = f"{problem.message}. It did not begin within {restore.spec.start_within}"
            return await self._fail(restore, Problem(problem.reason, late), now)
        await self._write(restore, rules.waiting(restore, problem, now=now))
        return Requeue(min(again, (end - now).total_seconds()))

    async def _fail(self, restore: SnapshotRestore, problem: Problem, now: datetime) -> Requeue:
        """What was made ready goes once that is written down."""
        restore = await self._write(restore, rules.failed(restore, problem, now=now))
        self._recorder.record(SNAPSHOT_RESTORES, restore, FAILED, note=f"{problem.reason}: {problem.message}")
        return Requeue(0)

    async def _progress(self, restore: SnapshotRestore, progress: InProgress) -> Requeue:
        await self._write(restore, replace(restore.status, progress=str(progress)))
        return Requeue(PROGRESS_SECONDS)

    async def _tell(self, restore: SnapshotRestore, error: Exception) -> None:
        """What it waits for, for people; it is tried again."""
        if isinstance(error, ApiError):  # the API's own troubles are seen soon enough
            return
        await self._write(restore, replace(restore.status, progress=str(error)))

    async def _write(self, restore: SnapshotRestore, status: SnapshotRestoreStatus) -> SnapshotRestore:
        return await patch_status(self._client, SNAPSHOT_RESTORES, restore, old=restore.status, new=status) or restore
