"""Child processes that cannot outlive the one that started them, whatever ends it: a normal end, Ctrl-C, SIGKILL.

The programs of a control plane know nothing of a parent. So they share a process group with a small watcher that reads from
a pipe: the pipe ends when our process does, and then the watcher ends the group and removes the directory. (The kernel's
own means, PR_SET_PDEATHSIG, is Linux' alone and fires when the *thread* ends that started the child.)
A group of their own also means that Ctrl-C in a terminal does not reach them before the tests had their chance to clean up.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


class Leash:
    """A process group that ends with us, and a directory that goes with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        command = [sys.executable, "-I", "-S", __file__, str(directory)]
        self._watcher = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, command: Sequence[str], *, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.directory, process_group=self._watcher.pid
            )
        self._children.append(child)
        return child

    def end(self) -> None:
        """SIGKILL for all: nothing that they hold is wanted any more. Returns when they and the directory are gone."""
        os.killpg(self._watcher.pid, signal.SIGKILL)
        for process in (*self._children, self._watcher):
            process.wait()
        if self._watcher.stdin is not None:
            self._watcher.stdin.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def put_down(processes: Iterable[subprocess.Popen[Any]]) -> None:
    """Kills what still runs, and leaves neither zombies nor open pipes."""
    for process in processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def watch(directory: str) -> None:
    """The watcher's life. It leaves the group through a fork, since it must outlive it to remove the directory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    group = os.getpgrp()
    sys.stdin.buffer.read()
    if os.fork() == 0:
        os.setpgid(0, 0)
        os.killpg(group, signal.SIGKILL)
        while os.path.exists(directory):  # a process that is being killed may still write
            shutil.rmtree(directory, ignore_errors=True)
    else:
        os.wait()


if __name__ == "__main__":
    watch(sys.argv[1])
