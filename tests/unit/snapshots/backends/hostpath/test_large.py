"""What a tree costs in memory does not grow with its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.snapshots.backends.hostpath import large

MB = 1_000_000


def walked(directory: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", large.__name__, str(directory), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[5])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("count", "most"),
    [
        pytest.param(3_000, 150 * MB, id="three thousand files"),
        pytest.param(1_000_000, 150 * MB, id="a million files", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_a_walk_has_a_bounded_cost_and_the_next_finds_nothing_changed(tmp_path: Path, count: int, most: int) -> None:
    found = walked(tmp_path, count)
    entries = count + -(-count // large.IN_ONE)
    assert (found["changed"], found["taken"], found["again"], found["entries"]) == (True, entries + 1, False, entries)
    assert found["recalled"] == count, "whoever goes on knows them all"
    assert found["memory"] <= most, f"{found['memory'] / MB:.0f} MB"
    assert [one.name for one in tmp_path.iterdir()] == ["source"], "the notes have no name any more"
