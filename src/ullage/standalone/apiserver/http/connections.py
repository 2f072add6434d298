"""Connections of a server whose clients do not trust each other: beside the bounds that all our ports have (`http1`), those on
which nobody has shown who they are have a number, and so have the bytes of a body that nobody wanted.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, cast

from ullage.http1 import BoundedProtocol
from ullage.standalone.apiserver.http.tunnel import FarEnd
from ullage.standalone.apiserver.limits.memory import Trimmer

KEEP_ALIVE: Final = 180  # seconds; longer than Go's clients keep an idle connection: they close first
HANDSHAKE_SECONDS: Final = 10.0
UNREAD_BYTES: Final = 16 * 1024 * 1024  # of the rest of a body after its answer
LARGE_LENGTH: Final = 6  # digits of the length of a body that is left on the wire until somebody asks for it
LARGE_READ: Final = 64 * 1024  # bytes that TLS hands on at once: its buffers are as large from then on
# Connections on which nobody has shown a credential. One that has just come may be a client's of many at once, whose request is
# on its way; so only those that linger are held to the smaller number.
MOST_ANONYMOUS: Final = 600
MOST_LINGERING: Final = 100
LINGERING_SECONDS: Final = 5.0
MOST_ANONYMOUS_HEADS: Final = 3 * 1024 * 1024  # bytes of all of their unfinished heads together; TLS takes a multiple of it
MOST_CONNECTIONS: Final = 4096
LONG_URL: Final = 32_000


class Connection(BoundedProtocol):
    """One connection. The client's certificate is handed on with each request: it is part of who asks."""

    trimmer = Trimmer()  # of all of them

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        self._certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self._anonymous = True
        self._lost = False
        self._served = False
        self._unread = 0
        self._far: FarEnd | None = None  # where all bytes go
        self._large = False  # what it took of memory, or made others take
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost = True
        if self._far is not None:
            self._far.end()
            self._far = None
        self.trimmer.part(large=self._large)
        # Connection, transport and request know each other: parted, their buffers are free now and not at some collection.
        self.pipeline.clear()
        del self.cycle, self.scope, self.transport, self.flow

    def data_received(self, data: bytes) -> None:
        self._large |= len(data) >= LARGE_READ
        if self._far is not None:
            self._far.write(data)
        else:
            super().data_received(data)

    def _check_head(self) -> None:
        super()._check_head()
        if not self.transport.is_closing() and self._exceeds_heads():
            self.transport.abort()

    def _refuse_head(self) -> None:
        self.send_400_response("Request header fields too large.")
        self._within("unread", self.bounds.unread_seconds)  # TLS would wait for a farewell

    # --- one request ---

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._unread = 0
        self.scope["peer_certificate"] = self._certificate  # type: ignore[typeddict-unknown-key]
        self.scope["known"] = self._known  # type: ignore[typeddict-unknown-key]
        self.scope["near_end"] = self  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        path, mark, query = self.url.partition(b"?")
        if not mark or len(self.url) < LONG_URL:
            super().on_headers_complete()
        else:  # The parser counts in 16 bits, and selectors may be longer.
            self.url = path
            super().on_headers_complete()
            self.scope["query_string"] = query
        if any(name == b"content-length" and len(value) >= LARGE_LENGTH for name, value in self.headers):
            self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self._unread += len(body)
            if self._unread > UNREAD_BYTES:
                self.transport.abort()
            return
        super().on_body(body)

    def on_response_complete(self) -> None:
        if self._lost:
            return
        self._served = True
        super().on_response_complete()

    # --- handed through to another server ---

    def _unsupported_upgrade_warning(self) -> None:
        """An upgrade is asked for. What comes after it is no request, whatever it is answered: until then nothing is read."""
        self.cycle.keep_alive = False
        self.flow.pause_reading()

    def take_over(self, far: FarEnd) -> bool:
        if self._lost or self.transport.is_closing() or self.cycle.response_started:
            return False
        self.cycle.response_started = self.cycle.response_complete = True
        self._far = far
        self.flow.resume_reading()
        return True

    def forward(self, data: bytes) -> None:
        if not self._lost:
            self.transport.write(data)

    def hold(self, *, back: bool) -> None:
        if not self._lost:
            (self.flow.pause_reading if back else self.flow.resume_reading)()

    def finish(self) -> None:
        self._far = None
        if not self._lost:
            self._within("answer", self.bounds.stalled_seconds)
            self.transport.close()

    # --- bounds ---

    def pause_writing(self) -> None:
        super().pause_writing()
        self._large = True
        if self._far is not None:
            self._far.hold(back=True)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._far is not None:
            self._far.hold(back=False)

    def _known(self) -> None:
        self._anonymous = False

    def _make_room(self) -> None:
        """Ends an anonymous connection where there are too many: they must not keep out whoever has a credential. Those go
        first that have asked nothing yet, then those that asked longest ago: a probe of our health, anonymous too, goes on."""
        if len(self.connections) > MOST_CONNECTIONS:
            self.transport.abort()
        if len(self.connections) <= MOST_LINGERING:
            return
        anonymous = self._anonymous_ones()
        lingering = sum(self.loop.time() - one._since > LINGERING_SECONDS for one in anonymous)
        if lingering > MOST_LINGERING or len(anonymous) > MOST_ANONYMOUS:
            min(anonymous, key=lambda one: (one._served, one._since)).transport.abort()

    def _exceeds_heads(self) -> bool:
        """Whether this head is one too many of those that anonymous clients have begun."""
        small = self._head_bytes <= MOST_ANONYMOUS_HEADS // MOST_ANONYMOUS  # so many of these are not too much
        return self._anonymous and not small and sum(one._head_bytes for one in self._anonymous_ones()) > MOST_ANONYMOUS_HEADS

    def _anonymous_ones(self) -> list[Connection]:
        return [one for one in cast("set[Connection]", self.connections) if one._anonymous]
