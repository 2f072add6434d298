"""What comes next for a migration, phase by phase, and whose turn it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from ullage.kube.builtin.core import Pod, PodSpec, PodStatus
from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition
from ullage.standalone.world.controllers import migration_rules as rules
from ullage.standalone.world.controllers.migration_copying import Copied, GivenUp
from ullage.standalone.world.controllers.migration_rules import (
    FINALIZER,
    REJECTED,
    Become,
    EndPod,
    HoldMigration,
    LeaveBe,
    MakeTarget,
    MigrationFacts,
    Plan,
    ReleaseMigration,
    RemoveMigration,
    Tell,
    plan_migration,
    turns,
)
from ullage.vms.api.machines import InstanceStatus, MigrationState, PhaseTransition, VirtualMachineInstance
from ullage.vms.api.migrations import MigrationSpec, MigrationStatus, VirtualMachineInstanceMigration
from ullage.vms.migration_settings import MigrationSettings

NOW = datetime(2026, 11, 16, 12, 0, 30, tzinfo=UTC)
BEGAN = "2026-11-16T12:00:00Z"
GOING = "2026-11-16T12:00:20Z"
STARTED = MigrationState(
    migration_uid="uid-m", source_node="a", source_pod="old", target_node="b", target_pod="new", start_timestamp=BEGAN
)


def migration(
    phase: str = "Pending", name: str = "m", *, held: bool = True, going: bool = False, created: str = BEGAN, **status: Any
) -> VirtualMachineInstanceMigration:
    meta = Meta(
        name=name,
        namespace="shop",
        uid=f"uid-{name}",
        finalizers=(FINALIZER,) if held else (),
        deletion_timestamp=GOING if going else None,
        creation_timestamp=created,
    )
    return VirtualMachineInstanceMigration(
        metadata=meta, spec=MigrationSpec(vmi_name="db"), status=MigrationStatus(phase=phase, **status)
    )


def instance(phase: str = "Running", *, going: bool = False, **status: Any) -> VirtualMachineInstance:
    meta = Meta(name="db", namespace="shop", uid="uid-db", deletion_timestamp=GOING if going else None)
    return VirtualMachineInstance(metadata=meta, status=InstanceStatus(phase=phase, node_name="a", **status))


def pod(name: str, node: str = "", phase: str = "Running", *, going: bool = False) -> Pod:
    meta = Meta(name=name, namespace="shop", uid=f"uid-{name}", deletion_timestamp=GOING if going else None)
    return Pod(metadata=meta, spec=PodSpec(node_name=node), status=PodStatus(phase=phase))


OLD, NEW = pod("old", "a"), pod("new", "b")


def facts(phase: str = "Pending", **given: Any) -> MigrationFacts:
    """Of a migration that is held, and of an instance that runs in its old pod."""
    found = {"migration": migration(phase), "instance": instance(), "source": OLD, "now": NOW}
    return MigrationFacts(**{**found, **given})


def moving(phase: str, state: MigrationState = STARTED, **given: Any) -> MigrationFacts:
    return facts(phase, instance=instance(migration_state=state), **{"target": NEW, **given})


def failed(reason: str, *, aborted: bool = False) -> Tell:
    """Of one that was being copied."""
    return Tell(
        replace(
            STARTED,
            completed=True,
            failed=True,
            failure_reason=reason,
            end_timestamp="2026-11-16T12:00:30Z",
            abort_requested=aborted,
            abort_status="Succeeded" if aborted else "",
        )
    )


DELETED = "the migration was deleted before it had ended"
GONE = "instance db does not run any more"


@pytest.mark.parametrize(
    ("found", "plan"),
    [
        pytest.param(facts(migration=migration("", held=False)), HoldMigration(), id="it is held before anything is made"),
        pytest.param(facts(""), Become("Pending"), id="it begins as Pending"),
        pytest.param(facts(), MakeTarget(), id="its turn: the pod on the new node"),
        pytest.param(facts(has_turn=False), LeaveBe(), id="it waits for its turn"),
        pytest.param(facts(instance=instance("Scheduled")), LeaveBe(), id="it waits until the instance runs"),
        pytest.param(facts(target=pod("new", phase="Pending")), Become("Scheduling"), id="the pod is there"),
        pytest.param(facts("Scheduling", target=pod("new", phase="Pending")), LeaveBe(300.0), id="the pod has no node yet"),
        pytest.param(facts("Scheduling", target=NEW), Become("Scheduled"), id="the pod runs"),
        pytest.param(
            facts("Scheduled", target=NEW),
            Tell(MigrationState(migration_uid="uid-m", source_node="a", source_pod="old", target_node="b", target_pod="new")),
            id="the instance says where it goes",
        ),
        pytest.param(
            moving("Scheduled", MigrationState(migration_uid="uid-m")), Become("PreparingTarget"), id="it has said so already"
        ),
        pytest.param(
            moving("Scheduled", MigrationState(migration_uid="uid-earlier", completed=True)),
            Tell(MigrationState(migration_uid="uid-m", source_node="a", source_pod="old", target_node="b", target_pod="new")),
            id="what it says of an earlier one does not count",
        ),
        pytest.param(moving("PreparingTarget"), Become("TargetReady"), id="the target is ready"),
        pytest.param(
            moving("TargetReady", MigrationState(migration_uid="uid-m")),
            Tell(MigrationState(migration_uid="uid-m", start_timestamp="2026-11-16T12:00:30Z")),
            id="the instance says when it began",
        ),
        pytest.param(moving("TargetReady"), Become("Running"), id="it has begun"),
        pytest.param(moving("Running", copying=Copied(40.0)), LeaveBe(10.0), id="ten seconds are left"),
        pytest.param(moving("Running", copying=None), LeaveBe(), id="it goes on until somebody ends it"),
        pytest.param(
            moving("Running", copying=Copied(30.0)),
            Tell(
                MigrationState(
                    migration_uid="uid-m",
                    source_node="a",
                    source_pod="old",
                    target_node="b",
                    target_pod="new",
                    start_timestamp=BEGAN,
                    end_timestamp="2026-11-16T12:00:30Z",
                    completed=True,
                    mode="PreCopy",
                ),
                NEW,
            ),
            id="all is copied: it runs in the new pod",
        ),
        pytest.param(moving("Running", copying=GivenUp(30.0, "too slow")), failed("too slow"), id="it is given up"),
    ],
)
def test_a_migration_goes_on(found: MigrationFacts, plan: Plan) -> None:
    assert plan_migration(found) == plan


DONE = MigrationState(migration_uid="uid-m", completed=True)
LOST = MigrationState(migration_uid="uid-m", completed=True, failed=True, failure_reason="too slow")


@pytest.mark.parametrize(
    ("found", "plan"),
    [
        pytest.param(moving("Running", DONE), EndPod(OLD), id="the old pod goes before its place is free"),
        pytest.param(moving("Running", DONE, source=None), Become("Succeeded"), id="it is gone: that is success"),
        pytest.param(moving("Running", DONE, source=pod("old", "a", "Succeeded")), Become("Succeeded"), id="it is over"),
        pytest.param(
            facts("Running", migration=migration("Running", going=True), instance=instance(migration_state=DONE), source=None),
            Become("Succeeded"),
            id="one that is deleted too late has succeeded",
        ),
        pytest.param(moving("Running", LOST), EndPod(NEW), id="the new pod goes before its place is free"),
        pytest.param(moving("Running", LOST, target=None), Become("Failed", "too slow"), id="it is gone: that is failure"),
        pytest.param(
            moving("Running", migration=migration("Running", going=True)), failed(DELETED, aborted=True), id="it is aborted"
        ),
        pytest.param(
            facts(migration=migration(going=True)), Become("Failed", DELETED), id="it is deleted before its turn has come"
        ),
        pytest.param(
            facts("Scheduling", migration=migration("Scheduling", going=True), target=NEW),
            EndPod(NEW),
            id="it is deleted before it has begun",
        ),
        pytest.param(facts(instance=None), Become("Failed", GONE), id="the instance is gone"),
        pytest.param(facts(instance=instance("Succeeded")), Become("Failed", GONE), id="the instance has ended"),
        pytest.param(facts("Running", instance=instance(going=True), target=NEW), EndPod(NEW), id="the instance is to stop"),
        pytest.param(
            facts(rival="m0"),
            Become("Failed", "migration m0 of the same instance goes on already"),
            id="only one migration of an instance",
        ),
        pytest.param(
            facts(
                instance=instance(
                    conditions=(Condition(type="LiveMigratable", status="False", reason="No", message="it has a local disk"),)
                )
            ),
            Become("Failed", "the instance cannot be migrated: it has a local disk"),
            id="an instance that cannot be migrated",
        ),
        pytest.param(
            moving("Running", target=None), failed("the pod on the new node is gone"), id="somebody took the new pod away"
        ),
        pytest.param(
            facts(
                migration=migration(
                    "Scheduling",
                    phase_transition_timestamps=(
                        PhaseTransition(phase="Scheduling", phase_transition_timestamp="2026-11-16T11:55:30Z"),
                    ),
                ),
                target=pod("new", phase="Pending"),
            ),
            EndPod(pod("new", phase="Pending")),
            id="no node within five minutes",
        ),
        pytest.param(
            facts(
                migration=migration(
                    "Scheduling",
                    phase_transition_timestamps=(
                        PhaseTransition(phase="Scheduling", phase_transition_timestamp="2026-11-16T11:55:30Z"),
                    ),
                ),
            ),
            Become("Failed", "its pod did not start on another node within 300 seconds"),
            id="and that is the reason, once the pod is gone for it",
        ),
        pytest.param(facts("Failed", target=NEW), EndPod(NEW), id="a pod that came late goes too"),
        pytest.param(facts("Failed"), ReleaseMigration(), id="what is over may go"),
        pytest.param(facts(migration=migration("Succeeded", held=False)), LeaveBe(), id="and stays to be seen"),
        pytest.param(
            facts(migration=migration("Succeeded", held=False), instance=None),
            RemoveMigration(),
            id="until its instance is gone",
        ),
        pytest.param(
            facts(migration=migration("Succeeded", held=False), superseded=True),
            RemoveMigration(),
            id="or enough others are seen",
        ),
    ],
)
def test_a_migration_ends(found: MigrationFacts, plan: Plan) -> None:
    assert plan_migration(found) == plan


def test_a_refused_pod_is_told_and_forgotten_when_it_is_there() -> None:
    told = rules.rejected(migration(), "exceeded quota: q, requested: limits.cpu=1, used: limits.cpu=4", now=NOW)
    (condition,) = told.conditions
    assert (condition.type, condition.status, condition.reason) == (REJECTED, "True", "ExceededQuota")
    assert "requested: limits.cpu=1" in condition.message
    after = rules.status_of(facts(migration=migration(conditions=told.conditions), target=NEW), Become("Scheduling"))
    assert (after.phase, after.conditions) == ("Scheduling", ())


def test_the_status_of_one_that_failed_before_it_began_says_why() -> None:
    status = rules.status_of(facts(), Become("Failed", DELETED))
    assert status.migration_state is not None
    assert (status.phase, status.migration_state.failed, status.migration_state.failure_reason) == ("Failed", True, DELETED)
    assert [one.phase for one in status.phase_transition_timestamps] == ["Failed"]


def waiting(name: str, *, refused: bool = False, created: str = BEGAN) -> VirtualMachineInstanceMigration:
    conditions = (Condition(type=REJECTED, status="True", reason="ExceededQuota"),) if refused else ()
    return migration(name=name, created=created, conditions=conditions)


@pytest.mark.parametrize(
    ("pending", "active", "expected"),
    [
        pytest.param([("x", "a"), ("y", "b")], [], {"x", "y"}, id="there is room for both"),
        pytest.param([("x", "a"), ("y", "a"), ("z", "a")], [], {"x", "y"}, id="two leave one node at a time"),
        pytest.param([("x", "a"), ("y", "a"), ("z", "b")], ["a"], {"x", "z"}, id="one is on its way from there already"),
        pytest.param([("x", "a"), ("y", "b")], ["c", "d", "e", "f"], {"x"}, id="five in the cluster"),
        pytest.param([("x", "a")], ["b", "c", "d", "e", "f"], set(), id="none is free"),
    ],
)
def test_whose_turn_it_is(pending: list[tuple[str, str]], active: list[str], expected: set[str]) -> None:
    found = turns([(waiting(name), node) for name, node in pending], active, MigrationSettings())
    assert found == {f"uid-{name}" for name in expected}


def test_the_oldest_goes_first_and_one_that_was_refused_holds_up_nobody() -> None:
    order = [
        (waiting("late", created="2026-11-16T12:00:09Z"), "a"),
        (waiting("refused", refused=True, created="2026-11-16T12:00:01Z"), "a"),
        (waiting("early", created="2026-11-16T12:00:05Z"), "a"),
    ]
    assert turns(order, [], MigrationSettings(per_node=1)) == {"uid-early"}
    assert turns(order, [], MigrationSettings(per_node=2)) == {"uid-early", "uid-late"}
    assert turns(order, [], MigrationSettings(per_node=3)) == {"uid-early", "uid-late", "uid-refused"}
