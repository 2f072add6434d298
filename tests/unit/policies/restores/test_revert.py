"""Restores in place inside engines: a real host of embedded engines, real controllers, a process that dies at every effect."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from tests.contract import longhorn
from tests.unit.policies.restores.scene import NS, RestoreScene
from tests.unit.snapshots.memory_api import Fuse, MemoryApi
from ullage.clock import SystemClock
from ullage.engines.api import KINDS, SNAPSHOTS, VOLUMES
from ullage.engines.client.connection import HostConnection
from ullage.engines.client.interface import EngineClient
from ullage.engines.handles import DRIVER, NAMESPACE
from ullage.engines.local.server.server import serving
from ullage.errors import Impossible, NotNow
from ullage.kube.builtin.core import CLAIMS, NODES, PERSISTENT_VOLUMES, PODS
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.client.client import Client
from ullage.kube.slices import Part, Wiring
from ullage.policies.restores.api import RESTORES
from ullage.policies.restores.methods.base import RestoreMethod
from ullage.policies.restores.methods.revert import RevertMethod
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.backends.base import Creation, VolumeHandle
from ullage.snapshots.backends.longhorn.backend import LonghornBackend
from ullage.vms.api.machines import INSTANCES

T = TypeVar("T")
SIZE = 4 << 20
OLD, NEW = b"old" * 1000, b"as it was" * 1000


class OwnFuse(Fuse):
    """Counts what is done to engines and their objects: what is written about a restore is counted elsewhere."""

    counts = True

    def before(self, what: str) -> None:
        self.counts = "snapshotrestores" not in what
        if self.counts:
            super().before(what)

    def after(self) -> None:
        if self.counts:
            super().after()


class OthersApi:
    """The same API for everybody else, whose processes do not die."""

    def __init__(self, api: MemoryApi) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._api, name)
        if name not in ("create", "patch", "delete"):
            return found

        async def unharmed(*args: Any, **named: Any) -> Any:
            fuse, self._api.fuse = self._api.fuse, Fuse()
            try:
                return await found(*args, **named)  # nothing in it waits
            finally:
                self._api.fuse = fuse

        return unharmed


class FusedEngines:
    """The real ones, with a moment before and after each revert at which the process may die."""

    def __init__(self, scene: EngineScene) -> None:
        self._scene = scene

    def of(self, volume: str) -> EngineClient:
        real, fuse = self._scene.connection.of(volume), self._scene.api.fuse
        revert = real.revert

        async def fused(name: str) -> None:
            fuse.before(f"revert {name.partition('-')[0]}")
            await revert(name)
            fuse.after()

        real.revert = fused  # type: ignore[method-assign]
        return real


class EngineScene(RestoreScene):
    driver = DRIVER

    def __init__(self, connection: HostConnection, number: int) -> None:
        super().__init__()
        self.api.fuse = OwnFuse()
        self.clock = cast(Any, SystemClock())  # tickets run out by the engines' clock
        self.connection = connection
        self.host = connection.host
        self.volume = f"vol-{number}"

    def methods(self, wiring: Wiring) -> Mapping[str, RestoreMethod]:
        backend = LonghornBackend(cast(Client, self.api))
        return {"Revert": RevertMethod(wiring.client, backend, FusedEngines(self), clock=self.clock)}

    async def taken(self) -> None:
        self.api.put(VOLUMES, {"metadata": {"name": self.volume, "namespace": NAMESPACE}, "spec": {"size": str(SIZE)}})
        self.claim({"csi": {"driver": DRIVER, "volumeHandle": self.volume}}, handle=self.volume)
        await self.write(NEW)
        taken = await LonghornBackend(cast(Client, self.api)).create(
            Creation(name="snapshot-uid-snap", volume=VolumeHandle(handle=self.volume))
        )
        self.snapshot(snapshot_handle=taken.handle)
        await self.write(OLD)

    async def write(self, data: bytes) -> None:
        await self._attached(lambda: self.host.write(self.volume, offset=0, data=data.ljust(16384, b".")))

    async def read(self) -> bytes:
        found = await self._attached(lambda: self.host.read(self.volume, offset=0, length=16384))
        return found.rstrip(b".")

    async def _attached(self, act: Callable[[], Awaitable[T]]) -> T:
        """A ticket of the controllers that ends just now takes the volume away once more: whoever comes then, comes again."""
        while True:
            await self._attach(attached=True)
            with contextlib.suppress(NotNow):
                found = await act()
                await self._attach(attached=False)
                return found

    async def _attach(self, *, attached: bool) -> None:
        """As a pod has it, and lets it go."""
        self.api.edit(VOLUMES, self.volume, NAMESPACE, merge={"spec": {"nodeID": "here" if attached else None}})
        async with asyncio.timeout(20):
            while (await self._frontend() == "grpc") is not attached:  # noqa: ASYNC110  the host tells nobody
                await asyncio.sleep(0.005)

    async def _frontend(self) -> str:
        found = {one.name: one for one in await self.host.list()}
        return found[self.volume].frontend if self.volume in found else ""

    def snapshots(self) -> list[str]:
        """Those that nobody deletes."""
        return [one["metadata"]["name"] for one in self.api.bodies(SNAPSHOTS) if not one["metadata"].get("deletionTimestamp")]

    async def reconcile(self, controller: Any, key: Any) -> Any:
        await asyncio.sleep(0.01)  # the engines' own controllers work meanwhile
        return await super().reconcile(controller, key)


@contextlib.asynccontextmanager
async def scenes() -> AsyncIterator[Callable[..., contextlib.AbstractAsyncContextManager[EngineScene]]]:
    """Makes scenes, all on one host of engines."""
    async with contextlib.AsyncExitStack() as stack:
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engines-")))
        address = await stack.enter_async_context(serving(short / "volumes", short / "socket", clock=SystemClock()))
        connection = await stack.enter_async_context(HostConnection(address))

        @contextlib.asynccontextmanager
        async def scene(number: int = 0) -> AsyncIterator[EngineScene]:
            made = EngineScene(connection, number)
            wiring = Wiring(cast(Client, OthersApi(made.api)))
            watched = (*KINDS, CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, NODES, PODS, INSTANCES)
            working = wiring.made(Part(make=lambda given: longhorn._controllers(given, connection), watches=watched))
            async with contextlib.AsyncExitStack() as held:
                for one in wiring.held:
                    await held.enter_async_context(one)
                tasks = [asyncio.create_task(cache.run()) for cache in wiring.caches]
                tasks += [asyncio.create_task(controller.run()) for controller in working]
                try:
                    await made.taken()
                    yield made
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

        yield scene


async def test_the_volume_is_reverted_and_what_it_was_is_a_snapshot_until_it_cannot_be_undone() -> None:
    async with scenes() as make, make() as scene:
        scene.ask()
        await scene.run(lambda: scene.phase() == "Complete", rounds=400)
        assert (await scene.read(), scene.restore().status.method) == (NEW, "Revert")
        assert scene.snapshots() == ["snapshot-uid-snap", "undo-uid-back-1"]
        assert not (scene.api.body(VOLUMES, scene.volume, NAMESPACE) or {})["spec"].get("attachmentTickets")
        scene.edit(undoWindow="0s")
        await scene.run(scene.settled, rounds=400)
        assert (await scene.read(), scene.snapshots()) == (NEW, ["snapshot-uid-snap"])


async def test_it_is_undone() -> None:
    async with scenes() as make, make() as scene:
        scene.ask()
        await scene.run(lambda: scene.phase() == "Complete", rounds=400)
        await scene.write(b"since then")
        scene.edit(undo=True)
        await scene.run(scene.settled, rounds=400)
        assert (await scene.read(), scene.phase()) == (OLD, "Undone")
        assert scene.snapshots() == ["snapshot-uid-snap"]


def _is_complete(scene: EngineScene) -> bool:
    return scene.phase() == "Complete"


@pytest.mark.slow  # a dozen lives of real engines; quick ones of the same steps are beside it
async def test_a_process_may_die_before_and_after_every_effect() -> None:
    async with scenes() as make:
        moment, died = 0, True
        while died:
            moment += 1
            async with make(moment) as scene:
                scene.api.fuse = OwnFuse(blows_at=moment)
                scene.ask()
                await scene.run(partial(_is_complete, scene), rounds=400)
                assert await scene.read() == NEW, f"moment {moment}"
                scene.edit(undo=True)
                await scene.run(scene.settled, rounds=400)
                assert (await scene.read(), scene.phase()) == (OLD, "Undone"), f"moment {moment}"
                assert scene.snapshots() == ["snapshot-uid-snap"], f"moment {moment}"
                died = scene.deaths > 0
        assert moment > 12


async def test_a_pod_keeps_its_data_and_its_frontend() -> None:
    async with scenes() as make, make() as scene:
        scene.pod()
        await scene._attach(attached=True)
        scene.ask()
        await scene.run(lambda: scene.said()[1] == "ClaimInUse")
        assert await scene._frontend() == "grpc"
        scene.api.remove(PODS, "db-0", NS)
        await scene._attach(attached=False)
        await scene.run(lambda: scene.phase() == "Complete", rounds=400)
        assert await scene.read() == NEW


async def test_what_was_written_between_two_tries_is_kept_too() -> None:
    """The process dies right before the revert, and a pod writes before the next one comes."""
    async with scenes() as make, make() as scene:
        scene.ask()
        await scene.run(lambda: scene.phase() == "Switching", rounds=400)
        await scene.run(lambda: "undo-uid-back-1" in scene.snapshots(), rounds=400)
        scene.api.edit(VOLUMES, scene.volume, NAMESPACE, merge={"spec": {"attachmentTickets": None}})
        await scene.write(b"written meanwhile")
        await scene.run(lambda: scene.phase() == "Complete", rounds=400)
        assert await scene.read() == NEW
        scene.edit(undo=True)
        await scene.run(scene.settled, rounds=400)
        assert (await scene.read(), scene.snapshots()) == (
            b"written meanwhile",
            ["snapshot-uid-snap"],
        )


async def test_a_revert_that_was_done_before_a_kill_counts_although_the_snapshot_has_gone_since() -> None:
    """Otherwise what the claim had before would go with a restore that says that it failed."""
    async with scenes() as make, make() as scene:
        scene.ask()
        await scene.run(lambda: scene.phase() == "Complete", rounds=400)
        killed = {"phase": "Switching", "completionTime": None, "undoUntil": None, "conditions": None}
        scene.api.edit(RESTORES, "back", NS, merge={"status": killed})
        scene.api.remove(GA.snapshots, "snap", NS)
        await scene.run(lambda: scene.phase() in ("Complete", "Failed"), rounds=400)
        assert (scene.phase(), await scene.read()) == ("Complete", NEW)
        scene.edit(undo=True)
        await scene.run(scene.settled, rounds=400)
        assert (await scene.read(), scene.phase()) == (OLD, "Undone")


@pytest.mark.parametrize("error", [NotNow("no room"), Impossible("no room")])
async def test_where_there_is_no_room_to_keep_what_it_has_nothing_changes(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scenes() as make, make() as scene:

        async def full(*_: object) -> None:
            raise error

        monkeypatch.setattr(LonghornBackend, "create", full)
        scene.ask()
        await scene.run(scene.settled, rounds=400)
        assert (await scene.read(), scene.phase(), scene.snapshots()) == (OLD, "Failed", ["snapshot-uid-snap"])
        assert "no room" in scene.said()[2]
