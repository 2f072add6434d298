"""A TCP proxy that a test makes unreliable: it cuts connections after so many bytes, or takes none at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Self


class Cutter:
    """Passes bytes on to a port of this machine. `after` says how many a new connection may bring from there (None: all)."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.after: Callable[[], int | None] = lambda: None
        self.refusing = False
        self.silent = asyncio.Event()
        self.connected = asyncio.Event()  # somebody has been here
        self.port = 0
        self.cuts = 0
        self._open: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Breaks every connection, in whatever it is doing."""
        for pair in list(self._open.items()):
            for writer in pair:
                writer.transport.abort()  # a reset: no goodbye from TLS or HTTP

    def hush(self) -> None:
        """Keeps every connection, old and new, and passes nothing on any more."""
        self.silent.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.upstream)
        except OSError:  # the server is down: so are we
            writer.transport.abort()
            return
        self._open[writer] = back
        self.connected.set()
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await asyncio.gather(self._pass(reader, back, None), self._pass(there, writer, self.after()))
        finally:
            self._tasks.discard(task)
            del self._open[writer]
            for end in (writer, back):
                end.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, room: int | None) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if self.silent.is_set():
                    continue
                if room is not None and len(data) >= room:
                    sink.write(data[:room])
                    await sink.drain()
                    self.cuts += 1
                    raise ConnectionAbortedError
                room = None if room is None else room - len(data)
                sink.write(data)
                await sink.drain()
        for writer in (sink, self._open.get(sink)):
            if writer is not None:
                writer.transport.abort()
