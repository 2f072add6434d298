"""How long a record is left to another snapshotter to make."""

from __future__ import annotations

from ullage.snapshots.controllers.snapshot_bind import OtherSnapshotter


def test_until_it_has_turned_out_that_there_is_none_each_snapshot_is_left_to_it_for_a_while() -> None:
    others = OtherSnapshotter(2.0)
    assert others.wait("a", 10.0) == 2.0
    assert others.wait("b", 11.0) == 2.0
    assert others.wait("a", 11.5) == 0.5
    assert others.wait("a", 12.5) == 0.0


def test_where_nobody_has_made_the_record_nothing_is_left_to_it_any_more() -> None:
    others = OtherSnapshotter(2.0)
    others.wait("a", 10.0)
    others.was_not_there("a")
    assert others.wait("b", 12.0) == 0.0


def test_a_record_that_was_never_left_to_it_tells_nothing() -> None:
    others = OtherSnapshotter(2.0)
    others.was_not_there("of the other API")
    assert others.wait("b", 12.0) == 2.0


def test_one_that_comes_later_is_let_first_again() -> None:
    others = OtherSnapshotter(2.0)
    others.wait("a", 10.0)
    others.was_not_there("a")
    others.was_there()
    assert others.wait("b", 12.0) == 2.0


def test_a_snapshot_that_is_gone_is_forgotten() -> None:
    others = OtherSnapshotter(2.0)
    others.wait("a", 10.0)
    others.forget("a")
    assert others.wait("a", 20.0) == 2.0
