"""What becomes of a Machine of a user cluster, and when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ullage.kube.kinds import Meta
from ullage.projects.api.machines import Machine, MachineStatus, NodeReference
from ullage.standalone.world.controllers.machine import FINALIZER, MachinePlan, Moments, plan_machine

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
MOMENTS = Moments(boot=5.0, removal=3.0)


def machine(*, held: bool = True, created: str = "2026-01-01T00:00:00Z", deleted: str | None = None, node: str = "") -> Machine:
    meta = Meta(
        name="m",
        creation_timestamp=created,
        deletion_timestamp=deleted,
        finalizers=("a/b", FINALIZER) if held else ("a/b",),
    )
    return Machine(metadata=meta, status=MachineStatus(node_ref=NodeReference(name=node) if node else None))


@pytest.mark.parametrize(
    ("given", "plan"),
    [
        pytest.param(machine(held=False), MachinePlan("hold"), id="it is held before anything else"),
        pytest.param(machine(created="2026-01-01T00:00:58Z"), MachinePlan("wait", 3.0), id="it takes a moment to boot"),
        pytest.param(machine(created="2026-01-01T00:00:55Z"), MachinePlan("join"), id="when that is over it is a Node"),
        pytest.param(machine(created="2027-01-01T00:00:00Z"), MachinePlan("wait", 5.0), id="made by a clock that is ahead"),
        pytest.param(machine(created="yesterday"), MachinePlan("join"), id="a time that is none"),
        pytest.param(machine(node="n"), MachinePlan("wait"), id="a Node is at rest"),
        pytest.param(machine(node="n", deleted="2026-01-01T00:00:59Z"), MachinePlan("wait", 2.0), id="its server goes first"),
        pytest.param(machine(deleted="2026-01-01T00:00:57Z"), MachinePlan("release"), id="then it is let go"),
        pytest.param(machine(held=False, deleted="2026-01-01T00:00:00Z"), MachinePlan("wait"), id="held by others alone"),
    ],
)
def test_what_comes_next(given: Machine, plan: MachinePlan) -> None:
    assert plan_machine(given, now=NOW, moments=MOMENTS) == plan
