"""Marks and purges. The tree decides what goes, and what is wanted shows the same as before."""

from __future__ import annotations

import threading

import pytest

from tests.unit.engines.local.store.letters import NOW, cut, put, shown, sizes
from ullage.engines.chain import HEAD
from ullage.engines.local.store.errors import Refused
from ullage.engines.local.store.purge import PIECE
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.store import Store
from ullage.engines.local.store.volume import StoredVolume


def test_a_mark_hides_a_snapshot_and_keeps_its_data(volume: StoredVolume) -> None:
    put(volume, 0, "ab")
    cut(volume, "s1")
    volume.mark_removed("s1")
    volume.mark_removed("s1")
    volume.mark_removed("never there")
    view = volume.view()
    assert view.entries["s1"].removed
    assert view.chain == (HEAD,)
    assert shown(volume) == "ab"
    with pytest.raises(Refused, match="cannot read removed snapshot s1 of volume v"):
        volume.read_snapshot("s1", offset=0, length=1)


def test_the_head_cannot_be_marked(volume: StoredVolume) -> None:
    with pytest.raises(Refused, match="cannot mark the active differencing disk as removed"):
        volume.mark_removed(HEAD)


def test_a_purge_hands_the_child_what_it_lacks(volume: StoredVolume) -> None:
    put(volume, 0, "aaaa")
    cut(volume, "s1")
    put(volume, 2, "bbbb")
    cut(volume, "s2")
    put(volume, 5, "c")
    volume.mark_removed("s1")
    heard: list[int] = []
    assert volume.purge(progress=heard.append)
    assert sizes(volume) == {"s2": 6, HEAD: 1}
    assert volume.view().entries["s2"].parent == ""
    assert (shown(volume), shown(volume, "s2")) == ("aabbbc", "aabbbb")
    assert heard == sorted(set(heard))
    assert heard[-1] == 100


def test_the_heads_parent_stays_without_what_the_head_covers(volume: StoredVolume) -> None:
    put(volume, 0, "aaaa")
    cut(volume, "s1")
    put(volume, 1, "bb")
    volume.mark_removed("s1")
    volume.purge()
    assert sizes(volume) == {"s1": 2, HEAD: 2}
    assert shown(volume) == "abba"
    cut(volume, "s2")
    volume.purge()
    assert sizes(volume) == {"s2": 4, HEAD: 0}
    assert shown(volume, "s2") == "abba"


def test_what_a_snapshot_will_hold_after_pending_merges_counts_each_block_once(volume: StoredVolume) -> None:
    put(volume, 0, "aaaa")
    cut(volume, "s1")
    put(volume, 0, "bbbb")  # the same blocks
    put(volume, 6, "b")
    assert volume.view().entries[HEAD].merged is None, "nothing is removed"
    volume.mark_removed("s1")
    assert (sizes(volume), volume.view().entries[HEAD].merged) == ({"s1": 4, HEAD: 5}, 5 * BLOCK)
    cut(volume, "s2")
    put(volume, 0, "c")
    entries = volume.view().entries
    assert (entries["s2"].merged, entries[HEAD].merged) == (5 * BLOCK, None)
    volume.purge()
    assert sizes(volume) == {"s2": 5, HEAD: 1}


def test_another_snapshot_of_a_name_is_measured_anew(volume: StoredVolume) -> None:
    for letters in ("aa", "aaaa"):
        put(volume, 0, letters)
        cut(volume, "s1")
        put(volume, 8, letters)
        cut(volume, "s2")
        volume.mark_removed("s1")
        assert volume.view().entries["s2"].merged == 2 * len(letters) * BLOCK
        volume.purge()
        cut(volume, f"top-{letters}")
        volume.mark_removed("s2")
        volume.purge()


def test_a_marked_snapshot_with_two_children_waits_for_one_of_them(volume: StoredVolume) -> None:
    put(volume, 0, "aa")
    cut(volume, "s1")
    put(volume, 1, "b")
    cut(volume, "s2")
    volume.revert("s1", created=NOW)
    put(volume, 2, "c")
    cut(volume, "s3")
    volume.mark_removed("s1")
    volume.purge()
    assert sizes(volume) == {"s1": 2, "s2": 1, "s3": 1, HEAD: 0}
    volume.mark_removed("s2")
    volume.purge()
    assert sizes(volume) == {"s3": 3, HEAD: 0}
    assert shown(volume) == "aac"


def test_a_purge_takes_the_systems_snapshots_too(volume: StoredVolume) -> None:
    put(volume, 0, "a")
    cut(volume, "system", user_created=False)
    put(volume, 1, "b")
    cut(volume, "mine")
    volume.purge()
    assert sizes(volume) == {"mine": 2, HEAD: 0}


def test_a_long_chain_of_marked_snapshots_goes_with_one_copy_of_each_block(volume: StoredVolume) -> None:
    for number in range(8):
        put(volume, number, "x")
        cut(volume, f"s{number}")
    for number in range(7):
        volume.mark_removed(f"s{number}")
    copied: list[int] = []
    copy = volume._directory.copy
    volume._directory.copy = lambda *how: copied.append(how[2].end - how[2].start) or copy(*how)  # type: ignore[method-assign,func-returns-value]
    volume.purge()
    assert sum(copied) == 7
    assert sizes(volume) == {"s7": 8, HEAD: 0}


def test_a_purge_can_be_cancelled_and_goes_on_later(store: Store) -> None:
    volume = store.create("large", size=4 * PIECE * BLOCK)
    put(volume, 0, "a" * 3 * PIECE)
    cut(volume, "s1", "s2")
    volume.mark_removed("s1")
    pieces = iter((False, False, False, True))
    assert not volume.purge(cancelled=lambda: next(pieces))
    assert sizes(volume) == {"s1": 3 * PIECE, "s2": 2 * PIECE, HEAD: 0}
    assert shown(volume, "s2") == "a" * 3 * PIECE
    assert volume.purge()
    assert sizes(volume) == {"s2": 3 * PIECE, HEAD: 0}


def test_others_work_while_a_purge_runs_and_a_second_one_is_refused(store: Store) -> None:
    volume = store.create("large", size=8 * PIECE * BLOCK)
    put(volume, 0, "a" * 4 * PIECE)
    cut(volume, "s1", "s2")
    volume.mark_removed("s1")
    under_way, go_on = threading.Event(), threading.Event()

    def progress(_: int) -> None:
        under_way.set()
        assert go_on.wait(30)

    purge = threading.Thread(target=volume.purge, kwargs={"progress": progress})
    purge.start()
    try:
        assert under_way.wait(30)
        assert volume.purging
        with pytest.raises(Refused, match="replica is already purging snapshots"):
            volume.purge()
        put(volume, 0, "b")
        cut(volume, "s3")
        volume.revert("s2", created=NOW)
        volume.mark_removed("s2")
    finally:
        go_on.set()
        purge.join(30)
    assert not volume.purging
    assert shown(volume, "s3") == "b" + "a" * (4 * PIECE - 1)
    assert shown(volume) == "a" * 4 * PIECE
    assert set(sizes(volume)) == {"s2", "s3", HEAD}
