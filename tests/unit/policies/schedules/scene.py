"""A namespace with claims and schedules, a clock that is moved by hand, and somebody who makes snapshots ready."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from tests.unit.snapshots.memory_api import Crash, Json, MemoryApi, Told
from ullage.clock import FakeClock
from ullage.errors import UllageError
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Requeue
from ullage.kube.kinds import Kind
from ullage.policies.schedules.api import SCHEDULES
from ullage.policies.schedules.controllers.retain import ScheduleRetainer
from ullage.policies.schedules.controllers.run import ScheduleRunner
from ullage.policies.schedules.lookup import DIALECTS, ScheduleLookup
from ullage.policies.schedules.model import SCHEDULED_FOR
from ullage.snapshots.lookup import VolumeLookup
from ullage.times import read_time, timestamp

NAMESPACE = "team"


def moment(text: str) -> datetime:
    """`2026-01-01 02:00`, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass
class Scene:
    start: str = "2026-01-01 00:00"
    dialect: str = "ga"
    api: MemoryApi = field(default_factory=MemoryApi)
    told: Told = field(default_factory=Told)
    plays: bool = True  # whether snapshots become ready by themselves
    broken: dict[str, str] = field(default_factory=dict)  # by claim: what the driver says
    hangs: str = ""  # the snapshots of claims that begin so are never heard of again
    stays: set[str] = field(default_factory=set)  # names of snapshots that stay as they are
    sizes: dict[str, int] = field(default_factory=dict)  # by claim: the restore size

    def __post_init__(self) -> None:
        self.clock = FakeClock(moment(self.start))

    @property
    def kind(self) -> Kind[Any]:
        return DIALECTS[self.dialect].snapshots

    # --- what is there ---

    def claims(self, *names: str, labels: dict[str, str] | None = None) -> None:
        for name in names:
            meta = {"name": name, "namespace": NAMESPACE, "labels": labels or {}}
            self.api.put(CLAIMS, {"metadata": meta, "spec": {"volumeName": f"pv-{name}"}, "status": {"phase": "Bound"}})

    def schedule(self, name: str = "nightly", **spec: Any) -> None:
        meta = {
            "name": name,
            "namespace": NAMESPACE,
            "generation": 1,
            "creationTimestamp": timestamp(self.clock.now()),
            **spec.pop("metadata", {}),
        }
        given = {"schedule": "0 2 * * *", "claimSelector": {}, "dialect": self.dialect, **spec}
        self.api.put(SCHEDULES, {"metadata": meta, "spec": given})

    def edit(self, name: str = "nightly", *, annotations: Json | None = None, **spec: Any) -> None:
        found = self.api.body(SCHEDULES, name, NAMESPACE)
        assert found is not None
        meta: Json = {"generation": found["metadata"]["generation"] + bool(spec)}
        self.api.edit(SCHEDULES, name, NAMESPACE, merge={"metadata": {**meta, "annotations": annotations or {}}, "spec": spec})

    def status(self, name: str = "nightly") -> Json:
        found = self.api.body(SCHEDULES, name, NAMESPACE)
        assert found is not None
        return dict(found.get("status", {}))

    def condition(self, type: str = "Ready", name: str = "nightly") -> tuple[str, str, str]:
        (found,) = [one for one in self.status(name)["conditions"] if one["type"] == type]
        return found["status"], found["reason"], found["message"]

    def snapshots(self) -> list[Json]:
        return self.api.bodies(self.kind)

    def names(self, claim: str) -> set[str]:
        return {one["metadata"]["name"] for one in self.snapshots() if self.claim_of(one) == claim}

    def times(self, claim: str = "") -> list[str]:
        """The scheduled times of the snapshots that are there, `01-01 02:00`."""
        found = [one for one in self.snapshots() if not claim or self.claim_of(one) == claim]
        read = [read_time(one["metadata"]["annotations"][SCHEDULED_FOR]) for one in found]
        return [f"{one:%m-%d %H:%M}" for one in sorted(one for one in read if one is not None)]

    def claim_of(self, snapshot: Json) -> str:
        spec = snapshot["spec"]
        return str(spec["source"]["persistentVolumeClaimName"] if self.dialect == "ga" else spec["persistentVolumeClaimName"])

    # --- what others do ---

    def play(self) -> None:
        """The snapshotter: it has what was asked for, or says why not."""
        for one in self.snapshots():
            meta, claim = one["metadata"], self.claim_of(one)
            if meta.get("deletionTimestamp") or self.is_ready(one) or meta["name"] in self.stays:
                continue
            if self.hangs and claim.startswith(self.hangs):
                continue
            problem = self.broken.get(claim, "")
            if problem and not one.get("status"):
                self.say(meta["name"], ready=False, problem=problem)
            elif not problem:
                self.say(meta["name"], ready=True, size=self.sizes.get(claim, 1 << 30))

    def is_ready(self, snapshot: Json) -> bool:
        status = snapshot.get("status", {})
        return bool(status.get("readyToUse") or status.get("phase") == "ready")

    def say(self, name: str, *, ready: bool, problem: str = "", size: int = 0) -> None:
        now = timestamp(self.clock.now())
        if self.dialect == "ga":
            status: Json = {"readyToUse": ready, "error": {"message": problem} if problem else None}
            status |= {"creationTime": now, "restoreSize": str(size)} if ready else {}
        else:
            kind = "Ready" if ready else "Error"
            reason, _, text = problem.partition(": ")
            condition = {"type": kind, "status": "True", "reason": reason, "message": text, "lastTransitionTime": now}
            status = {"phase": kind.lower(), "conditions": [condition]}
            status |= {"creationTimestamp": now, "restoreSize": str(size)} if ready else {}
        self.api.edit(self.kind, name, NAMESPACE, merge={"status": status})

    # --- processes of ours ---

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[Process]:
        kinds: list[Kind[Any]] = [SCHEDULES, CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES]
        kinds += [dialect.snapshots for dialect in DIALECTS.values()]
        caches: dict[Any, Cache[Any]] = {kind: Cache(self.api, kind, clock=self.clock) for kind in kinds}
        made = Process(self, caches)
        running = [asyncio.create_task(cache.run()) for cache in caches.values()]
        try:
            yield made
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def live(self, until: str = "", *, blows_at: int = -1, rounds: int = 60) -> bool:
        """One process until a moment, looking when it asked to; whether it was killed on the way."""
        self.api.fuse.blows_at, self.api.fuse.passed = blows_at, 0
        async with self.process() as process:
            try:
                await process.live(moment(until) if until else self.clock.now(), rounds=rounds)
            except Crash:
                return True
            finally:
                self.api.fuse.blows_at = -1
        return False


