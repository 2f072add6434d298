"""For whom the source volume is still needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.snapshots.objects import record, snapshot
from ullage.snapshots.binding import in_progress
from ullage.snapshots.model import Problem, Ref, State

DONE = State(handle="h-1", cut=datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC), ready=True, restore_size=1024)

PROGRESS = [
    ("a record that was begun", record(begun=True), True),
    ("a record that waits", record(), True),
    ("a failed one that may be retried by nobody", record(state=State(problem=Problem("DriverError", "…"))), False),
    ("a failed one that may have happened", record(begun=True, state=State(problem=Problem("DriverRetrying", "…"))), True),
    ("a cut", record(state=replace(DONE, ready=False)), False),
    ("somebody else's record", record(ref=Ref("other", "snap", "x")), False),
    ("no record", None, False),
]


@pytest.mark.parametrize(("found", "expected"), [row[1:] for row in PROGRESS], ids=[row[0] for row in PROGRESS])
def test_the_source_is_needed_by(found: Any, expected: bool) -> None:
    assert in_progress(snapshot(), found) is expected
