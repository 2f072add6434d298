"""The engines of one host, through `interface.EngineClients`: what the controllers are given.

All volumes of a host share a connection. It is open as long as whoever holds the `HostConnection` works.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from ullage.engines.chain import UNLIMITED, Entry, Limits, PollResult, PurgeProgress
from ullage.engines.client.channels import Channels
from ullage.engines.client.host import HostClient
from ullage.engines.client.interface import EngineClient, EngineClients
from ullage.kube.slices import Wiring


class HostedEngine:
    """The engine of one volume."""

    def __init__(self, host: HostClient, volume: str) -> None:
        self._host = host
        self._volume = volume
        self._client = host.engine(volume)

    async def list(self) -> Mapping[str, Entry]:
        return (await self._client.snapshots()).entries

    async def poll(self) -> PollResult:
        return await self._host.poll(self._volume)

    async def has(self, name: str) -> bool:
        return name in await self.list()

    async def create(self, name: str, labels: Mapping[str, str]) -> None:
        await self._client.snapshot(name, labels=labels)

    async def mark_removed(self, name: str) -> None:
        await self._client.mark_removed(name)

    async def purge(self) -> None:
        await self._client.purge()

    async def purge_status(self) -> Mapping[str, PurgeProgress]:
        return await self._client.purge_status()

    async def limits(self) -> Limits:
        state = await self._client.state()
        return Limits.told(max_count=state.max_count, max_size=state.max_size)

    async def set_limits(self, limits: Limits) -> None:
        """Only what differs is said: an engine may refuse even a limit that it has."""
        now = await self.limits()
        if now.max_count != limits.max_count:
            await self._client.set_max_count(limits.max_count)
        if now.max_size != limits.max_size:
            await self._client.set_max_size(limits.max_size or UNLIMITED)


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
