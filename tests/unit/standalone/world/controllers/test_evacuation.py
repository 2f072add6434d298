"""Drained nodes on an API in memory: all that can leaves, as many at a time as there is room for, whoever dies meanwhile."""

from __future__ import annotations

from tests.unit.standalone.world.migrations import SHOP, A, Moving
from ullage.vms.api.machines import INSTANCES

NAMES = [f"vm-{number}" for number in range(6)]


def filled(*, usual: float = 0.0) -> Moving:
    place = Moving(usual=usual)
    for name in NAMES:
        place.instance(name, A)
    return place


def is_left(place: Moving, node: str = A) -> bool:
    return node not in map(place.node, NAMES) and not place.api.unfinished()


async def test_a_drained_node_is_left_and_its_instances_go_on() -> None:
    place = filled()
    place.drain(A)
    await place.live(lambda: is_left(place))
    assert place.is_tidy(*NAMES)
    assert {place.status(name)["phase"] for name in NAMES} == {"Running"}
    made = [note for _, reason, note in place.told.events if reason == "SuccessfulCreate"]
    assert len(made) == len(NAMES)
    assert made[0].endswith(": node ullage is being drained")


async def test_where_few_fit_into_the_reserve_the_others_wait_and_go_later() -> None:
    place = filled(usual=0.1)
    place.settings(parallelMigrationsPerCluster=20, parallelOutboundMigrationsPerNode=20)
    place.api.migrations = 2
    place.drain(A)
    await place.live(lambda: is_left(place))
    assert place.api.most == 2
    assert place.is_tidy(*NAMES)
    refused = [note for kind, _, note in place.told.events if kind == "Warning"]
    assert refused
    assert set(refused) == {"Error creating a migration: maintenance resource is insufficient"}


async def test_of_a_namespace_without_room_one_is_asked_for_in_a_round() -> None:
    place = filled()
    place.settings(parallelMigrationsPerCluster=20, parallelOutboundMigrationsPerNode=20)
    place.api.migrations = 0
    place.drain(A)
    await place.live(lambda: len(place.told.events) >= 2)
    assert len(place.told.events) < len(NAMES)
    place.drain(A, over=True)
    place.api.migrations = 9
    await place.live(lambda: True)
    assert not place.api.unfinished()


async def test_whatever_process_dies_every_instance_leaves_once() -> None:
    for moment in range(1, 120, 3):
        place = Moving()
        place.instance("vm-0", A)
        place.instance("vm-1", A)
        place.fuse.blows_at = moment
        place.drain(A)
        await place.live(lambda place=place: place.is_tidy("vm-0", "vm-1") and A not in place.pods().values())  # type: ignore[misc]
        await place.live(lambda place=place: not place.api.unfinished())  # type: ignore[misc]
        assert place.is_tidy("vm-0", "vm-1"), place.fuse.log
        if place.fuse.passed < moment:
            return
    raise AssertionError("it never came to an end without a crash")


async def test_one_that_is_asked_to_leave_does_so_and_the_others_stay() -> None:
    place = filled()
    place.api.edit(INSTANCES, "vm-3", SHOP, merge={"status": {"evacuationNodeName": A}})
    await place.live(lambda: place.node("vm-3") != A and not place.api.unfinished())
    assert [name for name in NAMES if place.node(name) != A] == ["vm-3"]


async def test_fifty_nodes_are_drained_at_once_and_two_take_all() -> None:
    nodes = ("ullage", *(f"ullage-{number}" for number in range(2, 53)))
    place = Moving(*nodes)
    names = [f"vm-{number}" for number in range(100)]
    for number, name in enumerate(names):
        place.instance(name, nodes[number % 50])
    for node in nodes[:50]:
        place.drain(node)
    await place.live(lambda: set(map(place.node, names)) == set(nodes[50:]) and not place.api.unfinished())
    assert place.api.most <= 5
    assert place.is_tidy(*names)
