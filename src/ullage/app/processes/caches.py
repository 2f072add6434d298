"""Caches beside the work of a process that serves: what its readiness says of them, and how long they run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from ullage.errors import Terminal
from ullage.kube.cache.cache import Cache


class NotInstalled(Terminal):
    """The cluster lacks something that `ullage install` brings."""


def cache_checks(caches: Iterable[Cache[Any]]) -> Mapping[str, Callable[[], bool]]:
    return {f"cache {cache.kind.name}": cache.synced.is_set for cache in caches}


async def run_beside(caches: Sequence[Cache[Any]], work: Coroutine[Any, Any, None]) -> None:
    """Runs caches as long as the work runs. A cache never ends by itself: if one does, its error is raised."""
    working = asyncio.ensure_future(work)
    reading = [asyncio.create_task(cache.run(), name=f"cache {cache.kind.name}") for cache in caches]
    try:
        await asyncio.wait((working, *reading), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, *reading):
            if task is not working or not working.done():
                task.cancel()
        results = await asyncio.gather(working, *reading, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
