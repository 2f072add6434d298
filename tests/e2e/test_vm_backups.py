"""Backups and restores of VMs whose disks are volumes of engines: with the real processes, and real blocks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .api import Answer
from .engine_scene import MIB, EngineScene, engine_scene, eventually

Json = dict[str, Any]
BLOCK = 4096
pytestmark = pytest.mark.slow  # the processes, and the engines' volumes, take some seconds


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    with engine_scene(tmp_path_factory.mktemp("vms")) as found:
        yield found


class Tenant:
    """What somebody does in a namespace."""

    def __init__(self, scene: EngineScene, namespace: str) -> None:
        self.scene, self.api, self.namespace = scene, scene.api, namespace
        self.machines = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines"
        self.backups = f"/apis/harvesterhci.io/v1beta1/namespaces/{namespace}/virtualmachinebackups"
        self.restores = f"/apis/harvesterhci.io/v1beta1/namespaces/{namespace}/virtualmachinerestores"
        self.snapshots = f"/apis/snapshot.storage.k8s.io/v1/namespaces/{namespace}/volumesnapshots"

    def machine(self, name: str, *claims: str, strategy: str = "Always") -> None:
        volumes = [{"name": f"disk-{one}", "persistentVolumeClaim": {"claimName": one}} for one in claims]
        template = {"spec": {"domain": {"devices": {}}, "volumes": volumes}}
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}}
        self.api.create(self.machines, {**body, "spec": {"runStrategy": strategy, "template": template}})

    def run(self, name: str, strategy: str, status: str) -> None:
        self.api.merge(f"{self.machines}/{name}", {"spec": {"runStrategy": strategy}})
        self.until(name, status)

    def until(self, name: str, status: str) -> None:
        def reached() -> bool:
            return bool(self.api.get(f"{self.machines}/{name}").obj.get("status", {}).get("printableStatus") == status)

        eventually(f"VM {name} is {status}", reached)

    def claims_of(self, name: str) -> list[str]:
        volumes = self.api.get(f"{self.machines}/{name}").obj["spec"]["template"]["spec"]["volumes"]
        return [one["persistentVolumeClaim"]["claimName"] for one in volumes]

    def volume_of(self, claim: str) -> str:
        return str(
            self.api.get(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{claim}").obj["spec"]["volumeName"]
        )

    def ask_backup(self, name: str, machine: str) -> Answer:
        body = {"apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineBackup", "metadata": {"name": name}}
        return self.api.call("POST", self.backups, {**body, "spec": {"source": {"name": machine}, "type": "snapshot"}})

    def ask_restore(self, name: str, target: str, **spec: Any) -> Answer:
        body = {"apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineRestore", "metadata": {"name": name}}
        return self.api.call("POST", self.restores, {**body, "spec": {"target": {"name": target}, **spec}})

    def status(self, path: str) -> Json:
        return dict(self.api.get(path).obj.get("status", {}))


@pytest.fixture
def tenant(scene: EngineScene, request: pytest.FixtureRequest) -> Tenant:
    namespace = f"vms-{os.urandom(3).hex()}"
    scene.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    return Tenant(scene, namespace)


def test_a_vm_is_backed_up_brought_back_and_copied(scene: EngineScene, tenant: Tenant) -> None:
    for claim in ("root", "data"):
        scene.claim(tenant.namespace, claim, volumeMode="Block")
    tenant.machine("db", "root", "data")
    tenant.until("db", "Running")
    before = {claim: os.urandom(BLOCK) for claim in ("root", "data")}
    for claim, block in before.items():
        scene.write(tenant.volume_of(claim), 0, block)
    assert tenant.ask_backup("one", "db").code == 201
    backup = f"{tenant.backups}/one"
    eventually("the backup is ready", lambda: tenant.status(backup).get("readyToUse") is True)
    status = tenant.status(backup)
    assert [one["readyToUse"] for one in status["volumeBackups"]] == [True, True]
    assert status["progress"] == 100

    running = tenant.ask_restore("early", "db", virtualMachineBackupName="one")
    assert (running.code, running.causes[0]["field"]) == (422, "spec.target.name")
    assert "stop it before it is restored in place" in running.message

    for claim in before:
        scene.write(tenant.volume_of(claim), 0, os.urandom(BLOCK))
    tenant.run("db", "Halted", "Stopped")
    assert tenant.ask_restore("back", "db", virtualMachineBackupName="one").code == 201
    eventually("the restore is complete", lambda: tenant.status(f"{tenant.restores}/back").get("complete") is True)
    assert tenant.ask_restore("copy", "copy", virtualMachineBackupName="one", newVM=True).code == 201
    eventually("the copy is complete", lambda: tenant.status(f"{tenant.restores}/copy").get("complete") is True)

    for name in ("db", "copy"):
        tenant.run(name, "Always", "Running")
        found = [scene.read(tenant.volume_of(claim), 0, BLOCK) for claim in tenant.claims_of(name)]
        assert found == [before["root"], before["data"]], name

    scene.api.delete(backup)
    eventually("the backup is gone", lambda: scene.api.get(backup).code == 404)
    assert scene.api.get(tenant.snapshots).obj["items"] == []


def test_what_cannot_be_backed_up_is_refused_with_its_field(tenant: Tenant) -> None:
    refused = tenant.ask_backup("one", "nobody")
    assert (refused.code, refused.causes[0]["field"]) == (422, "spec.source.name")
    assert refused.message.endswith(f"spec.source.name: VM {tenant.namespace}/nobody does not exist")


def test_the_controller_may_be_killed_while_backups_are_made(scene: EngineScene, tenant: Tenant) -> None:
    scene.claim(tenant.namespace, "root", volumeMode="Block")
    tenant.machine("db", "root")
    tenant.until("db", "Running")
    for number in range(3):
        assert tenant.ask_backup(f"b{number}", "db").code == 201
        scene.kill("controller")

    def ready() -> list[bool]:
        return [tenant.status(f"{tenant.backups}/b{number}").get("readyToUse") is True for number in range(3)]

    eventually("all of them are ready", lambda: all(ready()))
    assert len(scene.api.get(tenant.snapshots).obj["items"]) == 3


def test_many_backups_of_vms_that_share_volumes_do_not_wait_for_each_other_for_ever(scene: EngineScene, tenant: Tenant) -> None:
    for claim in ("a", "b", "c"):
        scene.claim(tenant.namespace, claim, volumeMode="Block")
    tenant.machine("one", "a", "b", "c", strategy="Halted")
    tenant.machine("two", "c", "b", "a", strategy="Halted")
    names = [f"b{number}" for number in range(6)]
    for number, name in enumerate(names):
        assert tenant.ask_backup(name, ("one", "two")[number % 2]).code == 201
    eventually(
        "all are ready",
        lambda: all(tenant.status(f"{tenant.backups}/{name}").get("readyToUse") is True for name in names),
        seconds=120,
    )


def limited(scene: EngineScene, tenant: Tenant, limit: int) -> None:
    """A VM that runs, with two volumes, and a limit for its namespace that holds."""
    for claim in ("a", "b"):
        scene.claim(tenant.namespace, claim, volumeMode="Block")
    tenant.machine("db", "a", "b")
    tenant.until("db", "Running")
    quotas = f"/apis/harvesterhci.io/v1beta1/namespaces/{tenant.namespace}/resourcequotas"
    body = {"apiVersion": "harvesterhci.io/v1beta1", "kind": "ResourceQuota", "metadata": {"name": "default-resource-quota"}}
    scene.api.create(quotas, {**body, "spec": {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": limit}}})
    eventually("the limit holds", lambda: scene.api.get(f"{quotas}/default-resource-quota").obj.get("status"))


def fill(scene: EngineScene, tenant: Tenant, size: int) -> None:
    for claim in ("a", "b"):
        scene.write(tenant.volume_of(claim), 0, os.urandom(size))


def test_volumes_that_grow_between_admission_and_cut_fail_the_backup_and_nothing_is_left(
    scene: EngineScene, tenant: Tenant
) -> None:
    limited(scene, tenant, 6 * MIB)
    fill(scene, tenant, 2 * MIB)
    scene.end("controller")
    try:
        assert tenant.ask_backup("one", "db").code == 201, "by what is known of the volumes it fits"
        fill(scene, tenant, 4 * MIB)
    finally:
        scene.start("controller")
    eventually("it has failed", lambda: tenant.status(f"{tenant.backups}/one").get("error"))
    said = tenant.status(f"{tenant.backups}/one")["error"]["message"]
    assert said.startswith("SnapshotSpaceExceeded: snapshots of its 2 volumes take 8Mi by now, which does not fit: "), said
    eventually("no member is left", lambda: scene.api.get(tenant.snapshots).obj["items"] == [])


def test_a_backup_that_fits_exactly_is_taken_and_the_next_is_refused(scene: EngineScene, tenant: Tenant) -> None:
    limited(scene, tenant, 4 * MIB)
    fill(scene, tenant, 2 * MIB)
    assert tenant.ask_backup("one", "db").code == 201
    eventually("it is ready", lambda: tenant.status(f"{tenant.backups}/one").get("readyToUse") is True)
    fill(scene, tenant, BLOCK)

    def refused() -> str:
        """At once where the engine's head is known by then, and else before the cut."""
        answer = tenant.ask_backup("two", "db")
        if answer.code != 201:
            return answer.message
        eventually("it has failed", lambda: tenant.status(f"{tenant.backups}/two").get("error"))
        return str(tenant.status(f"{tenant.backups}/two")["error"]["message"])

    assert "does not fit" in refused()
    eventually("no member is left", lambda: len(scene.api.get(tenant.snapshots).obj["items"]) == 2)


