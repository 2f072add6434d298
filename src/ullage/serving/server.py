"""Sockets, TLS and the life of the HTTPS server: start, change the certificate while serving, drain, stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from ullage import pki
from ullage.errors import Retryable
from ullage.http1 import BoundedProtocol, bounded_server, running
from ullage.pki import Pair

KEEP_ALIVE: Final = 180  # longer than Go's clients keep an idle connection: they close first, and never write into a closed one
BACKLOG: Final = 1024  # connections that wait to be accepted
HANDSHAKE_SECONDS: Final = 10.0


class Certificate:
    """The TLS context in use. `switch` changes what the next handshake shows; connections that stand are not touched."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.pair: Pair | None = None

    @property
    def loaded(self) -> bool:
        return self.pair is not None

    def switch(self, pair: Pair) -> None:
        with tempfile.TemporaryDirectory(prefix="ullage-") as folder:  # private; the library reads nothing but files
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            pki.save(pair, certificate, key)
            # Asked of a context of its own first: a bad pair would take the key out of the one in use.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
            self.context.load_cert_chain(certificate, key)
        self.pair = pair


class Drained(Protocol):
    """An ASGI application that tells its clients to go elsewhere once it is `draining`."""

    draining: bool

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


@contextlib.asynccontextmanager
async def serving(
    endpoint: Drained,
    certificate: Certificate,
    *,
    sock: socket.socket,
    drain: float,
    stop_seconds: int,
    protocol: type[BoundedProtocol] = BoundedProtocol,
) -> AsyncIterator[asyncio.Task[None]]:
    """Serves inside the block. At its end: `drain` seconds in which clients are told to go elsewhere, then the stop,
    which waits for requests under way, but not longer than `stop_seconds`."""
    server = bounded_server(
        endpoint,
        stop_seconds=stop_seconds,
        protocol=protocol,
        handshake_seconds=HANDSHAKE_SECONDS,
        date_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        ssl_context_factory=lambda config, default: certificate.context,
    )
    async with running(server, sock) as task:
        try:
            if task.done():
                await task
                raise Retryable("the HTTPS server ended before it served")
            yield task
            endpoint.draining = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(task), drain)
        finally:
            endpoint.draining = True


async def work_beside(server: asyncio.Task[None], jobs: Iterable[Coroutine[None, None, None]], *, stop: asyncio.Event) -> None:
    """Until the stop. That the server, or a job beside it, ends by itself is an error: a server whose certificate nobody looks
    after any more would serve on until the day on which nobody trusts it."""
    working = [asyncio.create_task(job) for job in jobs]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([stopping, server, *working], return_when=asyncio.FIRST_COMPLETED)
        for job in working:
            if job.done():
                job.result()
                raise Retryable("what looks after the HTTPS server ended by itself")
    finally:
        for task in (*working, stopping):
            task.cancel()
        await asyncio.gather(*working, stopping, return_exceptions=True)
    if not stop.is_set():
        raise Retryable("the HTTPS server ended by itself")


def url_of(host: str, port: int) -> str:
    """Addresses of IPv6 stand in brackets."""
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
