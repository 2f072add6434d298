"""A copy never takes more than was said before it was made, whatever the tree is like; nor is much more said."""

from __future__ import annotations

import os
import random
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ullage.clock import SystemClock
from ullage.errors import Impossible, NotNow
from ullage.files.trees import DirectoriesAhead
from ullage.snapshots.backends.hostpath import scan
from ullage.snapshots.backends.hostpath import sizes as usage
from ullage.snapshots.backends.hostpath.sizes import copy_bound, measure
from ullage.snapshots.backends.hostpath.threads import Stop, Stopped
from ullage.snapshots.backends.hostpath.tree_copy import copy_tree

KI, MI, GI = 1024, 1024**2, 1024**3
ELSEWHERE = Path("/dev/shm")


def empty(top: Path) -> None:
    pass


def one_file(top: Path) -> None:
    (top / "data").write_bytes(os.urandom(3 * MI + 1))


def sparse(top: Path) -> None:
    with (top / "disk.img").open("wb") as file:
        for place in (0, 100 * MI, 700 * MI + 17):
            file.seek(place)
            file.write(b"x" * 5000)
        file.truncate(2 * GI)


def torn(top: Path) -> None:
    """Many small pieces of data."""
    with (top / "disk.img").open("wb") as file:
        for number in range(2000):
            os.pwrite(file.fileno(), b"x", number * 64 * KI)


def reserved(top: Path) -> None:
    with (top / "journal").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 8 * MI)
        file.write(b"x" * MI)


def second_names(top: Path) -> None:
    (top / "data").write_bytes(b"x" * MI)
    for number in range(20):
        os.link(top / "data", top / f"name-{number}")


def many_names(top: Path) -> None:
    """Made in an order that has nothing to do with the one in which they are listed."""
    names = [f"{number:05}-of-a-file-with-a-longer-name" for number in range(5000)]
    random.Random(1).shuffle(names)
    for name in names:
        (top / name).touch()


def small_files(top: Path) -> None:
    for number in range(100):
        (top / f"{number % 10}").mkdir(exist_ok=True)
        (top / f"{number % 10}" / f"{number}").write_bytes(b"x" * number)


def links(top: Path) -> None:
    for number in range(50):
        (top / f"short-{number}").symlink_to("x")
        (top / f"long-{number}").symlink_to("x" * 200)


def without_data(top: Path) -> None:
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(top)  # a socket's path has 107 bytes at most
        try:
            made.bind("socket")
        finally:
            os.chdir(here)


TREES: dict[Callable[[Path], None], int] = {  # and how many bytes too many may be said
    empty: 0,
    one_file: 8 * KI,
    sparse: 0,
    torn: 64 * KI,
    reserved: 8 * MI,
    second_names: 8 * KI,
    many_names: 512 * KI,
    small_files: 0,
    links: 0,
    without_data: 0,
}


