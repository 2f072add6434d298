"""One directory, one owner; and no directory but our own."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from ullage.clock import FakeClock, SystemClock
from ullage.errors import BadInput
from ullage.local_servers import LOCK
from ullage.standalone.up.data_directory import EPHEMERAL, DirectoryLocked, LockHolder, lock, lock_temporary


def listing(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_claim_makes_the_directory_and_keeps_it_private(tmp_path: Path) -> None:
    with lock(tmp_path / "a" / "b", FakeClock()) as directory:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / LOCK).stat().st_mode) == 0o600
        assert json.loads((directory / LOCK).read_text()) == {"pid": os.getpid(), "started": "2026-01-01T00:00:00Z"}


def test_a_second_claim_says_who_holds_it_and_changes_nothing(tmp_path: Path) -> None:
    with lock(tmp_path, FakeClock()):
        before = listing(tmp_path)
        with pytest.raises(DirectoryLocked) as refused, lock(tmp_path, SystemClock()):
            pytest.fail("two claims on one directory")
        assert listing(tmp_path) == before
    text = str(refused.value)
    assert f"process {os.getpid()}, since 2026-01-01T00:00:00Z" in text
    assert f"KUBECONFIG={tmp_path}/kubeconfig" in text


def test_a_claim_ends_with_its_owner(tmp_path: Path) -> None:
    for _ in range(2):
        with lock(tmp_path, FakeClock()):
            pass


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="an empty lock file"),
        pytest.param("{", id="half a lock file"),
        pytest.param("[]", id="a lock file of another shape"),
        pytest.param('{"pid": "x", "started": 1}', id="a pid that is none"),
    ],
)
def test_a_holder_that_cannot_be_read_is_another_process(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    assert str(LockHolder.read(tmp_path / "lock")) == "another process"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda path: path.write_text("x"), "a file, or below a file", id="a file"),
        pytest.param(
            lambda path: path.parent.joinpath("f").write_text("x"),
            "holds files of something else",
            id="a directory with other files",
        ),
        pytest.param(lambda path: path.symlink_to(path.parent / "nowhere"), "a file, or below a file", id="a link to nowhere"),
    ],
)
def test_a_directory_that_cannot_be_ours_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], object], problem: str
) -> None:
    where = tmp_path / "d" if problem.startswith("a file") else tmp_path
    make(tmp_path / "d")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BadInput, match=f"--data-dir {where}: {problem}"), lock(where, FakeClock()):
        pytest.fail("claimed it")
    assert sorted(tmp_path.iterdir()) == before


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(BadInput, match="below a file"), lock(tmp_path / "f" / "d", FakeClock()):
        pytest.fail("claimed it")


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("/proc/ullage", id="a place where nothing can be made"),
        pytest.param(f"/tmp/{'x' * 300}", id="a name that is too long"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_with_the_reason(where: str) -> None:
    problem = r"cannot be used \(.+\); a directory that you can write to is allowed"
    with pytest.raises(BadInput, match=problem), lock(Path(where), FakeClock()):
        pytest.fail("claimed it")


def test_a_temporary_directory_is_removed_at_the_end() -> None:
    with lock_temporary(SystemClock()) as directory:
        (directory / "data").mkdir()
        assert (directory / LOCK).exists()
    assert not directory.exists()


def test_what_a_killed_process_left_behind_is_removed_and_what_lives_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    clock = FakeClock(SystemClock().now())
    dead, foreign = tmp_path / f"{EPHEMERAL}dead", tmp_path / f"{EPHEMERAL}foreign"
    for path in (dead, foreign):
        path.mkdir()
    (dead / LOCK).write_text("{}")
    with lock_temporary(clock) as living:
        assert dead.exists(), "too young to be judged"
        clock.advance(timedelta(minutes=2).total_seconds())
        with lock_temporary(clock):
            assert not dead.exists()
            assert living.exists()
            assert foreign.exists(), "not made by us"


def test_a_temporary_directory_goes_though_a_tenant_has_made_directories_3000_levels_deep_in_it() -> None:
    with lock_temporary(SystemClock()) as directory:
        here = os.open(directory, os.O_RDONLY)
        for _ in range(3_000):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
    assert not directory.exists()
