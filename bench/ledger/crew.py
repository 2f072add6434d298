"""The processes that serve one way: webhook replicas behind one port, and a leader, or one who only looks on."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from tests.e2e.leash import put_down

Json = dict[str, Any]
START_SECONDS: Final = 60.0


class Crew:
    """All of one way. Each process is a child that ends when we do."""

    def __init__(self, kubeconfig: Path, namespace: str, log: IO[bytes]) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._log = log
        self.replicas: list[subprocess.Popen[bytes]] = []
        self.leaders: list[subprocess.Popen[bytes]] = []

    def serve(self, role: str, count: int) -> None:
        """Replicas that share a port: the kernel deals the API server's connections out to them."""
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(("127.0.0.1", 0))  # and never listens
            port = str(held.getsockname()[1])
            self.replicas = [self._start(role, "--port", port) for _ in range(count)]
            for process in self.replicas:
                self._heard(process)

    def lead(self, role: str, observed: str) -> None:
        self.leaders = [self._start(role, "--observe", observed)]
        self._heard(self.leaders[0])

    def reports(self) -> list[Json]:
        """What each replica has measured."""
        return [self._asked(process) for process in self.replicas]

    def sightings(self) -> Json:
        """What the leader has seen since it was asked last; nothing without one."""
        return self._asked(self.leaders[0]) if self.leaders else {}

    def end(self) -> None:
        put_down([*self.replicas, *self.leaders])

    def _start(self, role: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "bench.ledger.maps_slice", role, "--kubeconfig", str(self._kubeconfig)]
        command += ["--namespace", self._namespace, *options]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)

    def _asked(self, process: subprocess.Popen[bytes]) -> Json:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it ended: the log says why
            os.write(process.stdin.fileno(), b"?\n")
        return self._heard(process)

    def _heard(self, process: subprocess.Popen[bytes]) -> Json:
        """The next line that a process says."""
        assert process.stdout is not None
        ready = select.select([process.stdout], [], [], START_SECONDS)[0]
        line = process.stdout.readline() if ready else b""
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"a process says nothing; the end of the log:\n{self._log.read()[-4000:].decode()}")
        found: Json = json.loads(line)
        return found


@contextmanager
def crew(kubeconfig: Path, namespace: str) -> Iterator[Crew]:
    with tempfile.TemporaryFile() as log:
        found = Crew(kubeconfig, namespace, log)
        try:
            yield found
        finally:
            found.end()
