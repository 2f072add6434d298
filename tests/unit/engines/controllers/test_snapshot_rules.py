"""The next step: in every state of a snapshot, of its volume and of its engine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.engines.builders import CREATED, GIB, engine, info, snapshot, volume
from ullage.engines import model
from ullage.engines.api import Snapshot
from ullage.engines.chain import HEAD, Entry, PurgeProgress
from ullage.engines.controllers import snapshot_rules as statuses
from ullage.engines.controllers.snapshot_rules import Decision, Removal, Step, plan, removal
from ullage.engines.model import SnapshotFacts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ASKED: dict[str, Any] = {"requested_time": CREATED}
TAKEN: dict[str, Any] = {"requested_time": CREATED, "creation_time": CREATED}
TICKET: dict[str, Any] = {"volume": volume(ticket=True)}
ENDING: dict[str, Any] = {"volume": volume(going=True, ticket=True)}
STOPPED = engine(state="stopped")
HEAD_ONLY = engine(info(HEAD))
SNAP = info("snap", children=(HEAD,))
HAS_IT = engine(info(HEAD, parent="snap"), SNAP)
FAILED = statuses.failed(snapshot(**ASKED), "no", reason="Unsupported", now=NOW).conditions


def decide(found: Snapshot, **changed: Any) -> Decision:
    given: dict[str, Any] = {"volume": volume(), "engine": HEAD_ONLY}
    return plan(SnapshotFacts(snapshot=found, **(given | changed)), now=NOW)


STANDING: list[tuple[str, Snapshot, dict[str, Any], Step, bool]] = [
    ("what nobody has stamped is stamped first", snapshot(stamped=False), {}, Step.STAMP, False),
    ("the intent is written down first", snapshot(), {}, Step.INTEND, False),
    ("what was intended is asked for", snapshot(**ASKED), {}, Step.CREATE, False),
    (
        "where it got the volume attached it keeps the ticket",
        snapshot(**ASKED),
        {"volume": volume(ticket=True)},
        Step.CREATE,
        True,
    ),
    ("a detached volume is waited for, with a ticket", snapshot(), {"engine": STOPPED}, Step.WAIT, True),
    ("so is one without an engine", snapshot(**ASKED), {"engine": None}, Step.WAIT, True),
    ("a volume that migrates is waited for, without", snapshot(), {"engine": None, "migrating": True}, Step.WAIT, False),
    ("what the engine has is shown", snapshot(**ASKED), {"engine": HAS_IT}, Step.REST, False),
    ("also while the volume is detached", snapshot(), {"engine": engine(SNAP, state="stopped")}, Step.REST, False),
    ("what was taken once is not taken again", snapshot(**TAKEN), {}, Step.REST, False),
    ("what only shows an entry asks for nothing", snapshot(create=False), {}, Step.REST, False),
    ("what has failed is left alone", snapshot(**ASKED, conditions=FAILED), {}, Step.REST, False),
    ("and holds nothing", snapshot(**ASKED, conditions=FAILED), {"engine": STOPPED}, Step.REST, False),
    ("nothing is begun for a volume that is gone", snapshot(), {"volume": None, "engine": None}, Step.REST, False),
    ("nor for one that goes", snapshot(), {"volume": volume(going=True)}, Step.REST, False),
]


@pytest.mark.parametrize(
    ("found", "changed", "step", "ticket"), [row[1:] for row in STANDING], ids=[row[0] for row in STANDING]
)
def test_while_it_stands(found: Snapshot, changed: dict[str, Any], step: Step, ticket: bool) -> None:
    decision = decide(found, **changed)
    assert (decision.step, decision.ticket) == (step, ticket)


MARKED = info("snap", children=(HEAD,), removed=True)
UNMERGED = info("snap", children=("a", "b"), removed=True)
KEPT = statuses.logically_removed(snapshot(), snapshot().status, "NotMerged", now=NOW).conditions

GOING: list[tuple[str, Snapshot, dict[str, Any], Step, bool]] = [
    ("without our finalizer it is nobody's business", snapshot(going=True, stamped=False), {}, Step.REST, False),
    ("with its volume it goes at once", snapshot(going=True, **TAKEN), {"volume": volume(going=True)}, Step.RELEASE, False),
    (
        "also where the volume is attached for it",
        snapshot(going=True),
        ENDING,
        Step.RELEASE,
        False,
    ),
    ("without its volume too", snapshot(going=True, **TAKEN), {"volume": None, "engine": None}, Step.RELEASE, False),
    ("what the engine was never asked for just goes", snapshot(going=True), {"engine": STOPPED}, Step.RELEASE, False),
    ("unless it is there", snapshot(going=True), {"engine": HAS_IT}, Step.REMOVE, False),
    ("what it may have is looked for", snapshot(going=True, **ASKED), {}, Step.REMOVE, False),
    ("what only showed an entry is looked for", snapshot(going=True, create=False), {}, Step.REMOVE, False),
    ("where it got the volume attached it keeps the ticket", snapshot(going=True, **TAKEN), TICKET, Step.REMOVE, True),
    ("nothing is removed while detached", snapshot(going=True, **TAKEN), {"engine": STOPPED}, Step.WAIT, True),
    ("nor during a migration", snapshot(going=True, **TAKEN), {"engine": None, "migrating": True}, Step.WAIT, False),
    ("a marked parent of the head waits", snapshot(going=True, **TAKEN), {"engine": engine(MARKED)}, Step.REST, False),
    (
        "detached too, and without a ticket",
        snapshot(going=True, **TAKEN),
        {"engine": engine(MARKED, state="stopped"), **TICKET},
        Step.REST,
        False,
    ),
    ("with another child it goes on", snapshot(going=True, **TAKEN), {"engine": engine(UNMERGED)}, Step.REMOVE, False),
    (
        "what the engine has kept waits until its children change",
        snapshot(going=True, conditions=KEPT, children={"a": True, "b": True}),
        {"engine": engine(UNMERGED)},
        Step.REST,
        False,
    ),
    (
        "and is tried again then",
        snapshot(going=True, conditions=KEPT, children={"a": True, "b": True, "c": True}),
        {"engine": engine(UNMERGED)},
        Step.REMOVE,
        False,
    ),
]


@pytest.mark.parametrize(("found", "changed", "step", "ticket"), [row[1:] for row in GOING], ids=[row[0] for row in GOING])
def test_while_it_goes(found: Snapshot, changed: dict[str, Any], step: Step, ticket: bool) -> None:
    decision = decide(found, **changed)
    assert (decision.step, decision.ticket) == (step, ticket)


BUSY = {"r1": PurgeProgress(), "r2": PurgeProgress(purging=True)}
REMOVALS: list[tuple[str, Entry | None, dict[str, Any], Removal]] = [
    ("what is not there is gone", None, {}, Removal.GONE),
    ("the parent of the head cannot go", Entry(name="s", children=frozenset({HEAD})), {}, Removal.PARENT_OF_HEAD),
    ("one child is merged into", Entry(name="s", children=frozenset("a")), {}, Removal.PURGE),
    ("a leaf goes", Entry(name="s"), {}, Removal.PURGE),
    (
        "a purge that runs is waited for",
        Entry(name="s"),
        {"purges": BUSY},
        Removal.PURGING,
    ),
    (
        "after a purge that left it, it rests",
        Entry(name="s", children=frozenset("ab")),
        {"purged_with": frozenset("ab")},
        Removal.NOT_MERGED,
    ),
    ("until its children change", Entry(name="s", children=frozenset("a")), {"purged_with": frozenset("ab")}, Removal.PURGE),
]


@pytest.mark.parametrize(("entry", "changed", "found"), [row[1:] for row in REMOVALS], ids=[row[0] for row in REMOVALS])
def test_how_far_a_removal_is(entry: Entry | None, changed: dict[str, Any], found: Removal) -> None:
    given: dict[str, Any] = {"purges": {}, "purged_with": None}
    given |= changed
    assert removal(entry, given["purges"], purged_with=given["purged_with"]) is found


class TestStatus:
    def test_it_says_what_the_engine_says(self) -> None:
        entry = info("snap", parent="before", children=(HEAD,), labels={"job": "daily"})
        status = decide(snapshot(**ASKED, error="no answer"), engine=engine(entry)).status
        assert status is not None
        assert (status.parent, status.children, status.labels) == ("before", {HEAD: True}, {"job": "daily"})
        assert (status.ready_to_use, status.size, status.restore_size, status.error) == (True, 4096, GIB, "")
        assert status.creation_time == CREATED

    def test_when_it_was_asked_for_is_filled_in(self) -> None:
        status = decide(snapshot(create=False), engine=HAS_IT).status
        assert status is not None
        assert status.requested_time == CREATED

    def test_a_marked_one_is_not_ready(self) -> None:
        status = decide(snapshot(), engine=engine(MARKED)).status
        assert status is not None
        assert (status.ready_to_use, status.mark_removed) == (False, True)

    def test_a_lost_one_says_so_and_keeps_what_was_known(self) -> None:
        status = decide(snapshot(**TAKEN, size=5)).status
        assert status is not None
        assert (status.ready_to_use, status.error, status.size) == (False, statuses.LOST, 5)

    def test_nothing_is_lost_before_the_engine_was_looked_at(self) -> None:
        assert decide(snapshot(**TAKEN), engine=engine()).status is None

    def test_the_reason_for_a_removal_that_waits_is_said(self) -> None:
        status = decide(snapshot(going=True, **TAKEN, error="old trouble"), engine=engine(MARKED)).status
        assert status is not None
        said = model.blocked_before(status)
        assert said is not None
        assert (said.reason, status.error, status.ready_to_use) == ("ParentOfHead", "", False)
        assert "goes after the next snapshot, or with the volume" in said.message
