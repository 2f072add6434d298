"""The next step with a driver: in every state of a record, and in whose turn it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.snapshots.objects import DELETED, record, snapshot
from ullage.snapshots.controllers.record.sync.rules import Decision, RecordFacts, Step, plan_record
from ullage.snapshots.model import Problem, Record, Ref, State
from ullage.snapshots.volume_queue import RecordKey, VolumeQueues, may_proceed, position_of

DONE = State(handle="h-1", cut=datetime(2026, 1, 1, tzinfo=UTC), ready=True)
UPLOADING = replace(DONE, ready=False)
GOING = {"deletion_timestamp": DELETED}
THEIRS = {"snapshot.storage.kubernetes.io/volumesnapshot-being-created": "yes"}
FAILED = State(problem=Problem("DriverRetrying", "…"))


def decide(found: Record, **changed: Any) -> Decision:
    given: dict[str, Any] = {"record": found, "held": True, "snapshot": snapshot()}
    return plan_record(RecordFacts(**(given | changed)))


STANDING: list[tuple[str, Record, dict[str, Any], Step]] = [
    ("one that was made by hand is held first", record(imported="h-9"), {"held": False}, Step.HOLD),
    ("an import is looked for", record(imported="h-9"), {}, Step.FIND),
    ("an import needs no snapshot to be looked for", record(imported="h-9"), {"snapshot": None}, Step.FIND),
    ("what was not begun is marked first", record(), {}, Step.MARK),
    ("what was begun is asked for again", record(begun=True), {}, Step.CREATE),
    ("what another snapshotter began is asked for again", record(meta={"annotations": THEIRS}), {}, Step.CREATE),
    ("an upload is asked about", record(state=UPLOADING), {}, Step.CREATE),
    ("an upload goes on without its snapshot", record(state=UPLOADING), {"snapshot": None}, Step.CREATE),
    ("a ready one rests", record(state=DONE), {}, Step.REST),
    ("nothing is begun for a snapshot that is gone", record(begun=True), {"snapshot": None}, Step.REST),
    ("nor for one that goes", record(), {"snapshot": snapshot(meta=GOING)}, Step.REST),
    ("nor for another of the name", record(ref=Ref("team", "snap", "old")), {}, Step.REST),
    ("nor before its turn", record(), {"first": position_of(record(begun=True, meta={"name": "a"}))}, Step.REST),
]


@pytest.mark.parametrize(("found", "changed", "step"), [row[1:] for row in STANDING], ids=[row[0] for row in STANDING])
def test_while_it_stands(found: Record, changed: dict[str, Any], step: Step) -> None:
    assert decide(found, **changed).step is step


LEAVING = snapshot(meta=GOING)
DELETING: list[tuple[str, Record, dict[str, Any], Step]] = [
    ("what has no finalizer is nobody's business", record(state=DONE, meta=GOING), {"held": False}, Step.REST),
    ("a snapshot that stays keeps its record", record(state=DONE, meta=GOING), {"snapshot": snapshot()}, Step.REST),
    ("with its snapshot it goes", record(state=DONE, meta=GOING), {"snapshot": LEAVING}, Step.DELETE),
    ("without a snapshot it goes", record(state=DONE, meta=GOING), {"snapshot": None}, Step.DELETE),
    (
        "another snapshot of the name keeps nothing",
        record(state=DONE, meta=GOING, ref=Ref("team", "snap", "old")),
        {"snapshot": snapshot()},
        Step.DELETE,
    ),
    ("a retained one is let go with its data left", record(policy="Retain", state=DONE, meta=GOING), {}, Step.RELEASE),
    ("data that another record names too is left", record(state=DONE, meta=GOING), {"shared": True}, Step.RELEASE),
    ("what may have been made is found out first", record(begun=True, meta=GOING | {"annotations": THEIRS}), {}, Step.UNDO),
    ("what was never begun just goes", record(meta=GOING), {}, Step.RELEASE),
    ("an import goes with its data", record(imported="h-9", meta=GOING), {}, Step.DELETE),
]


@pytest.mark.parametrize(("found", "changed", "step"), [row[1:] for row in DELETING], ids=[row[0] for row in DELETING])
def test_while_it_goes(found: Record, changed: dict[str, Any], step: Step) -> None:
    assert decide(found, **({"snapshot": LEAVING} | changed)).step is step


def test_who_is_in_use_says_by_whom() -> None:
    assert decide(record(state=DONE, meta=GOING)).problem == Problem(
        "InUse", "snapshot team/snap is bound to it; delete that first"
    )


# --- turns ---


def named(name: str, **changed: Any) -> Record:
    return record(meta={"name": name} | changed.pop("meta", {}), **changed)


ORDER = [
    ("the older one", named("b", meta={"creation_timestamp": "2026-01-01T00:00:00Z"}), named("a"), True),
    ("of one second, the first by name", named("a"), named("b"), True),
    ("the one that may be under way", record(begun=True), named("a"), True),
    ("not the failed one", named("a", state=FAILED), named("b"), False),
]


@pytest.mark.parametrize(("one", "other", "first"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER])
def test_who_goes_first(one: Record, other: Record, first: bool) -> None:
    head = min(position_of(one), position_of(other))
    assert may_proceed(one, head) is first
    assert may_proceed(other, head) is not first


def test_failed_ones_do_not_wait_for_each_other() -> None:
    one, other = named("a", state=FAILED), named("b", state=FAILED)
    assert may_proceed(other, position_of(one))
    assert not may_proceed(other, position_of(named("c")))


def test_lines_follow_the_records() -> None:
    queues, one, other = VolumeQueues(), named("a"), named("b")
    queues.move("ga", None, other)
    queues.move("prototype", None, one)
    queue = "csi.example.com vol-1"
    assert queues.first_key(queue) == RecordKey("prototype", "a")
    queues.move("prototype", one, replace(one, state=DONE))
    assert queues.first_key(queue) == RecordKey("ga", "b")
    queues.move("ga", other, None)
    assert queues.first(queue) is None
    assert queues.first_key(queue) is None
