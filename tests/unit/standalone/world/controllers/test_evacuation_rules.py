"""Which instances leave a drained node now, which wait, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ullage.kube.builtin.core import Node, NodeSpec
from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition
from ullage.standalone.world.controllers.evacuation_rules import (
    Evacuate,
    EvacuationFacts,
    RefusedMigration,
    new_migration,
    plan_evacuation,
)
from ullage.times import timestamp
from ullage.vms.api.machines import InstanceSpec, InstanceStatus, MigrationState, VirtualMachineInstance
from ullage.vms.api.migrations import MigrationStatus, VirtualMachineInstanceMigration
from ullage.vms.migration_settings import MigrationSettings

NOW = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
DRAIN = {"key": "kubevirt.io/drain", "effect": "NoSchedule"}


def node(*taints: dict[str, str], unschedulable: bool = False) -> Node:
    return Node(metadata=Meta(name="a"), spec=NodeSpec(taints=taints, unschedulable=unschedulable))


def instance(name: str = "db", *, strategy: str = "", phase: str = "Running", going: bool = False, **status: Any) -> Any:
    meta = Meta(name=name, namespace="shop", uid=f"uid-{name}", deletion_timestamp="now" if going else None)
    said = InstanceStatus(phase=phase, node_name="a", **status)
    return VirtualMachineInstance(metadata=meta, spec=InstanceSpec(eviction_strategy=strategy), status=said)


def migration(phase: str, *, ago: float = 0.0, name: str = "m") -> VirtualMachineInstanceMigration:
    state = MigrationState(end_timestamp=timestamp(NOW - timedelta(seconds=ago))) if phase in ("Failed", "Succeeded") else None
    return VirtualMachineInstanceMigration(
        metadata=Meta(name=name, namespace="shop", uid=f"uid-{name}"),
        status=MigrationStatus(phase=phase, migration_state=state),
    )


def facts(*instances: VirtualMachineInstance, **given: Any) -> EvacuationFacts:
    found: dict[str, Any] = {
        "node": node(DRAIN),
        "instances": instances or (instance(),),
        "migrations": {},
        "underway": 0,
        "refusals": {},
        "settings": MigrationSettings(),
        "now": NOW,
        "moment": 100.0,
    }
    return EvacuationFacts(**{**found, **given})


def names(plan: Evacuate) -> list[str]:
    return [one.metadata.name for one in plan.leave]


@pytest.mark.parametrize(
    ("found", "leave"),
    [
        pytest.param(facts(), ["db"], id="a drained node is left"),
        pytest.param(facts(node=node()), [], id="another one is not"),
        pytest.param(facts(node=node(unschedulable=True)), [], id="a node that only takes nothing new is not left"),
        pytest.param(facts(node=node({"key": "other", "effect": "NoSchedule"})), [], id="nor for another taint"),
        pytest.param(
            facts(node=node({"key": "x/drain", "effect": "NoSchedule"}), settings=MigrationSettings(drain_taint="x/drain")),
            ["db"],
            id="the taint is a setting",
        ),
        pytest.param(facts(instance(evacuation_node_name="a"), node=node()), ["db"], id="one that is asked to leave"),
        pytest.param(facts(instance(evacuation_node_name="b"), node=node()), [], id="one that was asked on another node"),
        pytest.param(facts(instance(strategy="None")), [], id="one that does not want to"),
        pytest.param(facts(instance(strategy="External")), [], id="one that somebody else looks after"),
        pytest.param(facts(instance(), strategy="None"), [], id="none wants to where nothing is said"),
        pytest.param(facts(instance(strategy="LiveMigrate"), strategy="None"), ["db"], id="but for the one that does"),
        pytest.param(facts(instance(phase="Scheduled")), [], id="one that does not run yet"),
        pytest.param(facts(instance(going=True)), [], id="one that stops"),
        pytest.param(facts(instance(conditions=(Condition(type="LiveMigratable", status="False"),))), [], id="one that cannot"),
        pytest.param(facts(migrations={"uid-db": [migration("Running")]}, underway=1), [], id="one that is on its way"),
        pytest.param(facts(begun=frozenset({"uid-db"}), underway=1), [], id="one whose migration was just made"),
        pytest.param(facts(migrations={"uid-db": [migration("Succeeded")]}), ["db"], id="one that came here by a migration"),
    ],
)
def test_who_leaves(found: EvacuationFacts, leave: list[str]) -> None:
    assert names(plan_evacuation(found)) == leave


def test_no_more_leave_than_may_be_migrated_at_a_time() -> None:
    many = [instance(f"vm-{number}") for number in range(9)]
    assert names(plan_evacuation(facts(*many))) == ["vm-0", "vm-1"]
    wide = MigrationSettings(per_node=9)
    assert names(plan_evacuation(facts(*many, settings=wide))) == [f"vm-{number}" for number in range(5)]
    assert names(plan_evacuation(facts(*many, settings=wide, underway=4))) == ["vm-0"]
    on_their_way = {f"uid-vm-{number}": [migration("Pending")] for number in range(2)}
    assert names(plan_evacuation(facts(*many, migrations=on_their_way, underway=2))) == []


def test_one_that_was_refused_waits_and_lets_others_go_first() -> None:
    two = (instance("first"), instance("second"))
    refused = {"uid-first": RefusedMigration(1, 101.0)}
    assert plan_evacuation(facts(*two, refusals=refused)) == Evacuate((two[1],), 1.0)
    due = facts(*two, refusals=refused, moment=101.0)
    assert names(plan_evacuation(due)) == ["second", "first"]


def test_in_a_namespace_without_room_nobody_is_asked_for() -> None:
    two = (instance("first"), instance("second"))
    assert plan_evacuation(facts(*two, full={"shop": 104.0})) == Evacuate((), 4.0)
    assert names(plan_evacuation(facts(*two, full={"other": 104.0}))) == ["first", "second"]


def test_one_whose_migration_failed_waits_longer_each_time() -> None:
    once = {"uid-db": [migration("Failed", ago=3)]}
    assert plan_evacuation(facts(migrations=once)) == Evacuate((), 2.0)
    twice = {"uid-db": [migration("Failed", ago=60), migration("Failed", ago=3, name="n")]}
    assert plan_evacuation(facts(migrations=twice)) == Evacuate((), 7.0)
    assert names(plan_evacuation(facts(migrations={"uid-db": [migration("Failed", ago=5)]}))) == ["db"]


def test_the_name_of_a_migration_follows_from_what_it_is_made_for() -> None:
    first = new_migration(instance(), "a", before=[])
    assert first == new_migration(instance(), "a", before=[])
    assert first["metadata"]["name"].startswith("kubevirt-evacuation-")
    assert first["metadata"]["annotations"] == {"kubevirt.io/evacuationMigration": "a"}
    assert first["spec"] == {"vmiName": "db"}
    others = [new_migration(instance(), "b", before=[]), new_migration(instance(), "a", before=[migration("Failed")])]
    assert len({one["metadata"]["name"] for one in (first, *others)}) == 3
