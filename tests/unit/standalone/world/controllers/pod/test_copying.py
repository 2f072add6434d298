"""Trees of files are copied whole, and never from or to anywhere else."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import pytest

from tests.unit.standalone.world.builders import container
from ullage.files.trees import closing, remove_tree
from ullage.standalone.world.controllers.pod.commands import Copy, parse_command
from ullage.standalone.world.controllers.pod.copying import DEEPEST, CopyFailed, Stopped, copy


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Volumes `src` and `dst`, and something outside that no copy may touch."""
    for name in ("src", "dst", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return tmp_path


def run(root: Path, *words: str, stop: threading.Event | None = None) -> int:
    (step,) = parse_command(container(*words, src="/src", dst="/dst"))
    assert isinstance(step, Copy)
    return copy(step, lambda name: root / name, stop=stop or threading.Event())


def fill(root: Path) -> None:
    source = root / "src"
    (source / "deep" / "empty").mkdir(parents=True)
    (source / "deep" / "file").write_bytes(b"x" * 3_000_000)
    (source / ".hidden").write_text("hidden")
    (source / "script").write_text("run")
    (source / "script").chmod(0o750)
    (source / "link").symlink_to("../outside/secret")
    os.utime(source / "script", ns=(1, 1_000_000_001))


def test_everything_arrives_with_modes_times_and_links(root: Path) -> None:
    fill(root)
    (root / "src" / "deep").chmod(0o500)
    assert run(root, "cp", "-a", "/src/.", "/dst/") == 3_000_000 + len("hidden") + len("run")
    target = root / "dst"
    assert sorted(path.name for path in target.rglob("*")) == [".hidden", "deep", "empty", "file", "link", "script"]
    assert (target / "deep" / "file").read_bytes() == b"x" * 3_000_000
    found = (target / "script").stat()
    assert (found.st_mode & 0o777, found.st_mtime_ns) == (0o750, 1_000_000_001)
    assert os.readlink(target / "link") == "../outside/secret"
    assert (target / "deep").stat().st_mode & 0o777 == 0o500


def test_a_second_copy_is_the_same_as_one(root: Path) -> None:
    fill(root)
    (root / "src" / "deep").chmod(0o500)
    (root / "src" / "script").chmod(0o400)
    run(root, "cp", "-a", "/src/.", "/dst/")
    before = {path: path.lstat().st_size for path in (root / "dst").rglob("*")}
    run(root, "cp", "-a", "/src/.", "/dst/")
    assert {path: path.lstat().st_size for path in (root / "dst").rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param(("cp", "-a", "/src/script", "/dst"), "dst/script", id="into a directory that is there"),
        pytest.param(("cp", "-a", "/src/script", "/dst/new"), "dst/new", id="under a new name"),
        pytest.param(("cp", "-a", "/src", "/dst"), "dst/src/script", id="a whole volume under its name"),
        pytest.param(("cp", "-a", "/src", "/dst/new"), "dst/new/script", id="a whole volume under a new name"),
        pytest.param(("rsync", "-a", "/src", "/dst/new"), "dst/new/src/script", id="rsync makes the target first"),
        pytest.param(("rsync", "-a", "/src/", "/dst/new"), "dst/new/script", id="rsync pours out"),
    ],
)
def test_where_a_copy_lands(root: Path, words: tuple[str, ...], found: str) -> None:
    fill(root)
    run(root, *words)
    assert (root / found).read_text() == "run"


def test_holes_stay_holes(root: Path) -> None:
    with (root / "src" / "image").open("wb") as image:
        image.truncate(64 << 20)
        image.seek(32 << 20)
        image.write(b"data")
    assert run(root, "cp", "-a", "/src/.", "/dst/") < 1 << 20
    made = (root / "dst" / "image").stat()
    assert (made.st_size, made.st_blocks * 512 < 1 << 20) == (64 << 20, True)
    assert (root / "dst" / "image").read_bytes() == (root / "src" / "image").read_bytes()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(
            ("cp", "-a", "/src/way/secret", "/dst/"), "/src/way/secret: Not a directory", id="through a link, to read"
        ),
        pytest.param(("cp", "-a", "/src/way/.", "/dst/"), "/src/way/.: Not a directory", id="what a link leads to"),
        pytest.param(("cp", "-a", "/src/file", "/dst/way/"), "/dst/way/: Not a directory", id="through a link, to write"),
        pytest.param(("cp", "-a", "/src/none", "/dst/"), "/src/none: No such file or directory", id="what is not there"),
        pytest.param(("cp", "/src", "/dst/x"), "/src: a directory, and -a or -r was not given", id="a directory without -r"),
        pytest.param(("cp", "-a", "/src/.", "/src/x/"), "/src/x: cannot be copied into itself", id="into itself"),
        pytest.param(("cp", "-a", "/src/file", "/src/"), "file: source and target are the same file", id="onto itself"),
    ],
)
def test_what_is_refused(root: Path, words: tuple[str, ...], problem: str) -> None:
    (root / "src" / "file").write_text("file")
    (root / "src" / "way").symlink_to(root / "outside")
    (root / "dst" / "way").symlink_to(root / "outside")
    with pytest.raises(CopyFailed) as raised:
        run(root, *words)
    assert str(raised.value) == problem
    assert os.listdir(root / "outside") == ["secret"]
    assert (root / "src" / "file").read_text() == "file"


def test_a_link_in_the_target_gives_way_and_what_it_led_to_stays(root: Path) -> None:
    (root / "src" / "file").write_text("new")
    (root / "dst" / "file").symlink_to(root / "outside" / "secret")
    run(root, "cp", "-a", "/src/.", "/dst/")
    assert (root / "dst" / "file").read_text() == "new"
    assert not (root / "dst" / "file").is_symlink()
    assert (root / "outside" / "secret").read_text() == "secret"


def test_a_copy_stops_when_it_is_told_to(root: Path) -> None:
    fill(root)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        run(root, "cp", "-a", "/src/.", "/dst/", stop=stop)
    assert os.listdir(root / "dst") == []


def deepen(top: Path, levels: int) -> None:
    here = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_deep_tree_is_copied_with_few_directories_open(root: Path) -> None:
    deepen(root / "src", DEEPEST)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = len(os.listdir("/proc/self/fd")) + 20
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))
    try:
        run(root, "cp", "-a", "/src/.", "/dst/")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(list((root / "dst").rglob("*"))) == DEEPEST


@pytest.mark.parametrize("levels", [DEEPEST + 1, 3_000])
def test_a_tree_that_is_too_deep_is_refused_in_a_short_sentence(root: Path, levels: int) -> None:
    deepen(root / "src", levels)
    try:
        with pytest.raises(CopyFailed, match="more than 256 levels deep") as refused:
            run(root, "cp", "-a", "/src/.", "/dst/")
        assert len(str(refused.value)) < 300
    finally:  # pytest, which removes old directories by recursion, would die of what is left
        with closing(os.open(root, os.O_RDONLY)) as top:
            for name in ("src", "dst"):
                remove_tree(top, name)
