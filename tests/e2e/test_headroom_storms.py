"""Many at once: starts where few fit, and the migrations of a drain where few fit at a time. What was admitted is never refused
by the cluster's own quota, whoever else is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from .apart import IS_BORROWED
from .engine_scene import eventually
from .headroom_scene import COST, CREATED, FORBIDDEN, NODES, HeadroomScene, Tenant, headroom_scene, never_stops, watched

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
STARTS, FIT = 50, 7
MOVED, AT_ONCE = 20, 3


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadroomScene]:
    with headroom_scene(tmp_path_factory.mktemp("storms")) as made:
        yield made


def test_of_fifty_starts_at_once_exactly_those_run_that_fit(scene: HeadroomScene) -> None:
    tenant = Tenant(scene, cpu="200", memory=str(2 * FIT * COST))
    names = [f"vm-{number}" for number in range(STARTS)]
    with ThreadPoolExecutor(8) as pool:
        assert {one.code for one in pool.map(lambda name: tenant.ask_machine(name, "Halted"), names)} == {CREATED}
    with ThreadPoolExecutor(STARTS) as pool:
        answers = list(pool.map(lambda name: tenant.set_strategy(name, "Always"), names))
    codes = Counter(one.code for one in answers)
    assert codes[200] == FIT, codes
    refused = [one for one in answers if one.code != 200]
    assert all("VM available resources are insufficient" in one.message for one in refused), refused[0].raw
    started = sorted(name for name, one in zip(names, answers, strict=True) if one.code == 200)
    eventually("those that were started run", lambda: tenant.running() == started)
    strategies = {one["spec"]["runStrategy"] for one in tenant.api.get(tenant.machines).obj["items"]}
    assert strategies == {"Always", "Halted"}
    assert len(tenant.api.get(tenant.instances).obj["items"]) == FIT


def test_a_drain_moves_twenty_vms_three_at_a_time(scene: HeadroomScene) -> None:
    """Of 24 VMs' worth 15 % are 3.6: there is room for 20 VMs, and for 3 that move. KubeVirt would take all at once."""
    scene.settings(parallelMigrationsPerCluster=MOVED, parallelOutboundMigrationsPerNode=MOVED)
    tenant = Tenant(scene, cpu="24", memory=str(24 * COST), percent=15)
    names = [f"vm-{number}" for number in range(MOVED)]
    for node in NODES[1:]:
        scene.node(node, unschedulable=True)
    tenant.run(*names)
    assert set(map(tenant.node_of, names)) == {NODES[0]}
    for node in NODES[1:]:
        scene.uncordon(node)

    most = 0

    def look() -> str:
        nonlocal most
        most = max(most, len(tenant.unfinished()))
        return f"{most} at a time" if most > AT_ONCE else ""

    with watched(look), watched(never_stops(tenant, names)):
        scene.drain(NODES[0])
        eventually(
            "all have moved",
            lambda: NODES[0] not in map(tenant.node_of, names) and not tenant.unfinished(),
            seconds=240,
            every=1,
        )
    scene.uncordon(NODES[0])
    scene.settings(parallelMigrationsPerCluster=None, parallelOutboundMigrationsPerNode=None)
    assert most == AT_ONCE
    assert tenant.running() == sorted(names)
    assert tenant.refused_pods() == []


def test_no_pod_of_an_admitted_migration_is_refused_by_the_quota_of_the_cluster(scene: HeadroomScene) -> None:
    """Both shares are used up to the last byte, by VMs and by a pod of the tenant's own, while all of them move at once, again
    and again: then the quota of the cluster is full, too."""
    scene.settings(parallelMigrationsPerCluster=MOVED, parallelOutboundMigrationsPerNode=MOVED)
    tenant = Tenant(scene, cpu="10", memory=str(10 * COST), percent=40)
    pods = f"/api/v1/namespaces/{tenant.namespace}/pods"
    limits = {"limits": {"cpu": "2", "memory": str(2 * COST)}}
    own = {"metadata": {"name": "own"}, "spec": {"containers": [{"name": "main", "image": "own", "resources": limits}]}}
    tenant.api.create(pods, own)
    names = ["vm-1", "vm-2", "vm-3", "vm-4"]
    tenant.run(*names)
    assert tenant.ask_machine("vm-5").code == FORBIDDEN
    with watched(never_stops(tenant, names)):
        for turn in range(8):
            moving = [tenant.migrate(name, f"{name}-{turn}") for name in names]
            for one in moving:
                tenant.moved(one)
        for node in NODES:
            scene.drain(node)
            eventually(
                f"{node} is empty",
                lambda node=node: node not in map(tenant.node_of, names) and not tenant.unfinished(),  # type: ignore[misc]
                seconds=120,
            )
            scene.uncordon(node)
    scene.settings(parallelMigrationsPerCluster=None, parallelOutboundMigrationsPerNode=None)
    eventually("what has moved is counted once", lambda: tenant.core_quota()["status"]["used"]["limits.cpu"] == "6")
    assert tenant.refused_pods() == []