class Process:
    """Both controllers, which have just started: they know what the API has, and nothing else."""

    def __init__(self, scene: Scene, caches: dict[Any, Cache[Any]]) -> None:
        self.scene = scene
        self.caches = caches
        client = cast(Client, scene.api)
        volumes = VolumeLookup(caches[CLAIMS], caches[PERSISTENT_VOLUMES], caches[STORAGE_CLASSES])
        snapshots = {name: caches[dialect.snapshots] for name, dialect in DIALECTS.items()}
        self.lookup = ScheduleLookup(caches[SCHEDULES], volumes, snapshots)
        self.runner = ScheduleRunner(client, self.lookup, recorder=scene.told, clock=scene.clock)
        self.retainer = ScheduleRetainer(client, self.lookup, recorder=scene.told, clock=scene.clock)

    async def current(self) -> None:
        await asyncio.gather(*(cache.reached(self.scene.api.version) for cache in self.caches.values()))

    async def look(self) -> float:
        """Every schedule, once, by both; the seconds until one of them wants to look again."""
        again = 600.0
        for one in self.scene.api.bodies(SCHEDULES):
            for reconcile in (self.runner.reconcile, self.retainer.reconcile):
                await self.current()
                answer: Requeue | None = None
                with contextlib.suppress(UllageError):
                    answer = await reconcile(Key(NAMESPACE, one["metadata"]["name"]))
                again = min(again, answer.after if answer is not None else again)
        await self.current()
        return again

    async def settle(self, *, rounds: int = 60) -> float:
        """Looks until nothing moves any more."""
        again = 0.0
        for _ in range(rounds):
            before = self.scene.api.version
            again = await self.look()
            if self.scene.plays:
                self.scene.play()
            if self.scene.api.version == before:
                if 0.0 < again <= 10.0:  # a pause between two looks
                    self.scene.clock.advance(again)
                    continue
                return again
        return again

    async def live(self, until: datetime, *, rounds: int = 60) -> None:
        again = await self.settle(rounds=rounds)
        while (left := (until - self.scene.clock.now()).total_seconds()) > 0:
            self.scene.clock.advance(min(left, max(again, 1.0)))
            again = await self.settle(rounds=rounds)
