"""A cache on a server that dies, behind a network that breaks, with a history too short to catch up from.

Whatever happens: in the end the cache is what a fresh list is, and a handler that knows nothing but what it was told agrees,
down to each object that ever was there.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import random
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from ullage.kube.backoff import Backoff
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key, key_of
from ullage.kube.cache.reflector import WatchTiming
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.errors import ApiError, Gone, Invalid, NotFound
from ullage.kube.kinds import Kind, Meta, Object
from ullage.kube.metrics import Metrics

from .control_plane import EmbeddedServer
from .cutter import Cutter
from .kinds import throwaway

pytestmark = pytest.mark.skipif("E2E_KUBECONFIG" in os.environ, reason="only a server of our own may be killed")

NAMESPACE = "chaos"
OBJECTS = 1000
PATIENCE = 60.0


class ConfigMap(Object):
    data: Mapping[str, str] = {}


MAPS = Kind("", "v1", "ConfigMap", "configmaps", ConfigMap, status=False)
NAMESPACES = Kind("", "v1", "Namespace", "namespaces", Object, namespaced=False, whole=False)
DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", Object, namespaced=False, whole=False
)
CRUMBS = Kind("chaos.example.com", "v1", "Crumb", "crumbs", Object, whole=False)


class ListingClient(Client):
    """A client of a server that cannot stream what is there, such as any before 1.32."""

    def watch(self, kind: Kind[Any], namespace: str = "", **options: Any) -> Any:
        if options.get("initial_events"):
            raise Invalid("sendInitialEvents is forbidden", code=422)
        return super().watch(kind, namespace, **options)


class Listener:
    """Sees what handlers see, and checks that it makes sense."""

    def __init__(self) -> None:
        self.view: dict[Key, Object] = {}
        self.come: set[str] = set()
        self.gone: set[str] = set()
        self.faults: list[str] = []  # a handler that raises would only be logged

    def __call__(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        key = key_of(obj)
        if self.view.get(key) is not old:
            self.faults.append(f"{key}: told that {old} was there, where {self.view.get(key)} was")
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self.faults.append(f"{key}: nobody was told that {old.metadata.uid} went")
        if new is None:
            self.view.pop(key, None)
            self.gone.add(obj.metadata.uid)
        else:
            self.view[key] = new
            self.come.add(obj.metadata.uid)


class World:
    """The server, the broken way to it, the cache at the end of that way, and a way of our own that never breaks."""

    def __init__(self, server: EmbeddedServer, cutter: Cutter, direct: Client, cache: Cache[ConfigMap]) -> None:
        self.server, self.cutter, self.direct, self.cache = server, cutter, direct, cache
        self.listener = Listener()
        self.random = random.Random(20260101)
        self.names: list[str] = []

    async def change(self, count: int, *, padding: int = 100) -> None:
        """Creates, replaces, deletes, and deletes and makes anew: each about as often, on names of its own choosing."""
        gate = asyncio.Semaphore(8)
        numbers = range(len(self.names), len(self.names) + count)
        await asyncio.gather(*(self._change(number, padding, gate) for number in numbers))

    async def _change(self, number: int, padding: int, gate: asyncio.Semaphore) -> None:
        kind = self.random.choice(["create", "replace", "delete", "anew"]) if len(self.names) > 20 else "create"
        if kind == "create":
            name = f"m-{number:05}"
            self.names.append(name)
        else:
            name = self.random.choice(self.names)
        async with gate:
            if kind in {"delete", "anew"}:
                with contextlib.suppress(ApiError):  # the server is down, or another change was first
                    await self.direct.delete(MAPS, name, NAMESPACE)
            if kind != "delete":
                data = {"number": str(number), "padding": "x" * padding}
                made = {"metadata": {"labels": {"kind": kind}}, "data": data}
                with contextlib.suppress(ApiError):
                    await self.direct.patch(MAPS, name, NAMESPACE, apply=made)

    async def check(self) -> None:
        """Once the cache has come to the present, all three views are the same."""
        mark = await self.direct.patch(MAPS, "mark", NAMESPACE, apply={"data": {"n": str(self.random.random())}}, force=True)
        await asyncio.wait_for(self.cache.reached(int(mark.metadata.resource_version)), PATIENCE)
        fresh = {key_of(obj): obj for obj in (await self.direct.list(MAPS, NAMESPACE)).items}
        assert {key_of(obj): obj for obj in self.cache.items()} == fresh
        assert self.listener.view == fresh
        assert self.listener.faults == []
        assert self.listener.come - self.listener.gone == {obj.metadata.uid for obj in fresh.values()}
        by_kind = {value: {key_of(obj) for obj in self.cache.by("by_kind", value)} for value in ("create", "replace", "anew")}
        assert by_kind == {
            value: {key for key, obj in fresh.items() if obj.metadata.labels.get("kind") == value} for value in by_kind
        }

    async def forgotten(self, version: int) -> None:
        """Makes the server forget a version: what it keeps is bounded in time on disk, and in size in memory."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            await self.change(50, padding=20_000)
            try:
                async for _ in self.direct.watch(MAPS, NAMESPACE, resource_version=str(version), timeout=1):
                    break
            except Gone:
                return
        raise AssertionError(f"the server still knows version {version}")


