"""VMs as a person has them on one machine: they start, stop, pause, restart, change their volumes and fill them, while the
world is killed. What a VM has is attached as long as it runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .apart import IS_BORROWED
from .engine_scene import MIB, SIZE, EngineScene, engine_scene, eventually
from .test_snapshot_cli import environment

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.timeout(240),
]
Json = dict[str, Any]
KUBEVIRT = "/apis/kubevirt.io/v1"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    with engine_scene(tmp_path_factory.mktemp("vms")) as made:
        yield made


def ran(scene: EngineScene, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ullage", "vm", *arguments]
    env = environment(Path(scene.base.plane.kubeconfig))
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)


def called(scene: EngineScene, *arguments: str) -> str:
    done = ran(scene, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Vm:
    """A VM of a namespace, as the API shows it."""

    def __init__(self, scene: EngineScene, namespace: str, name: str = "db") -> None:
        self.api = scene.api
        self.namespace = namespace
        self.machines = f"{KUBEVIRT}/namespaces/{namespace}/virtualmachines"
        self.path = f"{self.machines}/{name}"
        self.instance_path = f"{KUBEVIRT}/namespaces/{namespace}/virtualmachineinstances/{name}"

    def create(self, *claims: str, strategy: str = "Always") -> None:
        disks = [{"name": one, "disk": {"bus": "virtio"}} for one in claims]
        spec = {
            "domain": {"devices": {"disks": disks}, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
            "volumes": [volume(one) for one in claims],
        }
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "db"}}
        self.api.create(self.machines, {**body, "spec": {"runStrategy": strategy, "template": {"spec": spec}}})

    @property
    def machine(self) -> Json:
        return self.api.get(self.path).obj

    @property
    def instance(self) -> Json:
        """Empty where there is none."""
        answer = self.api.get(self.instance_path)
        return answer.obj if answer.code == 200 else {}

    @property
    def word(self) -> str:
        return str(self.machine.get("status", {}).get("printableStatus", ""))

    def becomes(self, word: str) -> None:
        eventually(f"the VM is {word}", lambda: self.word == word)


def volume(claim: str, **more: Any) -> Json:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim, **more}}


def test_a_vm_has_its_volumes_attached_while_it_runs_whenever_the_world_is_killed(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    (_, data), (_, more) = scene.claim(namespace, "data"), scene.claim(namespace, "more")
    scene.base.claim(namespace, "files", size="1Mi", storageClassName="ullage-hostpath")
    vm = Vm(scene, namespace)
    vm.create("data", "files")
    scene.kill("world")
    vm.becomes("Running")
    assert (scene.state(data), scene.state(more)) == ("attached", "detached")
    made = vm.instance
    assert made["spec"]["domain"]["resources"]["limits"]["memory"] == "1Gi"
    assert (made["status"]["phase"], made["status"]["nodeName"]) == ("Running", "ullage")
    assert [one["name"] for one in made["status"]["volumeStatus"]] == ["data", "files"]

    both = [volume("data"), volume("files"), volume("more", hotpluggable=True)]
    scene.api.merge(vm.path, {"spec": {"template": {"spec": {"volumes": both}}}})
    scene.kill("world")
    eventually("the volume is plugged in", lambda: scene.state(more) == "attached")
    scene.api.merge(vm.path, {"spec": {"template": {"spec": {"volumes": both[:2]}}}})
    eventually("the volume is taken out", lambda: scene.state(more) == "detached")
    assert vm.instance["metadata"]["uid"] == made["metadata"]["uid"]

    scene.api.delete(vm.path)
    scene.kill("world")
    eventually("the VM is gone", lambda: scene.api.get(vm.path).code == 404 and not vm.instance)
    eventually("its volume is free", lambda: scene.state(data) == "detached")


@pytest.mark.slow
def test_a_person_starts_fills_pauses_restarts_and_stops_a_vm(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    _, data = scene.claim(namespace, "data", volumeMode="Block")
    files = scene.base.claim(namespace, "files", size="1Mi", storageClassName="ullage-hostpath")
    vm, name = Vm(scene, namespace), f"{namespace}/db"
    vm.create("data", "files", strategy="Manual")
    vm.becomes("Stopped")
    assert scene.state(data) == "detached"

    assert called(scene, "fill", name, "--bytes", "1Mi").splitlines() == [
        "data: 1Mi of 32Mi written, claim data",
        "files: 1Mi written, claim files",
        "virtualmachine.kubevirt.io/db: 2Mi of random data written over 2 volumes",
    ]
    eventually("nobody holds it any more", lambda: scene.state(data) == "detached" and not scene.tickets(data))

    assert called(scene, "start", name, "--wait", "--timeout", "60s").splitlines()[-1] == f"{name}: Running"
    first = vm.instance["metadata"]["uid"]
    before = scene.read(data, 0, SIZE)
    assert before[:MIB] != bytes(MIB)
    assert before[MIB:] == bytes(SIZE - MIB)
    head = int(scene.chain(data)["volume-head"].size)
    called(scene, "fill", name, "--volume", "data", "--percent", "50")
    assert int(scene.chain(data)["volume-head"].size) == SIZE // 2 > head
    assert scene.state(data) == "attached"
    volume_name = scene.api.get(files).obj["spec"]["volumeName"]
    assert len(set((scene.base.volumes / volume_name / "disk.img").read_bytes()[-4096:])) > 200

    refused = ran(scene, "start", name)
    assert (refused.returncode, refused.stderr) == (1, f"ullage: VM {name} runs already\n")
    called(scene, "pause", name)
    scene.kill("world")
    vm.becomes("Paused")
    assert scene.state(data) == "attached"
    assert called(scene, "unpause", name, "--wait").splitlines()[-1] == f"{name}: Running"
    called(scene, "restart", name)
    scene.kill("world")
    eventually("another instance runs", lambda: vm.word == "Running" and vm.instance.get("metadata", {}).get("uid") != first)

    assert called(scene, "stop", name, "--wait", "--timeout", "60s").splitlines()[-1] == f"{name}: Stopped"
    eventually("its volume is free", lambda: scene.state(data) == "detached")
    assert vm.machine["spec"]["runStrategy"] == "Manual"
    assert called(scene, "list", "-n", namespace).splitlines()[1].split()[:5] == ["db", "Stopped", "False", "Manual", "2"]


@pytest.mark.slow
def test_a_person_backs_a_vm_up_fills_it_and_brings_it_back(scene: EngineScene) -> None:
    namespace = scene.base.namespace()
    scene.claim(namespace, "data", volumeMode="Block")
    vm, name = Vm(scene, namespace), f"{namespace}/db"
    vm.create("data")
    vm.becomes("Running")
    called(scene, "fill", name, "--bytes", "1Mi")
    before = scene.read(volume_of(scene, vm), 0, MIB)

    made = called(scene, "backup", name, "--name", "monday", "--wait", "--timeout", "60s").splitlines()
    assert made[0] == "virtualmachinebackup.harvesterhci.io/monday created"
    assert made[-1].startswith("monday: the VM can be restored from it: 1 volume (")
    called(scene, "fill", name, "--bytes", "1Mi")
    assert scene.read(volume_of(scene, vm), 0, MIB) != before

    refused = ran(scene, "restore", f"{namespace}/monday")
    assert refused.returncode == 1
    assert f"VM {name} is Running; stop it before it is restored in place" in refused.stderr
    called(scene, "stop", name, "--wait", "--timeout", "60s")
    done = called(scene, "restore", f"{namespace}/monday", "--wait", "--timeout", "60s").splitlines()
    assert f"VM {name} has 1 volume of backup monday" in done[-1]
    called(scene, "start", name, "--wait", "--timeout", "60s")
    assert scene.read(volume_of(scene, vm), 0, MIB) == before

    called(scene, "restore", "monday", "-n", namespace, "--new-vm", "copy", "--no-start", "--wait", "--timeout", "60s")
    copy = Vm(scene, namespace, "copy")
    copy.becomes("Stopped")
    called(scene, "start", f"{namespace}/copy", "--wait", "--timeout", "60s")
    assert scene.read(volume_of(scene, copy), 0, MIB) == before


def volume_of(scene: EngineScene, vm: Vm) -> str:
    """Of its first claim."""
    claim = vm.machine["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    path = f"/api/v1/namespaces/{vm.namespace}/persistentvolumeclaims/{claim}"
    return str(scene.api.get(path).obj["spec"]["volumeName"])