@pytest.fixture(params=["the same file system", "from memory to the disk", "from the disk to memory"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    (tmp_path / "source").mkdir()
    (tmp_path / "target").mkdir()
    if request.param == "the same file system":
        yield tmp_path / "source", tmp_path / "target"
        return
    if not ELSEWHERE.is_dir() or ELSEWHERE.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is only one file system here")
    with tempfile.TemporaryDirectory(dir=ELSEWHERE) as other:
        pair = Path(other), tmp_path / "target"
        yield pair if request.param == "from memory to the disk" else (tmp_path / "source", pair[0])


@pytest.mark.parametrize("make", TREES, ids=lambda make: make.__name__.replace("_", " "))
def test_a_copy_takes_no_more_than_was_said_and_not_much_less(make: Callable[[Path], None], places: tuple[Path, Path]) -> None:
    source, target = places
    make(source)
    ours, theirs = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (source, target))
    try:
        said = copy_bound(ours, block=os.statvfs(theirs).f_frsize, stop=Stop())
        copy_tree(ours, theirs, clock=SystemClock(), stop=Stop())
        takes = measure(theirs, stop=Stop()).allocated
    finally:
        os.close(ours)
        os.close(theirs)
    directories = 1 + sum(path.is_dir() for path in source.rglob("*"))
    assert takes <= said <= takes + TREES[make] + 8 * KI * directories


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[int]:
    top = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield top
    os.close(top)


def test_a_copy_is_said_to_fill_the_blocks_of_the_place_where_it_is_to_lie(tmp_path: Path, tree: int) -> None:
    for number in range(10):
        (tmp_path / f"{number}").write_bytes(b"x")
    assert copy_bound(tree, block=64 * KI, stop=Stop()) == 11 * 64 * KI, "ten files and their directory"
    assert copy_bound(tree, block=GI, stop=Stop()) == 11 * 64 * KI, "no file system has blocks like that"


def test_a_compressed_file_is_said_to_take_what_is_in_it(tmp_path: Path, tree: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the copy lies nothing may be compressed. Here a file system that compresses is played by one that says so."""
    (tmp_path / "data").write_bytes(b"x" * MI)
    monkeypatch.setattr(usage, "_on_disk", lambda found: 4 * KI)
    assert copy_bound(tree, block=4 * KI, stop=Stop()) == MI + 4 * KI


def test_where_a_file_system_tells_of_no_holes_a_file_has_none(
    tmp_path: Path, tree: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untold(file: int) -> Iterator[tuple[int, int]]:
        raise OSError(22, "Invalid argument")
        yield 0, 0

    (tmp_path / "data").touch()
    os.truncate(tmp_path / "data", MI)
    assert copy_bound(tree, block=4 * KI, stop=Stop()) == 4 * KI
    monkeypatch.setattr(usage, "extents", untold)
    assert copy_bound(tree, block=4 * KI, stop=Stop()) == MI + 4 * KI


def test_more_files_with_several_names_than_are_remembered_count_for_each_name(
    tmp_path: Path, tree: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"x")
        os.link(tmp_path / name, tmp_path / f"{name}-again")
    assert copy_bound(tree, block=4 * KI, stop=Stop()) == 4 * 4 * KI
    monkeypatch.setattr(usage, "_INODES", 1)
    assert copy_bound(tree, block=4 * KI, stop=Stop()) == 6 * 4 * KI, "never too little"


def test_a_tree_that_is_too_deep_is_refused_by_name(tmp_path: Path, tree: int) -> None:
    (tmp_path / "/".join("d" * (scan.DEEPEST + 1))).mkdir(parents=True)
    with pytest.raises(Impossible, match="deeper than 256 levels"):
        copy_bound(tree, block=4 * KI, stop=Stop())


def test_a_look_ends_within_a_directory_when_nobody_wants_it_any_more(
    tmp_path: Path, tree: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"{number}").touch()
    monkeypatch.setattr(scan, "_BREATH", 5)
    stop, looked = Stop(), list[str]()

    def look() -> None:
        for path, _ in scan.walk(tree, enter=lambda path, directory: None, stop=stop):
            looked.append(path)
            stop.ask()

    with pytest.raises(Stopped):
        look()
    assert len(looked) < 10


@pytest.mark.parametrize("count", [0, 1, 4, 5, 23, 200])
def test_directories_ahead_come_back_the_last_one_first_however_many_there_are(count: int) -> None:
    paths = [f"d-{number}/\udcff{number}" for number in range(count)]
    with DirectoriesAhead(4) as ahead:
        for path in paths:
            ahead.push(path)
        half = [ahead.pop() for _ in range(count // 2)]
        for again in reversed(half):
            assert again is not None
            ahead.push(again)
        assert [ahead.pop() for _ in range(count)] == paths[::-1]
        assert ahead.pop() is None


def test_without_a_place_for_notes_a_tree_is_not_taken_for_a_smaller_one(
    tmp_path: Path, tree: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    for number in range(20):
        (tmp_path / f"{number}").mkdir()
    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)
    monkeypatch.setattr(DirectoriesAhead.__init__, "__defaults__", (4,))
    with pytest.raises(NotNow, match=r"very many directories needs a temporary file: .*No usable temporary directory"):
        copy_bound(tree, block=4 * KI, stop=Stop())
