"""What is taken away underneath a running `ullage up`: its own program, or its data directory.

What runs goes on as if nothing had happened, and that is the trouble: the next restart of a process fails, and what is written
into files without a name is lost when they are closed. So it is looked for, told once, and told when it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ullage.local_servers import LOCK

PROGRAM: Final = Path(__file__).parents[2]  # the package `ullage`
LOOK_SECONDS: Final = 5.0


class Removals:
    """What was there at the start."""

    def __init__(self, directory: Path, *, program: Path = PROGRAM) -> None:
        self._program = program
        self._directory = directory
        self._lock = _identity(directory / LOCK)
        self._gone: frozenset[str] = frozenset()

    def look(self) -> list[str]:
        """The sentences that are new since it was last asked."""
        states = {
            f"the program of Ullage in {self._program}": (
                (self._program / "__init__.py").exists(),
                "what runs goes on, and nothing can be started again",
            ),
            # Another one of the same name is not it: an upgrade replaces a program, and nothing replaces data.
            f"the data directory {self._directory}": (
                _identity(self._directory / LOCK) == self._lock,
                "what is written from now on is lost when this ends",
            ),
        }
        before, self._gone = self._gone, frozenset(what for what, (there, _) in states.items() if not there)
        removed = [f"{what} was removed: {follows}" for what, (_, follows) in states.items() if what in self._gone - before]
        return removed + [f"{what} is back" for what in sorted(before - self._gone)]


async def watch(directory: Path, tell: Callable[[str], None]) -> None:
    removals = Removals(directory)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for sentence in removals.look():
            tell(sentence)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
