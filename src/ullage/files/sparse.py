"""Where a sparse file has data, and where holes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator


def extents(file: int) -> Iterator[tuple[int, int]]:
    """Where an open file has data, from and up to; between these it has holes. OSError where the file system cannot tell."""
    end = 0
    while True:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data from there on
                return
            raise
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end
