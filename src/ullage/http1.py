"""HTTP/1.1 for every port that we listen on: uvicorn's, with bounds that it lacks.

Whoever reaches a port can send it anything, before anybody knows who it is. So the head of a request has a size and a time, and
what stands behind a body (trailers) is not taken for headers.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD: Final = 256 * 1024  # bytes of a request's line and headers
HEAD_SECONDS: Final = 32.0  # from the first byte of a request, or from the handshake, to the end of its headers
MOST_TRAILERS: Final = 100

_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n"
    b"431 Request Header Fields Too Large"
)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Between two requests uvicorn's own keep-alive time counts."""

    _in_head = False
    _head_bytes = 0
    _trailers = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MOST_HEAD and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:
            self._begin_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)
            return
        self._trailers += 1
        if self._trailers > MOST_TRAILERS:
            raise ValueError("too many trailers")  # the parser's caller answers 400 and hangs up

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _begin_head(self) -> None:
        self._in_head = True
        self._head_bytes = self._trailers = 0
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _end_head(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self) -> None:
        """An answer that is still on its way to the client would be mixed up with this one: then there is none."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        else:
            self.transport.abort()
