"""Sockets, TLS and the life of the HTTPS server: start, change the certificate while serving, drain, stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import uvicorn

from ullage import pki
from ullage.admission.endpoint import Endpoint
from ullage.errors import Retryable
from ullage.http1 import BoundedProtocol
from ullage.pki import Pair

KEEP_ALIVE: Final = 180  # longer than Go's clients keep an idle connection: they close first, and never write into a closed one
BACKLOG: Final = 1024  # connections that wait to be accepted


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


def bind(host: str, port: int) -> socket.socket:
    """A port that replicas on one machine share: the kernel deals connections out to all that listen. This one does not listen
    yet: a connection that is dealt to a replica without a certificate would hang."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise Retryable(f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}") from error
    return found


class _Uvicorn(uvicorn.Server):
    """Signals belong to the process, which has more to stop than this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(
    endpoint: Endpoint, certificate: Certificate, *, sock: socket.socket, drain: float, stop_seconds: int
) -> AsyncIterator[asyncio.Task[None]]:
    """Serves inside the block. At its end: `drain` seconds in which clients are told to go elsewhere, then the stop,
    which waits for reviews under way, but not longer than `stop_seconds`."""
    server = _Uvicorn(
        uvicorn.Config(
            endpoint,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=stop_seconds,
            ssl_context_factory=lambda config, default: certificate.context,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110  uvicorn offers nothing to wait for
            await asyncio.sleep(0.005)
        if task.done():
            await task
            raise Retryable("the HTTPS server ended before it served")
        yield task
        endpoint.draining = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), drain)
    finally:
        endpoint.draining = True
        server.should_exit = True
        await task
