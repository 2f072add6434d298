"""For which snapshots a claim is still held."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.snapshots.objects import DELETED, record, snapshot
from ullage.snapshots.controllers.claim_release import needs_claim
from ullage.snapshots.model import Problem, State

FAILED = State(problem=Problem("ClaimNotBound", "…"))


@pytest.mark.parametrize(
    ("given", "found", "needed"),
    [
        pytest.param({}, None, True, id="a snapshot whose record is about to be created"),
        pytest.param({"state": FAILED}, None, False, id="not one that was refused"),
        pytest.param({"meta": {"deletion_timestamp": DELETED}}, None, False, id="not one that is being deleted"),
        pytest.param({"state": State(record="gone")}, None, False, id="not one whose record is gone"),
        pytest.param({}, record(begun=True), True, id="one that is being taken"),
        pytest.param({}, record(state=State(handle="h-1")), False, id="not one that is cut"),
    ],
)
def test_a_claim_is_held_for(given: dict[str, Any], found: Any, needed: bool) -> None:
    assert needs_claim(snapshot(**given), found) is needed
