"""HTTP/1.1 for every port that we listen on: uvicorn's, with bounds that it lacks.

Whoever reaches a port can send it anything, before anybody knows who it is. So the head of a request has a size and a time, and
what stands behind a body (trailers) is not taken for headers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ullage.errors import Retryable

MOST_HEAD: Final = 256 * 1024  # bytes of a request's line and headers
HEAD_SECONDS: Final = 32.0  # from the first byte of a request, or from the handshake, to the end of its headers
MOST_TRAILERS: Final = 100

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n"
    b"431 Request Header Fields Too Large"
)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Between two requests uvicorn's own keep-alive time counts, until the first byte of the next."""

    _in_head = False
    _complete = True  # the last request, to the end of its body
    _head_bytes = 0
    _trailers = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._within("head", self._head_bounds()[1])

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        in_body = not self._complete and not self._in_head
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head or (self._complete and not in_body and not self._is_answering()):
            self._within("head", self._head_bounds()[1])
            # The rest of a body, which may have been answered before it was all there, is no head, however much of it comes.
            self._head_bytes += 0 if in_body else len(data)
            self._check_head()

    def _head_bounds(self) -> tuple[int, float]:
        """The most bytes of a head, and the seconds that it may take."""
        return MOST_HEAD, HEAD_SECONDS

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _check_head(self) -> None:
        """Called with each part of a head that is not complete."""
        if self._head_bytes <= self._head_bounds()[0]:
            return
        if self._is_answering():  # two answers would be mixed up
            self.transport.abort()
        else:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self.transport.write(_TOO_LARGE)
        self.transport.close()

    # --- one request ---

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._complete = True, False
        self._head_bytes = self._trailers = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)
            return
        self._trailers += 1
        if self._trailers > MOST_TRAILERS:
            raise ValueError("too many trailers")  # the parser's caller answers 400 and hangs up

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._done("head")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._complete = True
        super().on_message_complete()

    # --- deadlines ---

    def _within(self, what: str, seconds: float) -> None:
        """Something has to be done by then, or the connection ends."""
        if what not in self._timers:
            self._timers[what] = self.loop.call_later(seconds, self._expire, what)

    def _done(self, what: str) -> None:
        if timer := self._timers.pop(what, None):
            timer.cancel()

    def _expire(self, what: str) -> None:
        self._timers.pop(what, None)
        self.transport.abort()


class SignalFreeServer(uvicorn.Server):
    """Signals belong to the process, which has more to stop than this server."""

    handshake_seconds: float | None = None  # None: what the event loop takes, a minute

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it for given sockets, with a deadline for handshakes."""
        if self.handshake_seconds is None:
            await super().startup(sockets)
            return

        def connection() -> asyncio.Protocol:
            found: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state={}
            )
            return found

        self.servers = [
            await asyncio.get_running_loop().create_server(
                connection,
                sock=sock,
                ssl=self.config.ssl,
                backlog=self.config.backlog,
                ssl_handshake_timeout=self.handshake_seconds,
            )
            for sock in sockets or ()
        ]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bounded_server(
    app: Any,
    *,
    stop_seconds: int,
    protocol: type[BoundedProtocol] = BoundedProtocol,
    handshake_seconds: float | None = None,
    **options: Any,
) -> uvicorn.Server:
    """A server of an ASGI application. Its stop waits `stop_seconds` at the most for what is being answered. With TLS, a
    handshake has its deadline too."""
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=stop_seconds,
        **options,
    )
    server = SignalFreeServer(config)
    server.handshake_seconds = handshake_seconds
    return server


@contextlib.asynccontextmanager
async def running(server: uvicorn.Server, sock: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """Serves inside the block. The task is done where the server has ended by itself."""
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110  uvicorn offers nothing to wait for
            await asyncio.sleep(0.005)
        yield task
    finally:
        server.should_exit = True
        await task


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket that does not listen yet. If it is shared, the kernel deals connections out to all processes that listen."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise Retryable(f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}") from error
    return found
