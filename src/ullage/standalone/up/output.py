"""What a person sees while `ullage up` works: a spinner and check marks on a terminal, plain lines anywhere else.

Telling is never worth dying for: once nobody reads the output any more (a closed pipe, a terminal that hung up), it is dropped
and the server runs on.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


class Output(Protocol):
    def begin(self, text: str) -> None:
        """Something is under way. The next `done` or `say` ends it."""

    def done(self, text: str) -> None:
        """It is finished."""

    def say(self, text: str = "") -> None:
        """A line that is neither: printed as it is, so that it can be copied."""

    def warn(self, text: str) -> None:
        """A line that should not be missed."""


class PlainOutput:
    """For logs, pipes and tests: one line for each step, with nothing that moves."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, text: str) -> None:
        self.say(f"{text} ...")

    def done(self, text: str) -> None:
        self.say(text)

    def warn(self, text: str) -> None:
        self.say(f"warning: {text}")

    def say(self, text: str = "") -> None:
        try:
            print(text, file=self._out, flush=True)
        except OSError:
            self._drop()

    def _drop(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._out.fileno())
        os.close(nowhere)


class TerminalOutput:
    """For a person: a spinner while it works, a check mark when it is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        try:
            "✓".encode(console.encoding)
            self._mark = "✓"
        except (UnicodeEncodeError, LookupError):
            self._mark = "-"

    def begin(self, text: str) -> None:
        self._end()
        try:
            self._status = self._console.status(f"{text} ...")
            self._status.start()
        except OSError:
            self._status = None

    def done(self, text: str) -> None:
        self._print(f"{self._mark} {text}", "green")

    def say(self, text: str = "") -> None:
        self._print(text, "")

    def warn(self, text: str) -> None:
        self._print(f"! {text}", "yellow")

    def _print(self, text: str, style: str) -> None:
        self._end()
        try:
            # soft_wrap: a path that is broken over two lines cannot be copied; no markup: a path may hold brackets
            self._console.print(text, style=style, soft_wrap=True, markup=False, highlight=False, emoji=False)
        except OSError:
            return  # the terminal is gone

    def _end(self) -> None:
        status, self._status = self._status, None
        if status is not None:
            try:
                status.stop()
            except OSError:
                return


def standard_output() -> Output:
    """The one that suits standard output."""
    if not sys.stdout.isatty():
        return PlainOutput(sys.stdout)
    from rich.console import Console

    return TerminalOutput(Console(highlight=False))
