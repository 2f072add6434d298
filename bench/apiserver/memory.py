"""How much memory the server holds: read from /proc, for whichever process listens on its port."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

LISTEN = "0A"


def listener(port: int) -> int | None:
    """The process that listens on a loopback port, or None where /proc does not tell (another user's, another system)."""
    sockets = _listening_sockets(port)
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(entry) in sockets:
                return int(entry.parts[2])
        except OSError:
            continue  # the process went, or is not ours to look into
    return None


def _listening_sockets(port: int) -> set[str]:
    found: set[str] = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == LISTEN and int(cells[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{cells[9]}]")
    return found


def resident_megabytes(pids: Sequence[int]) -> float:
    """RSS of some processes together; zero where there are none to ask."""
    return sum(_resident(pid) for pid in pids)


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    return 0.0
