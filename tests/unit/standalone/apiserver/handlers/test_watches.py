"""Watches: what a client sees of what happened, and when it is told to begin anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.served_kinds import builtins
from tests.unit.standalone.apiserver.server_kit import GatedDatabase, eventually, request
from ullage.clock import FakeClock
from ullage.standalone.apiserver.handlers import watches
from ullage.standalone.apiserver.handlers.watches import Watcher
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.limits.deliveries import Deliveries
from ullage.standalone.apiserver.request.answers import Stream
from ullage.standalone.apiserver.status import ApiError
from ullage.standalone.apiserver.storage.store import Store

Json = dict[str, Any]
MAPS = next(resource for resource in builtins() if resource.plural == "configmaps")


class World:
    """A store, a watcher and a clock, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.store = Store(GatedDatabase(path))
        self.clock = FakeClock()
        self.served: Resource | None = MAPS
        self.watcher = Watcher(self.store, self.clock, lambda resource: self.served, Deliveries())

    async def put(self, name: str, *, namespace: str = "a", labels: Json | None = None, **rest: Any) -> int:
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}, **rest}
        if labels:
            obj["metadata"]["labels"] = labels
        head = self.store.head(MAPS.storage, namespace, name)
        return (await self.store.stage(MAPS.storage, obj, expect=head.rv if head else 0)).rv

    async def drop(self, name: str) -> int:
        head = self.store.head(MAPS.storage, "a", name)
        assert head is not None
        return (await self.store.stage_delete(MAPS.storage, head.obj(), expect=head.rv)).rv

    def watch(self, query: str = "", *, path: str = "/api/v1/configmaps", **headers: str) -> Client:
        asked = request("GET", f"{path}?watch=1&{query}", body=b"", **headers)
        return Client(self, self.watcher.watch(asked, MAPS))


class Client:
    """Reads a stream in the background."""

    def __init__(self, world: World, stream: Stream) -> None:
        self.world = world
        self.lines: list[Json] = []
        self.chunks = 0
        self.task = asyncio.create_task(self._read(stream.chunks))

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        async for chunk in chunks:
            self.chunks += 1
            self.lines += [json.loads(line) for line in chunk.splitlines()]

    async def settled(self) -> list[tuple[str, str, str]]:
        """Type, name and version of each line so far, once the watch has nothing more to send."""
        await eventually(lambda: self.task.done() or bool(self.world.store._caches.of(MAPS.storage).waiters))
        return [_short(line) for line in self.lines]

    async def ended(self) -> list[tuple[str, str, str]]:
        await asyncio.wait_for(self.task, 5)
        return [_short(line) for line in self.lines]


def _short(line: Json) -> tuple[str, str, str]:
    meta = line["object"].get("metadata") or {}
    return line["type"], meta.get("name", ""), meta.get("resourceVersion", "")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    found = World(tmp_path / "state.db")
    yield found
    found.watcher.close()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if "Client._read" in repr(task):
            await asyncio.wait_for(task, 5)
    await found.store.close()


class TestSelection:
    async def test_objects_that_begin_or_cease_to_match_come_as_added_and_deleted(self, world: World) -> None:
        client = world.watch("labelSelector=a%3D1&resourceVersion=0")
        await client.settled()
        await world.put("x", labels={"a": "0"})
        await world.put("x", labels={"a": "1"}, data={"was": "in"})
        await world.put("x", labels={"a": "1"}, data={"is": "in"})
        await world.put("x", labels={"a": "2"})
        await world.drop("x")
        await world.put("y", labels={"a": "1"})
        await world.drop("y")
        assert await client.settled() == [
            ("ADDED", "x", "2"),
            ("MODIFIED", "x", "3"),
            ("DELETED", "x", "4"),
            ("ADDED", "y", "6"),
            ("DELETED", "y", "7"),
        ]
        assert client.lines[2]["object"]["data"] == {"is": "in"}, "it goes as it was last seen"

    @pytest.mark.parametrize(
        ("query", "path", "names"),
        [
            pytest.param("", "/api/v1/configmaps", ["x", "y", "z"], id="everything"),
            pytest.param("", "/api/v1/namespaces/a/configmaps", ["x", "y"], id="one namespace"),
            pytest.param("fieldSelector=metadata.name%3Dx", "/api/v1/configmaps", ["x"], id="one name"),
            pytest.param("fieldSelector=metadata.name%21%3Dx", "/api/v1/configmaps", ["y", "z"], id="all but one name"),
            pytest.param("labelSelector=%21a", "/api/v1/configmaps", ["y", "z"], id="those without a label"),
            pytest.param("labelSelector=a&fieldSelector=metadata.namespace%3Db", "/api/v1/configmaps", [], id="nothing"),
        ],
    )
    async def test_the_initial_objects_and_the_events_are_selected_alike(
        self, world: World, query: str, path: str, names: list[str]
    ) -> None:
        before = world.store.revision
        await world.put("x", labels={"a": "1"})
        await world.put("y")
        await world.put("z", namespace="b")
        now = world.watch(f"{query}&resourceVersion=0", path=path)
        then = world.watch(f"{query}&resourceVersion={before or 1}", path=path)
        assert [name for _, name, _ in await now.settled()] == names
        assert [name for _, name, _ in await then.settled()] == [name for name in names if name != "x" or before]


