"""Which node a pod gets, and what is said where it gets none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.standalone.world.builders import pod, volume
from ullage.kube.builtin.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    Toleration,
    VolumeNodeAffinity,
)
from ullage.kube.kinds import Meta
from ullage.standalone.world.nodes import Placement, is_played, node_names, pick_node

DRAIN = {"key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule"}


def node(name: str, *taints: dict[str, str], cordoned: bool = False, **labels: str) -> Node:
    meta = Meta(name=name, labels={"kubernetes.io/hostname": name, **labels})
    return Node(metadata=meta, spec=NodeSpec(taints=taints, unschedulable=cordoned))


def selector(key: str, operator: str, *values: str) -> NodeSelector:
    wanted = NodeSelectorRequirement(key=key, operator=operator, values=values)
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(wanted,)),))


def wants(key: str, operator: str, *values: str) -> Affinity:
    return Affinity(node_affinity=NodeAffinity(required=selector(key, operator, *values)))


def test_the_first_node_has_the_name_that_it_had_alone() -> None:
    assert node_names(1) == ("ullage",)
    assert node_names(3) == ("ullage", "ullage-2", "ullage-3")
    assert all(is_played(name) for name in node_names(20))


@pytest.mark.parametrize("name", ["ullage2", "ullage-", "ullage-02", "my-ullage", "ullage-2-b", ""])
def test_a_node_of_any_other_name_is_not_ours(name: str) -> None:
    assert not is_played(name)


@pytest.mark.parametrize(
    ("nodes", "spec", "chosen"),
    [
        pytest.param([node("ullage-2"), node("ullage")], {}, "ullage", id="between equals the first"),
        pytest.param([node("ullage-10"), node("ullage-2")], {}, "ullage-2", id="the tenth comes after the second"),
        pytest.param([node("ullage", cordoned=True), node("ullage-2")], {}, "ullage-2", id="not one that is cordoned"),
        pytest.param([node("ullage", DRAIN), node("ullage-2")], {}, "ullage-2", id="not one that is drained"),
        pytest.param(
            [node("ullage", {**DRAIN, "effect": "PreferNoSchedule"})],
            {},
            "ullage",
            id="a taint that only asks keeps nobody away",
        ),
        pytest.param(
            [node("ullage", zone="b"), node("ullage-2", zone="a")],
            {"node_selector": {"zone": "a"}},
            "ullage-2",
            id="one of its zone",
        ),
        pytest.param(
            [node("ullage", DRAIN)],
            {"tolerations": (Toleration(key="kubevirt.io/drain", value="draining"),)},
            "ullage",
            id="a taint that it tolerates",
        ),
        pytest.param(
            [node("ullage", DRAIN)],
            {"tolerations": (Toleration(key="kubevirt.io/drain", operator="Exists", effect="NoSchedule"),)},
            "ullage",
            id="a taint that it tolerates, whatever its value",
        ),
        pytest.param(
            [node("ullage", cordoned=True)], {"tolerations": (Toleration(operator="Exists"),)}, "ullage", id="it tolerates all"
        ),
        pytest.param(
            [node("ullage"), node("ullage-2")],
            {"affinity": wants("kubernetes.io/hostname", "NotIn", "ullage")},
            "ullage-2",
            id="away from a node",
        ),
        pytest.param(
            [node("ullage"), node("ullage-2", gpu="")], {"affinity": wants("gpu", "Exists")}, "ullage-2", id="with a label"
        ),
        pytest.param(
            [node("ullage", gpu=""), node("ullage-2")],
            {"affinity": wants("gpu", "DoesNotExist")},
            "ullage-2",
            id="without a label",
        ),
        pytest.param(
            [node("ullage", cores="8"), node("ullage-2", cores="16")],
            {"affinity": wants("cores", "Gt", "8")},
            "ullage-2",
            id="with more than that",
        ),
    ],
)
def test_which_node_a_pod_gets(nodes: list[Node], spec: dict[str, Any], chosen: str) -> None:
    assert pick_node(nodes, pod(node="", **spec)) == Placement(chosen)


def test_the_node_with_the_fewest_pods_is_taken() -> None:
    nodes = [node(name) for name in node_names(3)]
    assert pick_node(nodes, pod(node=""), load={"ullage": 2, "ullage-2": 1, "ullage-3": 1}) == Placement("ullage-2")


def test_a_pod_goes_where_its_volumes_are() -> None:
    here = VolumeNodeAffinity(required=selector("kubernetes.io/hostname", "In", "ullage"))
    nodes = [node("ullage", cordoned=True), node("ullage-2")]
    assert pick_node(nodes, pod(node=""), volumes=[volume(), volume(node_affinity=here)]) == Placement(
        message="0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, "
        "1 node(s) were unschedulable."
    )
    assert pick_node([node("ullage-2"), node("ullage")], pod(node=""), volumes=[volume(node_affinity=here)]) == Placement(
        "ullage"
    )


@pytest.mark.parametrize(
    ("nodes", "spec", "message"),
    [
        pytest.param([], {}, "no nodes available to schedule pods", id="no node at all"),
        pytest.param([node("another")], {}, "no nodes available to schedule pods", id="none of ours"),
        pytest.param(
            [node("ullage", cordoned=True), node("ullage-2", cordoned=True), node("ullage-3", DRAIN)],
            {},
            "0/3 nodes are available: 1 node(s) had untolerated taint {kubevirt.io/drain: draining}, "
            "2 node(s) were unschedulable.",
            id="each has its reason, and they are counted",
        ),
        pytest.param(
            [node("ullage", DRAIN)],
            {"tolerations": (Toleration(key="kubevirt.io/drain", value="other"), Toleration(value="draining"))},
            "0/1 nodes are available: 1 node(s) had untolerated taint {kubevirt.io/drain: draining}.",
            id="a toleration of another value",
        ),
        pytest.param(
            [node("ullage", cores="many")],
            {"affinity": wants("cores", "Lt", "8")},
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            id="a label that is no number",
        ),
        pytest.param(
            [node("ullage")],
            {
                "affinity": Affinity(
                    node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=(NodeSelectorTerm(),)))
                )
            },
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            id="a term without expressions selects nothing",
        ),
        pytest.param(
            [node("ullage")],
            {"affinity": wants("zone", "Near", "a")},
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            id="an operator that nobody knows",
        ),
    ],
)
def test_why_a_pod_gets_no_node(nodes: list[Node], spec: dict[str, Any], message: str) -> None:
    assert pick_node(nodes, pod(node="", **spec)) == Placement(message=message)
