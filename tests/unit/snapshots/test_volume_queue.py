"""Of one volume one snapshot is taken at a time: who goes first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.snapshots.objects import record
from ullage.snapshots.model import Problem, Record, State
from ullage.snapshots.volume_queue import RecordKey, VolumeQueues, may_proceed, position_of

DONE = State(handle="h-1", cut=datetime(2026, 1, 1, tzinfo=UTC), ready=True)
FAILED = State(problem=Problem("DriverRetrying", "…"))
GROUPED = {"ullage.io/estimate": '{"bytes":1,"at":"2026-01-01T00:00:00.000000Z","group":true}'}


def named(name: str, **changed: Any) -> Record:
    return record(meta={"name": name} | changed.pop("meta", {}), **changed)


ORDER = [
    ("the older one", named("b", meta={"creation_timestamp": "2026-01-01T00:00:00Z"}), named("a"), True),
    ("of one second, the first by name", named("a"), named("b"), True),
    ("the one that may be under way", record(begun=True), named("a"), True),
    ("not the failed one", named("a", state=FAILED), named("b"), False),
    ("not the one that waits for its group", named("a", meta={"annotations": GROUPED}), named("b"), False),
]


@pytest.mark.parametrize(("one", "other", "first"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER])
def test_who_goes_first(one: Record, other: Record, first: bool) -> None:
    head = min(position_of(one), position_of(other))
    assert may_proceed(one, head) is first
    assert may_proceed(other, head) is not first


@pytest.mark.parametrize(
    ("head", "proceeds"),
    [
        pytest.param(named("a"), True, id="nothing is under way"),
        pytest.param(named("a", begun=True), False, id="another is being taken"),
    ],
)
def test_who_is_called_with_its_group_goes_before_all_that_are_not_begun(head: Record, proceeds: bool) -> None:
    assert not may_proceed(named("b"), position_of(head))
    assert may_proceed(named("b"), position_of(head), called=True) is proceeds


def test_failed_ones_do_not_wait_for_each_other() -> None:
    one, other = named("a", state=FAILED), named("b", state=FAILED)
    assert may_proceed(other, position_of(one))
    assert not may_proceed(other, position_of(named("c")))


@pytest.mark.parametrize(
    ("reason", "first"),
    [
        pytest.param("DriverRetrying", True, id="it is asked again"),
        pytest.param("NotAsked", True, id="it will be asked again"),
        pytest.param("DriverError", False, id="the driver's last word"),
        pytest.param("SnapshotCountLimit", False, id="a limit"),
    ],
)
def test_nobody_waits_behind_one_whose_creation_may_have_begun_and_that_is_not_asked_for_again(
    reason: str, first: bool
) -> None:
    uncertain = named("z", begun=True, state=State(problem=Problem(reason, "…")))
    assert (min(position_of(uncertain), position_of(named("a"))) == position_of(uncertain)) is first
    assert may_proceed(named("a"), position_of(uncertain)) is not first


def test_queues_follow_the_records() -> None:
    queues, one, other = VolumeQueues(), named("a"), named("b")
    queues.update("ga", None, other)
    queues.update("prototype", None, one)
    queue = "csi.example.com vol-1"
    assert queues.first_key(queue) == RecordKey("prototype", "a")
    queues.update("prototype", one, replace(one, state=DONE))
    assert queues.first_key(queue) == RecordKey("ga", "b")
    queues.update("ga", other, None)
    assert queues.first(queue) is None
    assert queues.first_key(queue) is None