class TestBeginning:
    async def test_from_a_version_it_sends_what_came_after_it(self, world: World) -> None:
        await world.put("x")
        second = await world.put("y")
        client = world.watch("resourceVersion=1")
        assert await client.settled() == [("ADDED", "y", str(second))]

    async def test_initial_events_end_with_a_bookmark_that_says_so(self, world: World) -> None:
        await world.put("x")
        await world.put("y")
        query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        client = world.watch(query)
        assert await client.settled() == [("ADDED", "x", "1"), ("ADDED", "y", "2"), ("BOOKMARK", "", "2")]
        assert client.lines[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await world.put("x")
        assert (await client.settled())[-1] == ("MODIFIED", "x", "3")

    async def test_without_initial_events_it_begins_now(self, world: World) -> None:
        await world.put("x")
        client = world.watch("sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
        await client.settled()
        await world.put("y")
        assert await client.settled() == [("ADDED", "y", "2")]

    async def test_many_initial_objects_come_in_pieces_of_one_moment(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Others get their turn between the pieces; what they do comes afterwards, as events."""
        monkeypatch.setattr(watches, "CHUNK", 2)
        for number in range(5):
            await world.put(f"x{number}")
        stream = world.watcher.watch(request("GET", "/api/v1/configmaps?watch=1"), MAPS)
        chunks = aiter(stream.chunks)
        first = await anext(chunks)
        await world.put("x4", data={"a": "b"})
        await world.drop("x3")
        lines = [json.loads(line) for line in first.splitlines()]
        while len(lines) < 7:
            lines += [json.loads(line) for line in (await anext(chunks)).splitlines()]
        assert [_short(line) for line in lines] == [
            *(("ADDED", f"x{number}", str(number + 1)) for number in range(5)),
            ("MODIFIED", "x4", "6"),
            ("DELETED", "x3", "7"),
        ]
        await chunks.aclose()  # type: ignore[attr-defined]

    @pytest.mark.parametrize("version", ["x", "-1", "9" * 30])
    async def test_a_version_that_is_none_is_refused(self, world: World, version: str) -> None:
        with pytest.raises(ApiError) as caught:
            world.watch(f"resourceVersion={version}")
        assert caught.value.code == 500


class TestTooOld:
    async def test_a_version_that_is_forgotten_is_gone(self, world: World) -> None:
        for _ in range(5):
            await world.put("x")
        await world.store.compact(4)
        world.store._caches.of(MAPS.storage).floor = 5
        client = world.watch("resourceVersion=2")
        assert (await client.ended())[0][0] == "ERROR"
        status = client.lines[0]["object"]
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert status["message"] == "too old resource version: 2 (4)"

    async def test_the_oldest_version_that_is_kept_is_not(self, world: World) -> None:
        for _ in range(5):
            await world.put("x")
        await world.store.compact(4)
        world.store._caches.of(MAPS.storage).floor = 5
        assert await world.watch("resourceVersion=4").settled() == [("MODIFIED", "x", "5")]

    async def test_an_idle_watch_does_not_age(self, world: World) -> None:
        """Its position moves with the store, though its own kind is still: history may go from under it."""
        await world.put("x")
        client = world.watch("resourceVersion=1")
        await client.settled()
        for number in range(20):
            await world.store.stage("others", {"metadata": {"name": f"o{number}"}}, expect=0)
        world.store.wake()
        await client.settled()
        await world.store.compact(19)
        await world.put("y")
        assert await client.settled() == [("ADDED", "y", "22")]


class TestTime:
    async def wake(self, world: World, seconds: float) -> None:
        world.clock.advance(seconds)
        world.store.wake()
        for _ in range(5):
            await asyncio.sleep(0)

    async def test_it_ends_when_its_time_is_up(self, world: World) -> None:
        client = world.watch("timeoutSeconds=10")
        await client.settled()
        await self.wake(world, 9.9)
        assert not client.task.done()
        await self.wake(world, 0.2)
        assert await client.ended() == []

    async def test_it_does_not_last_for_ever_if_nobody_says_how_long(self, world: World) -> None:
        client = world.watch()
        await client.settled()
        await self.wake(world, timedelta(hours=1).total_seconds())
        await client.ended()

    async def test_bookmarks_come_every_minute_and_at_the_end_to_those_who_asked(self, world: World) -> None:
        client, other = world.watch("allowWatchBookmarks=true&timeoutSeconds=100"), world.watch("timeoutSeconds=100")
        await client.settled()
        await world.store.stage("others", {"metadata": {"name": "o"}}, expect=0)
        await self.wake(world, 61)
        assert await client.settled() == [("BOOKMARK", "", "1")]
        await self.wake(world, 61)
        assert await client.ended() == [("BOOKMARK", "", "1"), ("BOOKMARK", "", "1")]
        assert client.lines[0]["object"] == {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "1"},
        }
        assert await other.ended() == []

    async def test_it_ends_when_the_server_stops(self, world: World) -> None:
        clients = [world.watch(), world.watch("labelSelector=a")]
        for client in clients:
            await client.settled()
        world.watcher.close()
        for client in [*clients, world.watch()]:
            await client.ended()

    async def test_it_ends_with_its_kind(self, world: World) -> None:
        client = world.watch()
        await client.settled()
        world.served = None
        world.store.wake(MAPS.storage)
        assert await client.ended() == []


class TestShapes:
    async def test_a_table_says_its_columns_once(self, world: World) -> None:
        await world.put("x")
        await world.put("y")
        client = world.watch(accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        await client.settled()
        tables = [line["object"] for line in client.lines]
        assert [table["kind"] for table in tables] == ["Table", "Table"]
        assert [bool(table.get("columnDefinitions")) for table in tables] == [True, False]

    async def test_metadata_alone(self, world: World) -> None:
        await world.put("x", data={"a": "b"})
        client = world.watch(accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
        await client.settled()
        shown = client.lines[0]["object"]
        assert (shown["kind"], shown["metadata"]["name"], "data" in shown) == ("PartialObjectMetadata", "x", False)


class TestSlowClients:
    async def test_a_client_that_does_not_read_holds_back_nobody(self, world: World) -> None:
        stream = world.watcher.watch(request("GET", "/api/v1/configmaps?watch=1"), MAPS)
        chunks = aiter(stream.chunks)
        await world.put("x0")
        await anext(chunks)  # and no further
        quick = world.watch("resourceVersion=1")
        for number in range(1, 50):
            await world.put(f"x{number}")
        assert len(await quick.settled()) == 49
        late = b"".join([await anext(chunks)])
        assert late.count(b"\n") == 49
        await chunks.aclose()  # type: ignore[attr-defined]
        assert len(world.store._caches.of(MAPS.storage).waiters) == 1

    @pytest.mark.parametrize("query", ["watch=1", "watch=1&resourceVersion=1"])
    async def test_a_client_that_leaves_in_the_middle_of_an_object_leaves_nothing_behind(
        self, world: World, query: str
    ) -> None:
        await world.put("x0")
        await world.put("x1", data={"a": "b" * 500_000})
        chunks = aiter(world.watcher.watch(request("GET", f"/api/v1/configmaps?{query}"), MAPS).chunks)
        await anext(chunks)
        assert world.watcher._deliveries.held > 500_000
        await chunks.aclose()  # type: ignore[attr-defined]
        assert world.watcher._deliveries.held == 0
