"""Ullage beside the real KubeVirt: our webhook and our controller, under their own accounts, on a control plane with virt-api
and virt-controller. Tests use it as they use the world (`tests/e2e/headroom_scene.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.api import Answer
from tests.e2e.headroom_scene import CREATED, MERGE, OVER, HeadroomScene, Tenant
from tests.e2e.snapshot_scene import Scene
from ullage.app import compose
from ullage.app.drivers import Chosen
from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import manifests
from ullage.app.installer.roles import CONTROLLER, WEBHOOK
from ullage.app.up.components import VMS
from ullage.app.up.identities import Identities, Identity
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.standalone.world.model import CLASS
from ullage.standalone.world.slice import bring_classes

from .kubevirt_nodes import COPYING, CRASHES, NAMES
from .kubevirt_plane import SUBRESOURCES, VIRT_CONTROLLER, KubeVirt, kubevirt_plane

Json = dict[str, Any]
NO_HARVESTER = Chosen(manage_vm_backups=True, manage_vm_restores=True)
PROCESSES = ("webhook", "controller")
LAUNCHERS = "/api/v1/pods?labelSelector=kubevirt.io%3Dvirt-launcher&fieldSelector=spec.nodeName%3D{}"
ACCEPTED, TOO_MANY = 202, 429


class KubeVirtScene(HeadroomScene):
    nodes = NAMES
    processes = (*PROCESSES, VIRT_CONTROLLER)

    def __init__(self, base: Scene, kubevirt: KubeVirt) -> None:
        super().__init__(base)
        self._kubevirt = kubevirt

    def tenant(self, *, percent: int = 50, typed: bool = False) -> RealTenant:
        """Beside a core ResourceQuota a pod may use twice the memory that an instance type asks for."""
        return RealTenant(self, percent=percent, memory="16Gi" if typed else "8Gi")

    def kill(self, name: str) -> None:
        if name == VIRT_CONTROLLER:
            self._kubevirt.kill(name)
        else:
            super().kill(name)

    @contextlib.contextmanager
    def nothing_stops(self) -> Iterator[None]:
        with self._kubevirt.nodes.halted():
            yield

    def drain(self, name: str) -> None:
        """What `kubectl drain` asks for, once: virt-api moves the VMs instead of letting their pods go."""
        self.node(name, unschedulable=True)
        for pod in self.api.get(LAUNCHERS.format(name)).obj["items"]:
            if pod["status"].get("phase") not in OVER and "deletionTimestamp" not in pod["metadata"]:
                answer = self.evict(pod["metadata"]["namespace"], pod["metadata"]["name"])
                assert answer.code in (CREATED, 404, TOO_MANY), answer.raw

    def uncordon(self, name: str) -> None:
        self.node(name, unschedulable=None)

    def evict(self, namespace: str, pod: str) -> Answer:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        return self.api.call("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction", body)

    def claim(self, namespace: str, name: str, **spec: Any) -> tuple[str, str]:
        """With a directory of this machine behind it."""
        directory = self.base.volumes / f"{namespace}-{name}"
        directory.mkdir()
        source = {"hostPath": {"path": str(directory)}}
        path = self.base.bound_claim(namespace, name, source=source, storage_class=CLASS, **spec)
        return path, f"{namespace}-{name}"

    def command(self, name: str) -> list[str]:
        own = {"webhook": self.base.webhook, "controller": self.base.controller}
        return [*own[name](), *VMS]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        try:
            for name in PROCESSES:
                self.start(name)
            yield
        finally:
            for name in list(self._processes):
                self.end(name)
                print(f"--- {name}\n{(self.base.directory / f'{name}.log').read_text(errors='replace')[-3000:]}")

    def bring_core_quota(self, namespace: str, hard: Mapping[str, str]) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "default-quota"},
            "spec": {"hard": dict(hard)},
        }
        self.api.create(f"{namespace}/resourcequotas", body)


class RealTenant(Tenant):
    """A namespace with shares, and what the real KubeVirt knows of it. Half is kept for migrations, unless said otherwise: the
    pods of two VMs fit into either half."""

    no_reserve = ("cpu: asked 1.02 cores, used ", "share 1.25 cores", "memory: asked 1.42Gi", "share 2Gi")

    def __init__(self, scene: KubeVirtScene, *, cpu: str = "5", memory: str = "8Gi", percent: int = 50) -> None:
        super().__init__(scene, cpu=cpu, memory=memory, percent=percent)
        self.real = scene

    def takes(self, name: str, time: str) -> None:
        self.annotate_instance(name, COPYING, time)

    def restart(self, name: str) -> None:
        answer = self.subresource("virtualmachines", name, "restart")
        assert answer.code == ACCEPTED, answer.raw

    def pause(self, name: str, *, paused: bool = True) -> None:
        answer = self.subresource("virtualmachineinstances", name, "pause" if paused else "unpause")
        assert answer.code == 200, answer.raw
        self.until("Paused" if paused else "Running", name)

    def crashing(self, name: str) -> Json:
        """A VM whose guest ends as soon as it has started."""
        return self.machine(name, "Always", **{CRASHES: "true"})

    def ask(self, body: Json) -> Answer:
        return self.api.call("POST", self.machines, body)

    def run_body(self, body: Json) -> None:
        answer = self.ask(body)
        assert answer.code == CREATED, answer.raw
        self.until("Running", body["metadata"]["name"])

    def subresource(self, plural: str, name: str, verb: str) -> Answer:
        """What virtctl asks for."""
        return self.api.call("PUT", f"{SUBRESOURCES}/namespaces/{self.namespace}/{plural}/{name}/{verb}", {})

    def evict(self, name: str) -> Answer:
        """What `kubectl drain` asks for: that the pod of an instance goes."""
        (pod,) = [one["metadata"]["name"] for one in self.pods(name)]
        return self.real.evict(self.namespace, pod)

    def events(self, name: str) -> str:
        """What was told about objects of a name, all in one text."""
        found = self.api.get(f"{self.path}/events").obj["items"]
        return "\n".join(f"{one['reason']}: {one['message']}" for one in found if one["involvedObject"]["name"] == name)

    def change(self, name: str, change: Json) -> Answer:
        """A merge patch of a VM."""
        return self.api.call("PATCH", f"{self.machines}/{name}", change, headers=MERGE)

    def pods(self, name: str) -> list[Json]:
        """The launcher pods of an instance that are not over."""
        found = self.api.get(f"{self.path}/pods?labelSelector=vm.kubevirt.io%2Fname%3D{name}").obj["items"]
        return [one for one in found if one["status"].get("phase") not in ("Succeeded", "Failed")]


@contextlib.contextmanager
def kubevirt_scene(programs: Path) -> Iterator[tuple[KubeVirtScene, KubeVirt]]:
    directory = Path(tempfile.mkdtemp(prefix="ullage-"))
    try:
        with kubevirt_plane(programs) as kubevirt:
            base = Scene(kubevirt.plane, directory)
            asyncio.run(_install(base))
            made = KubeVirtScene(base, kubevirt)
            with made.running():
                yield made, kubevirt
    finally:
        shutil.rmtree(directory)


async def _install(scene: Scene) -> None:
    """What `ullage install` does on a cluster that has KubeVirt and no Harvester."""
    async with Client(Config.load(scene.plane.kubeconfig, environ={})) as client:
        outcomes = await Installer(client).install(manifests(compose(NO_HARVESTER)), tell=lambda outcome: None)
        assert not (problems := [outcome for outcome in outcomes if outcome.verb == "problem"]), problems
        await bring_classes(client)
        await Identities(client, [Identity(name, scene.directory) for name in (CONTROLLER, WEBHOOK)]).issue()
