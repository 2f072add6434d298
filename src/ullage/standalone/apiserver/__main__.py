"""The API server as a process of its own: `python -m ullage.standalone.apiserver`.

It is started by `ullage up`, or by a test. Exit codes: 0 stopped, 2 bad arguments, 75 the data directory is in use.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import sqlite3
import sys
from pathlib import Path

import uvloop

from ullage.shutdown import GRACE_SECONDS, exit_within
from ullage.standalone.apiserver.limits.memory import return_memory
from ullage.standalone.apiserver.server import listen, locked, running
from ullage.standalone.apiserver.settings import Limits, Settings
from ullage.standalone.apiserver.storage.database import NewerLayout

IN_USE = 75  # EX_TEMPFAIL
COLLECTION = (20_000, 20, 20)  # objects, and rounds: a large request makes many objects and hardly any garbage


def main() -> int:
    arguments = _arguments()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = Settings(
        data_dir=arguments.data_dir,
        port=arguments.port,
        ephemeral=arguments.ephemeral,
        request_timeout=arguments.request_timeout,
        history=arguments.history,
        event_ttl=arguments.event_ttl,
        limits=Limits(live=arguments.quota_bytes, history=arguments.history_bytes),
    )
    try:
        with locked(settings):
            return_memory()
            uvloop.run(_run(settings, ready_fd=arguments.ready_fd, parent_fd=arguments.parent_fd))
    except BlockingIOError:
        print(f"{settings.data_dir} is held by another API server", file=sys.stderr)
        return IN_USE
    except (sqlite3.Error, NewerLayout) as error:
        print(f"cannot open {settings.database}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"cannot serve on port {settings.port}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ullage.standalone.apiserver", description="A Kubernetes API on this machine.")
    parser.add_argument("--data-dir", type=Path, required=True, help="where state, keys and the kubeconfig are kept")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--ephemeral", action="store_true", help="do not wait for the disk: for data that is thrown away")
    parser.add_argument("--request-timeout", type=float, default=60.0, metavar="SECONDS", help="after which a request fails")
    parser.add_argument("--history", type=float, default=300.0, metavar="SECONDS", help="for which old versions are kept")
    limits = Limits()
    parser.add_argument("--history-bytes", type=int, default=limits.history, metavar="BYTES", help="that they take at most")
    parser.add_argument("--quota-bytes", type=int, default=limits.live, metavar="BYTES", help="that all objects take at most")
    parser.add_argument("--event-ttl", type=float, default=3600.0, metavar="SECONDS", help="for which Events are kept")
    parser.add_argument("--ready-fd", type=int, help="file descriptor that gets one line of JSON when requests are answered")
    parser.add_argument("--parent-fd", type=int, help="file descriptor whose end of file means that the parent is gone")
    return parser.parse_args()


async def _run(settings: Settings, *, ready_fd: int | None, parent_fd: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask_to_stop() -> None:
        if not stop.is_set():
            stop.set()
            exit_within(GRACE_SECONDS)  # what was acknowledged is on the disk

    def orphaned(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        ask_to_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask_to_stop)
    if parent_fd is not None:
        # Nothing is ever written to it: readable means end of file.
        loop.add_reader(parent_fd, orphaned, parent_fd)
    with listen(settings.port) as sock:
        async with running(settings, sock) as (_, serving):
            gc.freeze()  # what is there now stays: to look through it again and again would hold up requests
            gc.set_threshold(*COLLECTION)
            if ready_fd is not None:
                # A parent that is gone already is told by the other descriptor.
                with contextlib.suppress(BrokenPipeError), os.fdopen(ready_fd, "w") as ready:
                    ready.write(json.dumps({"port": sock.getsockname()[1], "pid": os.getpid()}) + "\n")
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((stopping, serving), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()


if __name__ == "__main__":
    sys.exit(main())
