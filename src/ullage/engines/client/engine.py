"""A real engine through `interface.EngineClient`, with the calls of Longhorn's own protocol alone.

Where it listens follows from its Engine's status, and changes when the volume is attached elsewhere: it is looked up at every
call. A poll is a handful of calls, made at the same time, each bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Self

from ullage.engines.chain import UNLIMITED, Entry, Limits, PollResult, PurgeProgress
from ullage.engines.client.channels import Channels
from ullage.engines.client.errors import Reason, error
from ullage.engines.client.interface import EngineClient
from ullage.engines.client.longhorn import LonghornClient
from ullage.errors import UllageError

Addresses = Callable[[str], str]
"""Where the engine of a volume listens now; empty: nowhere."""


class ProtocolEngine:
    """The engine of one volume. `client` gives the calls to it, where it is now."""

    def __init__(self, client: Callable[[], LonghornClient]) -> None:
        self._client = client

    async def list(self) -> Mapping[str, Entry]:
        return (await self._client().snapshots()).entries

    async def poll(self) -> PollResult:
        """All at once. What cannot be told whole is not told: the first failure is the answer."""
        failed: Exception | None = None
        try:
            async with asyncio.TaskGroup() as group:
                entries = group.create_task(self.list())
                purges = group.create_task(self.purge_status())
                limits = group.create_task(self.limits())
        except* UllageError as failures:
            failed = failures.exceptions[0]
        if failed is not None:  # out here, or it would come in a group again
            raise failed
        return PollResult(entries.result(), purges.result(), limits.result())

    async def has(self, name: str) -> bool:
        return name in await self.list()

    async def create(self, name: str, labels: Mapping[str, str]) -> None:
        await self._client().snapshot(name, labels=labels)

    async def revert(self, name: str) -> None:
        await self._client().revert(name)

    async def is_offered(self) -> bool:
        return (await self._client().state()).frontend_up

    async def mark_removed(self, name: str) -> None:
        await self._client().mark_removed(name)

    async def purge(self) -> None:
        await self._client().purge()

    async def purge_status(self) -> Mapping[str, PurgeProgress]:
        return await self._client().purge_status()

    async def limits(self) -> Limits:
        state = await self._client().state()
        return Limits.told(max_count=state.max_count, max_size=state.max_size)

    async def set_limits(self, limits: Limits) -> None:
        """Only what differs is said: an engine may refuse even a limit that it has."""
        client, now = self._client(), await self.limits()
        if now.max_count != limits.max_count:
            await client.set_max_count(limits.max_count)
        if now.max_size != limits.max_size:
            await client.set_max_size(limits.max_size or UNLIMITED)


class RunningEngines:
    """Engines that are processes of their own, each at its own address. Leaving it ends all calls."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._channels = Channels()

    def of(self, volume: str) -> EngineClient:
        return ProtocolEngine(lambda: self._client(volume))

    def _client(self, volume: str) -> LonghornClient:
        address = self._addresses(volume)
        if not address:
            raise error(Reason.DETACHED, f"volume {volume} is not attached: no engine of it says where it listens")
        return LonghornClient(self._channels, address, volume=volume)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channels.close()
