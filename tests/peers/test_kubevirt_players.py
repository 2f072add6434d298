"""What our scheduler, kubelet and virt-handler write next for KubeVirt, decided without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from .kubevirt_nodes import COPYING, CRASHES, CREATED_BY, handled, is_done, pick_node, with_pause

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"


def node(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name, "labels": {"kubevirt.io/schedulable": "true"}}, "spec": spec}


def pod(instance: str = "a", on: str = "", phase: str = "Pending") -> Json:
    spec: Json = {"nodeSelector": {"kubevirt.io/schedulable": "true"}, **({"nodeName": on} if on else {})}
    return {"metadata": {"name": f"launcher-{on}", "labels": {CREATED_BY: instance}}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], "n1", id="the first of equal nodes"),
        pytest.param([pod("b", "n1", "Running")], "n2", id="the least used node"),
        pytest.param(
            [pod("a", "n1", "Running"), pod("b", "n2", "Running"), pod("c", "n2", "Running")],
            "n2",
            id="never two pods of an instance on a node",
        ),
        pytest.param([pod("a", "n1", "Succeeded")], "n1", id="a pod that is over takes no node"),
        pytest.param([pod("a", "n1", "Running"), pod("a", "n2", "Running")], "", id="no node where each has one"),
    ],
)
def test_a_pod_gets(pods: list[Json], expected: str) -> None:
    nodes = [node("n1"), node("n2"), node("cordoned", unschedulable=True)]
    assert pick_node(pod(), nodes, pods) == expected


def instance(phase: str = "Running", *, state: Json | None = None, **metadata: Any) -> Json:
    labels = {"kubevirt.io/nodeName": "n1", "kubevirt.io/migrationTargetNodeName": "n2"}
    domain = {"cpu": {"sockets": 2, "cores": 1, "threads": 1}, "memory": {"guest": "1Gi"}}
    status: Json = {"phase": phase, "nodeName": "n1", "conditions": [{"type": "HotVCPUChange", "status": "True"}]}
    status |= {"migrationState": state} if state else {}
    return {"metadata": {"name": "a", "labels": labels, **metadata}, "spec": {"domain": domain}, "status": status}


def test_a_scheduled_instance_runs_and_its_conditions_have_the_nulls_of_go() -> None:
    found = handled(instance("Scheduled"), NOW)
    assert found is not None
    assert found["status"]["phase"] == "Running"
    movable = next(one for one in found["status"]["conditions"] if one["type"] == "LiveMigratable")
    assert (movable["lastTransitionTime"], movable["lastProbeTime"]) == (None, None)


@pytest.mark.parametrize(
    ("given", "phase"),
    [
        pytest.param(instance(deletionTimestamp=NOW), "Succeeded", id="an instance that is deleted ends"),
        pytest.param(instance("Scheduled", annotations={CRASHES: "true"}), "Failed", id="a guest that crashes fails"),
    ],
)
def test_a_guest_ends(given: Json, phase: str) -> None:
    found = handled(given, NOW)
    assert found is not None
    assert found["status"]["phase"] == phase


def test_a_migration_goes_through_every_step_and_ends_at_its_target() -> None:
    given = instance(state={"sourceNode": "n1", "targetNode": "n2", "targetPod": "launcher-n2"})
    steps: list[set[str]] = []
    while (written := handled(given, NOW)) is not None:
        steps.append(set(written["status"]["migrationState"]) - set(given["status"]["migrationState"]))
        given = written
    assert steps == [
        {"targetNodeAddress", "targetDirectMigrationNodePorts"},
        {"startTimestamp", "mode"},
        {"targetNodeDomainDetected", "targetNodeDomainReadyTimestamp"},
        {"endTimestamp", "completed"},
    ]
    assert given["status"]["nodeName"] == given["metadata"]["labels"]["kubevirt.io/nodeName"] == "n2"
    assert given["status"]["currentCPUTopology"] == {"sockets": 2, "cores": 1, "threads": 1}
    assert given["status"]["conditions"] == []
    assert is_done(pod(on="n1", phase="Running"), given)
    assert not is_done(pod(on="n2", phase="Running"), given)


def test_a_migration_that_is_held_goes_on_copying_until_it_is_aborted() -> None:
    state = {"targetNode": "n2", "targetPod": "launcher-n2", "targetNodeAddress": "127.0.0.1", "startTimestamp": NOW}
    held = instance(state=state, annotations={COPYING: "never"})
    assert handled(held, NOW) is None
    held["status"]["migrationState"]["abortRequested"] = True
    found = handled(held, NOW)
    assert found is not None
    assert found["status"]["migrationState"]["abortStatus"] == "Succeeded"
    assert found["status"]["nodeName"] == "n1"
    assert is_done(pod(on="n2", phase="Running"), found)
    assert not is_done(pod(on="n1", phase="Running"), found)


def test_a_pause_comes_and_goes_and_leaves_other_conditions() -> None:
    paused = with_pause(instance(), paused=True)
    assert {one["type"] for one in paused["status"]["conditions"]} == {"HotVCPUChange", "Paused"}
    assert with_pause(paused, paused=False)["status"]["conditions"] == instance()["status"]["conditions"]
