"""Volumes of embedded engines, for the contract: an API in memory, the real controllers, a real host of engines.

Files are one value at the beginning of a raw device.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from tests.contract.systems import Files, System
from tests.unit.snapshots.memory_api import MemoryApi, Told
from ullage.clock import SystemClock
from ullage.engines.api import ENGINES, KINDS, VOLUMES
from ullage.engines.chain import HEAD
from ullage.engines.client.connection import HostConnection
from ullage.engines.controllers.engine import EngineMonitor
from ullage.engines.controllers.snapshot import SnapshotController
from ullage.engines.controllers.snapshot_rules import needs_attachment
from ullage.engines.controllers.volume import VolumeController
from ullage.engines.handles import NAMESPACE
from ullage.engines.instances import ask_head_size
from ullage.engines.local.server.server import serving
from ullage.engines.lookup import lookup_of
from ullage.engines.metrics import Metrics
from ullage.engines.settings import Settings
from ullage.kube.builtin.core import CLAIMS, NODES, PERSISTENT_VOLUMES, PODS
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller
from ullage.kube.events.recorder import Recorder
from ullage.kube.slices import Part, Wiring
from ullage.snapshots.backends.base import Backend, Restored, VolumeHandle
from ullage.snapshots.backends.longhorn.backend import LonghornBackend
from ullage.standalone.world.controllers.longhorn_volume import longhorn_volume_controller
from ullage.standalone.world.lookup import LonghornLookup, StorageLookup
from ullage.vms.api.machines import INSTANCES

SIZE: Final = 16 * 1024 * 1024
LENGTH: Final = 8  # bytes before the files, which say how many there are of them
SECONDS: Final = 20.0


class Engines:
    """A volume that is written to or read stays attached; the others are while somebody needs them."""

    foreign: tuple[str, ...] = ("", "snap://a", "snap://a/b/c", "snap://../b", "bs://a/b", "snap://A/b")
    unknown = "snap://a/no-such-snapshot"
    unknown_volume = "no-such-volume"
    keeps_names = True

    def __init__(self, api: MemoryApi, connection: HostConnection) -> None:
        self.backend: Backend = LonghornBackend(cast(Client, api), head=partial(ask_head_size, connection))
        self._api = api
        self._host = connection.host

    async def volume(self, name: str, files: Files) -> VolumeHandle:
        meta = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}
        self._api.put(VOLUMES, {"metadata": meta, "spec": {"size": str(SIZE)}})
        volume = VolumeHandle(handle=name)
        await self._attach(name)
        await self._write(name, files)
        return volume

    async def write(self, volume: VolumeHandle, files: Files) -> None:
        await self._attach(volume.handle)
        await self._write(volume.handle, {**await self._read(volume.handle), **files})

    async def write_sparse(self, volume: VolumeHandle, *, size: int, data: int) -> None:
        await self._host.write(volume.handle, offset=size - data, data=b"x" * data)

    async def read(self, restored: Restored) -> Files:
        name = restored.source["csi"]["volumeHandle"]
        await self._attach(name)
        return await self._read(name)

    async def snapshots(self) -> int:
        """Those that are marked are deleted: the engine keeps the one below the head until the next is taken."""
        entries = [
            entry
            for one in await self._host.list()
            if one.attached
            for entry in (await self._host.engine(one.name).snapshots()).entries.values()
        ]
        return sum(one.name != HEAD and one.user_created and not one.removed for one in entries)

    async def volumes(self) -> int:
        return len(await self._host.list())

    async def _attach(self, name: str) -> None:
        self._api.edit(VOLUMES, name, NAMESPACE, merge={"spec": {"nodeID": "here"}})
        await _until(lambda: self._engine(name).get("currentState") == "running")

    async def _write(self, name: str, files: Files) -> None:
        data = msgspec.msgpack.encode(dict(files))
        await self._host.write(name, offset=0, data=len(data).to_bytes(LENGTH) + data)

    async def _read(self, name: str) -> Files:
        length = int.from_bytes(await self._host.read(name, offset=0, length=LENGTH))
        data = await self._host.read(name, offset=LENGTH, length=length)
        return msgspec.msgpack.decode(data, type=dict[str, bytes])

    def _engine(self, name: str) -> dict[str, Any]:
        return (self._api.body(ENGINES, f"{name}-e-0", NAMESPACE) or {}).get("status") or {}


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110  engines change without anybody being told
            await asyncio.sleep(0.005)


def _controllers(wiring: Wiring, connection: HostConnection) -> list[Controller[Any]]:
    lookup, metrics, settings = lookup_of(wiring), Metrics(), Settings(interval=0.02)
    client, clock, told = wiring.client, wiring.clock, Told()
    polling = EngineMonitor(client, lookup, connection, settings=settings, metrics=metrics, clock=clock).controller()
    poll_now = polling.queue.add
    snapshots = SnapshotController(
        client, lookup, connection, settings=settings, recorder=told, metrics=metrics, poll_now=poll_now, clock=clock
    )
    longhorn = LonghornLookup(wiring, StorageLookup(wiring))
    return [
        polling,
        snapshots.controller(),
        VolumeController(client, lookup, needs_attachment=needs_attachment, clock=clock).controller(),
        longhorn_volume_controller(wiring, longhorn, connection.host, recorder=cast(Recorder, told)),
    ]


@asynccontextmanager
async def start(_directory: Path) -> AsyncIterator[System]:
    """In a directory of its own: the one that a test is given has too long a path for a socket."""
    async with contextlib.AsyncExitStack() as stack:
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engines-")))
        address = await stack.enter_async_context(serving(short / "volumes", short / "socket", clock=SystemClock()))
        api, connection = MemoryApi(), await stack.enter_async_context(HostConnection(address))
        wiring = Wiring(cast(Client, api))
        watched = (*KINDS, CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, NODES, PODS, INSTANCES)
        controllers = wiring.made(Part(make=lambda given: _controllers(given, connection), watches=watched))
        for held in wiring.held:
            await stack.enter_async_context(held)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        tasks = [group.create_task(cache.run()) for cache in wiring.caches]
        tasks += [group.create_task(one.run()) for one in controllers]
        try:
            yield Engines(api, connection)
        finally:
            for task in tasks:
                task.cancel()
