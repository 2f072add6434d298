"""A small cluster for tests of restoring: claims, classes and snapshots in an API in memory, and a storage system in a dict."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.unit.snapshots.memory_api import Crash, Json, MemoryApi, Told
from ullage.clock import Clock, SystemClock
from ullage.errors import Impossible, UllageError
from ullage.kube.builtin.core import CLAIMS, PERSISTENT_VOLUMES
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.backends.base import NO_SECRETS, Restoration, Restored, Secrets
from ullage.snapshots.controllers.claim_restore import Restorer
from ullage.snapshots.controllers.claim_restore_eligibility import PROVISIONERS
from ullage.snapshots.controllers.volume_reclaim import Reclaimer
from ullage.snapshots.lookup import SnapshotLookup, VolumeLookup

DRIVER = "csi.example.com"
GIB = 1 << 30
NAME = "pvc-uid-copy"  # of the volume for the claim `copy`


class Storage:
    """Volumes by their handles. Handles say nothing of names: only asking again tells."""

    driver = DRIVER

    def __init__(self, world: World) -> None:
        self._world = world
        self.snapshots = {"shot-1"}
        self.volumes: dict[str, str] = {}  # handle → name
        self.made = 0
        self.asked: list[Restoration] = []
        self.discarded: list[tuple[str, Secrets]] = []
        self.before: Callable[[], None] = lambda: None  # may raise: nothing is made
        self.after: Callable[[], None] = lambda: None  # may raise: it is made, and the answer is lost

        self.discarding: Callable[[], None] = lambda: None  # may raise: nothing is deleted

    async def restore(self, restoration: Restoration) -> Restored:
        self._world.api.fuse.before(f"restore {restoration.name}")
        self.asked.append(restoration)
        self.before()
        handle = next((handle for handle, name in self.volumes.items() if name == restoration.name), "")
        if not handle:
            if restoration.snapshot not in self.snapshots:
                raise Impossible(f"snapshot {restoration.snapshot} is not there")
            self.made += 1
            handle = f"vol-{self.made}"
            self.volumes[handle] = restoration.name
        self._world.api.fuse.after()
        self.after()
        source = {"csi": {"driver": DRIVER, "volumeHandle": handle}}
        return Restored(handle=handle, size=restoration.size, source=source, node="node-1")

    async def discard(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        self._world.api.fuse.before(f"discard {handle}")
        self.discarding()
        self.discarded.append((handle, secrets))
        self.volumes.pop(handle, None)
        self._world.api.fuse.after()


@dataclass
class World:
    api: MemoryApi = field(default_factory=MemoryApi)
    told: Told = field(default_factory=Told)
    elsewhere: frozenset[str] = frozenset()
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.storage = Storage(self)
        self.backends: dict[str, Any] = {DRIVER: self.storage}

    # --- what is there ---

    def snapshot(self, *, ready: bool = True) -> None:
        """Of the GA API, with its record."""
        status: Json = {"boundVolumeSnapshotContentName": "content", "readyToUse": ready, "restoreSize": "1Gi"}
        self.api.put(
            GA.snapshots,
            {
                "metadata": {"name": "snap", "namespace": "team"},
                "spec": {"source": {"persistentVolumeClaimName": "db"}},
                "status": status,
            },
        )
        ref = {"namespace": "team", "name": "snap", "uid": "uid-snap"}
        spec: Json = {
            "volumeSnapshotRef": ref,
            "deletionPolicy": "Delete",
            "driver": DRIVER,
            "source": {"volumeHandle": "vol-0"},
        }
        self.api.put(
            GA.records,
            {
                "metadata": {"name": "content"},
                "spec": spec,
                "status": {"snapshotHandle": "shot-1", "readyToUse": ready, "restoreSize": GIB},
            },
        )

    def storage_class(self, **fields: Any) -> None:
        self.api.put(STORAGE_CLASSES, {"metadata": {"name": "fast"}, "provisioner": DRIVER} | fields)

    def claim(self, **spec: Any) -> None:
        """One that waits for its volume."""
        source = {"apiGroup": GA.snapshots.group, "kind": "VolumeSnapshot", "name": "snap"}
        given: Json = {
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "2Gi"}},
            "dataSourceRef": source,
        }
        asked = {PROVISIONERS[0]: DRIVER}  # the binder has seen it
        meta = {"name": "copy", "namespace": "team", "finalizers": ["kubernetes.io/pvc-protection"], "annotations": asked}
        self.api.put(CLAIMS, {"metadata": meta, "spec": given | spec, "status": {"phase": "Pending"}})

    def everything(self) -> World:
        self.storage_class()
        self.snapshot()
        self.claim()
        return self

    def volume(self) -> Json | None:
        return self.api.body(PERSISTENT_VOLUMES, NAME)

    def finalizers(self) -> list[str]:
        body = self.api.body(CLAIMS, "copy", "team")
        return list(body["metadata"].get("finalizers", [])) if body else []

    # --- what others do ---

    def bind(self) -> None:
        """As the cluster's binder does; and what protects claims in use lets go of those that are not."""
        claim, volume = self.api.body(CLAIMS, "copy", "team"), self.volume()
        if claim is None:
            return
        if volume is not None and not claim["spec"].get("volumeName") and not claim["metadata"].get("deletionTimestamp"):
            self.api.edit(CLAIMS, "copy", "team", merge={"spec": {"volumeName": NAME}, "status": {"phase": "Bound"}})
            self.api.edit(PERSISTENT_VOLUMES, NAME, merge={"status": {"phase": "Bound"}})

    def delete_claim(self) -> None:
        if self.api.body(CLAIMS, "copy", "team") is not None:
            kept = [one for one in self.finalizers() if one != "kubernetes.io/pvc-protection"]
            self.api.edit(CLAIMS, "copy", "team", merge={"metadata": {"finalizers": kept}})
            self.api.remove(CLAIMS, "copy", "team")

    # --- a process of ours ---

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[Process]:
        volumes = VolumeLookup(Cache(self.api, CLAIMS), Cache(self.api, PERSISTENT_VOLUMES), Cache(self.api, STORAGE_CLASSES))
        lookups = [
            SnapshotLookup(
                dialect, Cache(self.api, dialect.snapshots), Cache(self.api, dialect.records), Cache(self.api, dialect.classes)
            )
            for dialect in (GA, PROTOTYPE)
        ]
        caches: list[Cache[Any]] = [volumes.claims, volumes.volumes, volumes.classes]
        caches += [cache for lookup in lookups for cache in (lookup.snapshots, lookup.records)]
        running = [asyncio.create_task(cache.run()) for cache in caches]
        try:
            yield Process(self, volumes, lookups, caches)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def live(self, *, blows_at: int = -1, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """One process, until nothing is left to do or its fuse blows; whether it blew. `meanwhile` happens at that moment."""
        self.api.fuse.blows_at, self.api.fuse.passed = blows_at, 0
        async with self.process() as process:
            try:
                await process.rest()
            except Crash:
                meanwhile()
                return True
            finally:
                self.api.fuse.blows_at = -1
        return False


@dataclass
class Process:
    """A controller that has just started: it knows what the API has, and nothing else."""

    world: World
    volumes: VolumeLookup
    lookups: list[SnapshotLookup]
    caches: list[Cache[Any]]

    def __post_init__(self) -> None:
        api, told, backends = self.world.api, self.world.told, self.world.backends
        elsewhere = self.world.elsewhere
        clock = self.world.clock
        self.restorer = Restorer(
            api, self.volumes, self.lookups, backends=backends, recorder=told, elsewhere=elsewhere, clock=clock
        )
        self.reclaimer = Reclaimer(api, self.volumes, backends=backends, recorder=told)

    async def current(self) -> None:
        async with asyncio.timeout(10):
            for cache in self.caches:
                await cache.reached(self.world.api.version)

    async def look(self) -> UllageError | None:
        """Both controllers look once; the last error."""
        await self.current()
        failed = None
        for reconcile, key in ((self.restorer.reconcile, Key("team", "copy")), (self.reclaimer.reconcile, Key("", NAME))):
            try:
                await reconcile(key)
            except UllageError as error:
                failed = error
            await self.current()
        self.world.bind()
        return failed

    async def rest(self) -> None:
        """Looks until nothing changes any more."""
        for _ in range(20):
            before = self.world.api.version, len(self.world.api.fuse.log)
            await self.look()
            if (self.world.api.version, len(self.world.api.fuse.log)) == before:
                return
        raise AssertionError("it never comes to rest")


def fails(error: Exception, times: int = 1) -> Callable[[], None]:
    left = [error] * times

    def outcome() -> None:
        if left:
            raise left.pop()

    return outcome
