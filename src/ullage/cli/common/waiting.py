"""Waiting, and telling a person meanwhile: a line for each thing that happens, and on a terminal a spinner under them.

It asks again and again, which survives restarts of the server, and soon enough for a person. Ctrl-C ends the waiting and
nothing else.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from ullage.clock import Clock, SystemClock
from ullage.errors import Retryable, Terminal

if TYPE_CHECKING:
    from rich.status import Status

R = TypeVar("R")

LOOKS: Final = (0.1, 0.2, 0.4, 0.7, 1.0)  # seconds between the first looks; the last one from then on
COPY_LINES: Final = 10.0  # seconds between two lines about the bytes of one copy


class Failed(Terminal):
    """What is waited for will not come."""


class TimedOut(Retryable):
    """It has not come in time; it may still."""


class CopyLines:
    """How far copies are, a line for each now and then: a copy may take hours."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, float]] = {}

    def worth(self, name: str, text: str, now: float) -> bool:
        """Whether this is worth a line at this moment."""
        before, since = self._told.get(name, ("", now - COPY_LINES))
        if not text or text == before or now - since < COPY_LINES:
            return False
        self._told[name] = text, now
        return True


class ProgressOutput:
    """Where the lines go. A spinner only where somebody watches."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._status: Status | None = None
        self._console: Any = None
        if self._out.isatty():
            from rich.console import Console

            self._console = Console(file=self._out, highlight=False)

    def spinning(self, text: str) -> AbstractContextManager[object]:
        if self._console is None:
            return nullcontext()
        self._status = self._console.status(text)
        return self._status

    def line(self, text: str) -> None:
        if self._console is None:
            print(text, file=self._out, flush=True)
        else:
            self._console.print(text, soft_wrap=True, markup=False, highlight=False, emoji=False)

    def under_way(self, text: str) -> None:
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(text))  # not a string: a name is no markup


async def until(
    look: Callable[[], Awaitable[R | None]], *, timeout: float, late: Callable[[], str], clock: Clock | None = None
) -> R:
    """Looks again and again until it finds something. `late` says how far it is when the time is up."""
    clock = clock or SystemClock()
    deadline = clock.monotonic() + timeout
    trouble: Retryable | None = None
    looks = 0
    while True:
        try:
            if (found := await look()) is not None:
                return found
            trouble = None
        except Retryable as error:  # a server that restarts: the next look may reach it
            trouble = error
        left = deadline - clock.monotonic()
        if left <= 0:
            raise TimedOut(late() if trouble is None else f"{late()}; the last look failed: {trouble}")
        await asyncio.sleep(min(left, LOOKS[min(looks, len(LOOKS) - 1)]))
        looks += 1
