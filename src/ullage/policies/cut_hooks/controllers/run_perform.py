"""Runs what HookRuns say: gathers, has its rules say what comes next, writes that down, and only then runs a command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.builtin.watched_pods import WATCHED_PODS, WatchedPod
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import let_go, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.policies.cut_hooks.api import HookCommand
from ullage.policies.cut_hooks.controllers import run_perform_rules as rules
from ullage.policies.cut_hooks.controllers.run_perform_rules import (
    FIRST_PAUSE,
    THAW_MINUTES,
    RunDecision,
    RunFacts,
    RunStep,
    may_have_reached,
    next_run_step,
)
from ullage.policies.cut_hooks.interface import HookHolder
from ullage.policies.cut_hooks.resolution import ThawPlace, excludes, takes_part, thaw_places
from ullage.policies.cut_hooks.run import HOOK_RUNS, OVERDUE, RUN_FINALIZER, HookRun, HookRunStatus
from ullage.policies.cut_hooks.runs import BY_POD, HookRuns, RunClient
from ullage.policies.cut_hooks.tasks import CommandTasks

# What people are told of a run: on its pod, and on the claim where that pod is gone.


PRE_FAILED: Final = Reason("PreHookFailed", action="Snapshotting", type="Warning")
POST_FAILED: Final = Reason("PostHookFailed", action="Snapshotting", type="Warning")
LATE: Final = Reason("HookTimedOut", action="Snapshotting", type="Warning")
FROZEN: Final = Reason("MayBeFrozen", action="Snapshotting", type="Warning")  # on a claim


def notes_on_pod(run: HookRun, new: HookRunStatus) -> Iterator[tuple[Reason, str]]:
    before = run.status
    if before.phase == "Pre" and not new.pre.succeeded and new.pre.ended_at:
        yield PRE_FAILED, f"the pre command failed: {new.pre.message}"
    if _has_failed(before, new) and not new.post.pod:
        yield POST_FAILED, f"the post command failed: {new.post.message}; {_what_then(new)}"
    if before.phase == "Held" and new.reason == OVERDUE:
        seconds = run.spec.max_freeze_seconds
        yield LATE, f"not all volumes were cut in {seconds} s; the post command runs now"


def _has_failed(before: HookRunStatus, new: HookRunStatus) -> bool:
    return before.phase == "Post" and not before.post.ended_at and bool(new.post.ended_at) and not new.post.succeeded


def _what_then(new: HookRunStatus) -> str:
    if new.phase == "Done":
        return "it is not tried again"
    return "it is tried again" + ("" if new.post.delivery == "Ended" else " for as long as the pod is there")


def note_on_claim(run: HookRun, new: HookRunStatus) -> str:
    """Of a preset whose pod is gone; empty: nothing is to be told."""
    before, pod = run.status, run.spec.pod
    if not run.spec.claim or not new.gone_since:
        return ""
    if not before.gone_since:
        return (
            f"pod {pod} is gone, and its post command has not run: the file system may be frozen. "
            f"It is thawed in the first pod that mounts the claim and runs, for {THAW_MINUTES} minutes from now"
        )
    by_hand = "nobody tries any more. Run fsfreeze --unfreeze on its mount, in a pod or on the node"
    if _has_failed(before, new) and new.post.pod:
        then = by_hand if new.phase == "Done" else "it is tried again"
        return f"pod {pod} is gone, and its file system could not be thawed in pod {new.post.pod}: {new.post.message}; {then}"
    if new.phase == "Done" and not new.post.succeeded:
        return f"pod {pod} is gone, and no pod could thaw the file system in {THAW_MINUTES} minutes: {by_hand}"
    return ""


LOOK_SECONDS: Final = 10.0  # between two looks whether holders are still there
MOST_LOOKED_AT: Final = 20  # holders, in one look: at the same time, since a worker waits for it
SOON: Final = 0.05


class Holders(Protocol):
    async def gone(self, holder: HookHolder) -> bool:
        """Whether the object is not there any more, by the word of the API itself."""


class _Look(NamedTuple):
    """At the holders of a run: when the last one was, and where the next one begins."""

    at: float
    place: int = 0


class HookRunController:
    def __init__(
        self,
        client: RunClient,
        runs: HookRuns,
        tasks: CommandTasks,
        *,
        holders: Holders,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._runs = runs
        self._tasks = tasks
        self._holders = holders
        self._recorder = recorder
        self._clock = clock
        self._beginning = asyncio.Lock()
        self._looked: dict[str, _Look] = {}  # by uid of a run

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            own(self._runs.runs),
            Source(self._runs.pods, lambda pod: (Key("", one.metadata.name) for one in self._of_pod(pod))),
        ]
        made = Controller("hook-runs", sources, self.reconcile, workers=8, clock=self._clock, metrics=metrics)
        self._tasks.over = lambda name: made.queue.add(Key("", name))
        return made

    def _of_pod(self, pod: WatchedPod) -> list[HookRun]:
        """Those that are run in it, and those that it might thaw the file system of."""
        return [*self._runs.in_pod(pod), *self._runs.freezing(*pod.claims)]

    async def reconcile(self, key: Key) -> Requeue | None:
        run = self._runs.runs.get(key)
        if run is None:
            self._tasks.forget(key.name)
            return None
        if (result := self._tasks.result(run)) is not None:
            if run.status.phase == "Pre":
                there = result.delivery == "Ended" or await self._live_pod(run) is not None
                status = rules.after_pre(run, result, self._clock.now(), pod_there=there)
            else:
                status = rules.after_post(run, result, self._clock.now())
            await self._write(run, status)
            self._tasks.forget(key.name)
            return Requeue(SOON)
        if run.status.phase == "":
            async with self._beginning:  # of two that must not meet, the second sees what the first has begun
                return await self._step(run)
        return await self._step(await self._pruned(run))

    async def _step(self, run: HookRun) -> Requeue | None:
        decision = next_run_step(facts := await self._facts(run))
        if decision.step is RunStep.PRE:  # exec knows names alone: what a cache has not heard of yet may be another pod
            decision = next_run_step(self._with_pod(facts, await self._live_pod(run)))
        match decision.step:
            case RunStep.WRITE:
                await self._write(run, decision.status)
                self._tasks.forget(run.metadata.name)
                return Requeue(SOON)
            case RunStep.PRE | RunStep.POST:
                with self._tasks.place(run) as there:
                    if not there:
                        return Requeue(FIRST_PAUSE)
                    await self._begin(run, decision)
                return None
            case RunStep.DELETE:
                await self._delete(run)
                return None
        return Requeue(min(decision.after or LOOK_SECONDS, LOOK_SECONDS))

    async def _facts(self, run: HookRun) -> RunFacts:
        spec = run.spec
        near = {one.metadata.uid: one for one in self._runs.runs.by(BY_POD, spec.pod_uid)}
        if spec.claim:
            near |= {one.metadata.uid: one for one in self._runs.freezing(Key(spec.namespace, spec.claim))}
        others = (one for uid, one in near.items() if uid != run.metadata.uid)
        facts = RunFacts(
            run=run,
            now=self._clock.now(),
            running=self._tasks.is_running(run),
            busy=any(one.status.phase not in ("", "Done") and excludes(spec, one.spec) for one in others),
            room=self._tasks.has_room(run),
        )
        pod = self._runs.pods.get(Key(spec.namespace, spec.pod))
        if pod is None or pod.metadata.uid != spec.pod_uid:
            pod = await self._live_pod(run)  # that there is nothing to undo is believed of nobody but the API
        facts = self._with_pod(facts, pod)
        return facts if facts.pod_there else await self._without_pod(facts)

    def _with_pod(self, facts: RunFacts, pod: WatchedPod | None) -> RunFacts:
        there = pod is not None and not pod.is_over
        return replace(facts, pod_there=there, pod_runs=pod is not None and takes_part(pod))

    async def _without_pod(self, facts: RunFacts) -> RunFacts:
        """Who else can undo what was done in a pod that is gone."""
        spec = facts.run.spec
        if facts.run.status.phase in ("", "Done"):
            return facts
        places = thaw_places(spec, self._runs.pods_of(spec.namespace, (spec.claim,) if spec.claim else ()))
        claim = await self._client.find(CLAIMS, spec.claim, spec.namespace) if spec.claim else None
        namesake = await self._client.find(WATCHED_PODS, spec.pod, spec.namespace)
        reached = namesake is not None and may_have_reached(facts.run, namesake)
        own = ThawPlace(spec.pod, spec.post) if reached and isinstance(spec.post, HookCommand) else None
        return replace(facts, places=places, claim_there=claim is not None, namesake=own)

    async def _live_pod(self, run: HookRun) -> WatchedPod | None:
        found = await self._client.find(WATCHED_PODS, run.spec.pod, run.spec.namespace)
        return found if found is not None and found.metadata.uid == run.spec.pod_uid else None

    # --- acting ---

    async def _begin(self, run: HookRun, decision: RunDecision) -> None:
        """The intent is in the API before the command is run."""
        written = await self._write(run, decision.status)
        if decision.place is not None:
            self._tasks.start(written, decision.place.command, pod=decision.place.pod)
            return
        command = written.spec.pre if decision.step is RunStep.PRE else written.spec.post
        if isinstance(command, HookCommand):
            self._tasks.start(written, command, pod=written.spec.pod)

    async def _write(self, run: HookRun, status: HookRunStatus | None) -> HookRun:
        if status is None:
            return run
        written = await patch_status(self._client, HOOK_RUNS, run, old=run.status, new=status) or run
        await self._runs.runs.reached(int(written.metadata.resource_version))
        await self._tell(run, status)
        return written

    async def _delete(self, run: HookRun) -> None:
        with contextlib.suppress(NotFound):
            if not is_deleting(run.metadata):
                meta = run.metadata
                await self._client.delete(HOOK_RUNS, meta.name, uid=meta.uid, resource_version=meta.resource_version)
            live = await self._client.find(HOOK_RUNS, run.metadata.name)
            if live is not None and live.metadata.uid == run.metadata.uid and is_deleting(live.metadata):
                await let_go(self._client, HOOK_RUNS, live, RUN_FINALIZER)
        self._looked.pop(run.metadata.uid, None)

    async def _pruned(self, run: HookRun) -> HookRun:
        """Holders that are gone without a word hold nothing. They are looked for now and then, where that makes a difference:
        not while a command runs."""
        now, uid = self._clock.monotonic(), run.metadata.uid
        looked = self._looked.get(uid, _Look(now - LOOK_SECONDS))
        if run.status.phase not in ("Held", "Done") or not run.spec.holders or now - looked.at < LOOK_SECONDS:
            return run
        start = looked.place % len(run.spec.holders)
        some = (*run.spec.holders[start:], *run.spec.holders[:start])[:MOST_LOOKED_AT]
        self._looked[uid] = _Look(now, start + len(some))
        answers = await asyncio.gather(*(self._holders.gone(one) for one in some))
        gone = {one.uid for one, is_gone in zip(some, answers, strict=True) if is_gone}
        return await self._runs.drop(run, gone) if gone else run

    async def _tell(self, run: HookRun, new: HookRunStatus) -> None:
        """What people should know, on the pod; on the claim, where that is gone."""
        pod = self._runs.pods.get(Key(run.spec.namespace, run.spec.pod))
        if pod is not None and pod.metadata.uid == run.spec.pod_uid:
            for reason, note in notes_on_pod(run, new):
                self._recorder.record(WATCHED_PODS, pod, reason, note=note)
        if note := note_on_claim(run, new):
            with contextlib.suppress(UllageError):  # an Event is a courtesy
                claim = await self._client.find(CLAIMS, run.spec.claim, run.spec.namespace)
                if claim is not None:
                    self._recorder.record(CLAIMS, claim, FROZEN, note=note)
