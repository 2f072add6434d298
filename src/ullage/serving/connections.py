"""Connections of a port that people reach: whoever comes is a stranger until a request has shown a token.

Everything that is not complete has a deadline: the head of a request (`http1`), the rest of a body after its answer, an answer
that nobody takes. Where there are too many, the one that has been idle for longest goes, never one that is being answered: a
flood of strangers cannot keep out whoever has something to ask for.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from ullage.http1 import BoundedProtocol

MOST_CONNECTIONS: Final = 512
MOST_PIPELINED: Final = 16
MOST_HEADERS: Final = 200
MOST_HEAD: Final = 64 * 1024  # bytes; a token with hundreds of groups has some 20 KiB
HEAD_SECONDS: Final = 10.0
UNREAD_SECONDS: Final = 5.0  # for the rest of a body after its answer: whoever still sends gets to see the answer
STALLED_SECONDS: Final = 20.0  # in which nothing of an answer is taken


class PublicConnection(BoundedProtocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()  # of its beginning, or of its last answer
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn leaves it when a connection breaks, and with it all its buffers

    # --- one request ---

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MOST_HEADERS:
            raise ValueError("too many headers")  # the parser's caller answers 400 and hangs up
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError("too many requests at once")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.cycle.response_complete:  # what comes after the answer is let go
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._done("unread")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._since = self.loop.time()
        if not self._complete and not self.transport.is_closing():
            self._within("unread", UNREAD_SECONDS)

    # --- bounds ---

    def _head_bounds(self) -> tuple[int, float]:
        return MOST_HEAD, HEAD_SECONDS

    def pause_writing(self) -> None:
        super().pause_writing()
        self._within("answer", STALLED_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._done("answer")

    def _make_room(self) -> None:
        others = cast("set[PublicConnection]", self.connections)
        if len(others) <= MOST_CONNECTIONS:
            return
        idle = [one for one in others if not one._is_answering() and not one.transport.is_closing()]
        min(idle, key=lambda one: one._since, default=self).transport.abort()
