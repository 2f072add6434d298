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
from tests.unit.snapshots.memory_api import Crash, Fuse, MemoryApi
from ullage.clock import SystemClock
from ullage.engines.api import ENGINE_SNAPSHOTS, KINDS, VOLUMES
from ullage.engines.chain import Entry
from ullage.engines.client.connection import HostConnection
from ullage.engines.client.interface import EngineClient
from ullage.engines.handles import DRIVER, NAMESPACE
from ullage.engines.local.server.server import serving
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.kube.builtin.core import CLAIMS, NODES, PERSISTENT_VOLUMES, PODS
from ullage.kube.builtin.storage import STORAGE_CLASSES
from ullage.kube.client.client import Client
from ullage.kube.slices import Part, Wiring
from ullage.policies.restores.api import SNAPSHOT_RESTORES
from ullage.policies.restores.methods.base import RestoreMethod
from ullage.policies.restores.methods.revert import RevertMethod
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.backends.base import Creation, VolumeHandle
from ullage.snapshots.backends.longhorn.backend import LonghornBackend
from ullage.vms.api.machines import INSTANCES

T = TypeVar("T")
SIZE = 4 << 20
OLD, NEW = b"old" * 1000, b"as it was" * 1000


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
        revert, entries = real.revert, real.list

        async def listed() -> Mapping[str, Entry]:
            if self._scene.mute is not None:
                raise self._scene.mute
            return await entries()

        async def fused(name: str) -> None:
            fuse.before(f"revert {name.partition('-')[0]}")
            await revert(name)
            fuse.after()

        real.revert, real.list = fused, listed  # type: ignore[method-assign]
        return real


class EngineScene(RestoreScene):
    driver = DRIVER

    def __init__(self, connection: HostConnection, number: int) -> None:
        super().__init__()
        self.clock = cast(Any, SystemClock())  # tickets run out by the engines' clock
        self.connection = connection
        self.host = connection.host
        self.volume = f"vol-{number}"
        self.mute: Exception | None = None  # what its engine answers instead of what it has

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

    def ticket_ends(self) -> None:
        """That of a process that was killed, after a while."""
        ticket = f"restore-{self.restore().metadata.uid}"
        self.api.edit(VOLUMES, self.volume, NAMESPACE, merge={"spec": {"attachmentTickets": {ticket: None}}})

    def pod_waits(self) -> None:
        """One that nobody attaches the volume for: it cannot be scheduled, say."""
        self.ticket_ends()
        self.pod(phase="Pending")

    def pods_gone(self) -> None:
        for one in self.api.bodies(PODS):
            self.api.remove(PODS, one["metadata"]["name"], NS)

    async def detached(self) -> None:
        async with asyncio.timeout(20):
            while any(one.name == self.volume and one.attached for one in await self.host.list()):  # noqa: ASYNC110  the host tells nobody
                await asyncio.sleep(0.005)

    def dies_after(self, what: str) -> None:
        """The process, once, as soon as this has been done."""
        fuse, after = self.api.fuse, self.api.fuse.after

        def dies() -> None:
            after()
            if fuse.log[-1].startswith(what) and not self.deaths:
                raise Crash

        fuse.after = dies  # type: ignore[method-assign]

    def snapshots(self) -> list[str]:
        """Those that nobody deletes."""
        return [
            one["metadata"]["name"] for one in self.api.bodies(ENGINE_SNAPSHOTS) if not one["metadata"].get("deletionTimestamp")
        ]

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


AFTER_A_KILL: Mapping[str, Callable[[EngineScene], None]] = {
    "all is as it was": lambda scene: None,
    "a pod waits": EngineScene.pod_waits,
}
NOT_KNOWN = "whether volume {} was reverted already is seen only while its engine runs"


def _ended(scene: EngineScene) -> bool:
    return scene.phase() == "Complete" or scene.settled()


def _is_late(scene: EngineScene) -> bool:
    return _ended(scene) or NOT_KNOWN.format(scene.volume) in scene.restore().status.progress


def _rests(scene: EngineScene) -> bool:
    return _is_late(scene) or scene.said()[1] == "ClaimInUse"


def _undone(scene: EngineScene) -> bool:
    return scene.settled() or scene.said("Undoable")[1] == "ClaimInUse"


@pytest.mark.slow  # some dozen lives of real engines; quick ones of the same steps are beside it
@pytest.mark.parametrize("found", AFTER_A_KILL)
async def test_a_process_may_die_before_and_after_every_effect(found: str) -> None:
    """A restore that has failed has changed nothing, also when the next process comes too late to begin; one that has not is
    undone in the end, and nothing is kept."""
    async with scenes() as make:
        moment, died = 0, True
        while died:
            moment += 1
            async with make(moment) as scene:
                scene.api.fuse = Fuse(blows_at=moment)
                scene.at_death = partial(AFTER_A_KILL[found], scene)
                scene.ask()
                await scene.run(partial(_rests, scene), rounds=400)
                scene.edit(startWithin="0s")
                await scene.run(partial(_is_late, scene), rounds=400)
                scene.pods_gone()
                await scene.run(partial(_ended, scene), rounds=400)
                came = (scene.phase(), await scene.read())
                assert came in (("Complete", NEW), ("Failed", OLD)), f"moment {moment}"
                scene.edit(undo=True)
                await scene.run(partial(_undone, scene), rounds=400)
                scene.pods_gone()
                await scene.run(scene.settled, rounds=400)
                ended = "Undone" if came[0] == "Complete" else "Failed"
                assert (await scene.read(), scene.phase()) == (OLD, ended), f"moment {moment}"
                assert scene.snapshots() == ["snapshot-uid-snap"], f"moment {moment}"
                died = scene.deaths > 0
        assert moment > 24


