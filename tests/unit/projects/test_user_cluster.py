"""What a process in a user cluster tells the users of that cluster, and what it may do there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.projects.builders import registered_hook
from tests.unit.projects.master_scene import Api, bugs_fail
from ullage.app.installer.manifests import controller_alone, manifests
from ullage.app.installer.names import USER_CLUSTER, Names
from ullage.app.installer.roles import roles
from ullage.kube.builtin.admissionregistration import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.builtin.events import EVENTS
from ullage.kube.client.client import Client
from ullage.kube.slices import Wiring
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS
from ullage.projects.controllers.deployment_shortage import lacks
from ullage.projects.slice import user_cluster

NAME = "ullage-seed-elsewhere"
OURS = {"app.kubernetes.io/managed-by": "ullage"}


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.api = Api("user", self.clock)
        self.wiring = Wiring(cast(Client, self.api), instance="c-1", clock=self.clock)
        self.api.put(NAMESPACES, {"metadata": {"name": "kube-system"}})

    def register(self, *kinds: Any, **fields: Any) -> None:
        hooks = {MUTATING_WEBHOOKS: "project-machine-stamp", VALIDATING_WEBHOOKS: "project-machine"}
        for kind in kinds or hooks:
            body = {"metadata": {"name": NAME, "labels": OURS}, "webhooks": [registered_hook(hooks[kind], **fields)]}
            self.api.put(kind, body)

    def deploy(self, name: str, *, replicas: int, made: int, **spec: Any) -> None:
        status = {"replicas": made, "observedGeneration": 9}
        body = {
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"replicas": replicas, **spec},
            "status": status,
        }
        self.api.put(MACHINE_DEPLOYMENTS, body)

    def told(self) -> list[tuple[str, str]]:
        return [(one["reason"], one["regarding"]["name"]) for one in self.api.bodies(EVENTS)]

    def notes(self) -> str:
        return " ".join(one["note"] for one in self.api.bodies(EVENTS))

    def sample(self, name: str, /, **labels: str) -> float | None:
        return self.wiring.metrics.registry.get_sample_value(name, labels)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        made = self.wiring.controllers((user_cluster(),))
        async with self.wiring.holding(asyncio.Event()):
            runs = [*(cache.run() for cache in self.wiring.caches), *(one.run() for one in made)]
            tasks = [asyncio.create_task(run) for run in runs]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def simulated(test: Any) -> Any:
    async def run() -> None:
        await test(Scene())

    def wrapped() -> None:
        bugs_fail(lambda: in_virtual_time(run()))

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


@simulated
async def test_a_registration_that_somebody_took_out_is_told_once_and_that_it_is_back(scene: Scene) -> None:
    scene.register()
    async with scene.running():
        await asyncio.sleep(60)
        assert scene.told() == []
        assert scene.sample("ullage_user_cluster_machines_asked") == 1
        scene.api.remove(VALIDATING_WEBHOOKS, NAME)
        await asyncio.sleep(60)
        assert scene.told() == [("MachinesNotAsked", "kube-system")]
        assert scene.sample("ullage_user_cluster_machines_asked") == 0
        assert "the one that admits Machines is not registered" in scene.notes()
        scene.register()
        await asyncio.sleep(60)
        assert scene.told() == [("MachinesNotAsked", "kube-system"), ("MachinesAsked", "kube-system")]


@simulated
async def test_a_registration_that_somebody_edited_is_told_like_one_that_was_taken_out(scene: Scene) -> None:
    scene.register()
    async with scene.running():
        await asyncio.sleep(60)
        scene.register(VALIDATING_WEBHOOKS, matchConditions=[{"name": "never", "expression": "false"}])
        await asyncio.sleep(60)
        assert scene.told() == [("MachinesNotAsked", "kube-system")]
        assert scene.sample("ullage_user_cluster_machines_asked") == 0
        assert scene.notes() == (
            "of the seed's webhooks the one that admits Machines (edited: matchConditions) is not registered in this cluster as"
            " the seed did it. Machines that are made now are not asked about: they count for the project's quota all the same,"
            " past its limit. The seed puts it back by itself, within a minute where it reaches this cluster; if it does not,"
            " tell whoever runs the seed"
        )


@simulated
async def test_where_nothing_is_registered_yet_both_are_named_after_a_moment(scene: Scene) -> None:
    async with scene.running():
        await asyncio.sleep(5)
        assert scene.told() == [], "a new cluster is registered in a moment"
        await asyncio.sleep(60)
        assert "the one that stamps Machines and the one that admits Machines" in scene.notes()


@simulated
async def test_machines_that_were_not_made_for_a_minute_are_told_on_their_deployment(scene: Scene) -> None:
    scene.register()
    scene.deploy("web", replicas=5, made=3)
    async with scene.running():
        await asyncio.sleep(50)
        assert scene.told() == []
        assert scene.sample("ullage_machine_deployment_missing", namespace="kube-system", name="web") == 2
        await asyncio.sleep(20)
        assert scene.told() == [("MachinesMissing", "web")]
        assert "2 of 5 machines were not made" in scene.notes()
        scene.deploy("web", replicas=5, made=4)
        await asyncio.sleep(300)
        assert len(scene.told()) == 1, "each shortage is told once"
        scene.deploy("web", replicas=5, made=5)
        await asyncio.sleep(1)
        assert scene.sample("ullage_machine_deployment_missing", namespace="kube-system", name="web") is None


@simulated
async def test_one_that_is_slow_is_told_nothing(scene: Scene) -> None:
    scene.register()
    scene.deploy("web", replicas=5, made=3)
    async with scene.running():
        await asyncio.sleep(50)
        scene.deploy("web", replicas=5, made=5)
        await asyncio.sleep(300)
        assert scene.told() == []


@pytest.mark.parametrize(
    ("body", "number"),
    [
        pytest.param({"spec": {"replicas": 3}, "status": {"replicas": 1}}, 2, id="some were not made"),
        pytest.param({"spec": {}, "status": {}}, 1, id="one is wanted where no number is said"),
        pytest.param({"spec": {"replicas": 1}, "status": {"replicas": 3}}, 0, id="more than are wanted"),
        pytest.param({"spec": {"replicas": 3, "paused": True}}, 0, id="nothing is done about it now"),
        pytest.param({"metadata": {"generation": 2}, "spec": {"replicas": 3}}, 0, id="nobody has looked since it changed"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"replicas": 3}}, 0, id="it goes"),
    ],
)
def test_what_is_lacking(body: dict[str, Any], number: int) -> None:
    assert lacks(msgspec.convert({"metadata": {}, **body}, type=MACHINE_DEPLOYMENTS.type)) == number


def test_it_may_read_what_it_tells_of_and_write_events_and_nothing_else() -> None:
    names = Names.of((USER_CLUSTER,))
    found = controller_alone(manifests((user_cluster(),), names=names))
    brought = {(one.kind.kind, one.name) for one in found if one.brought}
    assert brought == {
        ("Namespace", "ullage-system"),
        ("ServiceAccount", "controller"),
        ("Role", "ullage:controller-user-cluster"),
        ("RoleBinding", "ullage:controller-user-cluster"),
        ("ClusterRole", "ullage:controller:projects-user-cluster"),
        ("ClusterRoleBinding", "ullage:controller:projects-user-cluster"),
    }
    (own,) = [role for role in roles((user_cluster(),), names=names) if role.name == "ullage:controller:projects-user-cluster"]
    writes = {(rule.resources, verb) for rule in own.rules for verb in rule.verbs if verb not in ("get", "list", "watch")}
    assert writes == {(("events",), "create"), (("events",), "patch")}
    assert not any("secrets" in rule.resources for rule in own.rules)
