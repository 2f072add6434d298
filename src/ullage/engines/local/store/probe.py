"""Whether a file system keeps holes as the store needs them.

A layer holds a block if and only if its file has data there. A file system that rounds holes to larger pieces, or turns
zeros into holes, would make a snapshot hide or show the wrong data: nothing is stored on such a one.
"""

from __future__ import annotations

from typing import Final

from ullage.engines.local.store.errors import Damaged
from ullage.engines.local.store.files import Files
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.spans import Span

PROBE: Final = ".probe"


def check_holes(files: Files) -> None:
    """Blocks apart from each other, one of them zeros, and one punched out again."""
    if PROBE in files.names(""):
        files.remove(PROBE)
    files.create(PROBE, size=9 * BLOCK)
    try:
        for block, data in ((1, b"\x01"), (3, b"\x00"), (5, b"\x01"), (6, b"\x01"), (7, b"\x01")):
            files.write(PROBE, offset=block * BLOCK, data=data * BLOCK)
        files.punch(PROBE, Span(6 * BLOCK, 7 * BLOCK))
        expected = [Span(block * BLOCK, (block + 1) * BLOCK) for block in (1, 3, 5, 7)]
        for _ in range(2):  # in memory, and on the disk
            if files.extents(PROBE) != expected:
                raise Damaged(
                    f"the file system of the volumes does not keep holes of {BLOCK} bytes apart from data; "
                    "ext4, XFS, Btrfs and tmpfs with their defaults are known to"
                )
            files.sync(PROBE)
    finally:
        files.remove(PROBE)
