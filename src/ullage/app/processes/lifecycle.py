"""The life of a process that serves until it is told to stop: signals, the parent's end, the line that says it is ready."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from ullage import __version__
from ullage.shutdown import GRACE_SECONDS, exit_within, run_to_end

Serves = Callable[[int], None]  # told the port, once the process is ready
Main = Callable[[asyncio.Event, Serves], Coroutine[Any, Any, None]]


def run_until_stopped(main: Main, *, ready_fd: int | None, parent_fd: int | None, grace: float = GRACE_SECONDS) -> None:
    """Runs `main(stop, serves)` to its end. The first signal asks it to stop, which it does within `grace` seconds; a second
    one ends the process."""
    uvloop.run(_live(main, ready_fd=ready_fd, parent_fd=parent_fd, grace=grace))


async def _live(main: Main, *, ready_fd: int | None, parent_fd: int | None, grace: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask_to_stop() -> None:
        if not stop.is_set():
            stop.set()
            exit_within(grace)

    def end() -> None:
        ask_to_stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    def orphaned(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        ask_to_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    if parent_fd is not None:
        # Nothing is ever written to it: readable means end of file, and that whoever started us is gone.
        loop.add_reader(parent_fd, orphaned, parent_fd)

    def serves(port: int) -> None:
        if ready_fd is not None:
            with contextlib.suppress(BrokenPipeError), os.fdopen(ready_fd, "w") as ready:
                ready.write(json.dumps({"port": port, "pid": os.getpid()}) + "\n")

    await run_to_end(main(stop, serves), stop, grace=grace)


def user_agent(component: str) -> str:
    return f"ullage/{__version__} ({component})"
