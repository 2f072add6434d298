"""Labels that a snapshot is found by."""

from __future__ import annotations

from ullage.snapshots.model import label_value


def test_a_name_too_long_for_a_label_is_cut_and_stays_unique() -> None:
    one, other = label_value("a" * 70), label_value("a" * 71)
    assert len(one) <= 63
    assert one != other
    assert label_value("db") == "db"
