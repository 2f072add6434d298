"""MachineSets whose Machines were refused are touched when there is room, so that machine-controller asks for them again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.projects.machines.builders import SMALL
from tests.unit.projects.seed_scene import SYSTEM, Json, SeedScene, machine_body, owner_reference, provider_spec, simulated
from ullage.kube.cache.indexer import Key
from ullage.projects.api.machines import MACHINES
from ullage.projects.api.templates import DEPLOYMENT_TEMPLATES, SET_TEMPLATES
from ullage.projects.machines.facts import Room
from ullage.projects.webhook import refused_sets
from ullage.projects.webhook.refused_sets import Owner, RefusedSet, choose
from ullage.quantity import ZERO, Quantity


def deployed(scene: SeedScene, name: str = "web", *, replicas: int = 2, sets: int = 1, cluster: str = "c-1") -> None:
    """A deployment `name` with uid `d-NAME`, and its sets `NAME-1`…, with uids `s-NAME-1`…"""
    template: Json = {"spec": {"providerSpec": {"value": provider_spec("m")}}}
    meta: Json = {"name": name, "namespace": SYSTEM, "uid": f"d-{name}"}
    spec: Json = {"replicas": replicas, "template": template}
    scene.store(DEPLOYMENT_TEMPLATES, {"metadata": meta, "spec": spec}, cluster=cluster)
    for number in range(1, sets + 1):
        owner = owner_reference("MachineDeployment", f"d-{name}")
        meta = {"name": f"{name}-{number}", "namespace": SYSTEM, "uid": f"s-{name}-{number}", "ownerReferences": [owner]}
        scene.store(SET_TEMPLATES, {"metadata": meta, "spec": spec}, cluster=cluster)


def touches(scene: SeedScene, *, cluster: str = "c-1") -> list[str]:
    """The MachineSets that were written to, by name and in order."""
    return [call.rpartition(" ")[2] for call in scene.seed.others[cluster].calls if call.startswith("PATCH machinesets")]


async def refuse(scene: SeedScene, owner: str = "s-web-1", **more: Any) -> None:
    assert (await scene.create(owner=owner, **more)).code == 403


@simulated
async def test_a_refused_set_is_touched_once_within_seconds_after_the_limit_was_raised(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    deployed(scene)
    async with scene.served():
        assert (await scene.create(owner="s-web-1")).code == 200
        await refuse(scene)
        await asyncio.sleep(10)
        assert touches(scene) == [], "there was no room"
        scene.limits(cpu="4")
        await scene.seen()
        assert touches(scene) == ["web-1"]
        scene.store(MACHINES, machine_body(name="second", owner="s-web-1"))
        await asyncio.sleep(1000)
        assert touches(scene) == ["web-1"], "it has all its Machines"


@simulated
async def test_it_is_touched_as_well_when_another_machine_goes(scene: SeedScene) -> None:
    scene.cluster(provider="fake")  # what went has no server
    scene.limits(cpu="2")
    deployed(scene, replicas=1)
    async with scene.served(controllers=True):
        assert (await scene.create(name="other")).code == 200
        await scene.seen()
        await refuse(scene)
        scene.remove("other")
        await asyncio.sleep(10)
        assert set(touches(scene)) == {"web-1"}


@simulated
async def test_only_a_set_that_we_refused_is_touched(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="0")
    for name in ("web", "db"):
        deployed(scene, name)
    async with scene.served():
        await refuse(scene)
        await refuse(scene, "s-db-1", dry_run=True)
        scene.limits(cpu="100")
        await scene.seen()
        assert touches(scene) == ["web-1"], "nobody was refused for good but web"


@simulated
async def test_a_set_that_misses_nothing_any_more_is_left_alone(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="2")
    deployed(scene)
    async with scene.served():
        assert (await scene.create(owner="s-web-1")).code == 200
        await refuse(scene)
        scaled = scene.body("web-1", kind=SET_TEMPLATES)
        scaled["spec"]["replicas"] = 1
        scene.store(SET_TEMPLATES, scaled)
        await scene.seen()
        scene.limits(cpu="100")
        await scene.seen()
        assert touches(scene) == []


@simulated
async def test_of_a_deployment_the_set_that_was_refused_last_is_touched(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="0")
    deployed(scene, sets=2)
    async with scene.served():
        await refuse(scene, "s-web-1")
        await refuse(scene, "s-web-2")
        scene.limits(cpu="100")
        await scene.seen()
        assert touches(scene) == ["web-2"]


@simulated
async def test_no_more_sets_are_touched_than_there_is_room_for(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="0")
    for name in ("first", "second", "third"):
        deployed(scene, name, replicas=1)
    async with scene.served():
        for name in ("first", "second", "third"):
            await refuse(scene, f"s-{name}-1")
        scene.limits(cpu="4")
        await scene.seen()
        assert touches(scene) == ["first-1", "second-1"]


@simulated
async def test_a_set_that_gets_nothing_by_it_is_touched_later_and_later(scene: SeedScene) -> None:
    """Another webhook refuses its Machines, say."""
    scene.cluster()
    scene.limits(cpu="0")
    deployed(scene)
    async with scene.served():
        await refuse(scene)
        scene.limits(cpu="100")
        await asyncio.sleep(3600)
        assert 10 <= len(touches(scene)) <= 20


@simulated
async def test_a_cluster_that_does_not_take_it_keeps_no_other_one_waiting(scene: SeedScene) -> None:
    host = scene.cluster("c-1")
    scene.cluster("c-2")
    scene.limits(cpu="0")
    for name in ("c-1", "c-2"):
        deployed(scene, cluster=name)
    async with scene.served():
        for name in ("c-1", "c-2"):
            await refuse(scene, cluster=name)
        host.drop(SET_TEMPLATES, Key(SYSTEM, "web-1"))  # gone, and the cache has not seen it
        scene.limits(cpu="100")
        await scene.seen()
        assert touches(scene, cluster="c-2") == ["web-1"]


@simulated
async def test_what_is_remembered_of_a_cluster_has_an_end(scene: SeedScene) -> None:
    scene.cluster()
    scene.limits(cpu="0")
    names = ("first", "second", "third")
    for name in names:
        deployed(scene, name, replicas=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refused_sets, "MOST_REFUSED", 2)
        async with scene.served():
            for name in names:
                await refuse(scene, f"s-{name}-1")
            scene.limits(cpu="100")
            await scene.seen()
    assert touches(scene) == ["second-1", "third-1"]


def room(free: int, *, limited: bool = True) -> dict[str, Room]:
    return {"cpu": Room(ZERO, ZERO, Quantity(free * 10**9) if limited else None)}


@pytest.mark.parametrize(
    ("free", "missing", "chosen"),
    [
        pytest.param(1, (1, 1), [], id="less room than one Machine takes is none"),
        pytest.param(2, (5, 1), ["a"], id="one that gets some of its Machines uses the room"),
        pytest.param(4, (1, 1), ["a", "b"], id="what one leaves is for the next"),
        pytest.param(-2, (1, 1), [], id="past the limit there is no room"),
    ],
)
def test_those_are_chosen_that_may_get_a_machine(free: int, missing: tuple[int, int], chosen: list[str]) -> None:
    refused = [
        (Owner("c", uid), RefusedSet(uid=uid, ledger="p", size=SMALL), lacks) for uid, lacks in zip("ab", missing, strict=True)
    ]
    assert [owner.uid for owner in choose(refused, room(free))] == chosen


def test_what_is_not_limited_has_room_for_all() -> None:
    one = RefusedSet(uid="a", ledger="p", size=SMALL)
    assert choose([(Owner("c", "a"), one, 3)], room(0, limited=False)) == [Owner("c", "a")]
    assert choose([(Owner("c", "a"), one, 3)], {}) == [], "there is no ledger"
