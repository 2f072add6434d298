"""A lean HTTP/1.1 client: on two cores a full client would be measured instead of the server."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
LINE_LIMIT = 2**22


@dataclass(frozen=True, slots=True)
class Target:
    """A control plane, as a client needs to know it."""

    host: str
    port: int
    token: str
    ca_file: str | None

    @classmethod
    def at(cls, url: str, token: str, *, ca_file: str | None) -> Target:
        parts = urlsplit(url)
        return cls(parts.hostname or "127.0.0.1", parts.port or 443, token, ca_file)

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.ca_file is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class Connection:
    """One connection that is kept alive; one request at a time."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, context: ssl.SSLContext) -> Connection:
        target = self._target
        self._reader, self._writer = await asyncio.open_connection(target.host, target.port, ssl=context, limit=LINE_LIMIT)
        return self

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    async def send(
        self, method: str, path: str, body: bytes = b"", *, content_type: str = "application/json"
    ) -> asyncio.StreamReader:
        """Sends and reads the status line; raises for anything but success."""
        reader, writer = self._reader, self._writer
        if reader is None or writer is None:
            raise RuntimeError("the connection was not opened")
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._target.host}\r\nAuthorization: Bearer {self._target.token}\r\n"
            f"Accept: application/json\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        status = await reader.readline()
        if not status.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise RuntimeError(f"{method} {path}: {status!r} {await reader.read(2000)!r}")
        return reader

    async def call(self, method: str, path: str, body: bytes = b"", *, content_type: str = "application/json") -> bytes:
        reader = await self.send(method, path, body, content_type=content_type)
        length, chunked = await self.headers(reader)
        return await self._chunks(reader) if chunked else await reader.readexactly(length)

    async def json(self, method: str, path: str, body: Json | None = None, *, content_type: str = "application/json") -> Json:
        encoded = b"" if body is None else json.dumps(body).encode()
        found: Json = json.loads(await self.call(method, path, encoded, content_type=content_type))
        return found

    @staticmethod
    async def headers(reader: asyncio.StreamReader) -> tuple[int, bool]:
        """Content length, and whether the body comes in chunks instead."""
        length, chunked = 0, False
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            lowered = name.lower()
            if lowered == b"content-length":
                length = int(value)
            elif lowered == b"transfer-encoding":
                chunked = True
        return length, chunked

    @staticmethod
    async def lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Yields the whole lines of an answer in chunks, as they come. A line may be spread over several chunks."""
        rest = b""
        while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
            *whole, rest = (rest + await reader.readexactly(size)).split(b"\n")
            await reader.readline()
            for line in whole:
                yield line

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> bytes:
        parts: list[bytes] = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return b"".join(parts)
