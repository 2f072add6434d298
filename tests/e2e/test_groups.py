"""Group snapshots of StatefulSets, with the real processes and real bytes: all members or none, and back to a new set."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .engine_scene import MIB, EngineScene, engine_scene, eventually
from .snapshot_scene import SOURCE
from .space_scene import QUOTA

Json = dict[str, Any]
BLOCK = 4096
REPLICAS = 3
GROUP = "/apis/groupsnapshot.storage.k8s.io/v1beta2"
pytestmark = pytest.mark.slow  # the processes, and the engines' volumes, take some seconds


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    with engine_scene(tmp_path_factory.mktemp("groups")) as found:
        yield found


class GroupTenant:
    """What somebody does in a namespace, with a StatefulSet of three."""

    def __init__(self, scene: EngineScene, storage_class: str) -> None:
        self.scene, self.api, self.storage_class = scene, scene.api, storage_class
        self.namespace = f"groups-{os.urandom(3).hex()}"
        scene.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self.claims = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        self.snapshots = f"/apis/snapshot.storage.k8s.io/v1/namespaces/{self.namespace}/volumesnapshots"
        self.groups = f"{GROUP}/namespaces/{self.namespace}/volumegroupsnapshots"
        self.quotas = f"/apis/harvesterhci.io/v1beta1/namespaces/{self.namespace}/resourcequotas"
        self.sets = f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets"

    @property
    def block(self) -> bool:
        return self.storage_class == "longhorn"

    def stateful_set(self, name: str) -> None:
        """Returns when all its pods are ready."""
        spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "32Mi"}}}
        spec |= {"storageClassName": self.storage_class, "volumeMode": "Block" if self.block else "Filesystem"}
        use = {"volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}]}
        container = {"name": "main", "image": "db", **(use if self.block else {"volumeMounts": [_mount()]})}
        labels = {"app": name}
        body = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": name},
            "spec": {
                "replicas": REPLICAS,
                "serviceName": name,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
                },
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}],
            },
        }
        self.api.create(self.sets, body)
        path = f"{self.sets}/{name}"
        eventually(f"{name} is ready", lambda: self.api.get(path).obj.get("status", {}).get("readyReplicas") == REPLICAS)

    def volume(self, claim: str) -> str:
        return str(self.api.get(f"{self.claims}/{claim}").obj["spec"]["volumeName"])

    def directory(self, claim: str) -> Path:
        return Path(self.api.get(f"/api/v1/persistentvolumes/{self.volume(claim)}").obj["spec"]["hostPath"]["path"])

    def write(self, claim: str, data: bytes) -> None:
        if self.block:
            self.scene.write(self.volume(claim), 0, data)
        else:
            (self.directory(claim) / "page").write_bytes(data)

    def read(self, claim: str) -> bytes:
        return self.scene.read(self.volume(claim), 0, BLOCK) if self.block else (self.directory(claim) / "page").read_bytes()

    def items(self, path: str) -> list[Json]:
        return list(self.api.get(path).obj["items"])

    def group(self, name: str) -> Json:
        return dict(self.api.get(f"{self.groups}/{name}").obj.get("status", {}))

    def limit(self, amount: int) -> None:
        """How much snapshots of the namespace may take. Returns when that is in force, for whatever is asked for."""
        body = {
            "apiVersion": "harvesterhci.io/v1beta1",
            "kind": "ResourceQuota",
            "metadata": {"name": QUOTA},
            "spec": {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": amount}},
        }
        if self.api.get(f"{self.quotas}/{QUOTA}").code == 404:
            self.api.create(self.quotas, body)
        else:
            self.api.merge(f"{self.quotas}/{QUOTA}", {"spec": body["spec"]})
        generation = self.api.get(f"{self.quotas}/{QUOTA}").obj["metadata"]["generation"]

        def told() -> bool:
            status = self.api.get(f"{self.quotas}/{QUOTA}").obj.get("status", {})
            return bool(status.get("observedGeneration") == generation)

        eventually("the limit is in force", told)

    def run(self, *arguments: str, code: int = 0) -> str:
        env = {**os.environ, "PYTHONPATH": str(SOURCE), "KUBECONFIG": str(self.scene.base.plane.kubeconfig)}
        command = [sys.executable, "-m", "ullage", "snapshot", "group", *arguments, "-n", self.namespace]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


def _mount() -> Json:
    return {"name": "data", "mountPath": "/data"}


@pytest.mark.parametrize("storage_class", ["ullage-hostpath", "longhorn"])
def test_a_stateful_set_of_three_is_taken_together_and_restored_to_a_new_one(scene: EngineScene, storage_class: str) -> None:
    tenant = GroupTenant(scene, storage_class)
    tenant.stateful_set("db")
    claims = [f"data-db-{number}" for number in range(REPLICAS)]
    before = {claim: os.urandom(BLOCK) for claim in claims}
    for claim, data in before.items():
        tenant.write(claim, data)

    said = tenant.run("create", "one", "--statefulset", "db", "--wait", "--timeout", "60s")
    assert "group one is ready" in said
    members = tenant.items(tenant.snapshots)
    assert sorted(one["spec"]["source"]["persistentVolumeClaimName"] for one in members) == claims
    assert {one["status"]["volumeGroupSnapshotName"] for one in members} == {"one"}
    for claim in claims:
        tenant.write(claim, os.urandom(BLOCK))
    assert "data-db-1" in tenant.run("describe", "one")

    tenant.run("restore", "one", "--to-statefulset", "copy", "--wait", "--timeout", "60s")
    tenant.stateful_set("copy")
    assert {claim: tenant.read(claim.replace("-db-", "-copy-")) for claim in claims} == before

    tenant.run("delete", "one", "--wait", "--timeout", "60s")
    eventually("all members are gone", lambda: tenant.items(tenant.snapshots) == [])
    assert not any("group.ullage.io/one" in one["metadata"].get("labels", {}) for one in tenant.items(tenant.claims))


def test_where_one_member_fails_none_is_left(scene: EngineScene) -> None:
    """There is room for one of the three: it is admitted, the next is not."""
    tenant = GroupTenant(scene, "ullage-hostpath")
    tenant.stateful_set("db")
    for number in range(REPLICAS):
        tenant.write(f"data-db-{number}", os.urandom(30 * MIB))  # of 32 MiB: it counts as much as what is asked for
    tenant.limit(40 * MIB)
    said = tenant.run("create", "one", "--statefulset", "db", "--wait", "--timeout", "60s", code=1)
    assert "None of its snapshots is kept" in said
    assert "does not fit" in said
    eventually("none is left", lambda: tenant.items(tenant.snapshots) == [])
    records = tenant.items("/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents")
    assert [one for one in records if one["spec"]["volumeSnapshotRef"]["namespace"] == tenant.namespace] == []
    assert tenant.group("one")["readyToUse"] is False
    tenant.limit(200 * MIB)
    tenant.run("delete", "one", "--wait", "--timeout", "60s")
    tenant.run("create", "two", "--statefulset", "db", "--wait", "--timeout", "60s")
    assert len(tenant.items(tenant.snapshots)) == REPLICAS


def test_the_controller_may_be_killed_while_a_group_is_taken(scene: EngineScene) -> None:
    tenant = GroupTenant(scene, "ullage-hostpath")
    tenant.stateful_set("db")
    tenant.run("create", "one", "--statefulset", "db")
    for _ in range(2):
        scene.kill("controller")
    eventually("it is ready", lambda: tenant.group("one").get("readyToUse") is True)
    assert len(tenant.items(tenant.snapshots)) == REPLICAS
    scene.api.delete(f"{tenant.groups}/one")
    scene.kill("controller")
    eventually("all are gone", lambda: tenant.items(tenant.snapshots) == [] and tenant.items(tenant.groups) == [])
