"""A claim with a snapshot, and the controller of restores: on an API in memory, with a process that may die at any effect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import msgspec

from tests.unit.snapshots.api.objects import patched
from tests.unit.snapshots.memory_api import Crash, Json, MemoryApi, Told
from ullage.clock import FakeClock
from ullage.errors import Retryable
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client, Listing
from ullage.kube.controller.controller import Requeue
from ullage.kube.kinds import Kind
from ullage.kube.slices import Part, Wiring
from ullage.policies.restores.api import SNAPSHOT_RESTORES, SnapshotRestore
from ullage.policies.restores.controllers.restore_perform import SnapshotRestoreController
from ullage.policies.restores.methods.base import RestoreMethod
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.lookup import kinds_of, snapshot_lookup, volume_lookup
from ullage.snapshots.model import Dialect
from ullage.snapshots.slice import DIALECTS
from ullage.times import timestamp

NS = "team"
GIB = 1 << 30


class UniqueApi(MemoryApi):
    """An object that is made again has another uid, and a list is of one namespace."""

    made = 0

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        await super().create(kind, obj)
        self.made += 1
        place = self._place(kind, obj.metadata.namespace, obj.metadata.name)
        uid = {"metadata": {"uid": f"uid-{obj.metadata.name}-{self.made}"}}
        self._store(place, patched(self._objects[place], uid), "MODIFIED")
        return await self.find(kind, obj.metadata.name, obj.metadata.namespace)

    async def list(self, kind: Kind[Any], namespace: str = "", **_: Any) -> Listing[Any]:
        found = await super().list(kind)
        return Listing([one for one in found.items if namespace in ("", one.metadata.namespace)], found.resource_version)


class RestoreScene:
    """`driver`, the volume's `source` and `methods` are what a kind of storage adds."""

    driver = "csi.example.com"
    dialect: Dialect[Any, Any] = GA

    def __init__(self) -> None:
        self.api, self.told, self.clock = UniqueApi(), Told(), FakeClock()
        self.deaths = 0
        self.at_death: Callable[[], None] = lambda: None  # what the next process finds, that this one did not
        self.number = 0

    # --- what is there ---

    def claim(self, source: Json, *, handle: str, **spec: Any) -> None:
        ref = {"namespace": NS, "name": "db", "uid": "uid-db"}
        volume: Json = {
            "claimRef": ref,
            "storageClassName": "fast",
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Delete",
            "accessModes": ["ReadWriteOnce"],
            **source,
        }
        self.api.put(STORAGE_CLASSES, {"metadata": {"name": "fast"}, "provisioner": self.driver, "reclaimPolicy": "Delete"})
        self.api.put(PERSISTENT_VOLUMES, {"metadata": {"name": "pv-1"}, "spec": volume, "status": {"phase": "Bound"}})
        wanted: Json = {
            "volumeName": "pv-1",
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        meta = {"name": "db", "namespace": NS, "labels": {"app": "db"}, "annotations": {"note": "kept"}}
        self.api.put(CLAIMS, {"metadata": meta, "spec": wanted | spec, "status": {"phase": "Bound"}})
        self.handle = handle

    def snapshot(self, name: str = "snap", *, snapshot_handle: str, claim: str = "db", **status: Any) -> None:
        """A snapshot that is ready, with its record."""
        content, size = f"content-{name}", {"restoreSize": 4096}
        if self.dialect.name == "ga":
            told: Json = {"boundVolumeSnapshotContentName": content, "readyToUse": True, "restoreSize": "4Ki"} | status
            spec: Json = {"source": {"persistentVolumeClaimName": claim}}
            record: Json = {
                "volumeSnapshotRef": {"namespace": NS, "name": name, "uid": f"uid-{name}"},
                "deletionPolicy": "Delete",
                "driver": self.driver,
                "source": {"volumeHandle": self.handle},
            }
            record_status: Json = {"snapshotHandle": snapshot_handle, "readyToUse": True, **size}
        else:
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            told = {"snapshotDataName": content, "conditions": [ready], "creationTimestamp": "2026-01-01T00:00:00Z"} | status
            spec = {"persistentVolumeClaimName": claim, "snapshotDataName": content}
            ref = {"kind": "VolumeSnapshot", "namespace": NS, "name": name, "uid": f"uid-{name}"}
            record = {"volumeSnapshotRef": ref, **self.prototype_source(snapshot_handle)}
            record_status = {"conditions": [ready], "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.api.put(self.dialect.snapshots, {"metadata": {"name": name, "namespace": NS}, "spec": spec, "status": told})
        self.api.put(self.dialect.records, {"metadata": {"name": content}, "spec": record, "status": record_status})

    def prototype_source(self, handle: str) -> Json:
        return {"hostPath": {"snapshot": handle}}

    def ask(self, name: str = "back", *, snapshot: str = "snap", **spec: Any) -> Key:
        source = {"apiGroup": self.dialect.snapshots.group, "name": snapshot}
        self.number += 1
        meta = {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{name}-{self.number}",
            "generation": 1,
            "creationTimestamp": timestamp(self.clock.now()),
        }
        self.api.put(SNAPSHOT_RESTORES, {"metadata": meta, "spec": {"claimName": "db", "source": source} | spec})
        return Key(NS, name)

    def pod(self, name: str = "db-0", *, claim: str = "db", phase: str = "Running", owner: str = "StatefulSet") -> None:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "db", "uid": "uid-set", "controller": True}
        meta = {"name": name, "namespace": NS, "ownerReferences": [reference]}
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        self.api.put(WATCHED_PODS, {"metadata": meta, "spec": {"volumes": volumes}, "status": {"phase": phase}})

    def edit(self, name: str = "back", **spec: Any) -> None:
        generation = {"generation": self.restore(name).metadata.generation + 1}
        self.api.edit(SNAPSHOT_RESTORES, name, NS, merge={"spec": spec, "metadata": generation})

    # --- what is seen ---

    def restore(self, name: str = "back") -> SnapshotRestore:
        body = self.api.body(SNAPSHOT_RESTORES, name, NS)
        assert body is not None, "it is gone"
        return msgspec.convert(body, SnapshotRestore)

    def phase(self, name: str = "back") -> str:
        return self.restore(name).status.phase

    def said(self, condition: str = "Complete", *, of: str = "back") -> tuple[str, str, str]:
        found = next((one for one in self.restore(of).status.conditions if one.type == condition), None)
        return (found.status, found.reason, found.message) if found is not None else ("", "", "")

    def gone(self, name: str = "back") -> bool:
        return self.api.body(SNAPSHOT_RESTORES, name, NS) is None

    def settled(self, name: str = "back") -> bool:
        return self.gone(name) or self.restore(name).status.settled

    # --- the process ---

    def methods(self, wiring: Wiring) -> Mapping[str, RestoreMethod]:
        raise NotImplementedError

    def others(self) -> None:
        """What everybody else in the cluster does about what is there."""

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[tuple[SnapshotRestoreController, Wiring]]:
        wiring = Wiring(cast(Client, self.api), clock=self.clock)
        watched = (*kinds_of(DIALECTS), WATCHED_PODS, SNAPSHOT_RESTORES)
        (made,) = wiring.made(Part(make=lambda given: [self._controller(given)], watches=watched))
        tasks = [asyncio.create_task(cache.run()) for cache in wiring.caches]
        try:
            yield made, wiring
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _controller(self, wiring: Wiring) -> SnapshotRestoreController:
        return SnapshotRestoreController(
            wiring.client,
            wiring.cache(SNAPSHOT_RESTORES),
            [snapshot_lookup(wiring, dialect) for dialect in DIALECTS],
            claims=volume_lookup(wiring).claims,
            methods=self.methods(wiring),
            recorder=self.told,
            clock=self.clock,
        )

    async def run(self, until: Callable[[], bool], *, rounds: int = 60) -> None:
        """Every restore is looked at over and over, as after any change, through as many deaths as there are."""
        left = [rounds]
        while left[0] > 0:
            try:
                async with self.process() as (controller, wiring):
                    await self._rounds(controller, wiring, until, left)
                return
            except Crash:
                self.deaths += 1
                self.at_death()
        raise AssertionError(f"it goes round for ever: {[one.get('status') for one in self.api.bodies(SNAPSHOT_RESTORES)]}")

    async def _rounds(
        self, controller: SnapshotRestoreController, wiring: Wiring, until: Callable[[], bool], left: list[int]
    ) -> None:
        while not until() and left[0] > 0:
            left[0] -= 1
            for body in self.api.bodies(SNAPSHOT_RESTORES):
                async with asyncio.timeout(5):
                    await asyncio.gather(*(cache.reached(self.api.version) for cache in wiring.caches))
                with contextlib.suppress(Retryable):
                    await self.reconcile(controller, Key(NS, body["metadata"]["name"]))
            self.others()
        if left[0] <= 0:
            raise AssertionError(f"it goes round for ever: {[one.get('status') for one in self.api.bodies(SNAPSHOT_RESTORES)]}")

    async def reconcile(self, controller: SnapshotRestoreController, key: Key) -> Requeue | None:
        return await controller.reconcile(key)


PROTOTYPE_DIALECT = PROTOTYPE
