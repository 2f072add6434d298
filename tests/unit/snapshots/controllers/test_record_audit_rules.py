"""What is audited, and how misses are counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ullage.kube.kinds import Meta
from ullage.snapshots.backends.base import BackendSnapshot
from ullage.snapshots.controllers.record_audit import Misses, found_again, is_audited, is_the_same, lost
from ullage.snapshots.model import Problem, Record, Ref, State

CUT = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


def record(*, going: bool = False, imported: str = "", **state: Any) -> Record:
    meta = Meta(name="content", uid="uid", deletion_timestamp="2026-01-01T00:05:00Z" if going else None)
    given = {"handle": "shot-1", "ready": True, "cut": CUT, **state}
    return Record(meta=meta, ref=Ref("team", "snap"), driver="csi.example.com", imported=imported, state=State(**given))


@pytest.mark.parametrize(
    ("record", "audited"),
    [
        pytest.param(record(), True, id="a snapshot that is ready"),
        pytest.param(record(handle="", imported="shot-1"), True, id="an import that is ready"),
        pytest.param(record(ready=False, problem=Problem("SnapshotLost", "")), True, id="one that is lost may come back"),
        pytest.param(record(ready=False), False, id="one that is being stored is asked about anyway"),
        pytest.param(record(ready=False, problem=Problem("DriverError", "")), False, id="one that was never ready"),
        pytest.param(record(going=True), False, id="one that goes"),
        pytest.param(record(handle=""), False, id="one without a handle"),
    ],
)
def test_what_is_audited(record: Record, audited: bool) -> None:
    assert is_audited(record) is audited


def test_two_misses_in_a_row_make_a_suspect_and_one_sight_clears_it() -> None:
    misses, none, there = Misses(), frozenset[str](), frozenset({"shot-1"})
    one = record()
    assert [bool(misses.count([one], handles)) for handles in (none, there, none, none, none)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    gone = record(ready=False, problem=Problem("SnapshotLost", ""))
    assert misses.count([gone], none) == [], "it says so already"
    assert misses.count([gone], there) == [gone], "it is back"


def test_a_process_that_has_just_started_does_not_take_a_lost_one_for_found() -> None:
    """It has counted no misses yet, so it looks, and finds nothing."""
    gone = record(ready=False, problem=Problem("SnapshotLost", ""))
    assert Misses().count([gone], frozenset()) == [gone]


@pytest.mark.parametrize(
    ("apart", "same"),
    [
        pytest.param(timedelta(), True, id="the same moment"),
        pytest.param(timedelta(seconds=0.9), True, id="rounded to seconds"),
        pytest.param(timedelta(seconds=-2), False, id="another moment"),
    ],
)
def test_what_has_the_handle_is_the_same_if_it_has_the_data_of_the_same_moment(apart: timedelta, same: bool) -> None:
    found = BackendSnapshot(handle="shot-1", volume="vol", cut=CUT + apart, ready=True)
    assert is_the_same(record(), found) is same


def test_what_is_known_of_it_stays_when_it_is_lost() -> None:
    before = record(restore_size=4096)
    after = lost(before)
    assert (after.ready, after.handle, after.cut, after.restore_size) == (False, "shot-1", CUT, 4096)
    assert found_again(record(restore_size=4096, ready=False, problem=after.problem)) == before.state
