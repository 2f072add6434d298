"""The engines of one host, through `interface.EngineClients`: what the controllers are given.

All volumes of a host share a connection. It is open as long as whoever holds the `HostConnection` works.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from ullage.engines.chain import Entry, PollResult
from ullage.engines.client.channels import Channels
from ullage.engines.client.engine import ProtocolEngine
from ullage.engines.client.host import HostClient
from ullage.engines.client.interface import EngineClient, EngineClients
from ullage.kube.slices import Wiring


class HostedEngine(ProtocolEngine):
    """The engine of one volume. What a real one tells in several calls, it tells in one, and how large snapshots will be when
    removed ones are merged into them, which a real one does not tell."""

    def __init__(self, host: HostClient, volume: str) -> None:
        super().__init__(lambda: host.engine(volume))
        self._host = host
        self._volume = volume

    async def list(self) -> Mapping[str, Entry]:
        return (await self.poll()).entries

    async def poll(self) -> PollResult:
        return await self._host.poll(self._volume)


class HostConnection:
    """The way to a host and its engines. Leaving it ends all calls."""

    def __init__(self, address: str) -> None:
        self._channels = Channels()
        self.host = HostClient(self._channels, address)

    def of(self, volume: str) -> EngineClient:
        return HostedEngine(self.host, volume)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channels.close()


def address_of(socket: Path) -> str:
    """The address of a host that listens on a socket of this machine."""
    return f"unix://{socket.absolute()}"


def connect(wiring: Wiring, address: str) -> EngineClients:
    """The engines of a host, for as long as the wiring's work goes on."""
    connection = HostConnection(address)
    wiring.hold(connection)
    return connection
