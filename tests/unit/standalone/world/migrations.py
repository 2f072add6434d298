"""Instances, their pods and their migrations on an API in memory, in processes that die at any single effect.

A kubelet stands in for the world's own: a pod gets the node with the fewest others, and runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from tests.unit.snapshots.api.objects import patched
from tests.unit.snapshots.memory_api import Crash, Json, MemoryApi, Told
from ullage.clock import SystemClock
from ullage.kube.builtin.core import CLAIMS, CORE_QUOTAS, NAMESPACES, NODES, PERSISTENT_VOLUMES, PODS
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.cache.indexer import Key
from ullage.kube.controller.controller import Controller, own
from ullage.kube.errors import AlreadyExists, Forbidden, NotFound
from ullage.kube.events.recorder import Recorder
from ullage.kube.slices import Part, Wiring
from ullage.standalone.world.controllers.evacuation import evacuation_controller
from ullage.standalone.world.controllers.migration import migration_controller
from ullage.standalone.world.lookup import StorageLookup
from ullage.standalone.world.migrations import MigrationLookup
from ullage.vms.api.kubevirts import KUBEVIRTS
from ullage.vms.api.machines import INSTANCES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.prices import Prices, price_sources
from ullage.vms.pricing import PricingChoice

KINDS = (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, PODS, NODES, INSTANCES, MIGRATIONS, KUBEVIRTS, CORE_QUOTAS, NAMESPACES)
WHOLE = (PODS, INSTANCES, MIGRATIONS)
SECONDS = 20.0
SHOP = "shop"
A, B, C = "ullage", "ullage-2", "ullage-3"  # the nodes


class MovingApi(MemoryApi):
    """`room`: so many pods the namespace's quota allows, and so many migrations its reserve."""

    pods = migrations = 1000
    most = 0  # migrations that were under way at a time
    _made = 0

    def __init__(self) -> None:
        super().__init__()
        self.look: Callable[[], None] = lambda: None  # at every write

    async def request(self, method: str, path: str, *, body: bytes = b"{}") -> bytes:
        given: Json = json.loads(body)
        parts = path.split("/")
        kind = next(one for one in WHOLE if one.plural in parts)
        if method == "GET":
            found = self.body(kind, parts[-1], SHOP)
            if found is None:
                raise NotFound(f"{kind.plural} {parts[-1]}")
            return json.dumps(found).encode()
        if method == "DELETE":
            await self.delete(kind, parts[-1], SHOP, uid=given["preconditions"]["uid"])
            return b"{}"
        name = given["metadata"]["name"]

        def write() -> Json:
            if self.body(kind, name, SHOP) is not None:
                raise AlreadyExists(f"{kind.plural} {name}")
            self.check(kind.plural)
            self._made += 1
            made = {
                "uid": f"uid-{name}-{self._made}",
                "creationTimestamp": f"2026-11-16T12:{self._made // 60:02}:{self._made % 60:02}Z",
            }
            self.put(kind, patched(given, {"metadata": made}))
            return given

        self._effect(f"create {kind.plural} {name}", write)
        return b"{}"

    def check(self, plural: str) -> None:
        if plural == PODS.plural and len(self.bodies(PODS)) >= self.pods:
            raise Forbidden(
                "exceeded quota: default, requested: limits.cpu=1, used: limits.cpu=2, limited: limits.cpu=2", code=403
            )
        if plural == MIGRATIONS.plural and len(self.unfinished()) >= self.migrations:
            raise Forbidden("maintenance resource is insufficient", code=403)

    def unfinished(self) -> list[Json]:
        found = [one for one in self.bodies(MIGRATIONS) if one.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
        return found

    def _store(self, place: Any, body: Json, event: str) -> Json:
        stored = super()._store(place, body, event)
        self.look()
        self.most = max(self.most, len([one for one in self.unfinished() if one.get("status", {}).get("phase")]))
        return stored


class Moving:
    """Nodes, and instances in pods on them. `usual` are the seconds that copying takes."""

    def __init__(self, *nodes: str, usual: float = 0.0) -> None:
        self.api = MovingApi()
        self.fuse = self.api.fuse
        self.told = Told()
        self.usual = usual
        self.clock = SystemClock()
        for name in nodes or (A, B, C):
            self.api.put(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {}})

    # --- what is there ---

    def instance(self, name: str = "db", node: str = A, *, memory: str = "1Gi", **meta: Any) -> None:
        uid, pod = f"uid-{name}", f"virt-launcher-{name}"
        spec = {"domain": {"resources": {"limits": {"cpu": "1", "memory": memory}}}}
        status = {"phase": "Running", "nodeName": node, "activePods": {f"uid-{pod}": node}}
        found = {"name": name, "namespace": SHOP, "uid": uid, **meta}
        self.api.put(INSTANCES, {"metadata": found, "spec": spec, "status": status})
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": name, "uid": uid, "controller": True}
        marks = {"name": pod, "namespace": SHOP, "uid": f"uid-{pod}", "annotations": {"kubevirt.io/domain": name}}
        body = {"metadata": {**marks, "ownerReferences": [owner]}, "spec": {"nodeName": node}, "status": {"phase": "Running"}}
        self.api.put(PODS, body)

    def ask(self, name: str = "m", instance: str = "db") -> None:
        body = {
            "metadata": {"name": name, "namespace": SHOP, "uid": f"uid-{name}", "creationTimestamp": "2026-11-16T12:00:00Z"}
        }
        self.api.put(MIGRATIONS, {**body, "spec": {"vmiName": instance}})

    def settings(self, **migrations: Any) -> None:
        body = {"metadata": {"name": "kubevirt", "namespace": "kubevirt"}}
        self.api.put(KUBEVIRTS, {**body, "spec": {"configuration": {"migrations": migrations}}})

    def drain(self, node: str, *, over: bool = False) -> None:
        taints = None if over else [{"key": "kubevirt.io/drain", "effect": "NoSchedule"}]
        self.api.edit(NODES, node, merge={"spec": {"unschedulable": None if over else True, "taints": taints}})

    # --- what is seen ---

    def migration(self, name: str = "m") -> Json:
        return self.api.body(MIGRATIONS, name, SHOP) or {}

    def phase(self, name: str = "m") -> str:
        return str(self.migration(name).get("status", {}).get("phase", ""))

    def status(self, name: str = "db") -> Json:
        return dict((self.api.body(INSTANCES, name, SHOP) or {}).get("status", {}))

    def node(self, name: str = "db") -> str:
        return str(self.status(name).get("nodeName", ""))

    def pods(self) -> dict[str, str]:
        """The node of each."""
        return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in self.api.bodies(PODS)}

    def is_tidy(self, *names: str) -> bool:
        """Every instance has one pod, the one that it says, on the node that it says."""
        wanted = {uid: node for name in names for uid, node in self.status(name).get("activePods", {}).items()}
        found = {one["metadata"]["uid"]: one["spec"].get("nodeName", "") for one in self.api.bodies(PODS)}
        return wanted == found and len(found) == len(names) and all(self.node(name) in found.values() for name in names)

    # --- processes ---

    async def live(self, holds: Callable[[], bool]) -> None:
        """Processes, one after the other, until something holds."""
        async with asyncio.timeout(SECONDS):
            while not await self._lives(holds):
                pass

    async def _lives(self, holds: Callable[[], bool]) -> bool:
        try:
            async with self._running():
                while not holds():  # noqa: ASYNC110  what a test asks for is in no cache
                    await asyncio.sleep(0.005)
        except BaseExceptionGroup as group:
            if group.split(Crash)[1] is not None:
                raise
            return False
        return True

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        wiring = Wiring(self.api)  # type: ignore[arg-type]
        controllers = wiring.made(Part(make=self._controllers, watches=KINDS))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.run()) for cache in wiring.caches]
            tasks += [group.create_task(one.run()) for one in controllers]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        recorder, storage = cast(Recorder, self.told), StorageLookup(wiring)
        lookup, prices = MigrationLookup(wiring, storage), Prices(PricingChoice(), wiring.shared(price_sources))

        async def kubelet(key: Key) -> None:
            pod = storage.pods.get(key)
            if pod is not None and not pod.spec.node_name and (node := storage.place(pod).node):
                change = {"spec": {"nodeName": node}, "status": {"phase": "Running"}}
                await wiring.client.patch(PODS, key.name, key.namespace, merge=change)

        return [
            Controller("kubelet", [own(storage.pods)], kubelet, clock=wiring.clock),
            migration_controller(wiring, lookup, recorder=recorder, usual=self.usual, prices=prices),
            evacuation_controller(wiring, lookup, recorder=recorder),
        ]
