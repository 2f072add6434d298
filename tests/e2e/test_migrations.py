"""How migrations go: by KubeVirt's configuration as a person sets it, and where a quota of the cluster has no room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .apart import IS_BORROWED
from .engine_scene import eventually
from .headroom_scene import COST, CREATED, FORBIDDEN, NODES, HeadroomScene, Tenant, headroom_scene, never_stops, watched
from .test_snapshot_cli import environment

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadroomScene]:
    with headroom_scene(tmp_path_factory.mktemp("migrations")) as made:
        yield made


def ran(scene: HeadroomScene, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ullage", "vm", "migration-config", *arguments]
    env = environment(Path(scene.base.plane.kubeconfig))
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)


def test_what_a_person_sets_is_shown_and_obeyed(scene: HeadroomScene) -> None:
    refused = ran(scene, "set", "--parallel-migrations-per-cluster", "none")
    assert refused.returncode != 0
    assert "--parallel-migrations-per-cluster none: a whole number from 1 to 2147483647 is allowed" in refused.stderr
    done = ran(scene, "set", "--parallel-migrations-per-cluster", "1", "--bandwidth-per-migration", "1Gi")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1] for line in ran(scene, "get").stdout.splitlines()}
    assert (rows["parallelMigrationsPerCluster"], rows["bandwidthPerMigration"]) == ("1", "1Gi/s")
    assert rows["progressTimeout"] == "-"

    tenant = Tenant(scene)
    tenant.run("vm1", "vm2")

    def look() -> str:
        found = tenant.api.get(tenant.migrations).obj["items"]
        active = [one for one in found if one.get("status", {}).get("phase", "") not in ("", "Pending", "Succeeded", "Failed")]
        return f"{len(active)} at a time" if len(active) > 1 else ""

    with watched(look), watched(never_stops(tenant, ["vm1", "vm2"])):
        both = [tenant.migrate("vm1"), tenant.migrate("vm2")]
        for one in both:
            tenant.moved(one)
    for option in ("--parallel-migrations-per-cluster", "--bandwidth-per-migration"):
        assert ran(scene, "set", option, "default").returncode == 0
    assert {line.split()[1] for line in ran(scene, "get").stdout.splitlines()[1:]} == {"-"}


def test_a_pod_that_the_quota_of_the_cluster_would_refuse_is_no_migration_and_without_a_share_one_that_waits(
    scene: HeadroomScene,
) -> None:
    tenant = Tenant(scene, cpu="2", memory=str(2 * COST))
    tenant.run("vm")
    left, quota = tenant.node_of("vm"), f"{tenant.path}/resourcequotas"
    narrow = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "narrow"},
        "spec": {"hard": {"limits.cpu": "1"}},
    }
    tenant.api.create(quota, narrow)
    eventually(
        "it is counted", lambda: tenant.api.get(f"{quota}/narrow").obj.get("status", {}).get("used") == {"limits.cpu": "1"}
    )
    refused = tenant.ask_migration("vm")
    assert refused.code == FORBIDDEN, refused.raw
    assert "although the maintenance share has 1 core of cpu" in refused.message
    assert "ResourceQuota narrow: limits.cpu: asked 1 core, used 1 core, limit 1 core" in refused.message

    tenant.api.merge(tenant.path, {"metadata": {"annotations": {"harvesterhci.io/maintenanceQuota": None}}})
    name = "without-a-share"
    eventually("it is admitted", lambda: tenant.ask_migration("vm", name).code == CREATED)
    eventually("its pod is refused", lambda: any("exceeded quota: narrow" in one for one in tenant.refused_pods()))
    assert (tenant.phase(name), tenant.word("vm"), tenant.node_of("vm")) == ("Pending", "Running", left)
    tenant.api.merge(f"{quota}/narrow", {"spec": {"hard": {"limits.cpu": "2"}}})
    tenant.moved(name)
    assert tenant.node_of("vm") in set(NODES) - {left}
    conditions = tenant.api.get(f"{tenant.migrations}/{name}").obj["status"].get("conditions") or []
    assert [one["type"] for one in conditions] == []
