"""When a snapshot that was begun is told of: not before it is worth a write."""

from __future__ import annotations

import pytest

from ullage.snapshots.controllers.snapshot_bind import Begun
from ullage.snapshots.controllers.snapshot_bind_rules import CREATING_NOW, WAITING
from ullage.snapshots.model import Problem, State

BEGUN = State(record="r", waiting=CREATING_NOW)


@pytest.mark.parametrize(
    ("state", "after", "wait"),
    [
        pytest.param(BEGUN, 0.25, 0.75, id="just begun: there is nothing to tell yet"),
        pytest.param(BEGUN, 1.0, 0.0, id="not ready after a second: that is told"),
        pytest.param(State(record="r", ready=True), 0.25, 0.0, id="ready: at once"),
        pytest.param(State(record="r", problem=Problem("DriverError", "no pool")), 0.25, 0.0, id="failed: at once"),
        pytest.param(State(record="r", waiting=WAITING), 0.25, 0.75, id="waits for its turn: that may take no second"),
        pytest.param(State(record="r", waiting=WAITING), 1.0, 0.0, id="waits for its turn after a second: that is told"),
        pytest.param(
            State(record="r", waiting=Problem("WaitingForGroup", "others")), 0.25, 0.0, id="waits for other volumes: at once"
        ),
    ],
)
def test_a_snapshot_is_told_of_when_there_is_something_to_tell(state: State, after: float, wait: float) -> None:
    begun = Begun(1.0)
    begun.note("uid", 10.0)
    assert begun.wait("uid", state, 10.0 + after) == wait


def test_a_snapshot_that_this_process_did_not_begin_is_told_of_at_once() -> None:
    assert Begun(1.0).wait("uid", BEGUN, 10.0) == 0.0


def test_what_was_told_is_forgotten() -> None:
    begun = Begun(1.0)
    begun.note("uid", 10.0)
    assert begun.wait("uid", State(record="r", ready=True), 10.1) == 0.0
    assert begun.wait("uid", BEGUN, 10.2) == 0.0
