"""A real longhorn-engine with one volume and one replica: processes of its own, and its data through the `rest` frontend.

That frontend has a fixed port, so there is one such engine on a machine at a time. With the frontend `socket` there may be
more, whose data nobody here reads.
"""

from __future__ import annotations

import base64
import http.client
import random
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.leash import Leash

REST_PORT = 9414
_REPLICA_PORTS = 13  # replica, data, sync agent, and ten for files
_DEADLINE = 30.0  # seconds


class PortTaken(Exception):
    """Somebody else has the fixed port."""


class RealEngine:
    """`address` is the controller's. Everything goes with `end`, and with the process that started it."""

    def __init__(self, program: Path, *, volume: str, size: int, frontend: str = "rest") -> None:
        if frontend == "rest" and _answers(REST_PORT):
            raise PortTaken(f"port {REST_PORT} is taken, which longhorn-engine's rest frontend needs")
        self.volume = volume
        directory = Path(tempfile.mkdtemp(prefix="longhorn-"))
        self._leash = Leash(directory)
        self._log = directory / "log"
        self.files = directory / "replica"
        replica, controller = _free_ports(_REPLICA_PORTS), _free_ports(1)
        self.address = f"tcp://127.0.0.1:{controller}"
        named = [str(program), "--volume-name", volume]
        self._leash.start(
            [*named, "replica", "--listen", f"127.0.0.1:{replica}", "--size", str(size), str(self.files)], log=self._log
        )
        self._wait_for(replica, replica + 2)
        sizes = ["--size", str(size), "--current-size", str(size)]
        listen = ["--listen", f"127.0.0.1:{controller}", "--replica", f"tcp://127.0.0.1:{replica}"]
        self._leash.start([*named, "controller", "--frontend", frontend, *sizes, *listen, volume], log=self._log)
        self._wait_for(controller)
        if frontend == "rest":
            self._wait_for(REST_PORT)
            self._id = self._ask("GET", "/v1/volumes")["data"][0]["id"]

    def end(self) -> None:
        self._leash.end()

    def write(self, offset: int, data: bytes) -> None:
        given = {"offset": offset, "length": len(data), "data": base64.b64encode(data).decode()}
        self._ask("POST", f"/v1/volumes/{self._id}?action=writeat", given)

    def read(self, offset: int, length: int) -> bytes:
        given = {"offset": str(offset), "length": str(length)}
        return base64.b64decode(self._ask("POST", f"/v1/volumes/{self._id}?action=readat", given)["data"])

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _ask(self, verb: str, path: str, given: Any = None) -> Any:
        connection = http.client.HTTPConnection("localhost", REST_PORT, timeout=_DEADLINE)
        try:
            connection.request(verb, path, body=msgspec.json.encode(given), headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, f"{verb} {path}: {answer.status}: {body!r}"
        return msgspec.json.decode(body)

    def _wait_for(self, *ports: int) -> None:
        deadline = time.monotonic() + _DEADLINE
        for port in ports:
            while not _answers(port):
                if time.monotonic() > deadline:
                    log = self.log()
                    self.end()
                    raise AssertionError(f"longhorn-engine is not on port {port} within {_DEADLINE:g} s: {log[-4000:]}")
                time.sleep(0.05)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports(count: int) -> int:
    """The first of so many in a row that nobody has; below those that the kernel gives to whoever connects somewhere."""
    for _ in range(100):
        first = random.randrange(20000, 32000)
        if all(map(_free, range(first, first + count))):
            return first
    raise AssertionError(f"no {count} free ports in a row")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
