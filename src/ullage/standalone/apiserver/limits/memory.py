"""Memory that was needed once is given back: a large body, or a burst of connections, must not stay with the process."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
from typing import Final

_MMAP_THRESHOLD: Final = -3  # glibc's names for what can be tuned
_TRIM_THRESHOLD: Final = -1
TRIM_SECONDS: Final = 0.2  # between what is freed and what is returned: what is freed together is returned at once
MANY: Final = 100  # small things that are parted with leave as many holes as a large one
LARGE: Final = 512 * 1024  # more than a connection's buffers, which come and go with every request


def return_memory() -> None:
    """Tells glibc to take large blocks from the system one by one, and to return them when they are free.

    By itself it learns to keep larger and larger ones. Other C libraries have no such call, and no need of it.
    """
    with contextlib.suppress(OSError, AttributeError):
        tune = ctypes.CDLL(None).mallopt
        tune(_MMAP_THRESHOLD, LARGE)
        tune(_TRIM_THRESHOLD, LARGE)


class Trimmer:
    """Returns what lies free between blocks that are in use. That takes milliseconds, so it is done once for many."""

    def __init__(self) -> None:
        self._due: asyncio.TimerHandle | None = None
        self._parted = 0

    def part(self, *, large: bool) -> None:
        """Something ends that took memory, much or little."""
        self._parted += MANY if large else 1
        if self._parted >= MANY:
            self.soon()

    def soon(self) -> None:
        """Something was freed, or will be in a moment."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(TRIM_SECONDS, self._trim)

    def _trim(self) -> None:
        self._due = None
        self._parted = 0
        gc.collect()  # a request that was cancelled is in a cycle with its own traceback, and holds what it was sending
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
