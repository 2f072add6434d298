"""Engines whose calls are timed, by operation and by how they ended. Polls have a meter of their own: they never end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from ullage.clock import Clock
from ullage.engines.chain import Entry, Limits, PollResult, PurgeProgress
from ullage.engines.client.interface import EngineClient, EngineClients
from ullage.meters import timed

Observe = Callable[[str, str, float], None]  # operation, outcome, seconds


class MeteredEngines:
    """`interface.EngineClients` around others."""

    def __init__(self, engines: EngineClients, observe: Observe, *, clock: Clock) -> None:
        self._engines = engines
        self._observe = observe
        self._clock = clock

    def of(self, volume: str) -> EngineClient:
        return MeteredEngine(self._engines.of(volume), self._observe, clock=self._clock)


class MeteredEngine:
    """`interface.EngineClient` around another one."""

    def __init__(self, engine: EngineClient, observe: Observe, *, clock: Clock) -> None:
        self._engine = engine
        self._observe = observe
        self._clock = clock

    def _timed(self, operation: str) -> AbstractContextManager[None]:
        return timed(partial(self._observe, operation), clock=self._clock)

    async def list(self) -> Mapping[str, Entry]:
        with self._timed("list"):
            return await self._engine.list()

    async def poll(self) -> PollResult:
        return await self._engine.poll()

    async def has(self, name: str) -> bool:
        with self._timed("look"):
            return await self._engine.has(name)

    async def create(self, name: str, labels: Mapping[str, str]) -> None:
        with self._timed("create"):
            await self._engine.create(name, labels)

    async def revert(self, name: str) -> None:
        with self._timed("revert"):
            await self._engine.revert(name)

    async def is_offered(self) -> bool:
        with self._timed("look"):
            return await self._engine.is_offered()

    async def mark_removed(self, name: str) -> None:
        with self._timed("delete"):
            await self._engine.mark_removed(name)

    async def purge(self) -> None:
        with self._timed("purge"):
            await self._engine.purge()

    async def purge_status(self) -> Mapping[str, PurgeProgress]:
        with self._timed("purge_status"):
            return await self._engine.purge_status()

    async def limits(self) -> Limits:
        with self._timed("limits"):
            return await self._engine.limits()

    async def set_limits(self, limits: Limits) -> None:
        with self._timed("set_limits"):
            await self._engine.set_limits(limits)
