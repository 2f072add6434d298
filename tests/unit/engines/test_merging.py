"""Where the bytes of removed snapshots go, and whose they are until then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ullage.engines.api import Engine, EngineStatus
from ullage.engines.chain import HEAD, Entry
from ullage.engines.merging import merges_of
from ullage.engines.model import entries_of, head_size, info_of


def entries(*rows: tuple[str, str, int, str]) -> dict[str, Entry]:
    """Name, parent, size, and what it is: removed, system or neither. The older ones first."""
    return {
        name: Entry(
            name=name,
            parent=parent,
            size=size,
            removed=what == "removed",
            user_created=what != "system",
            created=f"2026-01-01T00:00:{number:02}Z",
        )
        for number, (name, parent, size, what) in enumerate(rows)
    }


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        pytest.param(
            [("a", "", 5, ""), ("b", "a", 3, ""), (HEAD, "b", 1, "")], {"a": 5, "b": 3, HEAD: 1}, id="each has its own"
        ),
        pytest.param(
            [("a", "", 5, "removed"), ("b", "a", 3, ""), (HEAD, "b", 1, "")],
            {"b": 8, HEAD: 1},
            id="what is removed is the child's from then on",
        ),
        pytest.param(
            [("a", "", 5, ""), ("b", "a", 3, "removed"), ("c", "b", 2, "removed"), ("d", "c", 1, ""), (HEAD, "d", 0, "")],
            {"a": 5, "d": 6, HEAD: 0},
            id="several in a row are the same one's, up to one that stays",
        ),
        pytest.param(
            [("a", "", 5, ""), ("b", "a", 3, "removed"), (HEAD, "b", 1, "")],
            {"a": 5, HEAD: 4},
            id="what the head is written on top of is nobody's before the next snapshot",
        ),
        pytest.param(
            [("a", "", 5, "removed"), ("b", "a", 3, ""), ("c", "a", 2, ""), (HEAD, "c", 1, "")],
            {"b": 8, "c": 2, HEAD: 1},
            id="what several are built on is the oldest one's, once",
        ),
        pytest.param(
            [("a", "", 5, "removed"), ("b", "a", 3, ""), (HEAD, "a", 1, "")],
            {"b": 8, HEAD: 1},
            id="of a snapshot and the head it is the snapshot's",
        ),
        pytest.param(
            [("a", "b", 5, "removed"), ("b", "a", 3, "removed"), ("c", "b", 1, "")], {"c": 9}, id="a loop ends where it began"
        ),
        pytest.param(
            [("a", "gone", 5, ""), (HEAD, "a", 1, "")], {"a": 5, HEAD: 1}, id="a parent that is not listed has nothing"
        ),
        pytest.param(
            [("a", "", 5, "system"), ("b", "a", 3, ""), (HEAD, "b", 1, "")],
            {"a": 5, "b": 3, HEAD: 1},
            id="one that the system took counts as any",
        ),
    ],
)
def test_sizes_with_what_will_be_merged(given: list[tuple[str, str, int, str]], sizes: dict[str, int]) -> None:
    assert dict(merges_of(entries(*given)).sizes) == sizes


@pytest.mark.parametrize(
    ("size", "sizes"),
    [(0, {"b": 12, HEAD: 9}), (10, {"b": 10, HEAD: 9}), (4, {"b": 7, HEAD: 9})],
    ids=["its size is not known", "as much as the volume has", "what one has already is not less"],
)
def test_none_gets_more_than_the_volume_has(size: int, sizes: dict[str, int]) -> None:
    given = entries(("a", "", 5, "removed"), ("b", "a", 7, ""), (HEAD, "b", 9, ""))
    assert dict(merges_of(given, volume_size=size).sizes) == sizes


def told(entry: Entry, merged: int) -> Entry:
    return replace(entry, merged=merged)


def test_where_the_engine_tells_what_will_be_in_the_heir_each_block_counts_once() -> None:
    given = entries(("a", "", 5, "removed"), ("b", "a", 4, ""), ("c", "b", 6, "removed"), (HEAD, "c", 6, ""))
    given["b"], given[HEAD] = told(given["b"], 7), told(given[HEAD], 6)
    assert dict(merges_of(given).sizes) == {"b": 7, HEAD: 6}
    assert dict(merges_of(given, volume_size=5).sizes) == {"b": 7, HEAD: 6}, "it is no guess, so nothing bounds it"


def test_what_it_has_already_is_never_less_than_what_was_told() -> None:
    given = entries(("a", "", 5, "removed"), (HEAD, "a", 9, ""))
    given[HEAD] = told(given[HEAD], 6)  # of a moment ago
    assert dict(merges_of(given).sizes) == {HEAD: 9}


def test_what_a_purge_will_mark_is_not_in_what_was_told() -> None:
    given = entries(("a", "", 5, "system"), ("b", "a", 3, "removed"), (HEAD, "b", 3, ""))
    given[HEAD] = told(given[HEAD], 3)
    assert merges_of(given, purging=True).sizes[HEAD] == 11


def test_an_engine_s_status_says_what_it_told() -> None:
    given = entries(("a", "", 6, "removed"), (HEAD, "a", 6, ""))
    given[HEAD] = told(given[HEAD], 6)
    shown = {name: info_of(one) for name, one in given.items()}
    assert entries_of(Engine(status=EngineStatus(snapshots=shown))) == given
    assert head_size(Engine(status=EngineStatus(snapshots=shown))) == 6


def test_a_purge_takes_those_of_the_system_along() -> None:
    given = entries(("a", "", 5, "system"), ("b", "a", 3, ""), (HEAD, "b", 1, ""))
    assert dict(merges_of(given, purging=True).sizes) == {"a": 5, "b": 8, HEAD: 1}  # twice, until it is gone


def test_the_next_snapshot_takes_what_is_left_below_the_head() -> None:
    """Otherwise a snapshot that is deleted and taken again would cost nothing: it gets all that the first one had."""
    given = entries(("a", "", 5, "removed"), (HEAD, "a", 1, ""))
    shown = {name: info_of(one) for name, one in given.items()}
    assert head_size(Engine(status=EngineStatus(snapshots=shown))) == 6
