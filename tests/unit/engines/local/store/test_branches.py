"""Revert, expansion, clone, and limits. Texts are longhorn-engine's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.engines.local.store.disks import Forgetful
from tests.unit.engines.local.store.letters import NOW, SIZE, cut, put, shown, sizes
from ullage.engines.chain import HEAD
from ullage.engines.local.store.errors import NotFound, Refused
from ullage.engines.local.store.record import BLOCK, MOST_LAYERS
from ullage.engines.local.store.store import Store
from ullage.engines.local.store.volume import StoredVolume
from ullage.errors import BadInput


def test_a_revert_drops_what_came_after_the_last_snapshot_and_keeps_the_branch(volume: StoredVolume) -> None:
    put(volume, 0, "aa")
    cut(volume, "s1")
    put(volume, 0, "b")
    cut(volume, "s2")
    put(volume, 0, "c")
    volume.revert("s1", created=NOW)
    assert shown(volume) == "aa"
    assert volume.view().entries["s1"].children == {"s2", HEAD}
    assert shown(volume, "s2") == "ba"
    volume.revert("s2", created=NOW)
    assert shown(volume) == "ba"


def test_a_revert_to_nothing_or_to_what_goes_is_refused(volume: StoredVolume) -> None:
    cut(volume, "s1")
    volume.mark_removed("s1")
    with pytest.raises(Refused, match="cannot revert to removed snapshot s1"):
        volume.revert("s1", created=NOW)
    with pytest.raises(NotFound, match="cannot do revert since the target snapshot s2 is not found"):
        volume.revert("s2", created=NOW)


def test_an_expansion_leaves_a_snapshot_of_the_systems(volume: StoredVolume) -> None:
    put(volume, 15, "a")
    volume.expand(2 * SIZE, created=NOW)
    put(volume, 16, "b")
    name = f"expand-{2 * SIZE}"
    entry = volume.view().entries[name]
    assert (entry.user_created, entry.labels) == (False, {"replica-expansion": str(2 * SIZE)})
    assert shown(volume) == "." * 15 + "ab"
    assert shown(volume, name) == "." * 15 + "a"
    volume.expand(2 * SIZE, created=NOW)
    assert volume.view().usage.count == 1


@pytest.mark.parametrize(
    ("size", "text"),
    [
        pytest.param(SIZE - BLOCK, f"cannot be expanded to a smaller size {SIZE - BLOCK}", id="smaller"),
        pytest.param(SIZE + 1, "a positive multiple of 4096 bytes is allowed", id="not in blocks"),
    ],
)
def test_an_expansion_only_grows_by_blocks(volume: StoredVolume, size: int, text: str) -> None:
    with pytest.raises((Refused, BadInput), match=text):
        volume.expand(size, created=NOW)


def test_a_clone_has_the_snapshots_data_in_one_layer(store: Store, volume: StoredVolume) -> None:
    put(volume, 0, "aa")
    cut(volume, "s1")
    put(volume, 1, "bb")
    cut(volume, "s2", "s3")
    put(volume, 0, "c")
    copy = store.create("copy", size=2 * SIZE)
    heard: list[int] = []
    assert copy.clone_from(volume, "s2", created=NOW, progress=heard.append)
    assert shown(copy) == "abb"
    assert sizes(copy) == {"copy-base": 3, HEAD: 0}, "named after the copy: names of snapshots are used once"
    assert heard[-1] == 100
    put(copy, 0, "z")
    assert (shown(copy), shown(volume, "s2")) == ("zbb", "abb")
    copy.purge()
    assert (shown(copy), sizes(copy)) == ("zbb", {"copy-base": 2, HEAD: 1})


def test_a_clone_that_is_cancelled_leaves_nothing(store: Store, volume: StoredVolume, tmp_path: Path) -> None:
    put(volume, 0, "a")
    cut(volume, "s1")
    copy = store.create("copy", size=SIZE)
    assert not copy.clone_from(volume, "s1", created=NOW, cancelled=lambda: True)
    assert sorted(path.name for path in (tmp_path / "volumes" / "copy").iterdir()) == ["volume-head-000.img", "volume.meta"]
    assert copy.clone_from(volume, "s1", created=NOW)


@pytest.mark.parametrize(
    ("prepare", "text"),
    [
        pytest.param(lambda copy: put(copy, 0, "a"), "it holds data or snapshots; an empty one is allowed", id="with data"),
        pytest.param(lambda copy: cut(copy, "s1"), "it holds data or snapshots; an empty one is allowed", id="with snapshots"),
    ],
)
def test_a_clone_needs_an_empty_target(
    store: Store, volume: StoredVolume, prepare: Callable[[StoredVolume], None], text: str
) -> None:
    cut(volume, "s1")
    copy = store.create("copy", size=SIZE)
    prepare(copy)
    with pytest.raises(Refused, match=text):
        copy.clone_from(volume, "s1", created=NOW)


def test_a_clone_needs_room_and_a_source(store: Store, volume: StoredVolume) -> None:
    cut(volume, "s1")
    copy = store.create("copy", size=SIZE - BLOCK)
    with pytest.raises(Refused, match=f"its size is {SIZE - BLOCK} bytes, at least {SIZE} are needed"):
        copy.clone_from(volume, "s1", created=NOW)
    with pytest.raises(NotFound, match="cannot find snapshot s2 in volume v"):
        copy.clone_from(volume, "s2", created=NOW)


def test_the_count_limit_counts_what_is_not_marked(volume: StoredVolume) -> None:
    cut(volume, "s1", "s2")
    volume.set_max_count(2)
    with pytest.raises(Refused, match="snapshot count usage 2 is equal or larger than snapshotMaxCount 2"):
        cut(volume, "s3")
    with pytest.raises(Refused, match="cannot set snapshotMaxCount=1 smaller than current snapshot count usage=2"):
        volume.set_max_count(1)
    assert volume.view().remaining == 0
    volume.mark_removed("s1")
    cut(volume, "s3")


def test_the_size_limit_counts_what_the_head_would_add(volume: StoredVolume) -> None:
    put(volume, 0, "aa")
    cut(volume, "s1")
    volume.set_max_size(4 * BLOCK)
    put(volume, 0, "bbb")
    with pytest.raises(Refused, match=f"snapshot free space {2 * BLOCK} is not enough for head file {3 * BLOCK}"):
        cut(volume, "s2")
    with pytest.raises(Refused, match="is not enough for head file"):
        volume.expand(2 * SIZE, created=NOW)
    with pytest.raises(Refused, match=f"cannot set snapshotMaxSize=0 smaller than current snapshot size usage={2 * BLOCK}"):
        volume.set_max_size(0)
    volume.set_max_size(5 * BLOCK)
    cut(volume, "s2")


def test_the_size_limit_does_not_stop_the_system_but_the_count_limit_does(volume: StoredVolume) -> None:
    volume.set_max_size(BLOCK)
    put(volume, 0, "aa")
    cut(volume, "system", user_created=False)
    volume.set_max_count(1)
    with pytest.raises(Refused, match="snapshot count usage 1 is equal or larger than snapshotMaxCount 1"):
        cut(volume, "another", user_created=False)


def test_no_chain_gets_longer_than_an_index_can_tell_apart() -> None:
    volume = Store(Forgetful()).create("v", size=SIZE, max_count=300)
    for number in range(MOST_LAYERS - 1):
        put(volume, number % 16, "abcdefgh"[number % 8])
        cut(volume, f"s{number}")
    with pytest.raises(Refused, match="snapshot count total is already too big: 250"):
        cut(volume, "one-more")
    expected = shown(volume)
    for number in range(MOST_LAYERS - 1):
        volume.mark_removed(f"s{number}")
    with pytest.raises(Refused, match="snapshot count total is already too big: 250"):
        cut(volume, "one-more")
    volume.purge()
    assert shown(volume) == expected
    assert sizes(volume) == {"s248": 16, HEAD: 0}
    cut(volume, "one-more")
