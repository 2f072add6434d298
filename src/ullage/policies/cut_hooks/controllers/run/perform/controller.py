"""Runs what HookRuns say: gathers, has `rules` say what comes next, writes that down, and only then runs a command."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final, Protocol

from ullage.clock import Clock
from ullage.kube.builtin.watched_pods import PODS, WatchedPod
from ullage.kube.cache.indexer import Key
from ullage.kube.client.conditional import let_go, patch_status
from ullage.kube.controller.controller import Controller, Requeue, Source, own
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import EventRecorder
from ullage.kube.metrics import Metrics as KubeMetrics
from ullage.kube.objects import is_deleting
from ullage.policies.cut_hooks.api import HookCommand
from ullage.policies.cut_hooks.controllers.run.perform import rules
from ullage.policies.cut_hooks.controllers.run.perform.rules import RunDecision, RunFacts, RunStep, next_run_step
from ullage.policies.cut_hooks.interface import HookHolder
from ullage.policies.cut_hooks.resolution import excludes, takes_part
from ullage.policies.cut_hooks.run import HOOK_RUNS, RUN_FINALIZER, HookRun, HookRunStatus
from ullage.policies.cut_hooks.runs import BY_POD, HookRuns, RunClient
from ullage.policies.cut_hooks.tasks import CommandTasks

PRE_FAILED: Final = Reason("PreHookFailed", action="Snapshotting", type="Warning")
POST_FAILED: Final = Reason("PostHookFailed", action="Snapshotting", type="Warning")
LATE: Final = Reason("HookTimedOut", action="Snapshotting", type="Warning")
LOOK_SECONDS: Final = 10.0  # between two looks whether holders are still there
SOON: Final = 0.05


class Holders(Protocol):
    async def gone(self, holder: HookHolder) -> bool:
        """Whether the object is not there any more, by the word of the API itself."""


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
        self._looked: dict[str, float] = {}  # by uid of a run: when its holders were last looked at

    def controller(self, *, metrics: KubeMetrics | None = None) -> Controller[Key]:
        sources: list[Source[Any, Key]] = [
            own(self._runs.runs),
            Source(self._runs.pods, lambda pod: (Key("", one.metadata.name) for one in self._of_pod(pod))),
        ]
        made = Controller("hook-runs", sources, self.reconcile, workers=8, clock=self._clock, metrics=metrics)
        self._tasks.over = lambda name: made.queue.add(Key("", name))
        return made

    def _of_pod(self, pod: WatchedPod) -> list[HookRun]:
        return self._runs.runs.by(BY_POD, pod.metadata.uid)

    async def reconcile(self, key: Key) -> Requeue | None:
        run = self._runs.runs.get(key)
        if run is None:
            self._tasks.forget(key.name)
            return None
        if (result := self._tasks.result(run)) is not None:
            after = rules.after_pre if run.status.phase == "Pre" else rules.after_post
            status = after(run, result, self._clock.now())
            await self._write(run, status)
            self._tasks.forget(key.name)
            return Requeue(SOON)
        if run.status.phase == "":
            async with self._beginning:  # of two that must not meet, the second sees what the first has begun
                return await self._step(run)
        return await self._step(await self._pruned(run))

    async def _step(self, run: HookRun) -> Requeue | None:
        decision = next_run_step(await self._facts(run))
        match decision.step:
            case RunStep.WRITE:
                await self._write(run, decision.status)
                self._tasks.forget(run.metadata.name)
                return Requeue(SOON)
            case RunStep.PRE | RunStep.POST:
                await self._begin(run, decision)
                return None
            case RunStep.DELETE:
                await self._delete(run)
                return None
        return Requeue(min(decision.after or LOOK_SECONDS, LOOK_SECONDS))

    async def _facts(self, run: HookRun) -> RunFacts:
        pod = self._runs.pods.get(Key(run.spec.namespace, run.spec.pod))
        if pod is None or pod.metadata.uid != run.spec.pod_uid:
            pod = await self._live_pod(run)  # that there is nothing to undo is believed of nobody but the API
        others = (one for one in self._runs.runs.by(BY_POD, run.spec.pod_uid) if one.metadata.uid != run.metadata.uid)
        return RunFacts(
            run=run,
            now=self._clock.now(),
            pod_there=pod is not None,
            pod_runs=pod is not None and takes_part(pod),
            running=self._tasks.is_running(run),
            busy=any(one.status.phase not in ("", "Done") and excludes(run.spec, one.spec) for one in others),
            room=self._tasks.has_room(run.spec.namespace),
        )

    async def _live_pod(self, run: HookRun) -> WatchedPod | None:
        found = await self._client.find(PODS, run.spec.pod, run.spec.namespace)
        return found if found is not None and found.metadata.uid == run.spec.pod_uid else None

    # --- acting ---

    async def _begin(self, run: HookRun, decision: RunDecision) -> None:
        """The intent is in the API before the command is run."""
        is_pre = decision.step is RunStep.PRE
        written = await self._write(run, decision.status)
        command = written.spec.pre if is_pre else written.spec.post
        if isinstance(command, HookCommand):
            self._tasks.start(written, command, is_pre=is_pre)

    async def _write(self, run: HookRun, status: HookRunStatus | None) -> HookRun:
        if status is None:
            return run
        written = await patch_status(self._client, HOOK_RUNS, run, old=run.status, new=status) or run
        await self._runs.runs.reached(int(written.metadata.resource_version))
        self._tell(run, status)
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
        """Holders that are gone without a word hold nothing. They are looked for now and then."""
        now, uid = self._clock.monotonic(), run.metadata.uid
        if not run.spec.holders or now - self._looked.get(uid, now - LOOK_SECONDS) < LOOK_SECONDS:
            return run
        self._looked[uid] = now
        gone = {one.uid for one in run.spec.holders if await self._holders.gone(one)}
        return await self._runs.drop(run, gone) if gone else run

    def _tell(self, run: HookRun, new: HookRunStatus) -> None:
        """What people should know, on the pod."""
        pod = self._runs.pods.get(Key(run.spec.namespace, run.spec.pod))
        if pod is None or pod.metadata.uid != run.spec.pod_uid:
            return
        before = run.status
        if before.phase == "Pre" and not new.pre.succeeded and new.pre.ended_at:
            self._recorder.record(PODS, pod, PRE_FAILED, note=f"the pre command failed: {new.pre.message}")
        if before.phase == "Post" and new.post.ended_at and not new.post.succeeded:
            last = "it is not tried again" if new.phase == "Done" else "it is tried again"
            self._recorder.record(PODS, pod, POST_FAILED, note=f"the post command failed: {new.post.message}; {last}")
        if before.phase == "Held" and new.reason == rules.TIMED_OUT:
            seconds = run.spec.max_freeze_seconds
            self._recorder.record(PODS, pod, LATE, note=f"not all volumes were cut in {seconds} s; the post command runs now")
