"""Pods: put onto a node, said to run once their claims are bound, brought to their end if they are a job's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ullage.clock import Clock
from ullage.errors import Retryable, Terminal
from ullage.kube.builtin.core import PODS, Pod
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen
from ullage.kube.controller.controller import Controller, Source, own
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.objects import Json
from ullage.kube.slices import Wiring
from ullage.standalone.world import calls
from ullage.standalone.world.controllers.pod import rules
from ullage.standalone.world.controllers.pod.copying import CopyFailed
from ullage.standalone.world.controllers.pod.rules import Remove, Run, Schedule, Start, Unschedulable, plan_pod
from ullage.standalone.world.controllers.pod.runs import Roots, Runs
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.lookup import BY_CLAIM, BY_NODE, StorageLookup, is_edited

SCHEDULED = Reason("Scheduled", action="Binding")
UNSCHEDULED = Reason("FailedScheduling", action="Scheduling", type="Warning")
FAILED = Reason("Failed", action="Running", type="Warning")


class PodController:
    def __init__(
        self,
        client: Client,
        storage: StorageLookup,
        *,
        directories: Directories,
        recorder: Recorder,
        runs: Runs,
        clock: Clock,
    ) -> None:
        self._client = client
        self._storage = storage
        self._directories = directories
        self._recorder = recorder
        self._runs = runs
        self._clock = clock
        self.wake: Callable[[Key], None] = lambda key: None  # set by whoever has the queue

    async def reconcile(self, key: Key) -> None:
        pod = self._storage.pods.get(key)
        if pod is None:
            self._runs.end(key)
            return
        bound = {claim.name: self._is_bound(claim) for claim in pod.claims}
        plan = plan_pod(pod, bound=bound, nodes=len(self._storage.nodes))
        if not isinstance(plan, Run):
            self._runs.end(key)
        match plan:
            case Remove():
                await calls.delete(self._client, PODS, pod.metadata, at_once=True)
            case Unschedulable(message):
                await self._write_unschedulable(pod, message)
            case Schedule():
                await self._schedule(pod)
            case Start():
                await self._write(pod, rules.running(pod, now=self._clock.now()))
            case Run():
                await self._run(pod)

    async def _schedule(self, pod: Pod) -> None:
        placed = self._storage.place(pod)
        if not placed.node:
            await self._write_unschedulable(pod, placed.message)
            return
        await calls.bind_pod(self._client, pod, placed.node)
        self._recorder.record(PODS, pod, SCHEDULED, note=f"Successfully assigned {key_of(pod)} to {placed.node}")

    async def _write_unschedulable(self, pod: Pod, message: str) -> None:
        told = {one.get("type"): one.get("message") for one in pod.status.conditions}
        if told.get("PodScheduled") != message:
            await self._write(pod, rules.unschedulable(pod, message, now=self._clock.now()))
            self._recorder.record(PODS, pod, UNSCHEDULED, note=message)

    async def _run(self, pod: Pod) -> None:
        outcomes = self._runs.outcomes(pod)
        if outcomes is None:
            self._runs.begin(pod, self._roots(pod), over=lambda key: self.wake(key))
            return
        status = rules.finished(pod, outcomes, now=self._clock.now())
        await self._write(pod, status)
        if status["phase"] == "Failed":
            self._recorder.record(PODS, pod, FAILED, note=status["message"])

    def _is_bound(self, key: Key) -> bool | None:
        claim = self._storage.claims.get(key)
        return None if claim is None else claim.status.phase == "Bound"

    def _roots(self, pod: Pod) -> Roots:
        """Where the pod's volumes are. Looked up now, used in a thread; what has no directory is refused when it is used."""
        found: dict[str, Path | str] = {}
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            if source is not None:
                found[volume.name] = self._root(Key(pod.metadata.namespace, source.claim_name))

        def root(name: str) -> Path:
            where = found.get(name, f"volume {name}: only claims hold data here")
            if isinstance(where, str):
                raise CopyFailed(where)
            return where

        return root

    def _root(self, key: Key) -> Path | str:
        claim = self._storage.claims.get(key)
        volume = self._storage.volumes.get(Key("", claim.spec.volume_name)) if claim else None
        if claim is None or volume is None:
            raise Retryable(f"claim {key}: its volume is not known here yet")  # the caches fill each in its own time
        if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
            return f"claim {key.name}: volume {volume.metadata.name} belongs to another claim"
        if volume.spec.host_path is None:
            return f"claim {key.name}: its volume is no directory of this machine"
        try:
            return self._directories.root / self._directories.name_of(volume.spec.host_path.path)
        except Terminal as error:
            return f"claim {key.name}: {error}"

    async def _write(self, pod: Pod, status: Json) -> None:
        await patch_seen(self._client, PODS, pod, {"status": status}, subresource="status")


def pod_controller(wiring: Wiring, storage: StorageLookup, *, directories: Directories, recorder: Recorder) -> Controller[Key]:
    runs = Runs()
    wiring.hold(runs)
    pods = PodController(wiring.client, storage, directories=directories, recorder=recorder, runs=runs, clock=wiring.clock)
    sources: list[Source[Any, Key]] = [
        own(storage.pods),
        Source(storage.claims, lambda claim: [key_of(pod) for pod in storage.pods.by(BY_CLAIM, str(key_of(claim)))]),
        Source(storage.nodes, lambda node: map(key_of, storage.pods.by(BY_NODE, "")), when=is_edited),
    ]
    made = Controller("pods", sources, pods.reconcile, clock=wiring.clock, metrics=wiring.metrics)
    pods.wake = made.queue.add
    return made
