"""Places: what a driver is asked for, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from tests.unit.snapshots import objects
from tests.unit.snapshots.controllers.cluster import DRIVER, World
from ullage.errors import NotNow, Retryable
from ullage.kube.builtin.core import CLAIMS, NODES, Node
from ullage.kube.builtin.storage import CSI_NODES, CsiNode, CsiNodeDriver, CsiNodeSpec, TopologyRequirement, TopologyTerm
from ullage.kube.kinds import Meta
from ullage.snapshots.backends.base import Restoration, Restored, Topology
from ullage.snapshots.controllers.claim_restore_rules import MOST, allowed_topologies, node_affinity, topology_of

ZONE, RACK = "topology.example.com/zone", "topology.example.com/rack"


def node(**labels: str) -> Node:
    return Node(metadata=Meta(name="node-1", labels={"zone": "x", **labels}))


def csi_node(*drivers: tuple[str, tuple[str, ...]]) -> CsiNode:
    found = tuple(CsiNodeDriver(name=name, topology_keys=keys) for name, keys in drivers)
    return CsiNode(metadata=Meta(name="node-1"), spec=CsiNodeSpec(drivers=found))


@pytest.mark.parametrize(
    ("registered", "place"),
    [
        pytest.param(((DRIVER, (ZONE, RACK)),), {RACK: "7", ZONE: "a"}, id="the labels under the driver's keys"),
        pytest.param((("other.example.com", (ZONE,)), (DRIVER, ())), {}, id="a driver that sees no difference"),
        pytest.param((("other.example.com", (ZONE,)),), {}, id="a driver that is not on the node"),
    ],
)
def test_where_a_driver_sees_a_node(registered: tuple[tuple[str, tuple[str, ...]], ...], place: Topology) -> None:
    assert topology_of(node(**{ZONE: "a", RACK: "7"}), csi_node(*registered), DRIVER) == place


def test_a_label_that_is_missing_is_waited_for() -> None:
    text = f"node node-1 has no label {RACK}, by which driver {DRIVER} tells where it is"
    with pytest.raises(NotNow, match=f"^{text}$"):
        topology_of(node(**{ZONE: "a"}), csi_node((DRIVER, (ZONE, RACK))), DRIVER)


def term(**keys: tuple[str, ...]) -> TopologyTerm:
    wanted = tuple(TopologyRequirement(key=key, values=values) for key, values in keys.items())
    return TopologyTerm(match_label_expressions=wanted)


@pytest.mark.parametrize(
    ("terms", "places"),
    [
        pytest.param((), (), id="all"),
        pytest.param((term(zone=("a", "b")),), ({"zone": "a"}, {"zone": "b"}), id="each value is a place"),
        pytest.param(
            (term(zone=("a",), rack=("1", "2")), term(zone=("b",))),
            ({"zone": "a", "rack": "1"}, {"zone": "a", "rack": "2"}, {"zone": "b"}),
            id="a term means all of its keys, several terms any of them",
        ),
        pytest.param((term(),), (), id="a term without keys says nothing"),
    ],
)
def test_the_places_that_a_class_allows(terms: tuple[TopologyTerm, ...], places: tuple[Topology, ...]) -> None:
    assert allowed_topologies(changed(objects.storage_class(), allowed_topologies=terms)) == places


def test_a_class_that_allows_everything_there_could_be_costs_no_more_than_others() -> None:
    many = tuple(str(number) for number in range(1000))
    found = allowed_topologies(changed(objects.storage_class(), allowed_topologies=(term(a=many, b=many, c=many),)))
    assert len(found) == MOST


def expression(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}


@pytest.mark.parametrize(
    ("restored", "terms"),
    [
        pytest.param({}, None, id="from everywhere"),
        pytest.param({"node": "node-1"}, [[expression("kubernetes.io/hostname", "node-1")]], id="from one node"),
        pytest.param(
            {"topologies": ({ZONE: "a", RACK: "7"}, {ZONE: "b"})},
            [[expression(RACK, "7"), expression(ZONE, "a")], [expression(ZONE, "b")]],
            id="from any of several places",
        ),
    ],
)
def test_an_answer_becomes_node_affinity(restored: Mapping[str, Any], terms: list[list[dict[str, Any]]] | None) -> None:
    made = node_affinity(Restored(handle="vol-1", size=1, source={}, **restored))
    wanted = [{"matchExpressions": one} for one in terms] if terms is not None else None
    assert made == (None if wanted is None else {"required": {"nodeSelectorTerms": wanted}})


# --- the controller --------------------------------------------------------------------------------------------------


def scheduled(**labels: str) -> World:
    world = World().everything()
    world.storage_class(volumeBindingMode="WaitForFirstConsumer")
    world.api.edit(
        CLAIMS, "copy", "team", merge={"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-1"}}}
    )
    world.api.put(NODES, {"metadata": {"name": "node-1", "labels": labels}})
    drivers = [{"name": DRIVER, "nodeID": "i-1", "topologyKeys": [ZONE]}]
    world.api.put(CSI_NODES, {"metadata": {"name": "node-1"}, "spec": {"drivers": drivers}})
    return world


async def test_the_selected_node_is_asked_for_and_the_answer_ties_the_volume_to_its_place() -> None:
    world = scheduled(**{ZONE: "a"})
    restore = world.storage.restore

    async def placed(restoration: Restoration) -> Restored:
        return replace(await restore(restoration), node="", topologies=restoration.topologies)

    world.storage.restore = placed  # type: ignore[method-assign]
    await world.live()
    assert [(one.node, one.topologies) for one in world.storage.asked] == [("node-1", ({ZONE: "a"},))]
    made = world.volume()
    assert made is not None
    assert made["spec"]["nodeAffinity"] == {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression(ZONE, "a")]}]}}


async def test_a_node_without_its_label_is_told_and_nothing_is_begun() -> None:
    world = scheduled()
    async with world.process() as process:
        assert isinstance(await process.look(), Retryable)
    assert world.api.fuse.log == []
    assert [event[1] for event in world.told.events] == ["RestoreRetried"]
    assert f"has no label {ZONE}" in world.told.events[0][2]


async def test_a_node_that_is_gone_is_no_reason_to_leave_a_volume_behind() -> None:
    world = scheduled(**{ZONE: "a"})
    await world.live(blows_at=4, meanwhile=world.delete_claim)
    world.api.remove(NODES, "node-1")
    await world.live()
    assert world.storage.volumes == {}
    assert world.api.body(CLAIMS, "copy", "team") is None
