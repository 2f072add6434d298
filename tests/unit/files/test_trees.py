"""Removing what a tenant has written, whatever that is, and nothing else."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ullage.files import trees
from ullage.files.trees import remove_tree


def remove(path: Path) -> None:
    parent = os.open(path.parent, os.O_RDONLY)
    try:
        remove_tree(parent, path.name)
    finally:
        os.close(parent)


def chain(top: Path, depth: int) -> None:
    """Directories in each other, deeper than a path can say."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        for name in ("d", "lifted-0"):
            os.mkdir(name, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.mark.slow
def test_any_depth(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    chain(top, 1200)  # more than a process may have open
    before = len(os.listdir("/proc/self/fd"))
    remove(top)
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_more_directories_than_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_AHEAD", 3)
    for number in range(10):
        (tmp_path / "top" / str(number) / "below").mkdir(parents=True)
    (tmp_path / "top" / "deep").mkdir()
    chain(tmp_path / "top" / "deep", 40)
    remove(tmp_path / "top")
    assert os.listdir(tmp_path) == []


def test_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("precious")
    (tmp_path / "top" / "below").mkdir(parents=True)
    (tmp_path / "top" / "out").symlink_to(tmp_path / "kept")
    (tmp_path / "top" / "below" / "file").symlink_to(tmp_path / "kept" / "file")
    os.mkfifo(tmp_path / "top" / "pipe")
    remove(tmp_path / "top")
    assert os.listdir(tmp_path) == ["kept"]
    assert (tmp_path / "kept" / "file").read_text() == "precious"


def test_a_link_instead_of_a_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "top").symlink_to("kept")
    with pytest.raises(NotADirectoryError):
        remove(tmp_path / "top")
    assert os.listdir(tmp_path / "kept") == ["file"]


def test_modes_that_deny_everything(tmp_path: Path) -> None:
    (tmp_path / "top" / "closed" / "below").mkdir(parents=True)
    (tmp_path / "top" / "closed" / "below" / "file").touch()
    for path in ("top/closed/below", "top/closed", "top"):
        (tmp_path / path).chmod(0)
    remove(tmp_path / "top")
    assert os.listdir(tmp_path) == []


def test_a_file_system_mounted_inside_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "top" / "mounted").mkdir(parents=True)
    (tmp_path / "top" / "mounted" / "file").touch()
    real = os.fstat

    class Elsewhere:
        st_dev = -1

    top = (tmp_path / "top").stat().st_ino
    monkeypatch.setattr(os, "fstat", lambda file: Elsewhere if _reading(file, top) else real(file))
    with pytest.raises(OSError, match="a file system is mounted here") as refused:
        remove(tmp_path / "top")
    assert refused.value.errno == errno.EBUSY
    assert (tmp_path / "top" / "mounted" / "file").exists()


def _reading(file: int, inode: int) -> bool:
    """Whether it is the top, opened to be read: there its device is asked for."""
    path = f"/proc/self/fd/{file}"
    return os.stat(path).st_ino == inode and not int(Path(f"/proc/self/fdinfo/{file}").read_text().split()[3], 8) & os.O_PATH


def test_what_is_not_there_is_removed(tmp_path: Path) -> None:
    remove(tmp_path / "nothing")
