"""The driver as a child of a test: start it, kill it, give it faults, look at what it has."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from .faults import Call, Control, Fault
from .store import Group, Snapshot, Volume, read_shelf

ROOT = Path(__file__).parent.parent.parent
NAME = "csi.test.ullage.io"


class RunningDriver:
    """The directory must have a short path: a socket's name has 107 bytes at most."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "csi.sock"
        self.state = directory / "state"
        self._control = directory / "control.json"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"unix://{self.path}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *options: str) -> None:
        """Returns when it answers."""
        command = [sys.executable, "-m", "tests.csi_driver", "--with-stdin", f"--endpoint={self.endpoint}"]
        command += [f"--state={self.state}", f"--faults={self._control}", *options]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == b"ready\n", f"the driver said {line!r}"

    def kill(self) -> None:
        """SIGKILL: what a crash leaves is left."""
        if self._process is not None:
            self._process.kill()
            self.wait()

    def hang_up(self) -> None:
        """As if the test's process had ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        """Until it has ended, for whatever reason."""
        assert self._process is not None
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def set(self, *faults: Fault, upload_seconds: float = 0.0) -> None:
        """From the next call on: these faults and no others."""
        aside = self._control.with_suffix(".new")
        aside.write_bytes(msgspec.json.encode(Control(upload_seconds, list(faults))))
        os.replace(aside, self._control)

    def calls(self, method: str = "") -> list[Call]:
        file = self.state / "calls.jsonl"
        lines = file.read_bytes().splitlines() if file.exists() else []
        calls = [msgspec.json.decode(line, type=Call) for line in lines]
        return [call for call in calls if method in {"", call.method}]

    def snapshots(self) -> list[Snapshot]:
        return read_shelf(self.state / "snapshots", Snapshot)

    def groups(self) -> list[Group]:
        return read_shelf(self.state / "groups", Group)

    def volumes(self) -> list[Volume]:
        return read_shelf(self.state / "volumes", Volume)

    def data(self, volume: str) -> Path:
        """Where the files of a volume are."""
        return self.state / "volumes" / volume / "data"

    def snapshot_data(self, snapshot: str) -> Path:
        return self.state / "snapshots" / snapshot / "data"


@contextmanager
def running_driver(*options: str) -> Iterator[RunningDriver]:
    with tempfile.TemporaryDirectory(prefix="csi-") as directory:
        driver = RunningDriver(Path(directory))
        driver.start(*options)
        try:
            yield driver
        finally:
            driver.kill()
