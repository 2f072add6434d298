"""Asks for `/readyz` on one connection until it is stopped; a line for each answer: its seconds, `inf` if it was bad."""

from __future__ import annotations

import http.client
import socket
import ssl
import sys
import time
from pathlib import Path

PAUSE = 0.02
LONGEST = 50.0


def waited(pid: str) -> float:
    """Seconds for which a process was ready to run, and others had the processor: those are the machine's, not the server's."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except OSError:  # a kernel without these figures, or the process is gone
        return 0.0


def ask(connection: http.client.HTTPSConnection, pid: str) -> float:
    before = waited(pid) + waited("self")
    began = time.monotonic()
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        connection.close()
        return float("inf")
    took = time.monotonic() - began
    return took - (waited(pid) + waited("self") - before) if answer.status == 200 else float("inf")


def main() -> None:
    host, port, ca_file, pid = sys.argv[1:]
    connection = http.client.HTTPSConnection(
        host, int(port), context=ssl.create_default_context(cafile=ca_file), timeout=LONGEST
    )
    connection.connect()
    assert connection.sock is not None
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        print(ask(connection, pid), flush=True)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
