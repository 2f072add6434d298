"""What a volume answers, on a real disk: data, snapshots, and what it says when its files are damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.engines.local.store.letters import NOW, SIZE, cut, put, shown, sizes
from ullage.engines.chain import HEAD
from ullage.engines.local.store.errors import Damaged, NotFound, Refused
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.store import Store
from ullage.engines.local.store.volume import StoredVolume
from ullage.errors import BadInput


@pytest.mark.parametrize(
    ("offset", "length", "blocks"),
    [
        pytest.param(0, BLOCK, 1, id="a block"),
        pytest.param(10, 5, 1, id="a part of a block takes all of it"),
        pytest.param(BLOCK - 1, 2, 2, id="two bytes in two blocks take both"),
        pytest.param(BLOCK + 1, 2 * BLOCK, 3, id="two blocks that are not aligned take three"),
        pytest.param(SIZE - 1, 1, 1, id="the last byte"),
        pytest.param(SIZE, 0, 0, id="nothing at the end"),
    ],
)
def test_what_is_written_is_read_back_and_the_rest_is_zeros(
    volume: StoredVolume, offset: int, length: int, blocks: int
) -> None:
    volume.write_at(offset, b"x" * length)
    assert volume.read_at(0, SIZE) == bytes(offset) + b"x" * length + bytes(SIZE - offset - length)
    assert sizes(volume) == {HEAD: blocks}


def test_a_part_of_a_block_is_filled_up_from_below(volume: StoredVolume) -> None:
    put(volume, 0, "ab")
    cut(volume, "s1")
    volume.write_at(BLOCK - 1, b"xy")
    assert volume.read_at(0, 2 * BLOCK) == b"a" * (BLOCK - 1) + b"xy" + b"b" * (BLOCK - 1)
    assert shown(volume, "s1") == "ab"


def test_zeros_take_space_and_hide_what_is_below(volume: StoredVolume) -> None:
    put(volume, 0, "a")
    cut(volume, "s1")
    volume.write_at(0, bytes(BLOCK))
    assert shown(volume) == ""
    assert sizes(volume) == {"s1": 1, HEAD: 1}


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        pytest.param(-1, 1, id="before the beginning"),
        pytest.param(SIZE, 1, id="behind the end"),
        pytest.param(SIZE - 1, 2, id="over the end"),
        pytest.param(0, -1, id="a negative length"),
    ],
)
def test_a_range_outside_the_volume_is_refused(volume: StoredVolume, offset: int, length: int) -> None:
    with pytest.raises(BadInput, match=f"range {length} bytes at {offset}: the volume has {SIZE} bytes"):
        volume.read_at(offset, length)


def test_a_write_behind_the_end_changes_nothing(volume: StoredVolume) -> None:
    with pytest.raises(BadInput):
        volume.write_at(SIZE - 1, b"xx")
    assert sizes(volume) == {HEAD: 0}


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    first = Store.open(tmp_path)
    volume = first.create("v", size=SIZE, created=NOW)
    put(volume, 1, "ab")
    volume.snapshot("s1", created=NOW, labels={"why": "because"})
    put(volume, 2, "c")
    volume.mark_removed("s1")
    volume.set_max_count(9)
    before = volume.view()
    first.close()
    second = Store.open(tmp_path)
    assert second.volume("v").view() == before
    assert shown(second.volume("v")) == ".ac"
    second.close()


def test_a_snapshot_keeps_what_was_there_and_names_its_place(volume: StoredVolume) -> None:
    put(volume, 0, "aa")
    volume.snapshot("s1", created=NOW, labels={"k": "v"})
    put(volume, 1, "bb")
    volume.snapshot("s2", created=NOW, user_created=False)
    put(volume, 2, "c")
    view = volume.view()
    assert [shown(volume, name) for name in ("s1", "s2")] == ["aa", "abb"]
    assert shown(volume) == "abc"
    assert view.chain == (HEAD, "s2", "s1")
    assert (view.parent, view.head_file) == ("s2", "volume-head-002.img")
    entries = [view.entries[name] for name in ("s1", "s2", HEAD)]
    assert [entry.parent for entry in entries] == ["", "s1", "s2"]
    assert [entry.children for entry in entries] == [{"s2"}, {HEAD}, set()]
    assert [entry.size for entry in entries] == [2 * BLOCK, 2 * BLOCK, BLOCK]
    assert [entry.user_created for entry in entries] == [True, False, False]
    assert (entries[0].created, entries[0].labels) == (NOW, {"k": "v"})


def test_a_name_that_is_taken_is_refused(volume: StoredVolume) -> None:
    cut(volume, "s1")
    with pytest.raises(Refused, match=r"snapshot volume-snap-s1\.img is already existing"):
        cut(volume, "s1")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a\0b", ".a", "a-", "ä", "a b", "a" * 240, HEAD])
def test_a_name_that_could_be_a_path_is_refused(store: Store, volume: StoredVolume, name: str) -> None:
    with pytest.raises(BadInput, match="snapshot "):
        cut(volume, name)
    if name != HEAD:
        for call in (store.volume, store.delete):
            with pytest.raises(BadInput, match="volume "):
                call(name)


def test_the_longest_name_is_taken(volume: StoredVolume) -> None:
    cut(volume, "a" * 239)
    assert volume.view().parent == "a" * 239


def test_what_a_layer_takes_on_the_disk_is_about_its_size(volume: StoredVolume) -> None:
    put(volume, 0, "aaaa")
    cut(volume, "s1")
    assert 4 * BLOCK <= volume.allocated("s1") <= 5 * BLOCK
    with pytest.raises(NotFound):
        volume.allocated("s2")


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        pytest.param(
            lambda directory: (directory / "volume-snap-s1.img").unlink(), "volume-snap-s1.img missing", id="a layer is missing"
        ),
        pytest.param(
            lambda directory: (directory / "volume.meta").unlink(), "v/volume.meta: is missing", id="the record is missing"
        ),
        pytest.param(
            lambda directory: (directory / "volume.meta").write_text("{"), "v/volume.meta: ", id="the record is cut short"
        ),
        pytest.param(
            lambda directory: (directory / "volume.meta").write_text('{"size": 4096, "snapshots": {"../x": {}}}'),
            "no name of a snapshot",
            id="the record names a path",
        ),
        pytest.param(
            lambda directory: (directory / "volume.meta").write_text(
                '{"size": 4096, "snapshots": {"a": {"parent": "b"}, "b": {"parent": "a"}}}'
            ),
            "is its own ancestor",
            id="the record goes in circles",
        ),
        pytest.param(
            lambda directory: (directory / "volume.meta").write_text('{"size": 4096, "parent": "s9"}'),
            "the head's parent 's9' is not there",
            id="the head stands on nothing",
        ),
    ],
)
def test_a_damaged_volume_is_named_and_left_alone(tmp_path: Path, harm: Callable[[Path], None], text: str) -> None:
    first = Store.open(tmp_path)
    cut(first.create("v", size=SIZE), "s1")
    first.create("sound", size=SIZE)
    first.close()
    harm(tmp_path / "v")
    left = sorted(path.name for path in (tmp_path / "v").iterdir())
    second = Store.open(tmp_path)
    with pytest.raises(Damaged, match=text):
        second.volume("v").read_at(0, 1)
    assert sorted(path.name for path in (tmp_path / "v").iterdir()) == left
    assert second.volume("sound").read_at(0, 1) == b"\0"
    second.delete("v")
    assert second.names() == ["sound"]
    second.close()