@pytest.mark.parametrize("then", ["the pod goes", "the pod runs", "the restore is deleted and the pod runs"])
async def test_a_revert_that_was_done_before_a_kill_counts_although_a_pod_waits_and_the_time_to_begin_is_over(
    then: str,
) -> None:
    """As long as its engine does not run nobody knows, and what is kept is all there is of the old data."""
    async with scenes() as make, make() as scene:
        scene.dies_after("revert")
        scene.at_death = scene.pod_waits
        scene.ask()
        await scene.run(lambda: scene.deaths == 1, rounds=400)
        await scene.detached()
        scene.edit(startWithin="0s")
        if "deleted" in then:
            scene.api.remove(SNAPSHOT_RESTORES, "back", NS)
        with pytest.raises(AssertionError, match="for ever"):
            await scene.run(lambda: scene.phase() != "Switching", rounds=20)
        used = "claim db is used by pod db-0; scale it down: kubectl scale statefulset db -n team --replicas=0"
        assert scene.restore().status.progress == f"{used}; {NOT_KNOWN.format(scene.volume)}"
        assert scene.snapshots() == ["snapshot-uid-snap", "undo-uid-back-1"]
        if then == "the pod goes":
            scene.pods_gone()
        else:
            await scene._attach(attached=True)
        await scene.run(lambda: scene.phase() == "Complete", rounds=400)
        scene.pods_gone()
        await scene._attach(attached=False)
        assert await scene.read() == NEW
        if "deleted" in then:
            await scene.run(scene.gone, rounds=400)
        else:
            scene.edit(undo=True)
            await scene.run(scene.settled, rounds=400)
            assert (await scene.read(), scene.phase()) == (OLD, "Undone")


async def test_a_pod_that_waits_where_nothing_is_kept_yet_ends_a_restore_that_comes_too_late() -> None:
    """Nothing can have changed without a snapshot of what the claim had."""
    async with scenes() as make, make() as scene:
        scene.ask()
        await scene.run(lambda: scene.phase() == "Switching", rounds=400)
        scene.pod_waits()
        await scene.detached()
        scene.edit(startWithin="0s")
        await scene.run(scene.settled, rounds=400)
        assert (scene.phase(), scene.snapshots()) == ("Failed", ["snapshot-uid-snap"])
        scene.pods_gone()
        assert await scene.read() == OLD


@pytest.mark.parametrize("error", [NotNow("not now"), Impossible("no such volume"), Uncertain("no answer")], ids=str)
async def test_an_engine_that_does_not_say_what_it_has_ends_nothing(error: Exception) -> None:
    async with scenes() as make, make() as scene:
        scene.dies_after("revert")
        scene.ask()
        await scene.run(lambda: scene.deaths == 1, rounds=400)
        scene.mute = error
        with pytest.raises(AssertionError, match="for ever"):
            await scene.run(lambda: scene.phase() != "Switching", rounds=20)
        assert scene.snapshots() == ["snapshot-uid-snap", "undo-uid-back-1"]
        scene.mute = None
        await scene.run(lambda: scene.phase() == "Complete", rounds=400)
        scene.edit(undo=True)
        scene.mute = error
        with pytest.raises(AssertionError, match="for ever"):
            await scene.run(lambda: scene.phase() == "Undone" or scene.said("Undoable")[1] == "UndoFailed", rounds=20)
        scene.mute = None
        await scene.run(scene.settled, rounds=400)
        assert (await scene.read(), scene.phase()) == (OLD, "Undone")


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


@pytest.mark.parametrize("snapshotted", [False, True], ids=["in the head", "in a snapshot that a schedule took"])
async def test_what_was_written_between_two_tries_is_kept_too(*, snapshotted: bool) -> None:
    """The process dies right before the revert, and a pod writes before the next one comes."""
    async with scenes() as make, make() as scene:
        scene.ask()
        await scene.run(lambda: scene.phase() == "Switching", rounds=400)
        await scene.run(lambda: "undo-uid-back-1" in scene.snapshots(), rounds=400)
        scene.ticket_ends()
        await scene.write(b"written meanwhile")
        if snapshotted:
            nightly = Creation(name="snapshot-uid-nightly", volume=VolumeHandle(handle=scene.volume))
            await LonghornBackend(cast(Client, scene.api)).create(nightly)
        await scene.run(lambda: scene.phase() == "Complete", rounds=400)
        assert await scene.read() == NEW
        scene.edit(undo=True)
        await scene.run(scene.settled, rounds=400)
        nightlies = ["snapshot-uid-nightly"] if snapshotted else []
        assert (await scene.read(), scene.snapshots()) == (b"written meanwhile", ["snapshot-uid-snap", *nightlies])


async def test_a_revert_that_was_done_before_a_kill_counts_although_the_snapshot_has_gone_since() -> None:
    """Otherwise what the claim had before would go with a restore that says that it failed."""
    async with scenes() as make, make() as scene:
        scene.ask()
        await scene.run(lambda: scene.phase() == "Complete", rounds=400)
        killed = {"phase": "Switching", "completionTime": None, "undoUntil": None, "conditions": None}
        scene.api.edit(SNAPSHOT_RESTORES, "back", NS, merge={"status": killed})
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
