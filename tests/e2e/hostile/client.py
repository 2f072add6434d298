"""A client without manners: it sends any bytes, reads whatever comes back, and takes a closed connection for an answer."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Final

HUNG_UP: Final = 0  # the server closed the connection, and did not say why
ANSWER_SECONDS: Final = 30.0
LARGEST_HEAD: Final = 8 << 20  # a thousand warnings come in the head of an answer


class Unanswered(AssertionError):
    """The server neither answered nor hung up."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    trust: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Reply:
    code: int
    head: bytes
    body: bytes

    def __contains__(self, text: bytes) -> bool:
        return text in self.head or text in self.body


class Connection:
    """One TLS connection. What is written and what is read do not wait for each other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Ends also if the server has stopped reading and hung up: it may have answered before the end of a body."""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self.writer.write(data)
            await self.writer.drain()

    async def ask(self, data: bytes, *, seconds: float = ANSWER_SECONDS) -> Reply:
        sending = asyncio.create_task(self.send(data))
        try:
            async with asyncio.timeout(seconds):
                return await self.reply(bodiless=data.startswith(b"HEAD "))
        except TimeoutError:
            raise Unanswered(f"no answer within {seconds:.0f} s to {data[:200]!r}") from None
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def reply(self, *, bodiless: bool = False) -> Reply:
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            return Reply(HUNG_UP, b"", b"")
        code = int(head.split(None, 2)[1])
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        body = b""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            if bodiless:
                return Reply(code, head, b"")
            if b"content-length" in fields:
                body = await self.reader.readexactly(int(fields[b"content-length"]))
            elif b"chunked" in fields.get(b"transfer-encoding", b""):
                body = b"".join([chunk async for chunk in self.chunks()])
        return Reply(code, head, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    def close(self) -> None:
        self.writer.transport.abort()


async def connect(address: Address) -> Connection:
    return Connection(*await asyncio.open_connection(address.host, address.port, ssl=address.trust, limit=LARGEST_HEAD))


@contextlib.asynccontextmanager
async def connected(address: Address) -> AsyncIterator[Connection]:
    connection = await connect(address)
    try:
        yield connection
    finally:
        connection.close()


def request(method: str, path: str, *, token: str = "", headers: Iterable[str] = (), body: bytes | None = None) -> bytes:
    """The bytes of one request. The path is sent as it is."""
    lines = [f"{method} {path} HTTP/1.1", "Host: api", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class Client:
    """Asks one thing after the other with the rights of a token, on one connection for as long as that lasts."""

    def __init__(self, address: Address, token: str) -> None:
        self.address = address
        self.token = token
        self._connection: Connection | None = None

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Iterable[str] = (),
        seconds: float = ANSWER_SECONDS,
    ) -> Reply:
        if self._connection is None:
            self._connection = await connect(self.address)
        sent = request(method, path, token=self.token, headers=headers, body=body)
        reply = await self._connection.ask(sent, seconds=seconds)
        if reply.code == HUNG_UP or b"\r\nconnection: close" in reply.head.lower():
            self.close()
        return reply

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
