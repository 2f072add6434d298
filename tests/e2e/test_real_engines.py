"""The controllers of engine snapshots with real longhorn-engine processes, which their Engines say where to find: snapshots
are taken, shown, merged away and limited as with embedded engines, and a storm of kills leaves nothing behind.

The API is in memory: what is new here is who answers behind the protocol.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.longhorn_engine import RealEngine
from tests.unit.engines.world import NS, World, holds
from tests.unit.snapshots.memory_api import Crash
from tools.peers.longhorn.build import engine
from ullage.engines.api import ENGINES, VOLUMES
from ullage.engines.chain import HEAD, Entry, Limits
from ullage.engines.client.channels import Channels
from ullage.engines.client.longhorn import LonghornClient
from ullage.engines.instances import running_engines
from ullage.engines.settings import Settings
from ullage.kube.backoff import Backoff
from ullage.kube.controller.controller import Controller
from ullage.kube.slices import Wiring

from .built import built

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # the first time includes the build

SIZE = 16 << 20
DEATHS = 15


@pytest.fixture(scope="module")
def program() -> Path:
    return built(engine)


class RealWorld(World):
    """Volumes whose engines are processes. Somebody else attaches them, and says in their Engines where they listen."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.real: dict[str, RealEngine] = {}
        self.dead: set[str] = set()
        self.channels = Channels()
        self.found: Any = None
        self.held: list[Any] = []
        super().__init__(settings=Settings(manage=True, interval=0.1), backoff=Backoff(first=0.02, cap=0.2))

    def of(self, volume: str) -> Any:
        return self.found.of(volume)

    def start(self, name: str, **spec: Any) -> LonghornClient:
        """A volume with an engine; the client that a test asks it with."""
        self.real[name] = RealEngine(self.program, volume=name, size=SIZE, frontend="socket")
        body = {"metadata": {"name": name, "namespace": NS, "uid": f"uid-{name}"}, "spec": {"size": str(SIZE), **spec}}
        self.api.put(VOLUMES, body)
        self.engine_object(f"{name}-e-0", name)
        self.attach()
        return LonghornClient(self.channels, self.real[name].address, volume=name)

    def kill(self, name: str) -> None:
        self.dead.add(name)
        self.real[name].end()

    def attach(self) -> None:
        for body in list(self.api.bodies(ENGINES)):
            ip, _, port = self.real[body["spec"]["volumeName"]].address.removeprefix("tcp://").rpartition(":")
            wanted = {"currentState": "running", "ip": ip, "port": int(port)}
            if not wanted.items() <= (body.get("status") or {}).items():
                self.api.edit(ENGINES, body["metadata"]["name"], NS, merge={"status": wanted})

    def _controllers(self, wiring: Wiring) -> list[Controller[Any]]:
        self.found = running_engines(wiring)
        self.held.append(self.found)
        return super()._controllers(wiring)


@asynccontextmanager
async def world_of(program: Path) -> AsyncIterator[RealWorld]:
    world = RealWorld(program)
    try:
        yield world
    finally:
        for held in world.held:
            await held.__aexit__(None, None, None)
        await world.channels.close()
        for name in world.real.keys() - world.dead:
            world.kill(name)


async def entries(client: LonghornClient) -> dict[str, Entry]:
    return dict((await client.snapshots()).entries)


async def test_the_life_of_snapshots_inside_a_real_engine(program: Path) -> None:
    async with world_of(program) as world:
        client = world.start("real-life", snapshotMaxCount=5, snapshotMaxSize=str(SIZE))
        world.ask("first", "real-life", labels={"job": "daily"})
        await world.live(lambda: world.ready("first"))
        found = world.snapshot("first")
        assert found is not None
        assert (found.status.labels, found.status.user_created, found.status.children) == ({"job": "daily"}, True, {HEAD: True})
        state = await client.state()
        assert (state.max_count, state.max_size) == (5, SIZE)

        await client.system_snapshot("rebuilt", created=datetime(2026, 1, 1, tzinfo=UTC))
        await client.snapshot("by-hand")
        await world.live(lambda: world.ready("rebuilt") and world.ready("by-hand"))
        shown = world.snapshot("rebuilt")
        assert shown is not None
        assert not shown.status.user_created

        world.delete("first")
        await world.live(lambda: world.gone("first"))
        assert set(await entries(client)) == {"by-hand", HEAD}, "a purge takes the system's own along"
        await world.live(lambda: world.names() == {"by-hand"})

        world.delete("by-hand")
        await world.live(lambda: world.condition("LogicallyRemoved", "by-hand") == "ParentOfHead")
        assert (await entries(client))["by-hand"].removed
        world.ask("last", "real-life")
        await world.live(lambda: world.ready("last") and world.gone("by-hand"))
        assert set(await entries(client)) == {"last", HEAD}

        world.delete_volume("real-life")
        await world.live(lambda: not world.names() and not world.api.bodies(VOLUMES))


