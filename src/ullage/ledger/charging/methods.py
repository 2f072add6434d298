"""How what an object takes was found: the values of its annotation `ullage.io/estimated-by`. Pure.

Whoever writes the annotation, counts it or shows it takes the words from here, so that none is written that another does not
know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

UNKNOWN: Final = "unknown"  # nothing tells: there is no such claim, or no record of what is imported
LAST_SNAPSHOT: Final = "last-snapshot"  # as much as the driver told of the last one: a class asks for it, and it may be less
CAPACITY: Final = "capacity"  # nobody tells: no more than the whole volume
RESTORE_SIZE: Final = "restore-size"  # it is there, and this is how large a volume made from it has to be
MEASURED: Final = "measured"  # the files of the volume, or of the copy, were looked at
ALLOCATED_BLOCKS: Final = "allocated-blocks"  # a CSI driver told which blocks of a snapshot have data
ENGINE_HEAD: Final = "engine-head"  # the engine of the volume said what its head has
ENGINE_SIZE: Final = "engine-size"  # it is there, and this is what the engine says that it holds

# The weakest first.
METHODS: Final = (UNKNOWN, LAST_SNAPSHOT, CAPACITY, RESTORE_SIZE, MEASURED, ALLOCATED_BLOCKS, ENGINE_HEAD, ENGINE_SIZE)
UPPER_BOUNDS: Final = frozenset({CAPACITY, RESTORE_SIZE})  # may say too much


def weakest(methods: Iterable[str]) -> str:
    """Of several together: a sum is as good as the worst of what went into it. Of none, or of words that are no methods,
    nothing is known."""
    found = set(methods)
    return next((one for one in METHODS if one in found), UNKNOWN)


def is_better(method: str, had: str) -> bool:
    """Whether it is worth a write that an amount is known by another method, although it is the same: it was a bound or a
    guess, or nobody knew."""
    if had == LAST_SNAPSHOT:
        return method in METHODS and method not in (UNKNOWN, LAST_SNAPSHOT)
    weak = UPPER_BOUNDS | {UNKNOWN, LAST_SNAPSHOT}
    return had in weak and method in METHODS and method not in weak
