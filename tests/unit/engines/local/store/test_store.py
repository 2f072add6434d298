"""A directory of volumes: names, owners, what is left over, and disks that are full or not fit for it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.unit.engines.local.store.disks import Forgetful
from tests.unit.engines.local.store.letters import NOW, SIZE
from ullage.engines.local.store.errors import Damaged, NotFound, Refused, Unavailable
from ullage.engines.local.store.files import DiskFiles
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.spans import Span
from ullage.engines.local.store.store import Store
from ullage.errors import BadInput


def test_volumes_are_made_once_and_listed(store: Store) -> None:
    store.create("b", size=SIZE, max_count=3, max_size=SIZE)
    store.create("a", size=SIZE)
    assert store.names() == ["a", "b"]
    assert store.create("a", size=SIZE) is store.volume("a")
    assert (store.volume("b").view().max_count, store.volume("b").view().max_size) == (3, SIZE)


def test_a_volume_of_that_name_and_another_size_is_refused(store: Store) -> None:
    store.create("a", size=SIZE)
    with pytest.raises(Refused, match=f"volume a is already existing with {SIZE} bytes, not {2 * SIZE}"):
        store.create("a", size=2 * SIZE)


@pytest.mark.parametrize("size", [0, -BLOCK, 1, BLOCK + 1])
def test_a_size_that_is_no_number_of_blocks_is_refused(store: Store, size: int) -> None:
    with pytest.raises(BadInput, match=f"size {size} bytes: a positive multiple of 4096 bytes is allowed"):
        store.create("a", size=size)


def test_a_volume_that_is_deleted_is_gone_for_those_who_hold_it(store: Store) -> None:
    volume = store.create("a", size=SIZE)
    volume.snapshot("s1", created=NOW)
    volume.mark_removed("s1")
    store.delete("a")
    store.delete("a")
    with pytest.raises(NotFound, match="volume a is not there any more"):
        volume.read_at(0, 1)
    with pytest.raises(NotFound, match="volume a is not there"):
        store.volume("a")
    assert store.create("a", size=2 * SIZE).view().usage.count == 0


def test_one_process_at_a_time_has_the_directory(tmp_path: Path) -> None:
    first = Store.open(tmp_path)
    with pytest.raises(Unavailable, match="another process serves the volumes in it; one is allowed"):
        Store.open(tmp_path)
    first.close()
    Store.open(tmp_path).close()


def test_files_that_are_not_ours_stay(tmp_path: Path) -> None:
    first = Store.open(tmp_path)
    first.create("a", size=SIZE)
    first.close()
    for name in ("notes.txt", "volume-snap-left.img", "volume-head-009.img", "volume.meta.tmp"):
        (tmp_path / "a" / name).write_bytes(b"")
    second = Store.open(tmp_path)
    second.volume("a").view()
    left = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert left == ["notes.txt", "volume-head-000.img", "volume.meta"]
    second.close()


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "volumes")
    store.create("a", size=SIZE)
    for path in (tmp_path / "volumes").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    store.close()


class Full(Forgetful):
    """A disk that is full from now and then on."""

    full = False

    def write(self, path: str, *, offset: int, data: bytes) -> None:
        if self.full:
            super().write(path, offset=offset, data=data[:BLOCK])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(path, offset=offset, data=data)


def test_a_full_disk_is_named_and_what_was_there_stays() -> None:
    disk = Full()
    volume = Store(disk).create("v", size=SIZE)
    volume.write_at(0, b"a" * 2 * BLOCK)
    disk.full = True
    with pytest.raises(Unavailable, match="volume v: no space left on the device"):
        volume.snapshot("s1", created=NOW)
    assert volume.view().parent == ""
    assert disk.names("v") == ["volume-head-000.img", "volume.meta"]
    with pytest.raises(Unavailable):
        volume.write_at(BLOCK, b"b" * 2 * BLOCK)
    assert volume.read_at(0, 3 * BLOCK) == b"a" * BLOCK + b"b" * BLOCK + bytes(BLOCK)
    assert volume.view().usage.head == 2 * BLOCK
    disk.full = False
    volume.snapshot("s1", created=NOW)
    assert volume.read_at(0, BLOCK) == b"a" * BLOCK


class Coarse(Forgetful):
    """A disk that keeps holes of 128 KiB only."""

    def extents(self, path: str) -> list[Span]:
        return [Span(0, extent.end) for extent in super().extents(path)[-1:]]


def test_a_disk_that_does_not_keep_holes_is_refused() -> None:
    with pytest.raises(Damaged, match="does not keep holes of 4096 bytes apart from data"):
        Store(Coarse())


def test_a_layer_with_half_a_block_is_damaged(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.create("v", size=SIZE)
    store.close()
    (tmp_path / "v" / "volume-head-000.img").write_bytes(b"x" * 100)
    again = Store.open(tmp_path)
    with pytest.raises(Damaged, match="holds a part of a block of 4096 bytes"):
        again.volume("v").view()
    again.close()


def test_a_disk_says_where_data_is_and_takes_it_away_again(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    files.create("f", size=1 << 30)
    files.write("f", offset=8 * BLOCK, data=b"x" * 4 * BLOCK)
    files.punch("f", Span(9 * BLOCK, 10 * BLOCK))
    assert files.extents("f") == [Span(8 * BLOCK, 9 * BLOCK), Span(10 * BLOCK, 12 * BLOCK)]
    assert files.read("f", offset=9 * BLOCK - 1, length=2) == b"x\0"
    assert files.read("f", offset=(1 << 30) - 1, length=10) == b"\0"
    assert files.read("f", offset=1 << 31, length=10) == b""
    assert files.allocated("f") < 1 << 20
    files.close()
