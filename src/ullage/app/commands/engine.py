"""`ullage engine`: the host of the embedded engines. `ullage up` starts it; a person has no reason to."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from ullage.app.commands import options

HELP = "Serve the volumes in a directory over the protocol of Longhorn's engines."


def engine(
    volumes: Annotated[Path, typer.Option(metavar="DIR", help="Where the volumes are. Made where it is missing.")],
    socket: Annotated[Path, typer.Option(metavar="PATH", help="The socket that is listened on.")],
    log_format: options.LogFormat = "text",
    log_level: options.LogLevel = "info",
    ready_fd: options.ReadyFd = None,
    parent_fd: options.ParentFd = None,
) -> None:
    from ullage import logs

    logs.configure("engine", format=log_format, level=log_level)
    from ullage.app.processes.lifecycle import Serves, run_until_stopped
    from ullage.clock import SystemClock
    from ullage.engines.local.server.server import serving

    if not volumes.exists():
        logging.getLogger(__name__).info("made a directory that was missing", extra={"directory": str(volumes)})

    async def run(stop: asyncio.Event, serves: Serves) -> None:
        async with serving(volumes, socket, clock=SystemClock()):
            serves(0)  # there is no port
            await stop.wait()

    run_until_stopped(run, ready_fd=ready_fd, parent_fd=parent_fd)
