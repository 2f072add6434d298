"""A namespace with pods that have hooks, somebody who cuts when he is told to, and controllers that may die at any effect."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from tests.unit.snapshots.memory_api import Crash, Json, MemoryApi, Told
from ullage.clock import FakeClock
from ullage.errors import UllageError
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.websockets.remote_command import ExecLost, ExecOutcome, ExecRequest, ExecTimedOut
from ullage.kube.errors import NotFound
from ullage.kube.kinds import Kind
from ullage.policies.cut_hooks.controllers.run_perform import HookRunController
from ullage.policies.cut_hooks.controllers.snapshot_cut import HookedKey, HookedSnapshots
from ullage.policies.cut_hooks.interface import HookHolder
from ullage.policies.cut_hooks.run import HOOK_RUNS
from ullage.policies.cut_hooks.runs import HookRuns
from ullage.policies.cut_hooks.tasks import CommandTasks
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.gate import written
from ullage.snapshots.lookup import SnapshotLookup
from ullage.snapshots.model import CUT, ESTIMATE, GO, HOLD, HOOKED, WAITS
from ullage.times import timestamp

NAMESPACE = "team"
KINDS: tuple[Kind[Any], ...] = (HOOK_RUNS, WATCHED_PODS, GA.snapshots, GA.records, GA.classes, CLAIMS, PERSISTENT_VOLUMES)
PRE, POST = "pre.hook.snapshot.ullage.io", "post.hook.snapshot.ullage.io"


@dataclass
class Scene:
    api: MemoryApi = field(default_factory=MemoryApi)
    told: Told = field(default_factory=Told)
    ran: list[str] = field(default_factory=list)  # `pre db`, `post db`, `cut s`, in their order
    frozen: set[str] = field(default_factory=set)  # pods; for the preset: claims, since a file system is what is frozen
    answers: dict[str, int | str] = field(default_factory=dict)  # by command: exit code, or `hang`, `lost`, `late`
    away: dict[str, tuple[float, Exception]] = field(default_factory=dict)  # by command: for how long, and what is answered
    cuts: bool = True  # whether snapshots that are told to be cut are
    crashed: bool = False
    measures: bool = True

    def __post_init__(self) -> None:
        self.tries: dict[str, int] = {}  # of those that somebody is away for
        self._since: dict[str, float] = {}
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))

    # --- what is there ---

    def pod(
        self,
        name: str = "db",
        *,
        uid: str = "",
        claims: tuple[str, ...] = ("data",),
        annotations: Json | None = None,
        mount: Json | None = None,
    ) -> None:
        hooks = {f"{PRE}/command": '["freeze"]', f"{POST}/command": '["thaw"]'} if annotations is None else annotations
        mounts = [{"name": claim, "mountPath": f"/{claim}", **(mount or {})} for claim in claims]
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        meta = {"name": name, "namespace": NAMESPACE, "uid": uid or f"uid-{name}", "creationTimestamp": at(self)}
        body = {
            "metadata": {**meta, "annotations": hooks},
            "spec": {"containers": [{"name": "main", "volumeMounts": mounts}], "volumes": volumes},
            "status": {"phase": "Running"},
        }
        self.api.put(WATCHED_PODS, body)

    def snapshot(self, name: str = "s", *, claim: str = "data", annotations: Json | None = None) -> None:
        """One that is held, with its record, measured."""
        notes = {CUT: HOLD, HOOKED: WAITS, **(annotations or {})}
        meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "annotations": notes}
        self.api.put(GA.snapshots, {"metadata": meta, "spec": {"source": {"persistentVolumeClaimName": claim}}})
        record = {"name": f"snapcontent-uid-{name}", "finalizers": ["x"]}
        ref = {"namespace": NAMESPACE, "name": name, "uid": f"uid-{name}"}
        spec = {"driver": "d", "deletionPolicy": "Delete", "source": {"volumeHandle": "v"}, "volumeSnapshotRef": ref}
        self.api.put(GA.records, {"metadata": record, "spec": spec})

    def record(self, name: str = "s") -> Json:
        found = self.api.body(GA.records, f"snapcontent-uid-{name}")
        assert found is not None
        return found

    def word(self, name: str = "s") -> str:
        found = self.api.body(GA.snapshots, name, NAMESPACE)
        return str(found["metadata"]["annotations"][CUT]) if found is not None else ""

    def is_cut(self, name: str = "s") -> bool:
        return bool(self.record(name).get("status", {}).get("snapshotHandle"))

    def runs(self) -> list[Json]:
        return self.api.bodies(HOOK_RUNS)

    # --- what others do ---

    def play(self) -> None:
        """Measures what waits, and cuts what is told to be."""
        for one in list(self.api.bodies(GA.snapshots)):
            name = one["metadata"]["name"]
            if one["metadata"].get("deletionTimestamp") or self.is_cut(name):
                continue
            record = self.record(name)
            noted = record["metadata"].get("annotations", {}).get(ESTIMATE)
            at = json.loads(noted)["at"] if noted else ""
            word = self.word(name)
            if word == f"{GO}{at}" and at and self.cuts:
                self.ran.append(f"cut {name}{'' if self.frozen else ' unfrozen'}")
                now = int(self.clock.now().timestamp()) * 10**9
                self.api.edit(
                    GA.records, record["metadata"]["name"], merge={"status": {"snapshotHandle": "h", "creationTime": now}}
                )
            elif word.startswith(f"no@{at}") and at:
                merge = {"metadata": {"annotations": {ESTIMATE: None}}, "status": {"error": {"message": word}}}
                self.api.edit(GA.records, record["metadata"]["name"], merge=merge)
            elif self.measures and not word.startswith((f"{GO}{at}", "no@")):
                text = written(1, self.clock.now(), group=True, by="measured")
                self.api.edit(GA.records, record["metadata"]["name"], merge={"metadata": {"annotations": {ESTIMATE: text}}})

    async def run_command(self, request: ExecRequest) -> ExecOutcome:
        """A pod. What it does is an effect: the process may die right before or right after."""
        what = {"freeze": "pre", "thaw": "post"}.get(request.command[0], request.command[0])
        try:
            self.api.fuse.before(f"exec {what}")
            if self.api.body(WATCHED_PODS, request.pod, NAMESPACE) is None:
                raise NotFound("pods not found", code=404)
            self._reached(what)
            answer = self.answers.get(request.command[0], 0)
            if what == "fsfreeze":
                answer = self._file_system(request) or answer
            else:
                self.ran.append(f"{what} {request.pod}")
                (self.frozen.add if what == "pre" else self.frozen.discard)(request.pod)
            self.api.fuse.after()
        except Crash:
            self.crashed = True
            await asyncio.Event().wait()
        if answer == "hang":
            await asyncio.Event().wait()
        if answer == "lost":
            raise ExecLost("the connection ended")
        if answer == "late":
            raise ExecTimedOut("it has not ended in 30 s")
        return ExecOutcome(int(answer), b"", b"no such file" if answer else b"")

    def _reached(self, what: str) -> None:
        """Raises what is answered while nobody is there who would run it, from the first try on."""
        if what in self.away:
            seconds, error = self.away[what]
            self.tries[what] = self.tries.get(what, 0) + 1
            if self.clock.monotonic() < self._since.setdefault(what, self.clock.monotonic()) + seconds:
                raise error

    def _file_system(self, request: ExecRequest) -> int:
        """One for each claim, whoever mounts it: it can be frozen once, and thawed only while it is frozen."""
        verb, claim = request.command[1].removeprefix("--"), request.command[2].removeprefix("/")
        fits = (claim in self.frozen) == (verb == "unfreeze")
        if fits:
            (self.frozen.add if verb == "freeze" else self.frozen.discard)(claim)
        self.ran.append(f"{verb} {claim} in {request.pod}")
        return 0 if fits else 1

    # --- processes of ours ---

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[HookProcess]:
        caches: dict[Any, Cache[Any]] = {kind: Cache(self.api, kind, clock=self.clock) for kind in KINDS}
        running = [asyncio.create_task(cache.run()) for cache in caches.values()]
        made = HookProcess(self, caches)
        try:
            async with made.tasks:
                yield made
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def live(self, *, blows_at: int = -1, seconds: float = 400.0) -> bool:
        """One process, until nothing moves for long; whether it was killed on the way."""
        self.api.fuse.blows_at, self.api.fuse.passed, self.crashed = blows_at, 0, False
        try:
            async with self.process() as process:
                await process.live(seconds)
        except Crash:
            return True
        finally:
            self.api.fuse.blows_at = -1
        return self.crashed


class HookProcess:
    """All controllers of the slice, which have just started."""

    def __init__(self, scene: Scene, caches: dict[Any, Cache[Any]]) -> None:
        self.scene, self.caches = scene, caches
        client = cast(Client, scene.api)
        self.hooks = HookRuns(client, caches[HOOK_RUNS], caches[WATCHED_PODS], clock=scene.clock)
        self.tasks = CommandTasks(scene)
        lookup = SnapshotLookup(GA, caches[GA.snapshots], caches[GA.records], caches[GA.classes])
        self.runs = HookRunController(client, self.hooks, self.tasks, holders=self, recorder=scene.told, clock=scene.clock)
        self.snapshots = HookedSnapshots(client, [lookup], self.hooks, recorder=scene.told, clock=scene.clock)

    async def gone(self, holder: HookHolder) -> bool:
        found = self.scene.api.body(GA.snapshots, holder.name, NAMESPACE)
        return found is None or found["metadata"]["uid"] != holder.uid

    async def current(self) -> None:
        await asyncio.gather(*(cache.reached(self.scene.api.version) for cache in self.caches.values()))

    async def look(self) -> None:
        for one in list(self.scene.api.bodies(GA.snapshots)):
            await self._reconcile(self.snapshots.reconcile, HookedKey("ga", NAMESPACE, one["metadata"]["name"]))
        for one in list(self.scene.runs()):
            await self._reconcile(self.runs.reconcile, Key("", one["metadata"]["name"]))
        self.scene.play()

    async def _reconcile(self, reconcile: Any, key: Any) -> None:
        if self.scene.crashed:
            raise Crash
        await self.current()
        with contextlib.suppress(UllageError):
            await reconcile(key)
        for _ in range(5):  # commands that are running may come to their end
            await asyncio.sleep(0)

    async def live(self, seconds: float) -> None:
        idle = 0.0
        while idle < seconds:
            before = (self.scene.api.version, len(self.scene.ran))
            await self.look()
            if self.scene.crashed:
                raise Crash
            moved = before != (self.scene.api.version, len(self.scene.ran))
            idle = 0.0 if moved and not self._only_measured(before[0]) else idle + 10.0
            self.scene.clock.advance(0.3 if moved else 10.0)

    def _only_measured(self, version: int) -> bool:
        news = [kind for at, kind, _, _ in self.scene.api._log if at > version]
        return bool(news) and set(news) == {GA.records.name}


def at(scene: Scene) -> str:
    return timestamp(scene.clock.now())
