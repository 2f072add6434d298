"""The mode in which a core quota is raised while instances migrate, beside a Rancher that puts it back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ullage.app.drivers import ONE_MACHINE

from .apart import IS_BORROWED
from .engine_scene import eventually, install_engines
from .headroom_scene import COST, NODES, HeadroomScene, Tenant, is_ready
from .snapshot_scene import scene as base_scene

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
Json = dict[str, Any]
RAISED = "ullage.io/raised-for-migrations"


class ScalingScene(HeadroomScene):
    def command(self, name: str) -> list[str]:
        return [*super().command(name), *(("--migration", "scale-quota") if name == "controller" else ())]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScalingScene]:
    with base_scene(tmp_path_factory.mktemp("scaling")) as base:
        made = ScalingScene(base)
        install_engines(made, replace(ONE_MACHINE, migration="scale-quota"))
        with made.running():
            eventually("the nodes are ready", lambda: all(is_ready(made, name) for name in NODES))
            yield made


class Full(Tenant):
    """A namespace whose quota is just what one VM costs, and that keeps nothing for migrations."""

    def __init__(self, scene: ScalingScene) -> None:
        super().__init__(scene, cpu="1", memory=str(COST), percent=0)

    def _is_in_force(self) -> bool:
        return True  # nothing is: there is no reserve

    def now(self) -> Json:
        return dict(self.core_quota()["spec"]["hard"])

    def record(self) -> Json:
        found = self.core_quota()["metadata"].get("annotations", {}).get(RAISED)
        return dict(json.loads(found)) if found else {}


def test_a_vm_of_a_full_namespace_moves_although_rancher_puts_the_quota_back(scene: ScalingScene) -> None:
    tenant = Full(scene)
    tenant.run("vm1")
    before, node = tenant.now(), tenant.node_of("vm1")
    refused = tenant.api.call("POST", f"{tenant.path}/pods", pod("more"))
    assert (refused.code, "exceeded quota" in refused.message) == (403, True), refused.raw
    tenant.moved(tenant.migrate("vm1"))
    assert tenant.node_of("vm1") != node
    eventually("the quota is what it was", lambda: tenant.now() == before and not tenant.record())


def test_what_is_added_is_there_for_as_long_as_the_migration_and_outlives_controllers(scene: ScalingScene) -> None:
    tenant = Full(scene)
    tenant.run("vm1")
    before = tenant.now()
    tenant.takes("vm1", "never")
    tenant.migrate("vm1", "hanging")
    eventually("it names who holds it", lambda: tenant.record().get("instances") == ["vm1"])
    scene.end("controller")
    tenant.api.delete(f"{tenant.migrations}/hanging")
    eventually("the migration is gone", lambda: tenant.api.get(f"{tenant.migrations}/hanging").code == 404)
    scene.start("controller")
    eventually("the quota is what it was", lambda: tenant.now() == before and not tenant.record())


def pod(name: str) -> Json:
    container = {"name": "main", "image": "web", "resources": {"limits": {"cpu": "10m", "memory": "10Mi"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
