"""Directories of volumes: made and removed any number of times, and only those that are ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ullage.errors import BadInput, Terminal
from ullage.files.trees import closing, remove_tree
from ullage.standalone.world.directories import Directories, Locked
from ullage.standalone.world.slice import opened

from .builders import OTHER_UID, UID

NAME = f"pvc-{UID}"


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    made = Directories(tmp_path / "volumes")
    made.open()
    return made


def test_a_directory_is_private_and_keeps_its_content(directories: Directories) -> None:
    path = directories.make(NAME)
    (path / "file").write_text("content")
    assert directories.make(NAME) == path
    assert (path / "file").read_text() == "content"
    assert [one.stat().st_mode & 0o777 for one in (path, directories.root, directories.root / ".world")] == [0o700] * 3
    assert directories.made() == [NAME]


def test_it_goes_with_all_that_is_in_it_and_nothing_that_links_lead_to(directories: Directories, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("content")
    path = directories.make(NAME)
    (path / "deep").mkdir()
    (path / "deep" / "file").write_text("x")
    (path / "deep").chmod(0o500)
    (path / "link").symlink_to(tmp_path / "outside")
    for _ in range(2):
        directories.remove(NAME)
    assert not path.exists()
    assert directories.made() == []
    assert (tmp_path / "outside" / "file").exists()


def deepen(top: Path, levels: int) -> None:
    """Directories in each other, deeper than a path can say."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_directories_3000_levels_deep_go_with_the_volume(directories: Directories) -> None:
    path = directories.make(NAME)
    deepen(path, 3_000)
    opened = len(os.listdir("/proc/self/fd"))
    try:
        directories.remove(NAME)
    finally:  # pytest, which removes old directories by recursion, would die of what is left
        with closing(os.open(directories.root, os.O_RDONLY)) as root:
            remove_tree(root, NAME)
    assert (path.exists(), directories.made()) == (False, [])
    assert len(os.listdir("/proc/self/fd")) == opened


def test_what_somebody_else_made_is_not_removed(directories: Directories) -> None:
    path = directories.root / NAME
    path.mkdir()
    directories.remove(NAME)
    assert path.is_dir()


def test_what_was_left_to_its_owner_is_not_removed(directories: Directories) -> None:
    path = directories.make(NAME)
    directories.forget(NAME)
    directories.remove(NAME)
    assert path.is_dir()
    assert not directories.has_made(NAME)


def test_a_link_in_the_place_of_a_volume_is_refused(directories: Directories, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (directories.root / NAME).symlink_to(tmp_path / "outside")
    with pytest.raises(Terminal, match="no directory"):
        directories.make(NAME)
    with pytest.raises(Terminal, match="a symbolic link is in the place of a volume"):
        directories.remove(NAME)
    assert (tmp_path / "outside").is_dir()


@pytest.mark.parametrize("name", ["", ".", "..", ".world", "pvc-x", f"pvc-{UID}/../x", f"../pvc-{UID}"])
def test_no_other_name_is_touched(directories: Directories, name: str) -> None:
    for act in (directories.make, directories.remove, directories.forget):
        with pytest.raises(Terminal, match="not a name that the world gives"):
            act(name)
    assert not directories.has_made(name)


def test_a_crash_between_note_and_directory_leaves_something_to_be_found(
    directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", crash)
        with pytest.raises(KeyboardInterrupt):
            directories.make(NAME)
    assert directories.made() == [NAME]
    directories.remove(NAME)
    assert directories.made() == []


def test_which_paths_are_volumes_of_ours(directories: Directories) -> None:
    root = directories.root
    assert directories.name_of(f"{root}/{NAME}") == NAME
    for path in ("/etc", f"{root}", f"{root}/", f"{root}/.world", f"{root}/x/../y", f"{root}/x/y", f"{root}/../x", "x"):
        with pytest.raises(Terminal, match="not a volume below"):
            directories.name_of(path)


async def test_one_process_at_a_time(directories: Directories) -> None:
    with pytest.raises(Locked, match="another process works on these volumes"):
        async with opened(directories.root, timeout=0.05):
            pass
    directories.close()
    async with opened(directories.root, timeout=0.05) as found:
        found.make(f"pvc-{OTHER_UID}")


def test_a_root_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(BadInput, match=f"--volumes .*{name}"):
            Directories(tmp_path / name).open()
    assert os.listdir(tmp_path / "real") == []
