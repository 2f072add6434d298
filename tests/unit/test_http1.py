"""What uvicorn's HTTP lacks: a size and a time for the head of a request, and trailers that are no headers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from ullage.http1 import BoundedProtocol, Bounds

MOST_HEAD = Bounds().head_bytes
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def names_of_headers(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, then tells which headers there are."""
    while (await receive()).get("more_body"):
        pass
    body = b",".join(name for name, _ in scope["headers"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[Stream]:
    config = uvicorn.Config(names_of_headers, lifespan="off", log_config=None)
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: BoundedProtocol(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        server.close()
        await server.wait_closed()


async def say(stream: Stream, data: bytes) -> bytes:
    """All that the server says to it until it hangs up."""
    reader, writer = stream
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(10):
            return await reader.read()
    return b""


LAST = b"GET / HTTP/1.1\r\nConnection: close\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "beginning", "end"),
    [
        pytest.param(LAST, b"HTTP/1.1 200", b"connection,host", id="a request is answered"),
        pytest.param(
            b"GET / HTTP/1.1\r\nX: " + b"v" * (MOST_HEAD - 200) + b"\r\n\r\n" + LAST, b"HTTP/1.1 200", b"host", id="a long head"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"v" * MOST_HEAD, b"HTTP/1.1 431", b"Too Large", id="a head that is too long"),
        pytest.param(
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 2 * Bounds().headers, b"HTTP/1.1 400", b"received.", id="many headers"
        ),
        pytest.param(b"\r\n" * (MOST_HEAD // 2 + 1), b"HTTP/1.1 431", b"Too Large", id="blank lines without end"),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\nStolen: yes\r\n\r\n",
            b"HTTP/1.1 200",
            b"transfer-encoding,connection",
            id="a trailer is no header",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 200,
            b"HTTP/1.1 400",
            b"received.",
            id="too many trailers",
        ),
    ],
)
async def test_heads(data: bytes, beginning: bytes, end: bytes) -> None:
    async with connected() as stream:
        answer = await say(stream, data)
        assert answer.startswith(beginning)
        assert answer.endswith(end)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="a connection that says nothing"),
        pytest.param(b"GET / HTTP/1.1\r\nX: ", id="a head that does not end"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTT", id="the second head of a connection"),
    ],
)
async def test_a_head_has_a_time(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "bounds", Bounds(head_seconds=0.2))
    async with connected() as stream:
        await say(stream, data)  # times out where nobody hangs up


async def test_a_body_may_take_longer_than_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "bounds", Bounds(head_seconds=0.1))
    async with connected() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\na")
        await asyncio.sleep(0.3)
        writer.write(b"b")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")


async def test_blank_lines_between_two_requests_have_the_size_and_the_time_of_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    first = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    async with connected() as (reader, writer):
        writer.write(first)
        await reader.readuntil(b"\r\n\r\nhost")
        assert (await say((reader, writer), b"\r\n" * (MOST_HEAD // 2 + 1))).startswith(b"HTTP/1.1 431")
    monkeypatch.setattr(BoundedProtocol, "bounds", Bounds(head_seconds=0.2))
    async with connected() as (reader, writer):
        writer.write(first)
        await reader.readuntil(b"\r\n\r\nhost")
        assert await say((reader, writer), b"\r\n") == b""


async def test_requests_in_a_row_have_a_number() -> None:
    async with connected() as stream:
        held = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n"
        answer = await say(stream, held + b"x" + LAST.replace(b"Connection: close\r\n", b"") * (Bounds().pipelined + 2))
        assert answer.endswith(b"received.")
