"""The sockets under the client, and the one place where a request's bytes leave the process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from weakref import WeakSet

import aiohttp
from aiohttp import payload
from aiohttp.abc import AbstractStreamWriter

from ullage.kube.client.config import Config

END_SECONDS = 2.0
END_STEP = 0.005
KEEP_SECONDS = 60.0  # API servers keep idle connections longer than this, so it is we who close
# A peer that vanished without a word is noticed after 30 + 3 * 10 s, also by a watch that has nothing to hear.
SOCKET_OPTIONS = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))


class Body(payload.Payload):
    """A request's body, which asks its guard at the last moment and leaves at most once.

    Headers and body go to the socket together, from here. The HTTP library may wait for a connection for seconds before
    that, and would send a PUT or DELETE again by itself when a kept connection breaks; a guard that was only asked before
    would be asked too early.
    """

    def __init__(self, data: bytes, *, content_type: str, guard: Callable[[], None] | None) -> None:
        super().__init__(data, content_type=content_type)
        self._size = len(data)
        self._guard = guard
        self.sent = False
        self.refusal: Exception | None = None

    @property
    def consumed(self) -> bool:
        return self.sent

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self.sent:
            raise RuntimeError("this body was sent before")
        if self._guard is not None:
            try:
                self._guard()
            except Exception as error:
                self.refusal = error
                raise
        self.sent = True
        await writer.write(self._value if content_length is None else self._value[:content_length])


class Sockets:
    """Every socket that a client opened, so that none outlives it.

    The HTTP library closes a TLS connection politely and does not wait for the other side's farewell; a loop that ends
    meanwhile would leave the socket open.
    """

    def __init__(self) -> None:
        self._made: WeakSet[socket.socket] = WeakSet()

    def connector(self) -> aiohttp.TCPConnector:
        """Kept connections without a limit: a limit would be a throttle, and every watch holds one for itself."""
        return aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_SECONDS, socket_factory=self._socket)

    def _socket(self, address: Any) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family=family, type=kind, proto=protocol)
        self._made.add(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in SOCKET_OPTIONS:
            with contextlib.suppress(AttributeError, OSError):  # each system knows some of them
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return made

    async def end(self) -> None:
        """Hangs up on whoever is slow to say goodbye, and returns when all are closed."""
        for made in self._open():
            with contextlib.suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                while self._open():  # noqa: ASYNC110  # a socket tells nobody when it closes
                    await asyncio.sleep(END_STEP)

    def _open(self) -> list[socket.socket]:
        return [made for made in self._made if made.fileno() != -1]


def proxy_arguments(config: Config) -> dict[str, Any]:
    """What every request carries for the sake of proxies and names. A proxy's password travels in a header, not in a URL."""
    arguments: dict[str, Any] = {}
    if config.server_name:
        arguments["server_hostname"] = config.server_name
    if config.proxy:
        parts = urlsplit(config.proxy)
        arguments["proxy"] = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            arguments["proxy_headers"] = {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}
    return arguments
