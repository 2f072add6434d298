"""The API server of a user cluster, in this process: as it should be, or as its administrator would have it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.unit.kube.client.scripted import Seen, read_request
from ullage.clock import SystemClock
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.clusters.cluster import Cluster
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.read_limits import KIB, ReadLimits
from ullage.projects.api.machines import MACHINE_SETS, MACHINES

SMALL = ReadLimits(
    held=200 * KIB,
    answer=100 * KIB,
    line=20 * KIB,
    decoded=400 * KIB,
    error=4 * KIB,
    pages=20,
    seconds=5.0,
    rate=100_000 * KIB,
    burst=100_000 * KIB,
    again=0.05,
    each=1 * KIB,
)

Answers = Callable[["UserClusterServer", Seen, asyncio.StreamWriter], Awaitable[bool]]
"""Answers in the place of the server; False: it may answer itself."""


def machine(name: str, *, note: str = "", version: int = 0, **spec: Any) -> dict[str, Any]:
    value = {"cloudProvider": "fake", "note": note, **spec}
    meta = {"name": name, "namespace": "kube-system", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"providerSpec": {"value": value}}}


class UserClusterServer:
    """Serves lists and watches of Machines; every other kind is empty."""

    def __init__(self, answers: Answers | None = None, *, streams: bool = True) -> None:
        self.answers = answers
        self.streams = streams  # whether it can send what is there as events
        self.version = 1
        self.machines: dict[str, dict[str, Any]] = {}
        self.log: list[tuple[int, dict[str, Any]]] = []
        self.requests: list[Seen] = []
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    # --- what its administrator does ---

    async def put(self, name: str, **given: Any) -> None:
        self.version += 1
        kind = "MODIFIED" if name in self.machines else "ADDED"
        self.machines[name] = machine(name, version=self.version, **given)
        await self._tell(kind, self.machines[name])

    async def delete(self, name: str) -> None:
        self.version += 1
        gone = self.machines.pop(name)
        await self._tell("DELETED", gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self.version)}})

    async def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        async with self._news:
            self.log.append((self.version, {"type": kind, "object": obj}))
            self._news.notify_all()

    # --- what it answers ---

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while not writer.is_closing():
                seen = await read_request(reader, 0)
                self.requests.append(seen)
                if self.answers is None or not await self.answers(self, seen, writer):
                    await self._answer(seen, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        objects = self.machines if seen.path.endswith("/machines") else {}
        if "watch" not in seen.query:
            begun, most, every = int(seen.query.get("continue", "0")), int(seen.query["limit"]), list(objects.values())
            rest = str(begun + most) if begun + most < len(every) else ""
            await reply(writer, page(every[begun : begun + most], self.version, more=rest))
            return
        initial = seen.query.get("sendInitialEvents") == "true"
        if initial and not self.streams:
            await reply(writer, {"kind": "Status", "code": 400, "message": "unknown option"}, code=400)
            return
        await begin(writer)
        since = self.version if initial else int(seen.query["resourceVersion"])
        for obj in list(objects.values()) if initial else ():
            await event(writer, "ADDED", obj)
        if initial:
            ends = {"k8s.io/initial-events-end": "true"}
            await event(writer, "BOOKMARK", {"metadata": {"resourceVersion": str(since), "annotations": ends}})
        await self._follow(writer, since if objects is self.machines else self.version)

    async def _follow(self, writer: asyncio.StreamWriter, since: int) -> None:
        while True:
            for version, told in list(self.log):
                if version > since:
                    since = version
                    await line(writer, json.dumps(told).encode())
            async with self._news:
                await self._news.wait_for(lambda: self.log and self.log[-1][0] > since)  # noqa: B023  # waited for here

    @contextlib.asynccontextmanager
    async def followed(self, name: str = "bad", limits: ReadLimits = SMALL) -> AsyncIterator[Cluster]:
        """The server runs, and is followed as that cluster."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        client = Client(Config(server=f"http://127.0.0.1:{self.port}", limits=limits))
        kinds: frozenset[Kind[Any]] = frozenset({MACHINES, MACHINE_SETS})
        try:
            async with Cluster(name, client, kinds=kinds, clock=SystemClock(), metrics=Metrics(), limits=limits) as cluster:
                cluster.cache(MACHINES)
                yield cluster
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()


def page(items: list[dict[str, Any]], version: int = 1, *, more: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version), **({"continue": more} if more else {})}, "items": items}


async def reply(writer: asyncio.StreamWriter, body: Any, *, code: int = 200, **headers: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {code} X\r\n{lines}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()


async def begin(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await writer.drain()


async def piece(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


async def line(writer: asyncio.StreamWriter, data: bytes) -> None:
    await piece(writer, data + b"\n")


async def event(writer: asyncio.StreamWriter, kind: str, obj: dict[str, Any]) -> None:
    await line(writer, json.dumps({"type": kind, "object": obj}).encode())


async def until(holds: Callable[[], bool], *, seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  # caches are asked, they do not tell
            await asyncio.sleep(0.01)


def names(cluster: Cluster) -> list[str]:
    return sorted(one.metadata.name for one in cluster.cache(MACHINES).items())
