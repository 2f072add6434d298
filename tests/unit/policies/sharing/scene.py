"""Two namespaces and a snapshot in one of them, with the controllers of snapshots and of shares, and a driver that has data."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from tests.unit.snapshots.memory_api import Crash, Json, MemoryApi, Told
from ullage.clock import FakeClock
from ullage.errors import UllageError
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Requeue
from ullage.kube.kinds import Kind
from ullage.policies.sharing.api import SHARES
from ullage.policies.sharing.controllers.share_grant import ShareController
from ullage.policies.sharing.lookup import DIALECTS, ShareLookup
from ullage.snapshots.binding import misbound, refers_to
from ullage.snapshots.controllers.record_sync_rules import RecordFacts, Step, plan_record
from ullage.snapshots.model import Record, Snapshot

DRIVER = "csi.example.com"
HANDLE = "handle-1"
SIZE = 1 << 30


@dataclass
class Scene:
    dialect: str = "ga"
    api: MemoryApi = field(default_factory=MemoryApi)
    told: Told = field(default_factory=Told)
    clock: FakeClock = field(default_factory=FakeClock)
    data: set[str] = field(default_factory=lambda: {HANDLE})  # what the driver has
    served: tuple[str, ...] = (DRIVER,)  # the drivers whose snapshots are ours to delete

    def __post_init__(self) -> None:
        self.kinds = DIALECTS[self.dialect]
        for name in ("shop", "test", "other"):
            self.namespace(name)
        self.source()

    # --- what is there ---

    def namespace(self, name: str, uid: str = "", **labels: str) -> None:
        self.api.put(NAMESPACES, {"metadata": {"name": name, "uid": uid or f"uid-{name}", "labels": labels}})

    def source(self, uid: str = "source-uid", handle: str = HANDLE, policy: str = "Delete") -> None:
        """A snapshot of a claim, with its record, both ready."""
        ga = self.dialect == "ga"
        record = f"{'snapcontent' if ga else 'snapdata'}-{uid}"
        ref = {"namespace": "shop", "name": "golden", "uid": uid}
        spec: Json = {"volumeSnapshotRef": ref}
        meta: Json = {"name": record, "finalizers": [self.kinds.record_finalizer]}
        if ga:
            spec |= {"driver": DRIVER, "deletionPolicy": policy, "source": {"volumeHandle": "vol"}, "sourceVolumeMode": "Block"}
        else:
            spec["csiVolumeSnapshotSource"] = {"driver": DRIVER, "snapshotHandle": handle}
            meta["annotations"] = {"ullage.io/source-volume": "vol"}
        self.api.put(self.kinds.records, {"metadata": meta, "spec": spec, "status": self._ready(handle)})
        named = {"source": {"persistentVolumeClaimName": "db"}} if ga else {"persistentVolumeClaimName": "db"}
        bound = {"boundVolumeSnapshotContentName" if ga else "snapshotDataName": record}
        meta = {"name": "golden", "namespace": "shop", "uid": uid, "finalizers": list(self.kinds.finalizers)}
        self.api.put(self.kinds.snapshots, {"metadata": meta, "spec": named, "status": {**self._ready(), **bound}})

    def _ready(self, handle: str = "") -> Json:
        if self.dialect == "ga":
            size: Json = {"restoreSize": SIZE if handle else str(SIZE)}
            return {"readyToUse": True, **size, **({"snapshotHandle": handle} if handle else {})}
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
        return {"phase": "ready", "restoreSize": str(SIZE), "conditions": [ready]}

    def share(self, *namespaces: str, **spec: Any) -> None:
        given = {
            "source": {"namespace": "shop", "name": "golden"},
            "dialect": self.dialect,
            "targets": {"namespaces": list(namespaces)},
            **spec,
        }
        self.api.put(SHARES, {"metadata": {"name": "grant", "uid": "share-uid", "generation": 1}, "spec": given})

    def status(self) -> Json:
        found = self.api.body(SHARES, "grant")
        return dict(found.get("status", {})) if found is not None else {}

    def state(self, namespace: str) -> tuple[str, str]:
        (found,) = [one for one in self.status()["targets"] if one["namespace"] == namespace]
        return found.get("state", "Preparing"), found.get("message", "")

    def snapshot(self, namespace: str, name: str = "golden") -> Snapshot | None:
        found = self.api.body(self.kinds.snapshots, name, namespace)
        return self.kinds.read_snapshot(_typed(self.kinds.snapshots, found)) if found is not None else None

    def records(self) -> list[Record]:
        return [self.kinds.read_record(_typed(self.kinds.records, one)) for one in self.api.bodies(self.kinds.records)]

    def delete(self, namespace: str, name: str = "golden") -> None:
        """By a tenant."""
        self.api.remove(self.kinds.snapshots, name, namespace)

    # --- what the controllers of snapshots do, by their own rules ---

    def play(self) -> None:
        for record in self.records():
            self._sync(record)
        for body in list(self.api.bodies(self.kinds.snapshots)):
            self._bind(self.kinds.read_snapshot(_typed(self.kinds.snapshots, body)))

    def _sync(self, record: Record) -> None:
        snapshot = self.snapshot(record.ref.namespace, record.ref.name)
        others = [one for one in self.records() if one.meta.uid != record.meta.uid and one.handle == record.handle]
        shared = any(one.meta.deletion_timestamp is None for one in others)
        held = self.kinds.record_finalizer in record.meta.finalizers
        step = plan_record(RecordFacts(record=record, held=held, snapshot=snapshot, shared=shared)).step
        name = record.meta.name
        if step is Step.FIND and record.handle in self.data:
            self.api.edit(self.kinds.records, name, merge={"status": self._ready(record.handle)})
        if step in (Step.DELETE, Step.RELEASE, Step.UNDO):
            if step is Step.DELETE:
                self.data.discard(record.handle)
            self.api.edit(self.kinds.records, name, merge={"metadata": {"finalizers": []}})

    def _bind(self, snapshot: Snapshot) -> None:
        name, namespace = snapshot.meta.name, snapshot.meta.namespace
        wanted = snapshot.imported_record or snapshot.state.record
        record = next((one for one in self.records() if one.meta.name == wanted), None)
        if snapshot.meta.deletion_timestamp is not None:
            if record is not None and refers_to(record, snapshot) and record.policy == "Delete":
                if record.meta.deletion_timestamp is None:
                    self.api.remove(self.kinds.records, record.meta.name)
                return
            self.api.edit(self.kinds.snapshots, name, namespace, merge={"metadata": {"finalizers": []}})
            return
        if record is None or misbound(record, snapshot) is not None or snapshot.state.ready:
            return
        ref = {"volumeSnapshotRef": {"uid": snapshot.meta.uid}}
        self.api.edit(self.kinds.records, record.meta.name, merge={"spec": ref})
        field = "boundVolumeSnapshotContentName" if self.dialect == "ga" else "snapshotDataName"
        merge = {"metadata": {"finalizers": list(self.kinds.finalizers)}, "status": {**self._ready(), field: record.meta.name}}
        self.api.edit(self.kinds.snapshots, name, namespace, merge=merge)

    # --- a process of ours ---

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[Process]:
        kinds: list[Kind[Any]] = [SHARES, NAMESPACES]
        kinds += [kind for one in DIALECTS.values() for kind in (one.snapshots, one.records)]
        caches: dict[Any, Cache[Any]] = {kind: Cache(self.api, kind, clock=self.clock) for kind in kinds}
        made = Process(self, caches)
        running = [asyncio.create_task(cache.run()) for cache in caches.values()]
        try:
            yield made
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def live(self, *, blows_at: int = -1, rounds: int = 30) -> bool:
        """Until nothing moves any more; whether it was killed on the way."""
        self.api.fuse.blows_at, self.api.fuse.passed = blows_at, 0
        async with self.process() as process:
            try:
                for _ in range(rounds):
                    before = self.api.version
                    await process.look()
                    self.play()
                    if self.api.version == before:
                        break
            except Crash:
                return True
            finally:
                self.api.fuse.blows_at = -1
        return False


class Process:
    def __init__(self, scene: Scene, caches: dict[Any, Cache[Any]]) -> None:
        self.scene, self.caches = scene, caches
        snapshots = {name: caches[one.snapshots] for name, one in DIALECTS.items()}
        records = {name: caches[one.records] for name, one in DIALECTS.items()}
        lookup = ShareLookup(caches[SHARES], caches[NAMESPACES], snapshots, records)
        self.shares = ShareController(
            cast(Client, scene.api), lookup, drivers=scene.served, recorder=scene.told, clock=scene.clock
        )

    async def current(self) -> None:
        await asyncio.gather(*(cache.reached(self.scene.api.version) for cache in self.caches.values()))

    async def again(self) -> Requeue | None:
        """What a look at the share asks for."""
        await self.current()
        return await self.shares.reconcile(Key("", "grant"))

    async def look(self) -> None:
        for one in self.scene.api.bodies(SHARES):
            await self.current()
            with contextlib.suppress(UllageError):
                await self.shares.reconcile(Key("", one["metadata"]["name"]))


def _typed(kind: Kind[Any], body: Json) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body), type=kind.type)
