"""Connections that are handed through to another server: what is refused, who waits for whom, and how many there may be."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ullage import pki
from ullage.standalone.apiserver.http import tunnel as module
from ullage.standalone.apiserver.http.tunnel import FarEnd, Tunnels
from ullage.standalone.apiserver.request.answers import Tunnel
from ullage.standalone.apiserver.status import ApiError

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n"


class Near:
    """A client's connection that keeps what it gets."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.far: FarEnd | None = None
        self.held: list[bool] = []
        self.finished = asyncio.Event()
        self.there = True

    def take_over(self, far: FarEnd) -> bool:
        self.far = far
        return self.there

    def forward(self, data: bytes) -> None:
        self.got += data

    def hold(self, *, back: bool) -> None:
        self.held.append(back)

    def finish(self) -> None:
        self.finished.set()


@contextlib.asynccontextmanager
async def kubelet(folder: Path, play: Play, *, fingerprint: str = "") -> AsyncIterator[Tunnel]:
    now, life = datetime.now(UTC), timedelta(hours=1)
    pair = pki.issue_serving(pki.make_ca("k", now=now, lifetime=life), ["127.0.0.1"], now=now, lifetime=life)
    pki.save(pair, folder / "k.crt", folder / "k.key")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "k.crt", folder / "k.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pair.certificate.decode())).hexdigest()

    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await reader.readuntil(b"\r\n\r\n")
                await play(reader, writer)
                writer.close()
                await writer.wait_closed()
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Tunnel("127.0.0.1", port, "/exec/a/b/c", (("upgrade", "websocket"),), context, fingerprint or digest, "jane")
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(5):  # what was aborted closes in the next rounds of the loop
            await asyncio.sleep(0.005)


def answering(head: bytes) -> Play:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()

    return play


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(SWITCHED)
    while data := await reader.read(100):
        writer.write(data.upper())
        await writer.drain()


async def test_bytes_go_both_ways_until_one_side_ends(tmp_path: Path) -> None:
    near = Near()
    async with kubelet(tmp_path, _echo) as tunnel:
        await Tunnels().open(tunnel, near)
        assert near.far is not None
        near.far.write(b"hello")
        async with asyncio.timeout(5):
            while not near.got.endswith(b"HELLO"):  # noqa: ASYNC110  the near end tells nobody
                await asyncio.sleep(0.001)
        near.far.end()
        await asyncio.wait_for(near.finished.wait(), 5)
    assert near.got == SWITCHED + b"HELLO"


async def test_a_command_that_is_over_at_once_is_delivered_whole(tmp_path: Path) -> None:
    near = Near()
    async with kubelet(tmp_path, answering(SWITCHED + b"all of it")) as tunnel:
        await Tunnels().open(tunnel, near)
        await asyncio.wait_for(near.finished.wait(), 5)
    assert near.got == SWITCHED + b"all of it"


@pytest.mark.parametrize(
    ("head", "code", "said"),
    [
        pytest.param(b"HTTP/1.1 302 Found\r\nlocation: http://x/\r\n\r\n", 500, "no upgrade", id="a redirect"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nhello", 500, "no upgrade", id="an ordinary answer"),
        pytest.param(b"HTTP/1.1 404 Not Found\r\n\r\npod does not run", 404, "pod does not run", id="its own refusal"),
        pytest.param(b"", 500, "no upgrade", id="nothing"),
        pytest.param(b"\xff" * 100_000, 500, "no upgrade", id="noise without an end"),
    ],
)
async def test_what_is_no_upgrade_is_an_error(tmp_path: Path, head: bytes, code: int, said: str) -> None:
    near = Near()
    async with kubelet(tmp_path, answering(head)) as tunnel:
        with pytest.raises(ApiError, match=said) as raised:
            await Tunnels().open(tunnel, near)
    assert (raised.value.code, near.far, bytes(near.got)) == (code, None, b"")


async def test_another_server_in_its_place_is_told_nothing(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(b"request")

    async with kubelet(tmp_path, play, fingerprint="0" * 64) as tunnel:
        with pytest.raises(ApiError, match="certificate is not the one"):
            await Tunnels().open(tunnel, Near())
        await asyncio.sleep(0.05)
    assert heard == []


async def test_who_is_slow_has_the_other_side_wait(tmp_path: Path) -> None:
    """The far end reads nothing: the near end is told not to read on."""

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        await writer.drain()
        await asyncio.sleep(60)

    near = Near()
    async with kubelet(tmp_path, deaf) as tunnel:
        await Tunnels().open(tunnel, near)
        assert near.far is not None
        for _ in range(200):
            near.far.write(b"x" * 65536)
            await asyncio.sleep(0)
            if near.held:
                break
        assert near.held == [True]
        near.far.end()
        await asyncio.wait_for(near.finished.wait(), 5)


async def test_there_is_a_number_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_ONE", 2)
    tunnels, nears = Tunnels(), [Near() for _ in range(3)]
    async with kubelet(tmp_path, _echo) as tunnel:
        for near in nears[:2]:
            await tunnels.open(tunnel, near)
        with pytest.raises(ApiError, match="too many commands") as raised:
            await tunnels.open(tunnel, nears[2])
        assert raised.value.code == 429
        assert nears[0].far is not None
        nears[0].far.end()
        await asyncio.wait_for(nears[0].finished.wait(), 5)
        await tunnels.open(tunnel, nears[2])
        for near in nears[1:]:
            assert near.far is not None
            near.far.end()
            await asyncio.wait_for(near.finished.wait(), 5)


async def test_nobody_listens() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    tunnels = Tunnels()
    with pytest.raises(ApiError, match="error dialing backend"):
        await tunnels.open(Tunnel("127.0.0.1", 1, "/", (), context, "", "jane"), Near())
    assert not tunnels._of


async def test_a_client_that_is_gone_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    near, tunnels = Near(), Tunnels()
    near.there = False
    async with kubelet(tmp_path, _echo) as tunnel:
        await tunnels.open(tunnel, near)
        for _ in range(200):
            if not tunnels._of:
                break
            await asyncio.sleep(0.005)
    assert not tunnels._of