async def test_limits_hold_in_a_real_engine_and_are_lifted(program: Path) -> None:
    async with world_of(program) as world:
        client = world.start("real-full", snapshotMaxCount=2)
        for name in ("a", "b"):
            world.ask(name, "real-full")
        await world.live(lambda: world.ready("a") and world.ready("b"))
        world.ask("c", "real-full")
        await world.live(lambda: world.condition("Failed", "c") == "SnapshotCountLimit")
        world.delete("c")
        await world.live(lambda: world.gone("c"))
        world.api.edit(VOLUMES, "real-full", NS, merge={"spec": {"snapshotMaxCount": 3, "snapshotMaxSize": str(SIZE)}})
        world.ask("d", "real-full")
        await world.live(lambda: world.ready("d"))
        world.api.edit(VOLUMES, "real-full", NS, merge={"spec": {"snapshotMaxCount": 0, "snapshotMaxSize": "0"}})

        async def given() -> Limits:
            state = await client.state()
            return Limits.told(max_count=state.max_count, max_size=state.max_size)

        async with world.running():
            await holds(lambda: _shown(world, "real-full-e-0") == (250, "0"))
        assert await given() == Limits(max_count=250)


def _shown(world: RealWorld, engine: str) -> tuple[int, str]:
    status = _engine_status(world, engine)
    return status.get("snapshotMaxCount", 0), status.get("snapshotMaxSize", "0")


async def test_an_engine_that_has_died_is_said_to_and_nothing_is_taken_away(program: Path) -> None:
    async with world_of(program) as world:
        world.start("real-dead")
        world.ask("kept", "real-dead")
        await world.live(lambda: world.ready("kept"))
        async with world.running():
            world.kill("real-dead")
            await holds(lambda: "ReplicaList" in _engine_status(world, "real-dead-e-0").get("snapshotsError", ""))
        assert world.ready("kept")


def _engine_status(world: RealWorld, engine: str) -> dict[str, Any]:
    found: dict[str, Any] = (world.body(ENGINES, engine) or {}).get("status", {})
    return found


async def test_a_storm_of_kills_leaves_nothing_behind_in_real_engines(program: Path) -> None:
    chance = random.Random(1)
    async with world_of(program) as world:
        volumes = ("real-storm-0", "real-storm-1")
        clients = {name: world.start(name) for name in volumes}
        asked: dict[str, str] = {}
        number = deaths = 0

        def calm() -> bool:
            left = world.names() - asked.keys()
            return all(world.condition("LogicallyRemoved", name) for name in left) and all(map(world.ready, asked))

        while deaths < DEATHS:
            for _ in range(chance.randint(1, 4)):
                if asked and chance.random() < 0.4:
                    name = chance.choice(sorted(asked))
                    del asked[name]
                    world.delete(name)
                else:
                    number += 1
                    asked[f"snap-{number}"] = chance.choice(volumes)
                    world.ask(f"snap-{number}", asked[f"snap-{number}"])
            fuse = world.api.fuse
            fuse.passed, fuse.blows_at = 0, chance.randint(1, 20)
            try:
                async with world.running():
                    await holds(lambda fuse=fuse: calm() or fuse.passed >= fuse.blows_at, seconds=60)  # type: ignore[misc]
            except* Crash:
                deaths += 1
        world.api.fuse.blows_at = -1
        async with world.running(), asyncio.timeout(240):
            # A mark may be of a time when its snapshot was the parent of a head: then the next purge takes it.
            while not calm() or any([await lingering(client) for client in clients.values()]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        for volume, client in clients.items():
            found = await entries(client)
            marked = {name for name, entry in found.items() if entry.removed}
            assert set(found) - {HEAD} - marked == {name for name, of in asked.items() if of == volume}


async def lingering(client: LonghornClient) -> bool:
    """Whether something is marked as removed that need not stay: only the parent of a head has to."""
    return any(entry.removed and entry.children != {HEAD} for entry in (await entries(client)).values())
