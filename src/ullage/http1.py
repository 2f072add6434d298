"""HTTP/1.1 for every port that we listen on: uvicorn's, with bounds that it lacks.

Whoever reaches a port can send it anything, before anybody knows who it is. So what is not complete has a deadline: the head of
a request, which has a size too; the rest of a body after its answer; an answer that nobody takes. Requests in a row have a
number, and what stands behind a body (trailers) is not taken for headers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ullage.errors import Retryable

MOST_TRAILERS: Final = 100

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n"
    b"431 Request Header Fields Too Large"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of one connection."""

    head_bytes: int = 256 * 1024  # of a request's line and headers
    head_seconds: float = 32.0  # from the first byte of a request, or from the handshake, to the end of its headers
    headers: int = 1000
    pipelined: int = 16  # requests that come before the answer to an earlier one
    unread_seconds: float = 5.0  # for the rest of a body after its answer: whoever still sends gets to see the answer
    stalled_seconds: float = 60.0  # in which nothing of an answer is taken


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Between two requests uvicorn's own keep-alive time counts, until the first byte of the next."""

    bounds: ClassVar[Bounds] = Bounds()
    _in_head = False
    _complete = True  # the last request, to the end of its body
    _head_bytes = 0
    _trailers = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._since = self.loop.time()  # of its beginning, or of its last answer
        self._within("head", self.bounds.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn leaves it when a connection breaks, and with it all its buffers

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        in_body = not self._complete and not self._in_head
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head or (self._complete and not in_body and not self._is_answering()):
            self._within("head", self.bounds.head_seconds)
            # The rest of a body, which may have been answered before it was all there, is no head, however much of it comes.
            self._head_bytes += 0 if in_body else len(data)
            self._check_head()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _check_head(self) -> None:
        """Called with each part of a head that is not complete."""
        if self._head_bytes <= self.bounds.head_bytes:
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
        """Whatever is raised here: the parser's caller answers 400 and hangs up."""
        if not self._in_head:
            self._trailers += 1
            if self._trailers > MOST_TRAILERS:
                raise ValueError("too many trailers")
            return
        if len(self.headers) >= self.bounds.headers:
            raise ValueError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self.bounds.pipelined:
            raise ValueError("too many requests at once")
        self._in_head = False
        self._done("head")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._complete = True
        self._done("unread")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._since = self.loop.time()
        if not self._complete and not self.transport.is_closing():
            self._within("unread", self.bounds.unread_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._within("answer", self.bounds.stalled_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._done("answer")

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
                ssl_handshake_timeout=self.handshake_seconds if self.config.ssl else None,
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
