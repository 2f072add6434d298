"""A process that is killed with -9 in the middle of its work loses nothing that it has got an answer for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

from tests.unit.engines.local.store.killed import BLOCKS, place
from tests.unit.engines.local.store.model import seen
from ullage.engines.local.store.store import Store

KILLS = 12


def test_every_acknowledged_write_survives_kill_9(tmp_path: Path) -> None:
    chance, last = Random(7), -1
    for _ in range(KILLS):
        first = last + 1
        command = [sys.executable, "-m", "tests.unit.engines.local.store.killed", str(tmp_path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(chance.randint(1, 60))]
            process.kill()
            lines += process.stdout.readlines()
        answered = [int(line) for line in lines if line.endswith("\n") and line[:-1].isdigit()]
        last = _check(tmp_path, at_least=max(answered))
    assert last > 10 * KILLS


def _check(root: Path, *, at_least: int) -> int:
    """The newest number that is there: everything before it is there, too."""
    store = Store.open(root)
    volume = store.volume("v")
    seen(volume)  # reads every snapshot, and finds no file that nobody names
    places = {place(number) for number in range(BLOCKS)}
    found = sorted(int.from_bytes(volume.read_at(at, 8), "big") for at in places)
    store.close()
    newest = found[-1]
    assert newest >= at_least
    assert found == sorted(max((n for n in range(newest + 1) if place(n) == at), default=0) for at in places)
    return newest
