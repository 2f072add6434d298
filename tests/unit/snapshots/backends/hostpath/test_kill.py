"""A process that is killed at any moment leaves no torn snapshot and no torn volume, and nothing that stays for ever."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.snapshots.backends.hostpath.killed import SIZE, settings
from tests.unit.snapshots.backends.hostpath.trees import Description, described
from ullage.snapshots.backends.base import Creation, Restoration, VolumeHandle
from ullage.snapshots.backends.hostpath import HostPathBackend

KILLS = 8
ROOT = Path(__file__).parents[5]


def filled(top: Path, *, files: int) -> Description:
    """A volume."""
    (top / "snapshots").mkdir()
    volume = top / "volumes" / "db"
    for number in range(files):
        directory = volume / f"d{number % 4}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}").write_bytes(os.urandom(5000))
    os.link(volume / "d0" / "f0", volume / "again")
    return described(volume)


def started(what: str, top: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.unit.snapshots.backends.hostpath.killed", what, str(top)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def check(top: Path, expected: Description) -> None:
    """What is to be seen after a kill: nothing, or all of it. The same again succeeds, and nothing is left at the end."""
    backend = HostPathBackend(settings(top))
    snapshot, restored = top / "snapshots" / "s", top / "volumes" / "pvc"
    assert [shot.handle async for shot in backend.list()] == ([str(snapshot)] if snapshot.exists() else [])
    for copy in (snapshot / "data", restored):
        assert not copy.exists() or described(copy) == expected
    shot = await backend.create(Creation(name="s", volume=VolumeHandle(handle=str(top / "volumes" / "db"))))
    made = await backend.restore(Restoration(name="pvc", snapshot=shot.handle, size=SIZE))
    assert described(snapshot / "data") == described(restored) == expected
    await backend.discard(made.handle)
    await backend.delete(shot.handle)
    assert left(top) == ["snapshots/.locks", "volumes/.locks", "volumes/.restored", "volumes/db"]


def left(top: Path) -> list[str]:
    """Everything that is there, except what is in the volume itself."""
    volume = top / "volumes" / "db"
    found = (path for root in ("snapshots", "volumes") for path in (top / root).rglob("*") if volume not in path.parents)
    return sorted(str(path.relative_to(top)) for path in found)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_kill_at_a_random_moment(tmp_path: Path) -> None:
    expected = filled(tmp_path, files=40)
    chance = random.Random(6)
    for _ in range(KILLS):
        with started("repeat", tmp_path) as process:
            assert process.stdout
            assert process.stdout.readline() == "go\n"
            time.sleep(chance.uniform(0, 0.3))  # noqa: ASYNC251  # the moment is the test's input, not a wait for anything
            process.send_signal(signal.SIGKILL)
        await check(tmp_path, expected)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_kill_before_each_step(tmp_path: Path) -> None:
    expected = filled(tmp_path, files=2)
    steps = 0
    with started("cut", tmp_path) as process:
        assert process.stdin
        assert process.stdout
        while True:
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
            if (said := process.stdout.readline()) != "killed\n":
                break
            await check(tmp_path, expected)
            steps += 1
    assert said == "ended 0\n"
    assert steps > 40


async def test_a_sweep_alone_removes_what_is_not_whole(tmp_path: Path) -> None:
    """For names that nobody will ask for again."""
    filled(tmp_path, files=2)
    with started("cut", tmp_path) as process:
        said, _ = process.communicate("".join(f"{step}\n" for step in range(12, 30)))
    assert set(said.splitlines()) == {"killed"}
    backend = HostPathBackend(settings(tmp_path))
    await backend.sweep()
    whole = {"s", "pvc", "db", ".locks", ".restored"}
    assert set(os.listdir(tmp_path / "snapshots")) | set(os.listdir(tmp_path / "volumes")) <= whole
    assert os.listdir(tmp_path / "snapshots" / ".locks") == []


def test_two_processes_that_create_the_same_names_agree(tmp_path: Path) -> None:
    expected = filled(tmp_path, files=40)
    both = [started("create", tmp_path) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0] == said[1]
    assert said[0].count("BackendSnapshot(") == 5
    assert sorted(os.listdir(tmp_path / "snapshots")) == [".locks", *(f"s-{number}" for number in range(5))]
    for number in range(5):
        assert described(tmp_path / "snapshots" / f"s-{number}" / "data") == expected
