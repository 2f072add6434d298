"""Connections of strangers: they have a number, and everything that is not complete has a deadline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import uvicorn

from ullage.http1 import bind, bounded_server, running
from ullage.serving import connections
from ullage.serving.connections import PublicConnection

SHORT = 0.2
BOUNDS = PublicConnection.bounds
LARGE = 64 * 1024 * 1024
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Application:
    """Answers without reading the body: at once, with a lot, or when it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.answered = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b"x" * LARGE if scope["path"] == "/large" else b"ok"
        if scope["path"] == "/slow":
            self.asked.set()
            await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
        self.answered.set()
        await send({"type": "http.response.body", "body": body})


class Port:
    def __init__(self, app: Application, server: uvicorn.Server, number: int) -> None:
        self.app = app
        self.number = number
        self.connections = server.server_state.connections

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    app = Application()
    with contextlib.closing(bind("127.0.0.1", 0)) as sock:
        server = bounded_server(app, stop_seconds=1, protocol=PublicConnection)
        async with running(server, sock):
            yield Port(app, server, sock.getsockname()[1])


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Until the server hangs up."""
    found = b""
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionResetError):
            while part := await reader.read(65536):
                found += part
    return found


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        pytest.param("head_seconds", b"", id="nothing is asked"),
        pytest.param("head_seconds", b"GET / HTTP/1.1\r\nHost: x", id="a head that does not end"),
        pytest.param(
            "unread_seconds",
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
            id="a body that goes on after its answer",
        ),
    ],
)
async def test_what_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch, port: Port, bound: str, said: bytes) -> None:
    monkeypatch.setattr(PublicConnection, "bounds", replace(BOUNDS, **{bound: SHORT}))  # type: ignore[arg-type]
    async with port.connection() as (reader, writer):
        writer.write(said)
        await rest_of(reader)


async def test_an_answer_that_nobody_takes_is_given_up(monkeypatch: pytest.MonkeyPatch, port: Port) -> None:
    monkeypatch.setattr(PublicConnection, "bounds", replace(BOUNDS, stalled_seconds=SHORT))
    async with port.connection() as (reader, writer):
        writer.write(GET.replace(b"/ ", b"/large ", 1))
        async with asyncio.timeout(10):
            while not port.app.answered.is_set() or port.connections:  # noqa: ASYNC110  uvicorn tells nobody
                await asyncio.sleep(0.01)
        assert len(await rest_of(reader)) < LARGE


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"v" * BOUNDS.head_bytes, id="a head that is too long"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (BOUNDS.headers + 1) + b"\r\n", id="too many headers"),
        pytest.param(GET.replace(b"/ ", b"/slow ", 1) + GET * (BOUNDS.pipelined + 2), id="too many requests in a row"),
    ],
)
async def test_what_is_too_much_ends_the_connection(port: Port, said: bytes) -> None:
    async with port.connection() as (reader, writer):
        writer.write(said)
        port.app.go.set()
        await rest_of(reader)


async def test_of_too_many_connections_the_longest_idle_goes_and_never_one_that_is_being_answered(
    monkeypatch: pytest.MonkeyPatch, port: Port
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(PublicConnection, "bounds", replace(BOUNDS, head_seconds=1000.0))
    async with port.connection() as (busy, asking), port.connection() as (idle, _):
        asking.write(GET.replace(b"/ ", b"/slow ", 1))
        await port.app.asked.wait()
        async with port.connection() as (late, writer):
            assert await rest_of(idle) == b""
            writer.write(GET)
            assert (await late.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
            port.app.go.set()
            assert (await busy.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
