"""Large requests are worked out beside the event loop, so that nobody else waits for them.

What is done to an object is done by pure functions of plain values: decode, prune, default, merge, validate. For a small object
they run where they are called; for a large one in a thread, which takes turns with the loop. The store, the registry's changes
and webhooks stay on the loop. A step ends by itself, since bodies, depth and values are bounded: nobody has to stop it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, TypeVar

from ullage.standalone.apiserver.codec.json import MAX_VALUES

T = TypeVar("T")

INLINE: Final = 16 * 1024  # bytes of JSON: some milliseconds of work
THREADS: Final = 2
VALUE_COST: Final = 600  # bytes, in all the copies of an object that a write makes on its way
TEXT_COST: Final = 6


async def offload(size: int, step: Callable[[], T]) -> T:
    """What the step returns or raises. `size` is how many bytes it is about."""
    if size <= INLINE:
        return step()
    return await asyncio.get_running_loop().run_in_executor(_threads(), step)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="large-requests")


def cost_of(text: bytes) -> int:
    """The memory that a write of this object may take, roughly and rather too much."""
    if len(text) <= INLINE:
        return 0
    values = sum(text.count(mark) for mark in (b",", b"{", b"[", b"\n"))
    return TEXT_COST * len(text) + VALUE_COST * min(values, MAX_VALUES)
