"""The next step with a driver: in every state of a record."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.snapshots.objects import DELETED, record, snapshot
from ullage.errors import Impossible, NotNow, Retryable, Terminal, Uncertain
from ullage.snapshots.controllers.record_sync_rules import Decision, RecordFacts, Step, plan_record, problem_of
from ullage.snapshots.gate import Estimate, Gate
from ullage.snapshots.model import Problem, Record, Ref, State
from ullage.snapshots.volume_queue import QueuePosition, position_of

DONE = State(handle="h-1", cut=datetime(2026, 1, 1, tzinfo=UTC), ready=True)
UPLOADING = replace(DONE, ready=False)
LOST = replace(DONE, ready=False, problem=Problem("SnapshotLost", "…"))
GOING = {"deletion_timestamp": DELETED}
THEIRS = {"snapshot.storage.kubernetes.io/volumesnapshot-being-created": "yes"}
WIPED = {"annotations": {"snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes"}}
FAILED = State(problem=Problem("DriverRetrying", "…"))
HELD = Gate(group=True, word="hold")
CALLED = Gate(group=True, word="go@then", estimate=Estimate(1, "then", group=True))
UNBOOKED = Gate(group=False)
BEGUN = QueuePosition(not_begun=False, failed=False, created="2026-01-01T00:00:00Z", name="earlier")
EARLIER = BEGUN._replace(not_begun=True)


def decide(found: Record, **changed: Any) -> Decision:
    given: dict[str, Any] = {"record": found, "held": True, "snapshot": snapshot()}
    return plan_record(RecordFacts(**(given | changed)))


STANDING: list[tuple[str, Record, dict[str, Any], Step]] = [
    ("one that was made by hand is held first", record(imported="h-9"), {"held": False}, Step.HOLD),
    ("an import is looked for", record(imported="h-9"), {}, Step.FIND),
    ("an import needs no snapshot to be looked for", record(imported="h-9"), {"snapshot": None}, Step.FIND),
    ("what was not begun is marked first", record(), {}, Step.MARK),
    ("one of a group that was not called is measured", record(), {"gate": HELD}, Step.MEASURE),
    ("one of a group is cut when it is called", record(), {"gate": CALLED}, Step.MARK),
    ("one of a group waits while another is being taken", record(), {"gate": HELD, "first": BEGUN}, Step.AWAIT),
    ("so does one that was called", record(), {"gate": CALLED, "first": BEGUN}, Step.AWAIT),
    ("one of a group is measured before its turn", record(), {"gate": HELD, "first": EARLIER}, Step.MEASURE),
    ("one that waits to be booked is measured in its turn", record(), {"gate": UNBOOKED}, Step.MEASURE),
    ("and not before", record(), {"gate": UNBOOKED, "first": EARLIER}, Step.REST),
    ("what was begun is asked for again", record(begun=True), {}, Step.CREATE),
    ("what another snapshotter began is asked for again", record(meta={"annotations": THEIRS}), {}, Step.CREATE),
    ("an upload is asked about", record(state=UPLOADING), {}, Step.CREATE),
    ("an upload goes on without its snapshot", record(state=UPLOADING), {"snapshot": None}, Step.CREATE),
    ("a ready one rests", record(state=DONE), {}, Step.REST),
    ("a mark that has served goes", record(state=DONE, begun=True), {}, Step.SETTLE),
    ("also while it is stored", record(state=UPLOADING, meta={"annotations": THEIRS}), {}, Step.SETTLE),
    ("a lost one is not taken anew", record(state=LOST), {}, Step.REST),
    ("a lost import is not waited for", record(imported="h-9", state=replace(LOST, handle="")), {}, Step.REST),
    ("nothing is begun for a snapshot that is gone", record(), {"snapshot": None}, Step.REST),
    ("what was begun for a snapshot that is gone is undone", record(begun=True), {"snapshot": None}, Step.ABANDON),
    ("but not where it is to be kept", record(begun=True, policy="Retain"), {"snapshot": None}, Step.REST),
    ("nor where others began it", record(meta={"annotations": THEIRS}), {"snapshot": None}, Step.REST),
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
    ("a lost one goes as any other", record(state=LOST, meta=GOING), {}, Step.DELETE),
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
    ("where another may have wiped the mark off, it is found out", record(meta=GOING | WIPED), {}, Step.UNDO),
    ("an import goes with its data", record(imported="h-9", meta=GOING), {}, Step.DELETE),
]


@pytest.mark.parametrize(("found", "changed", "step"), [row[1:] for row in DELETING], ids=[row[0] for row in DELETING])
def test_while_it_goes(found: Record, changed: dict[str, Any], step: Step) -> None:
    assert decide(found, **({"snapshot": LEAVING} | changed)).step is step


def test_who_is_in_use_says_by_whom() -> None:
    assert decide(record(state=DONE, meta=GOING)).problem == Problem(
        "InUse", "snapshot team/snap is bound to it; delete that first"
    )


@pytest.mark.parametrize(
    ("error", "asked", "reason"),
    [
        pytest.param(Impossible("no"), True, "DriverError", id="the driver says no"),
        pytest.param(Impossible("full", reason="SnapshotCountLimit"), True, "SnapshotCountLimit", id="and has a word for it"),
        pytest.param(NotNow("busy", reason="Purging"), True, "DriverRetrying", id="whatever passes is tried again"),
        pytest.param(Uncertain("no answer"), True, "DriverRetrying", id="so is what is not known"),
        pytest.param(Terminal("class is wrong"), False, "NotAsked", id="the driver was not asked"),
    ],
)
def test_the_reason_of_a_failure(error: Retryable | Terminal, asked: bool, reason: str) -> None:
    assert problem_of(error, asked=asked) == Problem(reason, str(error))