@pytest.fixture(params=["streams", "lists"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    server = EmbeddedServer(tmp_path / "data", options=["--history", "1"])
    server.data_dir.mkdir()
    await asyncio.to_thread(server.start)
    config = Config.load(server.kubeconfig)
    timing = WatchTiming(retry=Backoff(first=0.02, cap=0.2), absent=Backoff(first=0.02, cap=0.2))
    metrics = Metrics(CollectorRegistry())
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, server.stop)
        cutter = await stack.enter_async_context(Cutter(server.port))
        direct = await stack.enter_async_context(Client(config))
        through = dataclasses.replace(config, server=f"https://127.0.0.1:{cutter.port}")
        client = await stack.enter_async_context((Client if request.param == "streams" else ListingClient)(through))
        await direct.patch(NAMESPACES, NAMESPACE, apply={})
        cache = Cache(client, MAPS, namespace=NAMESPACE, timing=timing, metrics=metrics)
        cache.index("by_kind", lambda obj: [obj.metadata.labels[label] for label in obj.metadata.labels if label == "kind"])
        made = World(server, cutter, direct, cache)
        cache.handle(made.listener)
        running = asyncio.create_task(cache.run())
        stack.callback(running.cancel)
        await asyncio.wait_for(cache.synced.wait(), PATIENCE)
        await made.change(100)
        await made.check()
        yield made


async def test_the_server_is_killed_and_comes_back(world: World) -> None:
    for _ in range(3):
        changing = asyncio.create_task(world.change(200))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(world.server.kill)
        await asyncio.to_thread(world.server.start)
        await changing
    await world.change(50)
    await world.check()


async def test_connections_are_cut_in_the_middle_of_events(world: World) -> None:
    world.cutter.after = lambda: world.random.randrange(8_000, 120_000)
    world.cutter.cut()
    async with asyncio.timeout(PATIENCE):
        while world.cutter.cuts < 20:
            await world.change(20, padding=20_000)  # more than a TLS record: most cuts are inside an event
    world.cutter.after = lambda: None
    world.cutter.cut()
    await world.check()


async def test_a_thousand_objects_change_while_it_is_away(world: World) -> None:
    position = world.cache.position()
    world.cutter.refusing = True
    world.cutter.cut()
    await world.change(OBJECTS)
    await world.forgotten(position)
    assert world.cache.position() == position
    gone = set(world.listener.gone)
    world.cutter.refusing = False
    await world.check()
    assert world.listener.gone - gone, "objects went while it was away, and it was told"


async def test_all_at_once(world: World) -> None:
    """Killed, cut, and made to forget, while everything changes."""
    world.cutter.after = lambda: world.random.choice([None, world.random.randrange(3_000, 60_000)])
    for _ in range(3):
        changing = asyncio.create_task(world.change(OBJECTS // 4, padding=2_000))
        await asyncio.sleep(0.2)
        world.cutter.refusing = True
        world.cutter.cut()
        await asyncio.to_thread(world.server.kill)
        await asyncio.to_thread(world.server.start)
        await changing
        await world.forgotten(world.cache.position())
        world.cutter.refusing = False
    world.cutter.after = lambda: None
    world.cutter.cut()
    await world.check()


async def test_a_kind_comes_and_goes_and_comes_again(world: World) -> None:
    timing = WatchTiming(retry=Backoff(first=0.02, cap=0.2), absent=Backoff(first=0.02, cap=0.2))
    cache = Cache(world.direct, CRUMBS, timing=timing)
    listener = Listener()
    cache.handle(listener)
    running = asyncio.create_task(cache.run())
    try:
        await asyncio.wait_for(cache.synced.wait(), PATIENCE)
        assert (cache.served, len(cache)) == (False, 0)
        for turn in range(2):
            definition = throwaway("chaos.example.com")
            name = definition["metadata"]["name"]
            await world.direct.patch(DEFINITIONS, name, apply=definition)
            made = await crumb(world.direct, f"crumb-{turn}")
            await asyncio.wait_for(cache.reached(int(made.metadata.resource_version)), PATIENCE)
            assert [obj.metadata.uid for obj in cache.items()] == [made.metadata.uid]
            await world.direct.delete(DEFINITIONS, name)
            await asyncio.wait_for(until_absent(cache), PATIENCE)
            assert len(cache) == 0
            assert made.metadata.uid in listener.gone
        assert listener.faults == []
    finally:
        running.cancel()


async def crumb(client: Client, name: str) -> Object:
    while True:  # a kind is served a moment after its definition is accepted
        try:
            return await client.create(CRUMBS, Object(metadata=Meta(name=name, namespace=NAMESPACE)))
        except NotFound:
            await asyncio.sleep(0.05)


async def until_absent(cache: Cache[Object]) -> None:
    while cache.served:  # noqa: ASYNC110  # nobody but this test waits for it
        await asyncio.sleep(0.02)
