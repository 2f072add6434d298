"""Nothing is left of a control plane whose tests ended, in whichever way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from . import leash

PATIENCE = 20.0
# The module is loaded by its path: the suite's own package may have any name where pytest imports it.
OWNER = """
import importlib.util, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("leash", sys.argv[1])
leash = importlib.util.module_from_spec(spec)
spec.loader.exec_module(leash)
held = leash.Leash(Path(sys.argv[2]))
children = [held.start(["sleep", "600"], log=Path(sys.argv[2]) / "log") for _ in range(2)]
print(*(child.pid for child in children), flush=True)
try:
    time.sleep(600)
finally:
    held.end()
"""


class Owner:
    """A process that holds two others on a leash."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        command = [sys.executable, "-c", OWNER, leash.__file__, str(directory)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        self.children = [int(pid) for pid in self.process.stdout.readline().split()]
        self.process.stdout.close()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b"\nState:\tZ" not in Path(f"/proc/{pid}/status").read_bytes() if Path(f"/proc/{pid}/status").exists() else True


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, id="a polite end without a handler"),
        pytest.param(signal.SIGKILL, id="a kill"),
    ],
)
def test_children_and_directory_go_with_their_owner(tmp_path: Path, number: signal.Signals) -> None:
    owner = Owner(tmp_path / "held")
    assert len(owner.children) == 2
    assert all(alive(pid) for pid in owner.children)
    owner.process.send_signal(number)
    owner.process.wait(PATIENCE)
    eventually(lambda: not any(alive(pid) for pid in owner.children))
    eventually(lambda: not (tmp_path / "held").exists())
