"""How many Machines a MachineSet makes, which it deletes, and what each is made from."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.kube.kinds import Meta
from ullage.projects.api.machines import Machine, MachineSet, MachineSetSpec, MachineSetStatus, MachineStatus, NodeReference
from ullage.standalone.world.controllers.machine_set import machine_for, plan_set


def machine_set(replicas: int | None, **more: Any) -> MachineSet:
    meta = Meta(name="pool-1", namespace="kube-system", uid="uid-set", generation=3, **more)
    return MachineSet(metadata=meta, spec=MachineSetSpec(replicas=replicas))


def machine(name: str, *, node: bool = True, created: str = "2026-01-01T00:00:00Z", going: bool = False) -> Machine:
    meta = Meta(name=name, creation_timestamp=created, deletion_timestamp="2026-01-01T01:00:00Z" if going else None)
    return Machine(metadata=meta, status=MachineStatus(node_ref=NodeReference(name=name) if node else None))


A, B, C = (machine(name) for name in "abc")


@pytest.mark.parametrize(
    ("replicas", "machines", "unseen", "create", "delete"),
    [
        pytest.param(3, [A], (), 2, "", id="the missing ones are made"),
        pytest.param(None, [], (), 1, "", id="a set that says nothing has one"),
        pytest.param(3, [A], ("x",), 1, "", id="one that was made a moment ago is not made again"),
        pytest.param(2, [A, machine("b", going=True)], (), 1, "", id="one that goes is replaced at once"),
        pytest.param(1, [A, B, C], (), 0, "cb", id="the last ones are too many"),
        pytest.param(1, [A, B, machine("a0", node=False)], (), 0, ["a0", "b"], id="one that is no Node yet goes first"),
        pytest.param(1, [A, machine("0", created="2026-01-02T00:00:00Z")], (), 0, "0", id="the newest goes first"),
        pytest.param(0, [A, machine("b", going=True)], (), 0, "a", id="one that goes is not deleted again"),
        pytest.param(-1, [], (), 0, "", id="fewer than none is none"),
    ],
)
def test_it_has_as_many_as_are_wanted(
    replicas: int | None, machines: list[Machine], unseen: tuple[str, ...], create: int, delete: list[str]
) -> None:
    plan = plan_set(machine_set(replicas), machines, unseen=unseen)
    assert plan is not None
    assert plan.create == create
    assert [one.metadata.name for one in plan.delete] == list(delete)


def test_the_status_counts_what_is_there_and_stays() -> None:
    plan = plan_set(machine_set(3), [A, machine("b", node=False), machine("c", going=True)])
    assert plan is not None
    assert plan.status == MachineSetStatus(
        replicas=2, fully_labeled_replicas=2, ready_replicas=1, available_replicas=1, observed_generation=3
    )


def test_one_that_goes_makes_nothing() -> None:
    assert plan_set(machine_set(3, deletion_timestamp="2026-01-01T00:00:00Z"), []) is None


def test_a_machine_has_all_of_the_template_and_one_owner() -> None:
    spec = {"providerSpec": {"value": {"cloudProvider": "fake"}}, "versions": {"kubelet": "1.30.0"}}
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": spec}
    made = machine_for(machine_set(1), template)
    assert made["spec"] == spec
    meta = made["metadata"]
    assert (meta["generateName"], meta["namespace"]) == ("pool-1-", "kube-system")
    assert (meta["labels"], meta["annotations"]) == ({"a": "b"}, {"c": "d"})
    (owner,) = meta["ownerReferences"]
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("MachineSet", "pool-1", "uid-set", True)


@pytest.mark.parametrize("template", [None, {}, {"metadata": None, "spec": None}, "text"])
def test_a_template_of_nothing_is_a_machine_of_nothing(template: Any) -> None:
    assert machine_for(machine_set(1), template)["spec"] == {}
