"""A backend whose calls are timed: how long each operation of a driver took, by how it ended. A driver that fails slowly shows
here before anybody asks why snapshots wait; deletions, which nobody watches, show too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from functools import partial

from ullage.clock import Clock
from ullage.meters import timed
from ullage.snapshots.backends.base import (
    NO_SECRETS,
    Backend,
    BackendSnapshot,
    Creation,
    Restoration,
    Restored,
    Secrets,
    VolumeHandle,
)

Observe = Callable[[str, str, str, float], None]  # driver, operation, outcome, seconds


class MeteredBackend:
    """`base.Backend` around another one."""

    def __init__(self, backend: Backend, observe: Observe, *, clock: Clock) -> None:
        self._backend = backend
        self._observe = observe
        self._clock = clock

    def _timed(self, operation: str) -> AbstractContextManager[None]:
        return timed(partial(self._observe, self._backend.driver, operation), clock=self._clock)

    @property
    def driver(self) -> str:
        return self._backend.driver

    @property
    def node(self) -> str:
        return self._backend.node

    async def create(self, creation: Creation) -> BackendSnapshot:
        with self._timed("create"):
            return await self._backend.create(creation)

    async def undo(self, creation: Creation) -> None:
        with self._timed("undo"):
            await self._backend.undo(creation)

    async def delete(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        with self._timed("delete"):
            await self._backend.delete(handle, secrets=secrets)

    async def find(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> BackendSnapshot | None:
        with self._timed("find"):
            return await self._backend.find(handle, secrets=secrets)

    async def list(self, volume: str = "", *, secrets: Secrets = NO_SECRETS) -> AsyncIterator[BackendSnapshot]:
        with self._timed("list"):
            async for found in self._backend.list(volume, secrets=secrets):
                yield found

    async def restore(self, restoration: Restoration) -> Restored:
        with self._timed("restore"):
            return await self._backend.restore(restoration)

    async def discard(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> None:
        with self._timed("discard"):
            await self._backend.discard(handle, secrets=secrets)

    async def size(self, handle: str, *, secrets: Secrets = NO_SECRETS) -> int | None:
        with self._timed("size"):
            return await self._backend.size(handle, secrets=secrets)

    async def estimate(self, volume: VolumeHandle, *, owner: str = "") -> int | None:
        with self._timed("estimate"):
            return await self._backend.estimate(volume, owner=owner)
