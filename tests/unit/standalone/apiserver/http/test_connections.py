"""Connections that are not complete end by themselves; what is done in time is answered."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from ullage import pki
from ullage.http1 import bounded_server
from ullage.standalone.apiserver.http import connections
from ullage.standalone.apiserver.http.connections import Connection

SHORT = 0.3  # seconds that a deadline is set to
NEVER = 60.0  # seconds after which there is no deadline
ANSWER = 20 << 20  # bytes: more than sockets hold

GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads no body. Answers shortly, or, below `/long`, at length."""
    long = scope["path"] == "/long"
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(ANSWER if long else 2).encode())]}
    )
    for _ in range(ANSWER >> 16 if long else 0):
        await send({"type": "http.response.body", "body": b"x" * (1 << 16), "more_body": True})
    await send({"type": "http.response.body", "body": b"" if long else b"ok"})


@asynccontextmanager
async def serving(folder: Path, *, tls: bool = False, servers: list[uvicorn.Server] | None = None) -> AsyncIterator[int]:
    options: dict[str, Any] = {"protocol": Connection, "handshake_seconds": connections.HANDSHAKE_SECONDS}
    if tls:
        now, day = datetime.now(UTC), timedelta(days=1)
        pair = pki.issue_serving(pki.make_ca("test", now=now, lifetime=day), ["127.0.0.1"], now=now, lifetime=day)
        pki.save(pair, folder / "tls.crt", folder / "tls.key")
        options |= {"ssl_certfile": folder / "tls.crt", "ssl_keyfile": folder / "tls.key"}
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = bounded_server(app, stop_seconds=1, **options)
        if servers is not None:
            servers.append(server)
        task = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            async with asyncio.timeout(NEVER):
                while not server.started:  # noqa: ASYNC110  uvicorn offers nothing to wait for
                    await asyncio.sleep(0.005)
            yield sock.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await task


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What the server sent before it ended the connection."""
    found = b""
    async with asyncio.timeout(NEVER):
        try:
            while data := await reader.read(1 << 16):
                found += data
        except ConnectionError:
            pass
    return found


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """One deadline is short, the others are as they are."""
    if request.param == "HANDSHAKE_SECONDS":
        monkeypatch.setattr(connections, request.param, SHORT)
    else:
        monkeypatch.setattr(Connection, "bounds", replace(Connection.bounds, **{request.param: SHORT}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("short", "sent", "answered"),
    [
        pytest.param("head_seconds", b"", b"", id="nothing is asked"),
        pytest.param("head_seconds", b"GET / HTTP/1.1\r\nHost: he", b"", id="a head that does not end"),
        pytest.param("head_seconds", GET + b"GET / HT", b"ok", id="a second head that does not end"),
        pytest.param("unread_seconds", POST + b"x", b"ok", id="a body whose rest does not come, after its answer"),
    ],
    indirect=["short"],
)
async def test_what_does_not_come_is_not_waited_for(tmp_path: Path, short: None, sent: bytes, answered: bytes) -> None:
    async with serving(tmp_path) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert (await ended(reader)).endswith(answered)
        writer.close()


@pytest.mark.parametrize("short", ["head_seconds"], indirect=True)
async def test_a_head_that_comes_byte_by_byte_has_one_deadline(tmp_path: Path, short: None) -> None:
    async with serving(tmp_path) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def drip() -> None:
            writer.write(b"GET / HTTP/1.1\r\nX: ")
            while True:
                writer.write(b"v")
                await asyncio.sleep(SHORT / 10)

        task = asyncio.create_task(drip())
        assert await ended(reader) == b""
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()


async def _send_for_ever(client: socket.socket) -> None:
    while True:
        await asyncio.get_running_loop().sock_sendall(client, b" ")
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("short", ["stalled_seconds"], indirect=True)
async def test_an_answer_that_nobody_takes_ends(tmp_path: Path, short: None) -> None:
    async with serving(tmp_path) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(client, GET.replace(b"/ ", b"/long ", 1))
            # The server has hung up when nothing more can be sent to it; reading would take of the answer.
            async with asyncio.timeout(NEVER):
                with pytest.raises(ConnectionError):
                    await _send_for_ever(client)


@pytest.mark.parametrize("short", ["HANDSHAKE_SECONDS"], indirect=True)
async def test_a_handshake_that_does_not_end(tmp_path: Path, short: None) -> None:
    async with serving(tmp_path, tls=True) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await ended(reader) == b""
        writer.close()


@pytest.mark.parametrize("short", ["head_seconds", "HANDSHAKE_SECONDS", "unread_seconds"], indirect=True)
async def test_who_has_asked_in_time_may_wait_for_longer(tmp_path: Path, short: None) -> None:
    """Deadlines are of what is begun: a connection on which nothing is under way stays."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with serving(tmp_path, tls=True) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        for _ in range(2):
            writer.write(GET)
            assert await reader.readuntil(b"ok")
            await asyncio.sleep(2 * SHORT)
        assert not reader.at_eof()
        writer.close()


async def test_the_rest_of_a_body_that_was_answered_already_is_no_head(tmp_path: Path) -> None:
    """TLS may hand on more at once than a head may have. The next request is answered, and nothing is waited for meanwhile."""
    size = 2 * Connection.bounds.head_bytes
    state: list[uvicorn.Server] = []
    async with serving(tmp_path, servers=state) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % size)
        assert await reader.readuntil(b"ok")
        (connection,) = state[0].server_state.connections
        assert isinstance(connection, Connection)
        connection.data_received(b"x" * size)
        assert list(connection._timers) == []
        writer.write(GET)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_head_behind_the_rest_of_a_body_has_its_bounds(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST)
        assert await reader.readuntil(b"ok")
        writer.write(b"x" * 100 + b"GET / HTTP/1.1\r\nX: " + b"v" * 3 * Connection.bounds.head_bytes)
        assert b"Request header fields too large" in await ended(reader)
        writer.close()
