"""A controller that can be killed and started again fifty times in a minute.

Most of the time that a start takes goes into reading the program. So a process that has read it waits here, and every start
is a fork of it. What runs in the fork is the command `ullage`, with its arguments, and nothing else.

    python -m tests.e2e.forked_controller LOG ARGUMENT…

A line on its input is an order, answered by a line of JSON: `start` gives the pid; `ready` waits until the fork is; `kill`
is SIGKILL, and gives the signal that ended the fork. The end of the input ends it all.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 60.0
ROOT = Path(__file__).parents[2]


class ForkedController:
    """For the test's side."""

    def __init__(self, *arguments: str, log: Path) -> None:
        command = [sys.executable, "-m", "tests.e2e.forked_controller", str(log), *arguments]
        self._forge = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.log = log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pipe in (self._forge.stdin, self._forge.stdout):
            if pipe is not None:
                pipe.close()
        self._forge.wait(SECONDS)

    def start(self) -> int:
        return self._ask("start")

    def ready(self) -> None:
        assert self._ask("ready"), f"the controller is not ready:\n{self.log.read_text()[-4000:]}"

    def kill(self) -> None:
        """It must have been alive until now."""
        assert self._ask("kill") == signal.SIGKILL, f"the controller had ended by itself:\n{self.log.read_text()[-4000:]}"

    def _ask(self, order: str) -> int:
        assert self._forge.stdin is not None
        assert self._forge.stdout is not None
        self._forge.stdin.write(f"{order}\n".encode())
        self._forge.stdin.flush()
        return int(json.loads(self._forge.stdout.readline()))


class Forge:
    """The process's side: at most one fork at a time."""

    def __init__(self, log: str, arguments: list[str]) -> None:
        self._log = log
        self._arguments = arguments
        self._pid = 0
        self._ready = -1

    def start(self) -> int:
        self._ready, told = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(told)
        os.close(told)
        return self._pid

    def ready(self) -> bool:
        readable = select.select([self._ready], [], [], SECONDS)[0]
        return bool(readable and os.read(self._ready, 4096))

    def kill(self) -> int:
        if not self._pid:
            return 0
        os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        os.close(self._ready)
        self._pid = 0
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0

    def _become(self, told: int) -> None:
        from ullage.app import main

        nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for ours, theirs in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(ours, theirs)
        sys.argv = ["ullage", *self._arguments, "--ready-fd", str(told)]
        try:
            main()
        finally:
            os._exit(1)


def read_ahead() -> None:
    """All that the command would import."""
    from ullage.app import compose, drivers

    compose(drivers.NOTHING_CHOSEN)
    backends = [f"snapshots.backends.{name}.backend" for name in ("csi", "hostpath", "longhorn")]
    processes = ["app.processes.lifecycle", "app.processes.controller", "app.commands.controller"]
    for name in (*processes, "engines.client.connection", "engines.local.server.server", *backends):
        importlib.import_module(f"ullage.{name}")


def serve(log: str, arguments: list[str]) -> None:
    read_ahead()
    forge = Forge(log, arguments)
    orders = {"start": forge.start, "ready": forge.ready, "kill": forge.kill}
    try:
        for line in iter(sys.stdin.buffer.readline, b""):  # unbuffered in effect: a fork must not inherit orders
            print(json.dumps(orders[line.decode().strip()]()), flush=True)
    finally:
        forge.kill()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
