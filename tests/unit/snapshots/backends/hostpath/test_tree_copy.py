"""Copies of trees: everything is kept, and the tree was the copy at one moment."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
import socket
import stat
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.snapshots.backends.hostpath.trees import allocated, copied, described
from ullage.errors import Impossible
from ullage.snapshots.backends.hostpath import file_copy, tree_copy
from ullage.snapshots.backends.hostpath.scan import Stamp, scan
from ullage.snapshots.backends.hostpath.tree_copy import TreeKeepsChanging
from ullage.snapshots.backends.hostpath.tree_index import TreeIndex

MI = 1024 * 1024
COPY_DATA = file_copy.copy_data


def _pipe_instead(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "source"
    top.mkdir()
    return top


def test_everything_is_kept(source: Path, tmp_path: Path) -> None:
    (source / "dir" / "empty").mkdir(parents=True)
    (source / "dir" / "file").write_bytes(os.urandom(100_000))
    (source / "script").write_text("#!/bin/sh\n")
    (source / "script").chmod(0o4755)
    os.link(source / "dir" / "file", source / "second name")
    os.link(source / "dir" / "file", source / "dir" / "empty" / "third name")
    (source / "link").symlink_to("dir/file")
    (source / "dangling").symlink_to("/nowhere/at all")
    os.link(source / "link", source / "link again", follow_symlinks=False)
    os.mkfifo(source / "pipe", 0o640)
    Path(os.fsdecode(os.fsencode(source) + b"/\xff\x01\n name")).write_bytes(b"any bytes")
    os.setxattr(source / "script", "user.origin", b"a test")
    os.utime(source / "script", ns=(1, 1_234_567_890_123_456_789))
    os.utime(source / "link", ns=(1, 987_654_321_000_000_001), follow_symlinks=False)
    (source / "dir" / "empty").chmod(0o500)
    (source / "dir").chmod(0o1777)
    os.utime(source / "dir", ns=(1, 5_000_000_005))
    if os.geteuid() == 0:
        os.chown(source / "script", 1234, 4321)
        (source / "script").chmod(0o4755)
    expected = described(source)
    taken = copied(source, tmp_path / "copy")
    assert described(tmp_path / "copy") == expected
    assert described(source) == expected, "the source is as it was"
    assert taken.skipped == 0
    assert ("one file",) in expected.values()


def test_what_a_directory_hands_down_is_kept_and_not_handed_down_to_the_copies(source: Path, tmp_path: Path) -> None:
    (source / "dir").mkdir()
    (source / "dir" / "file").write_text("made before the directory had a default")
    # Version 2; then tag, rights and whom: owner, user 1234, group, mask, others.
    entries = ((1, 7, -1), (2, 6, 1234), (4, 5, -1), (16, 7, -1), (32, 0, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(source / "dir", "system.posix_acl_default", acl)
        os.setxattr(source / "dir" / "file", "system.posix_acl_access", acl)
    except OSError as error:
        pytest.skip(f"access lists cannot be set here: {error.strerror}")
    (source / "dir" / "plain").write_text("")
    os.removexattr(source / "dir" / "plain", "system.posix_acl_access")
    copied(source, tmp_path / "copy")
    assert described(tmp_path / "copy") == described(source)


def test_links_are_copied_and_never_followed(source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("of somebody else")
    (source / "out").symlink_to(tmp_path / "secret")
    (source / "key").symlink_to(tmp_path / "secret" / "key")
    copied(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "out").readlink() == tmp_path / "secret"
    assert (tmp_path / "copy" / "key").is_symlink()


def test_sockets_and_devices_are_left_out_and_named(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source)  # the name of a socket has to be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    expected = ["socket"]
    if os.geteuid() == 0:
        os.mknod("device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        expected.append("device")
    (source / "file").touch()
    assert sorted(copied(source, tmp_path / "copy").skipped_paths) == sorted(expected)
    assert os.listdir(tmp_path / "copy") == ["file"]


@pytest.mark.parametrize("in_kernel", [pytest.param(True, id="in the kernel"), pytest.param(False, id="plainly")])
def test_sparse_files_stay_sparse(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_kernel: bool) -> None:
    if not in_kernel:
        monkeypatch.setattr(os, "copy_file_range", _fails(errno.EXDEV))
    for name, pieces in {"hole": (), "ends": (0, 64 * MI - 5), "middle": (20 * MI,)}.items():
        with (source / name).open("wb") as file:
            file.truncate(64 * MI)
            for start in pieces:
                file.seek(start)
                file.write(b"data!")
    copied(source, tmp_path / "copy")
    for name in ("hole", "ends", "middle"):
        ours, theirs = tmp_path / "copy" / name, source / name
        assert ours.read_bytes() == theirs.read_bytes()
        assert allocated(ours) <= MI


def test_a_file_system_without_holes_has_its_files_copied_whole(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(3 * MI + 17)
    (source / "file").write_bytes(content)
    monkeypatch.setattr(os, "lseek", _fails(errno.EINVAL))
    copied(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "file").read_bytes() == content


def test_blocks_are_shared_where_the_file_system_can(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel would do is done here by hand: few machines that run tests have such a file system."""
    (source / "file").write_bytes(b"shared")
    requests: list[int] = []

    def ioctl(target: int, request: int, source: int) -> None:
        requests.append(request)
        os.pwrite(target, os.pread(source, 100, 0), 0)

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    monkeypatch.setattr(os, "copy_file_range", _fails(errno.EIO))
    copied(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "file").read_bytes() == b"shared"
    assert requests == [0x40049409]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda file: file.write_bytes(b"new"), id="written over"),
        pytest.param(lambda file: file.write_bytes(b"NEW"), id="written over with the same length"),
        pytest.param(lambda file: os.truncate(file, 1), id="cut short"),
        pytest.param(lambda file: file.with_suffix(".new").rename(file), id="replaced by a rename"),
        pytest.param(lambda file: file.unlink(), id="removed"),
        pytest.param(lambda file: file.rename(file.with_name("elsewhere")), id="renamed"),
        pytest.param(lambda file: file.chmod(0o600), id="its mode"),
        pytest.param(lambda file: (file.unlink(), file.mkdir()), id="a directory in its place"),
        pytest.param(lambda file: (file.unlink(), file.symlink_to("/etc/passwd")), id="a link in its place"),
        pytest.param(_pipe_instead, id="a pipe in its place"),
        pytest.param(lambda file: file.with_name("appeared").write_bytes(b"x"), id="another one appears"),
        pytest.param(lambda file: os.link(file, file.with_name("second")), id="it gets a second name"),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_change_during_the_copy_is_in_the_copy(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], when: str
) -> None:
    (source / "file").write_bytes(b"old")
    (source / "file.new").write_bytes(b"one")
    (source / "other").write_bytes(b"else")
    changed: list[bool] = []

    def once(from_: int, to: int, **options: object) -> None:
        mine = not changed and os.pread(from_, 3, 0) == b"old"
        if mine and when == "before":
            changed.append(bool(change(source / "file")))
        COPY_DATA(from_, to, **options)  # type: ignore[arg-type]  # handed on as it came
        if mine and when == "after":
            changed.append(bool(change(source / "file")))

    monkeypatch.setattr(file_copy, "copy_data", once)
    copied(source, tmp_path / "copy")
    assert changed
    assert described(tmp_path / "copy") == described(source)


