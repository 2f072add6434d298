"""Snapshots that wait for hooks: each is booked, has its hooks run, is told to be cut, and lets go of the hooks.

The main controller does all of it, for every driver: a sidecar that calls one measures, waits for the word, and has no rights
in pods.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from ullage.clock import Clock
from ullage.errors import BadInput
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Requeue, Source
from ullage.kube.errors import Conflict, NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.ledger.charging.booking import book, payer
from ullage.ledger.charging.raising import NoRoom
from ullage.ledger.charging.stamps import ESTIMATED_BY
from ullage.policies.cut_hooks.api import hooks_of
from ullage.policies.cut_hooks.interface import HOOK_FAILED, HOOK_TIMED_OUT, HookHolder, HooksFailed, HooksWaiting, holder_of
from ullage.policies.cut_hooks.run import POD_GONE, HookRun
from ullage.policies.cut_hooks.runs import HookRuns, expired, holder_keys
from ullage.snapshots.binding import refers_to
from ullage.snapshots.gate import Estimate, estimate_of
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import CUT, GO, HOOKED, NO, Problem, Record, Snapshot
from ullage.times import read_time, timestamp

# What comes next for a snapshot whose cut waits for hooks.


class CutStep(Enum):
    """The one thing to do next."""

    REST = auto()  # it waits for nothing of ours
    LEAVE = auto()  # it is cut, or is not going to be: hooks need not wait for it
    WAIT = auto()  # for its record, or for an estimate that is fresh
    PREPARE = auto()  # have it booked, and the pre commands run; then tell it
    WATCH = auto()  # it was told, and is not cut yet


@dataclass(frozen=True, slots=True)
class CutDecision:
    step: CutStep
    estimate: Estimate | None = None


def next_cut_step(snapshot: Snapshot, record: Record | None, now: datetime, *, held: bool) -> CutDecision:
    """`held`: a run of hooks is under way for it. Then nobody waits for a fresh estimate, which may come a minute later: one
    that is too old is looked at once more by whoever cuts."""
    if HOOKED not in snapshot.meta.annotations:
        return CutDecision(CutStep.REST)
    if is_deleting(snapshot.meta):
        return CutDecision(CutStep.LEAVE)
    if record is None or not refers_to(record, snapshot):
        return CutDecision(CutStep.WAIT)
    if record.is_cut or is_deleting(record.meta):
        return CutDecision(CutStep.LEAVE)
    estimate = estimate_of(record.meta)
    word = snapshot.meta.annotations.get(CUT, "")
    if estimate is None:  # not measured yet; or given up, and then it is measured anew for the next try
        return CutDecision(CutStep.LEAVE if record.state.problem is not None else CutStep.WAIT)
    if word == f"{GO}{estimate.at}" or record.begun:
        return CutDecision(CutStep.WATCH, estimate)
    if word.partition(" ")[0] == f"{NO}{estimate.at}":
        return CutDecision(CutStep.LEAVE)
    return CutDecision(CutStep.PREPARE if held or estimate.is_fresh(now) else CutStep.WAIT, estimate)


def is_late(cut: datetime | None, ended: datetime | None) -> bool:
    """Whether a volume was cut after the post command had begun: what it has is no better than after a power cut. Both are
    whole seconds: the same one may be either, and is not complained about."""
    return cut is not None and ended is not None and cut.replace(microsecond=0) > ended


def why_not_cut(run: HookRun) -> Problem:
    """Of one that was told, and whose run has ended before its driver was asked."""
    if run.status.reason == POD_GONE:
        said = f"pod {run.spec.pod}: it is being deleted, and the volume was not cut before; the post command runs"
        return Problem(HOOK_FAILED, said)
    seconds = run.spec.max_freeze_seconds
    said = f"pod {run.spec.pod}: the volume was not cut in {seconds} s after the pre command, and the post command runs"
    return Problem(HOOK_TIMED_OUT, said)


LATE: Final = Reason("CutAfterHooks", action="Snapshotting", type="Warning")
LATE_NOTE: Final = "hooks.snapshot.ullage.io/cut-after-hooks"  # on a snapshot: when, and what that means
ENDED_NOTE: Final = "hooks.snapshot.ullage.io/ended"  # on one that is not cut yet: when its post command had begun, and where
AGAIN_SECONDS: Final = 1.0


class HookedKey(NamedTuple):
    dialect: str
    namespace: str
    name: str


class HookedSnapshots:
    def __init__(
        self,
        client: Client,
        lookups: Iterable[SnapshotLookup],
        hooks: HookRuns,
        *,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._lookups = {lookup.dialect.name: lookup for lookup in lookups}
        self._hooks = hooks
        self._recorder = recorder
        self._clock = clock

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[HookedKey]:
        sources: list[Source[Any, HookedKey]] = []
        for lookup in self._lookups.values():
            sources += [
                Source(lookup.snapshots, self._of_snapshot(lookup)),
                Source(lookup.records, self._of_record(lookup)),
                Source(self._hooks.runs, self._of_run(lookup)),
            ]
        return Controller("hooked-snapshots", sources, self.reconcile, workers=8, clock=self._clock, metrics=metrics)

    def _of_snapshot(self, lookup: SnapshotLookup) -> Any:
        return lambda obj: (HookedKey(lookup.dialect.name, obj.metadata.namespace, obj.metadata.name),)

    def _of_record(self, lookup: SnapshotLookup) -> Any:
        def keys(obj: Any) -> Iterable[HookedKey]:
            ref = lookup.dialect.read_record(obj).ref
            yield HookedKey(lookup.dialect.name, ref.namespace, ref.name)

        return keys

    def _of_run(self, lookup: SnapshotLookup) -> Any:
        def keys(run: HookRun) -> Iterable[HookedKey]:
            for key in holder_keys(run, lookup.dialect.snapshots):
                yield HookedKey(lookup.dialect.name, key.namespace, key.name)

        return keys

    # --- reconcile ---

    async def reconcile(self, key: HookedKey) -> Requeue | None:
        lookup = self._lookups[key.dialect]
        obj = lookup.snapshots.get(Key(key.namespace, key.name))
        if obj is None:
            return None  # whoever runs the hooks looks whether holders are there
        snapshot = lookup.dialect.read_snapshot(obj)
        record = lookup.record(lookup.record_name(snapshot))
        holder = holder_of(lookup.dialect.snapshots, obj)
        decision = next_cut_step(snapshot, record, self._clock.now(), held=bool(self._hooks.of_holder(holder)))
        estimate = decision.estimate
        match decision.step:
            case CutStep.LEAVE:
                await self._leave(lookup, obj, record, holder)
            case CutStep.WAIT:
                return Requeue(AGAIN_SECONDS)
            case CutStep.PREPARE if estimate is not None:
                return await self._prepare(lookup, obj, holder, estimate)
            case CutStep.WATCH if estimate is not None and record is not None:
                return await self._watch(lookup, obj, record, holder, estimate=estimate)
        return None

    async def _prepare(self, lookup: SnapshotLookup, obj: Any, holder: HookHolder, estimate: Estimate) -> Requeue | None:
        claim = lookup.dialect.read_snapshot(obj).claim
        try:
            spec = hooks_of(obj.metadata)
            if not self._hooks.of_holder(holder):  # nothing is run for what does not fit
                obj = await self._book(lookup, obj, estimate, {}) or obj
            answer = await self._hooks.prepare(holder, (claim,), spec)
            if isinstance(answer, HooksWaiting):
                return Requeue(AGAIN_SECONDS)
            if isinstance(answer, HooksFailed):
                return await self._refuse(lookup, obj, holder, estimate=estimate, problem=answer.problem)
            await self._book(lookup, obj, estimate, {CUT: f"{GO}{estimate.at}"})
        except BadInput as error:
            problem = Problem("HookInvalid", str(error))
            return await self._refuse(lookup, obj, holder, estimate=estimate, problem=problem)
        except NoRoom as error:
            problem = Problem("", str(error))
            return await self._refuse(lookup, obj, holder, estimate=estimate, problem=problem)
        return None

    async def _book(self, lookup: SnapshotLookup, obj: Any, estimate: Estimate, told: dict[str, str]) -> Any:
        """Has it pay what it is measured to take, and tells it. One that another pays for is only told."""
        kind = lookup.dialect.snapshots
        if payer(obj.metadata) is None:
            return await patch_seen(self._client, kind, obj, {"metadata": {"annotations": told}}) if told else obj
        also = {ESTIMATED_BY: estimate.by}
        return await book(self._client, kind, obj, estimate.bytes, lower=True, also=also, told=told)

    async def _refuse(
        self, lookup: SnapshotLookup, obj: Any, holder: HookHolder, *, estimate: Estimate, problem: Problem
    ) -> Requeue | None:
        """It is not cut, and says why; whatever has been run is undone."""
        said = f"{problem.reason}: {problem.message}" if problem.reason else problem.message
        with contextlib.suppress(NotFound):
            live = await self._client.find(lookup.dialect.snapshots, obj.metadata.name, obj.metadata.namespace)
            if live is None or live.metadata.uid != obj.metadata.uid:
                return None
            notes = {CUT: f"{NO}{estimate.at} {said}"}
            await patch_seen(self._client, lookup.dialect.snapshots, live, {"metadata": {"annotations": notes}})
        await self._hooks.leave(holder)
        return None

    async def _watch(
        self, lookup: SnapshotLookup, obj: Any, record: Record, holder: HookHolder, *, estimate: Estimate
    ) -> Requeue | None:
        """It was told. If the time is over and its driver was not asked yet, it is not cut any more."""
        runs = self._hooks.of_holder(holder)
        late = next((one for one in runs if expired(one, self._clock)), None)
        if late is not None and record.begun and late.status.phase == "Done":
            return await self._leave_late(lookup, obj, holder, late)
        if late is None or record.begun:
            return Requeue(AGAIN_SECONDS) if runs else None
        return await self._refuse(lookup, obj, holder, estimate=estimate, problem=why_not_cut(late))

    async def _leave_late(self, lookup: SnapshotLookup, obj: Any, holder: HookHolder, run: HookRun) -> Requeue | None:
        """Its driver may take for ever: others that wait for hooks in the pod do not wait for that. When the run ended is kept,
        to be told if the volume is cut after all."""
        if run.status.post.started_at:
            notes = {ENDED_NOTE: f"{run.status.post.started_at} {run.spec.pod}"}
            await patch_seen(self._client, lookup.dialect.snapshots, obj, {"metadata": {"annotations": notes}})
        await self._hooks.leave(holder)
        return None

    async def _leave(self, lookup: SnapshotLookup, obj: Any, record: Record | None, holder: HookHolder) -> None:
        cut = record.state.cut if record is not None else None
        ended = [(one.status.post.started_at, one.spec.pod) for one in self._hooks.of_holder(holder)]
        begun, _, pod = obj.metadata.annotations.get(ENDED_NOTE, "").partition(" ")
        late = [(since, where) for since, where in (*ended, (begun, pod)) if is_late(cut, read_time(since))]
        if late and cut is not None and LATE_NOTE not in obj.metadata.annotations:
            begun, pod = late[0]
            note = (
                f"the volume was cut at {timestamp(cut)}, and the post command in pod {pod} had begun "
                f"at {begun}: the snapshot is what a power cut would leave"
            )
            with contextlib.suppress(NotFound, Conflict):
                notes = {LATE_NOTE: note, ENDED_NOTE: None}
                await patch_seen(self._client, lookup.dialect.snapshots, obj, {"metadata": {"annotations": notes}})
                self._recorder.record(lookup.dialect.snapshots, obj, LATE, note=note)
        await self._hooks.leave(holder)
