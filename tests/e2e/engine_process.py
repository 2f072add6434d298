"""`ullage engine` as a child of a test: start it, kill it, and it goes with us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent.parent


class EngineProcess:
    """The directory must have a short path: a socket's name has 107 bytes at most."""

    def __init__(self, directory: Path) -> None:
        self.volumes = directory / "volumes"
        self._socket = directory / "socket"
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = -1

    @property
    def address(self) -> str:
        return f"unix://{self._socket}"

    def start(self) -> None:
        """Returns when it answers."""
        ready, ready_write = os.pipe()
        lifeline_read, self._lifeline = os.pipe()
        command = [sys.executable, "-m", "ullage", "engine", f"--volumes={self.volumes}", f"--socket={self._socket}"]
        command += [f"--ready-fd={ready_write}", f"--parent-fd={lifeline_read}"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self._process = subprocess.Popen(command, env=environ, pass_fds=(ready_write, lifeline_read))
        os.close(ready_write)
        os.close(lifeline_read)
        with os.fdopen(ready, "rb") as line:
            assert msgspec.json.decode(line.readline())["pid"] == self._process.pid

    def kill(self) -> None:
        """SIGKILL: what a crash leaves is left."""
        if self._process is not None:
            self._process.kill()
            self.wait()

    def hang_up(self) -> None:
        """As if the test's process had ended."""
        os.close(self._lifeline)
        self._lifeline = -1

    def wait(self) -> int:
        """Until it has ended, for whatever reason."""
        assert self._process is not None
        code = self._process.wait(20)
        self._process = None
        if self._lifeline >= 0:
            self.hang_up()
        return code
