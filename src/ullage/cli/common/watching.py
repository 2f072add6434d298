"""Following kinds on a cluster for a person: everything that is there, then each change, through restarts of the server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from ullage.errors import Terminal
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.reflector import Selection
from ullage.kube.client.client import Client
from ullage.kube.kinds import Kind

_PAUSE_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Change:
    kind: Kind[Any]
    obj: Any
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Followed:
    """`there` is what was there when everything had been read."""

    there: Sequence[Change]
    _queue: asyncio.Queue[Change]

    async def changes(self) -> AsyncIterator[Change]:
        while True:
            yield await self._queue.get()


@asynccontextmanager
async def followed(client: Client, selections: Sequence[Selection[Any]]) -> AsyncIterator[Followed]:
    """Raises where one of them may not be watched. What is cut off later goes on by itself."""
    queue: asyncio.Queue[Change] = asyncio.Queue()
    caches = [_cache(client, one, queue) for one in selections]
    tasks = [asyncio.create_task(cache.run()) for cache in caches]
    try:
        while not all(cache.synced.is_set() for cache in caches):
            for cache in caches:
                if isinstance(cache.error, Terminal):
                    raise cache.error
            await asyncio.sleep(_PAUSE_SECONDS)
        there = [Change(cache.kind, obj) for cache in caches for obj in cache.items()]
        while not queue.empty():  # how it came to be there
            queue.get_nowait()
        yield Followed(there, queue)
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


def _cache(client: Client, what: Selection[Any], queue: asyncio.Queue[Change]) -> Cache[Any]:
    cache: Cache[Any] = Cache(client, what.kind, namespace=what.namespace, labels=what.labels, fields=what.fields)

    def tell(old: Any, new: Any) -> None:
        queue.put_nowait(Change(what.kind, old if new is None else new, gone=new is None))

    cache.handle(tell)
    return cache
