"""Memory that was needed once is given back: a large body, or a burst of connections, must not stay with the process."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3  # glibc's names for what can be tuned
_TRIM_THRESHOLD: Final = -1
LARGE: Final = 512 * 1024  # more than a connection's buffers, which come and go with every request


def return_memory() -> None:
    """Tells glibc to take large blocks from the system one by one, and to return them when they are free.

    By itself it learns to keep larger and larger ones. Other C libraries have no such call, and no need of it.
    """
    with contextlib.suppress(OSError, AttributeError):
        tune = ctypes.CDLL(None).mallopt
        tune(_MMAP_THRESHOLD, LARGE)
        tune(_TRIM_THRESHOLD, LARGE)
