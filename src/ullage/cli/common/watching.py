"""Following kinds on a cluster for a person: everything that is there, then each change, through restarts of the server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ullage.cli.common.session import NotInstalled
from ullage.errors import Retryable, Terminal
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.reflector import Selection
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, NotFound
from ullage.kube.kinds import Kind

R = TypeVar("R")

NOTHING_TO_FOLLOW: Final = "--watch: none of what this is read from is served here and may be read. Next: ask without -w"
_PAUSE_SECONDS: Final = 0.05
REST_SECONDS = 0.5  # between two readings of everything
REST_SHARE: Final = 4  # times what the last reading took: a cluster where that is much is not asked without end


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

    async def some(self, *, within: float) -> None:
        """Waits for a change, and for all that come within so many seconds after it."""
        await self._queue.get()
        await asyncio.sleep(within)
        while not self._queue.empty():
            self._queue.get_nowait()


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


async def repeated(
    client: Client, selections: Sequence[Selection[Any]], read: Callable[[], Awaitable[R]], show: Callable[[R], object]
) -> None:
    """Reads and shows, and does so again after changes of what can be followed, until it is interrupted. For what is put
    together of several kinds: that is done in one place, whether once or again and again. A server that is away is waited for.
    """
    await read()  # where something is wrong, it says so better than what is followed
    if not (some := await followable(client, selections)):
        raise NotInstalled(NOTHING_TO_FOLLOW)
    loop = asyncio.get_running_loop()
    async with followed(client, some) as follow:
        while True:
            began = loop.time()
            try:
                found = await read()
            except Retryable:
                await asyncio.sleep(REST_SECONDS)
                continue
            rest = max(REST_SECONDS, REST_SHARE * (loop.time() - began))
            show(found)
            await follow.some(within=rest)


async def followable(client: Client, selections: Sequence[Selection[Any]]) -> list[Selection[Any]]:
    """Those whose kinds are served, and may be read."""
    return [one for one in selections if await _may_follow(client, one)]


async def _may_follow(client: Client, one: Selection[Any]) -> bool:
    try:
        await client.latest(one.kind, one.namespace, fields=one.fields)
    except (Forbidden, NotFound):
        return False
    return True


def _cache(client: Client, what: Selection[Any], queue: asyncio.Queue[Change]) -> Cache[Any]:
    cache: Cache[Any] = Cache(client, what.kind, namespace=what.namespace, labels=what.labels, fields=what.fields)

    def tell(old: Any, new: Any) -> None:
        queue.put_nowait(Change(what.kind, old if new is None else new, gone=new is None))

    cache.handle(tell)
    return cache