def test_a_file_that_changes_while_it_is_copied_is_copied_again_at_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "file").write_bytes(b"old")
    looks: list[str] = []

    def copy_data(from_: int, to: int, **options: object) -> None:
        COPY_DATA(from_, to, **options)  # type: ignore[arg-type]  # handed on as it came
        looks.append("copy")
        if len(looks) == 2:
            (source / "file").write_bytes(b"new")

    def noted(*arguments: Any, **options: Any) -> None:
        looks.append("walk")
        return scan(*arguments, **options)

    monkeypatch.setattr(file_copy, "copy_data", copy_data)
    monkeypatch.setattr(tree_copy, "scan", noted)
    copied(source, tmp_path / "copy")
    assert looks == ["walk", "copy", "copy", "walk"]
    assert (tmp_path / "copy" / "file").read_bytes() == b"new"


def test_a_change_of_a_file_that_was_copied_already_is_seen(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is changed while the one after it is copied: no look at one file alone could tell."""
    for number in range(5):
        (source / f"file-{number}").write_bytes(b"old")
    done: list[Path] = []

    def copy_data(from_: int, to: int, **options: object) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{from_}"))
        if path not in done:
            for earlier in done[-1:]:
                earlier.write_bytes(b"new")
            done.append(path)
        COPY_DATA(from_, to, **options)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(file_copy, "copy_data", copy_data)
    copied(source, tmp_path / "copy")
    contents = sorted(file.read_bytes() for file in (tmp_path / "copy").iterdir())
    assert contents == [b"new"] * 4 + [b"old"]


def test_a_directory_that_goes_in_the_middle_of_a_pass_goes_from_the_copy(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "d").mkdir()
    steps: list[Callable[[], object]] = [(source / "d" / "file").touch, lambda: shutil.rmtree(source / "d")]

    def sync(_directory: int) -> None:
        if steps:
            steps.pop(0)()

    monkeypatch.setattr(file_copy, "sync_filesystem", sync)
    copied(source, tmp_path / "copy")
    assert os.listdir(tmp_path / "copy") == []


def test_what_is_written_through_a_memory_map_is_seen(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is dirty already can be written to without a trace in the file's times, until it is written to the disk."""
    (source / "file").write_bytes(bytes(4096))
    with (source / "file").open("r+b") as file, mmap.mmap(file.fileno(), 4096) as memory:
        os.utime(source / "file", ns=(1, 1))
        memory[:5] = b"dirty"
        if (source / "file").stat().st_mtime_ns == 1:
            pytest.skip("this file system has no disk to write to: it never tells")
        turns = 0

        def copy_data(from_: int, to: int, **options: object) -> None:
            nonlocal turns
            COPY_DATA(from_, to, **options)  # type: ignore[arg-type]  # handed on as it came
            turns += 1
            if turns <= 2:
                memory[:5] = f"turn{turns}".encode()

        monkeypatch.setattr(file_copy, "copy_data", copy_data)
        copied(source, tmp_path / "copy")
    assert (tmp_path / "copy" / "file").read_bytes()[:5] == b"turn2"


def test_the_cut_is_after_the_last_change_and_before_the_end(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "file").write_bytes(b"old")
    moments: list[datetime] = []

    def copy_data(from_: int, to: int, **options: object) -> None:
        COPY_DATA(from_, to, **options)  # type: ignore[arg-type]  # handed on as it came
        if len(moments) < 2:
            (source / "file").write_bytes(b"new")
            moments.append(datetime.now(UTC))

    monkeypatch.setattr(file_copy, "copy_data", copy_data)
    taken = copied(source, tmp_path / "copy")
    assert moments[-1] < taken.cut < datetime.now(UTC)


def test_a_tree_that_never_holds_still_is_given_up_by_name(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("busy", "quiet"):
        (source / name).write_bytes(b"0")
    monkeypatch.setattr(tree_copy, "_PAUSE", 0.001)
    copies = 0

    def copy_data(from_: int, to: int, **options: object) -> None:
        nonlocal copies
        COPY_DATA(from_, to, **options)  # type: ignore[arg-type]  # handed on as it came
        copies += 1
        (source / "busy").write_bytes(f"{copies}".encode())

    monkeypatch.setattr(file_copy, "copy_data", copy_data)
    with pytest.raises(TreeKeepsChanging) as given_up:
        copied(source, tmp_path / "copy")
    assert str(given_up.value) == (
        "kept changing while it was copied, 5 times: busy; stop or freeze what writes there for a moment"
    )
    assert copies <= tree_copy.PASSES * file_copy.TRIES + 1


def test_many_restless_files_are_counted(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_copy, "_PAUSE", 0.001)
    turns = 0

    def sync(_directory: int) -> None:
        nonlocal turns
        turns += 1
        for number in range(5):
            (source / f"{turns}-{number}").touch()

    monkeypatch.setattr(file_copy, "sync_filesystem", sync)
    with pytest.raises(TreeKeepsChanging, match=r"5 times: 5-0, 5-1, 5-2 and 2 more; "):
        copied(source, tmp_path / "copy")


def test_a_tree_too_deep_is_refused(source: Path, tmp_path: Path) -> None:
    here = os.open(source, os.O_RDONLY)
    for _ in range(258):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with pytest.raises(Impossible, match="deeper than 256 levels, which is the most"):
        copied(source, tmp_path / "copy")


def test_no_descriptor_is_left_open(source: Path, tmp_path: Path) -> None:
    for number in range(20):
        (source / f"d{number}").mkdir()
        (source / f"d{number}" / "file").touch()
    before = len(os.listdir("/proc/self/fd"))
    copied(source, tmp_path / "copy")
    assert len(os.listdir("/proc/self/fd")) == before


def stamp(inode: int, *, kind: int = stat.S_IFREG, links: int = 1, ctime: int = 1) -> Stamp:
    return Stamp(kind | 0o644, 1, inode, links, 0, 0, 3, 1, ctime)


DIRECTORY = stamp(1, kind=stat.S_IFDIR, links=2)


@pytest.mark.parametrize(
    ("has", "found", "delta"),
    [
        pytest.param({"": DIRECTORY, "a": stamp(2)}, {"": DIRECTORY, "a": stamp(2)}, ((), ()), id="nothing"),
        pytest.param({"a": stamp(2)}, {"a": stamp(2, ctime=2)}, ((), ("a",)), id="a file changed"),
        pytest.param({"a": stamp(2)}, {"a": stamp(3)}, ((), ("a",)), id="another file under its name"),
        pytest.param({"a": stamp(2)}, {}, (("a",), ()), id="a file gone"),
        pytest.param({"a": DIRECTORY}, {"a": stamp(2)}, (("a",), ("a",)), id="a file in a directory's place"),
        pytest.param(
            {"a": stamp(2, links=2), "b": stamp(2, links=2)},
            {"a": stamp(2, links=2), "b": stamp(2, links=2, ctime=2)},
            ((), ("a", "b")),
            id="seen changed under one of its names: all of them",
        ),
        pytest.param(
            {"d": DIRECTORY._replace(ctime=-1)},
            {"d": DIRECTORY._replace(ctime=-1)},
            ((), ("d",)),
            id="in flux twice is not the same",
        ),
    ],
)
def test_what_a_copy_lacks(
    has: dict[str, Stamp], found: dict[str, Stamp], delta: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    with TreeIndex() as index:
        for path, one in has.items():
            index.hold(path, one)
        index.begin()
        for path, one in found.items():
            index.note(path, one)
        assert index.compare() == (delta != ((), ()))
        assert (tuple(path for path, _ in index.gone()), tuple(path for path, _ in index.fresh())) == delta


def _fails(number: int) -> Callable[..., object]:
    def fail(*_arguments: object, **_options: object) -> object:
        raise OSError(number, os.strerror(number))

    return fail
