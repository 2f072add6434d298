"""The process that `test_killed` kills: `python -m tests.unit.engines.local.store.killed DIRECTORY FIRST`.

It writes numbers, each into its own place in a small volume, takes snapshots, marks and purges them, reverts to the one it
has just taken, and says what it has got an answer for.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.store import Store
from ullage.engines.local.store.volume import StoredVolume

BLOCKS = 40
NOW = "2026-01-02T03:04:05Z"


def place(number: int) -> int:
    """Neighbours go to different blocks, and into the middle of them."""
    return (number * 7 % BLOCKS) * BLOCK + 1000


def work(volume: StoredVolume, first: int) -> None:
    number = first
    while True:
        volume.write_at(place(number), number.to_bytes(8, "big"))
        print(number, flush=True)
        if number % 5 == 0:
            name = f"s{number}"
            volume.snapshot(name, created=NOW, user_created=number % 3 > 0)
            print(name, flush=True)
        if number % 15 == 0:
            volume.revert(f"s{number}", created=NOW)
        if number % 20 == 0:
            for name in sorted(volume.view().entries)[:3]:
                if name.startswith("s"):
                    volume.mark_removed(name)
            volume.purge()
        number += 1


if __name__ == "__main__":
    work(Store.open(Path(sys.argv[1])).create("v", size=BLOCKS * BLOCK), int(sys.argv[2]))
