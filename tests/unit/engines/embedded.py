"""A host of embedded engines in this process, with one attached volume, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ullage.clock import FakeClock
from ullage.engines.chain import PurgeProgress
from ullage.engines.client.channels import Channels
from ullage.engines.client.host import HostClient
from ullage.engines.client.longhorn import LonghornClient
from ullage.engines.local.server.attached import FRONTEND
from ullage.engines.local.server.server import serving

MIB = 1 << 20
SIZE = 8 * MIB
VOLUME = "vol"


@dataclass(slots=True)
class Scene:
    """The volume is `vol`, its frontend up."""

    host: HostClient
    engine: LonghornClient
    frontend: str = FRONTEND

    async def write(self, offset: int, data: bytes) -> None:
        await self.host.write(VOLUME, offset=offset, data=data)

    async def read(self, offset: int, length: int) -> bytes:
        return await self.host.read(VOLUME, offset=offset, length=length)

    async def purged(self) -> None:
        """Purges, and waits for its end."""
        await self.engine.purge()
        status = await self.purge_ended()
        assert (status.state, status.error, status.progress) == ("complete", "", 100)

    async def purge_ended(self) -> PurgeProgress:
        async with asyncio.timeout(10):
            while True:
                (status,) = (await self.engine.purge_status()).values()
                if not status.purging:
                    return status
                await asyncio.sleep(0.005)


@asynccontextmanager
async def scene_in(directory: Path) -> AsyncIterator[Scene]:
    async with host_in(directory) as host:
        await host.create(VOLUME, size=SIZE)
        await host.attach(VOLUME)
        yield Scene(host, host.engine(VOLUME))


@asynccontextmanager
async def host_in(directory: Path) -> AsyncIterator[HostClient]:
    channels = Channels()
    async with serving(directory / "volumes", directory / "socket", clock=FakeClock()) as address:
        try:
            yield HostClient(channels, address)
        finally:
            await channels.close()
