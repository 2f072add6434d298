"""Connections to engines: one for each address, shared by all who speak to it, and no more than we can afford.

The host of the embedded engines has one address for all volumes. A real volume has three for each replica and they change
when it is attached elsewhere, so connections that nobody has used for long are closed once there are too many.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import grpc
import grpc.aio

from ullage.engines.protocol import MAX_MESSAGE
from ullage.errors import BadInput
from ullage.rpc import channel_options

MOST: Final = 2000
_SYNC_AGENT: Final = 2  # ports above its replica's
_OPTIONS: Final = channel_options(max_receive=MAX_MESSAGE, max_send=MAX_MESSAGE)


def target(address: str) -> str:
    """What gRPC calls the address of an engine or replica: `tcp://HOST:PORT`, `HOST:PORT` or `unix:///PATH`."""
    if address.startswith("unix:///"):
        return address
    plain = address.removeprefix("tcp://")
    host, _, port = plain.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16 or "/" in host:
        raise BadInput("engine address", repr(address), "tcp://HOST:PORT or unix:///PATH is allowed")
    return plain


def sync_agent(address: str) -> str:
    """Where the sync agent of a replica is. Behind a socket there is one server for everything."""
    plain = target(address)
    if plain.startswith("unix:"):
        return plain
    host, _, port = plain.rpartition(":")
    return f"{host}:{int(port) + _SYNC_AGENT}"


@dataclass(slots=True)
class _Line:
    channel: grpc.aio.Channel
    users: int = 0


class Channels:
    """Belongs to one event loop. `close` ends all calls."""

    def __init__(self, *, most: int = MOST) -> None:
        self._most = most
        self._lines: OrderedDict[str, _Line] = OrderedDict()

    @asynccontextmanager
    async def to(self, address: str) -> AsyncIterator[grpc.aio.Channel]:
        name = target(address)
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = _Line(grpc.aio.insecure_channel(name, options=_OPTIONS))
        self._lines.move_to_end(name)
        line.users += 1
        try:
            yield line.channel
        finally:
            line.users -= 1
            await self._trim()

    async def close(self) -> None:
        while self._lines:
            _, line = self._lines.popitem()
            await line.channel.close()

    async def _trim(self) -> None:
        surplus = len(self._lines) - self._most
        if surplus > 0:
            idle = [name for name, line in self._lines.items() if line.users == 0]
            for line in [self._lines.pop(name) for name in idle[:surplus]]:
                await line.channel.close()