def test_a_vm_on_directories_is_copied_with_its_files(scene: EngineScene, tenant: Tenant) -> None:
    path = scene.base.claim(tenant.namespace, "files", size="64Mi", storageClassName="ullage-hostpath")
    eventually("the claim is bound", lambda: scene.api.get(path).obj.get("status", {}).get("phase") == "Bound")

    def directory(claim: str) -> Path:
        found = scene.api.get(f"/api/v1/persistentvolumes/{tenant.volume_of(claim)}").obj["spec"]
        return Path((found.get("hostPath") or found["local"])["path"])

    disk = os.urandom(BLOCK)
    (directory("files") / "disk.img").write_bytes(disk)
    tenant.machine("db", "files", strategy="Halted")
    assert tenant.ask_backup("one", "db").code == 201
    eventually("the backup is ready", lambda: tenant.status(f"{tenant.backups}/one").get("readyToUse") is True)
    assert tenant.ask_restore("copy", "copy", virtualMachineBackupName="one", newVM=True).code == 201
    eventually("the copy is complete", lambda: tenant.status(f"{tenant.restores}/copy").get("complete") is True)
    (claim,) = tenant.claims_of("copy")
    assert (directory(claim) / "disk.img").read_bytes() == disk


def is_collected(tenant: Tenant) -> None:
    """The garbage collector has heard of VolumeSnapshots. That of kube-apiserver looks for new kinds twice a minute; until then
    it finds none that an orphaning deletion is to leave behind, and takes them along."""
    maps = f"/api/v1/namespaces/{tenant.namespace}/configmaps"
    owner = tenant.api.create(maps, {"metadata": {"name": "owner"}})["metadata"]["uid"]
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
    body = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot"}
    source = {"source": {"volumeSnapshotContentName": f"none-{tenant.namespace}"}}
    tenant.api.create(tenant.snapshots, {**body, "metadata": {"name": "owned", "ownerReferences": [ref]}, "spec": source})
    tenant.api.delete(f"{maps}/owner", {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
    eventually("what has no owner any more goes", lambda: tenant.api.get(f"{tenant.snapshots}/owned").code == 404, seconds=120)


def test_snapshots_that_a_backup_leaves_behind_pay_for_themselves(scene: EngineScene, tenant: Tenant) -> None:
    limited(scene, tenant, 64 * MIB)
    fill(scene, tenant, 2 * MIB)
    assert tenant.ask_backup("one", "db").code == 201
    path = f"{tenant.backups}/one"
    eventually("it is ready", lambda: tenant.status(path).get("readyToUse") is True)

    def taken() -> list[str]:
        found = scene.api.get(tenant.snapshots).obj["items"]
        return [one["metadata"]["annotations"]["ullage.io/takes"] for one in found]

    assert taken() == ["{}", "{}"], "the backup pays"
    is_collected(tenant)
    scene.api.delete(path, {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"})
    eventually("the backup is gone", lambda: scene.api.get(path).code == 404)
    assert [json.loads(one)["snapshots/namespace"] for one in taken()] == [{"storage": "2Mi"}] * 2
