"""The world's part of Longhorn on an API in memory and a real host of engines, in processes that die at any single effect."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

from tests.unit.snapshots.api.objects import patched
from tests.unit.snapshots.memory_api import Crash, Fuse, Json, MemoryApi, Told
from ullage.clock import SystemClock
from ullage.engines.api import ENGINE_SNAPSHOTS, ENGINES
from ullage.engines.api import VOLUMES as ENGINE_VOLUMES
from ullage.engines.client.channels import Channels
from ullage.engines.client.host import HostClient, HostVolume
from ullage.engines.controllers.snapshot_rules import needs_attachment
from ullage.engines.controllers.volume import VolumeController
from ullage.engines.handles import DRIVER, NAMESPACE
from ullage.engines.local.server.server import serving
from ullage.engines.lookup import lookup_of
from ullage.kube.builtin.core import CLAIMS, CORE_QUOTAS, NAMESPACES, NODES, PERSISTENT_VOLUMES, PODS
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.controller.controller import Controller
from ullage.kube.errors import AlreadyExists, NotFound
from ullage.kube.events.recorder import Recorder
from ullage.kube.slices import Part, Wiring
from ullage.standalone.world.controllers.claim import claim_controller
from ullage.standalone.world.controllers.longhorn_volume import longhorn_volume_controller
from ullage.standalone.world.controllers.namespace import namespace_controller
from ullage.standalone.world.controllers.persistent_volume_hostpath import hostpath_controller
from ullage.standalone.world.controllers.persistent_volume_longhorn import longhorn_controller
from ullage.standalone.world.controllers.pod.controller import pod_controller
from ullage.standalone.world.controllers.virtual_machine import virtual_machine_controller
from ullage.standalone.world.controllers.virtual_machine_instance import instance_controller
from ullage.standalone.world.directories import Directories
from ullage.standalone.world.lookup import LonghornLookup, StorageLookup
from ullage.times import timestamp
from ullage.vms.api.kubevirts import KUBEVIRTS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.prices import Prices, price_sources
from ullage.vms.pricing import PricingChoice

UID = "11111111-2222-3333-4444-555555555555"
NAME = f"pvc-{UID}"
SIZE = 8 << 20
SECONDS = 20.0
KINDS = (
    CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    PODS,
    NODES,
    CORE_QUOTAS,
    NAMESPACES,
    ENGINE_VOLUMES,
    ENGINES,
    ENGINE_SNAPSHOTS,
    VIRTUAL_MACHINES,
    INSTANCES,
    KUBEVIRTS,
)
WHOLE = (PERSISTENT_VOLUMES, VIRTUAL_MACHINES, INSTANCES, PODS, CORE_QUOTAS)  # kinds whose bodies are sent and read whole

Answer = TypeVar("Answer")


class WholeApi(MemoryApi):
    """Takes whole bodies of some kinds too, and gives them."""

    async def request(self, method: str, path: str, *, body: bytes = b"{}") -> bytes:
        given: Json = json.loads(body)
        parts = path.split("/")
        kind = next(one for one in WHOLE if one.plural in parts)
        namespace = parts[parts.index("namespaces") + 1] if kind.namespaced else ""
        name = parts[-1]
        if method == "GET":
            found = self.body(kind, name, namespace)
            if found is None:
                raise NotFound(f"{kind.plural} {name}")
            return json.dumps(found).encode()
        if method == "DELETE":
            await self.delete(kind, name, namespace, uid=given["preconditions"]["uid"])
            return b"{}"
        name = given["metadata"]["name"]
        if parts[-1] == "binding":
            await self.patch(PODS, name, namespace, merge={"spec": {"nodeName": given["target"]["name"]}})
            return b"{}"

        def write() -> Json:
            if self.body(kind, name, namespace) is not None:
                raise AlreadyExists(f"{kind.plural} {name}")
            self._made += 1
            self.put(kind, patched(given, {"metadata": {"uid": given["metadata"].get("uid", f"uid-{name}-{self._made}")}}))
            return given

        self._effect(f"create {kind.plural} {name}", write)
        return b"{}"

    _made = 0


class FusedHost(HostClient):
    """A process may die before and after each change of the host, too."""

    def __init__(self, channels: Channels, address: str, *, fuse: Fuse) -> None:
        super().__init__(channels, address)
        self._fuse = fuse

    async def create(self, name: str, *, size: int) -> HostVolume:
        return await self._effect("create", super().create(name, size=size))

    async def delete(self, name: str) -> None:
        await self._effect("delete", super().delete(name))

    async def attach(self, name: str, *, frontend: bool = True) -> HostVolume:
        return await self._effect("attach", super().attach(name, frontend=frontend))

    async def detach(self, name: str) -> HostVolume:
        return await self._effect("detach", super().detach(name))

    async def _effect(self, what: str, call: Awaitable[Answer]) -> Answer:
        try:
            self._fuse.before(f"host {what}")
        except Crash:
            cast(Any, call).close()
            raise
        done = await call
        self._fuse.after()
        return done


class Place:
    def __init__(self, channels: Channels, address: str, directories: Directories) -> None:
        self._parts = (channels, address, directories)
        self.api = WholeApi()
        self.fuse = self.api.fuse
        self.told = Told()
        self.host = HostClient(channels, address)  # the test's own, without a fuse
        self.clock = SystemClock()
        self._fused = FusedHost(channels, address, fuse=self.fuse)
        self._directories = directories
        self.api.put(NODES, {"metadata": {"name": "ullage"}})
        self.api.put(
            STORAGE_CLASSES, {"metadata": {"name": "longhorn"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"}
        )

    def again(self) -> Place:
        """Another API, for the same host."""
        return Place(*self._parts)

    # --- what is there ---

    def claim(self, *, mode: str = "Block", **spec: Any) -> None:
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(SIZE)}},
            "storageClassName": "longhorn",
            "volumeMode": mode,
            **spec,
        }
        self.api.put(CLAIMS, {"metadata": {"name": "data", "namespace": "default", "uid": UID}, "spec": wanted})

    def pod(self, phase: str = "Running") -> None:
        claim = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        spec = {"nodeName": "ullage", "containers": [{"name": "main"}], "volumes": claim}
        body = {"metadata": {"name": "app", "namespace": "default"}, "spec": spec, "status": {"phase": phase}}
        self.api.put(PODS, body)

    def volume(self, name: str, *, uid: str = "", **spec: Any) -> None:
        """A Volume that a person makes."""
        meta = {"name": name, "namespace": NAMESPACE, "uid": uid or f"uid-{name}"}
        self.api.put(ENGINE_VOLUMES, {"metadata": meta, "spec": {"size": str(SIZE), **spec}})

    def ticket(self, name: str, seconds: float) -> None:
        until = timestamp(self.clock.now() + timedelta(seconds=seconds))
        held = {"test": {"owner": {"kind": "Person"}, "until": until}}
        self.api.edit(ENGINE_VOLUMES, name, NAMESPACE, merge={"spec": {"attachmentTickets": held}})

    # --- what is seen ---

    def states(self, name: str = NAME) -> tuple[str, str]:
        """Of the Volume and its Engine."""
        volume = self.api.body(ENGINE_VOLUMES, name, NAMESPACE) or {}
        engine = self.api.body(ENGINES, f"{name}-e-0", NAMESPACE) or {}
        return volume.get("status", {}).get("state", ""), engine.get("status", {}).get("currentState", "")

    def clone_state(self, name: str) -> str:
        body = self.api.body(ENGINE_VOLUMES, name, NAMESPACE) or {}
        return str(body.get("status", {}).get("cloneStatus", {}).get("state", ""))

    def is_bound(self) -> bool:
        phases = [(self.api.body(kind, name, place) or {}).get("status", {}).get("phase") for kind, name, place in BINDING]
        return phases == ["Bound", "Bound"]

    def left(self) -> list[str]:
        """Everything that a claim may leave behind in the API."""
        return [
            body["metadata"]["name"] for kind in (PERSISTENT_VOLUMES, ENGINE_VOLUMES, ENGINES) for body in self.api.bodies(kind)
        ]

    async def on_host(self) -> dict[str, bool]:
        """The volumes of the host, and whether they are attached."""
        return {one.name: one.attached for one in await self.host.list()}

    # --- processes ---

    async def live(self, holds: Callable[[], bool]) -> None:
        """Processes, one after the other, until something holds."""
        async with asyncio.timeout(SECONDS):
            while not await self.lives(holds):
                pass

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[Callable[[Callable[[], bool]], Awaitable[None]]]:
        """One process for the length of the block; gives a way to wait until something holds."""

        async def settles(holds: Callable[[], bool]) -> None:
            while not holds():  # noqa: ASYNC110  what a test asks for is in no cache
                await asyncio.sleep(0.005)

        async with asyncio.timeout(SECONDS), self._running():
            yield settles

    async def lives(self, holds: Callable[[], bool]) -> bool:
        """One process, until something holds; False where it died before."""
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
        async with contextlib.AsyncExitStack() as stack:
            for held in wiring.held:
                await stack.enter_async_context(held)
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
        lookup = LonghornLookup(wiring, storage)
        return [
            claim_controller(wiring, storage, recorder),
            hostpath_controller(wiring, storage, directories=self._directories, recorder=recorder),
            longhorn_volume_controller(wiring, lookup, self._fused, recorder=recorder),
            longhorn_controller(wiring, lookup, recorder=recorder),
            virtual_machine_controller(wiring, storage.instances, recorder=recorder),
            instance_controller(
                wiring, storage, lookup, prices=Prices(PricingChoice(), wiring.shared(price_sources)), recorder=recorder
            ),
            namespace_controller(wiring, recorder),
            pod_controller(wiring, storage, directories=self._directories, recorder=recorder),
            VolumeController(wiring.client, lookup_of(wiring), needs_attachment=needs_attachment).controller(),
        ]


BINDING = ((CLAIMS, "data", "default"), (PERSISTENT_VOLUMES, NAME, ""))


@contextlib.asynccontextmanager
async def place_in(directory: Path) -> AsyncIterator[Place]:
    directories, channels = Directories(directory / "directories"), Channels()
    directories.open()
    async with serving(directory / "volumes", directory / "socket", clock=SystemClock()) as address:
        try:
            yield Place(channels, address, directories)
        finally:
            directories.close()
            await channels.close()
