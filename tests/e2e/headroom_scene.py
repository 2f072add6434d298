"""Namespaces with a quota and a reserve for migrations, and VMs on several nodes in them: as `ullage up --nodes 3` has them.

A VM here is that of the document: 1 CPU, a limit of 1Gi, a guest of 924Mi. It costs 1222Mi by the formula of the design, which
all processes are told to use.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .api import Answer
from .engine_scene import EngineScene, eventually, install_engines
from .snapshot_scene import scene as base_scene

Json = dict[str, Any]
KUBEVIRT = "/apis/kubevirt.io/v1"
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"
NODES = ("ullage", "ullage-2", "ullage-3")
DRAIN = {"key": "kubevirt.io/drain", "effect": "NoSchedule"}
MI = 1 << 20
COST = 1222 * MI
CREATED, FORBIDDEN = 201, 403
MERGE = {"Content-Type": "application/merge-patch+json"}
OVER = ("Succeeded", "Failed")
FORMULA = ["--kubevirt", "seed"]  # that of the design: a VM of 1 CPU costs 1 CPU


class HeadroomScene(EngineScene):
    """`processes` are those that stories kill."""

    nodes: tuple[str, ...] = NODES
    processes: tuple[str, ...] = ("webhook", "controller", "world")

    def tenant(self, *, percent: int = 50, typed: bool = False) -> Tenant:
        """Two of the document's VMs fill either half of it. `typed`: also where they get their size from instance types."""
        return Tenant(self, percent=percent)

    @contextlib.contextmanager
    def nothing_stops(self) -> Iterator[None]:
        """What is told to stop goes on stopping."""
        self.end("world")
        try:
            yield
        finally:
            self.start("world")

    def command(self, name: str) -> list[str]:
        own = ["--nodes", str(len(NODES)), "--migration-time", "1s"]
        charged = FORMULA if name in ("webhook", "controller", "world") else []
        return [*super().command(name), *charged, *(own if name == "world" else ())]

    def node(self, name: str, **spec: Any) -> None:
        self.api.merge(f"/api/v1/nodes/{name}", {"spec": spec})

    def drain(self, name: str) -> None:
        self.node(name, unschedulable=True, taints=[DRAIN])

    def uncordon(self, name: str) -> None:
        self.node(name, unschedulable=None, taints=None)

    def bring_core_quota(self, namespace: str, hard: Mapping[str, str]) -> None:
        """What Rancher makes of the annotation. The world does so by itself."""

    def settings(self, **migrations: Any) -> None:
        """How KubeVirt migrates; None takes a setting out."""
        path = f"{KUBEVIRT}/namespaces/kubevirt/kubevirts/kubevirt"
        self.api.merge(path, {"spec": {"configuration": {"migrations": migrations}}})


@contextlib.contextmanager
def headroom_scene(folder: Path) -> Iterator[HeadroomScene]:
    with base_scene(folder) as base:
        made = HeadroomScene(base)
        install_engines(made)
        with made.running():
            eventually("the nodes are ready", lambda: all(is_ready(made, name) for name in NODES))
            yield made


def is_ready(scene: HeadroomScene, name: str) -> bool:
    answer = scene.api.get(f"/api/v1/nodes/{name}")
    status = answer.obj.get("status", {}) if answer.code == 200 else {}
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))


class Tenant:
    """A namespace with a quota, of which so many percent are kept for migrations."""

    # What a refusal says where a quarter is kept and one migration has it.
    no_reserve: tuple[str, ...] = ("cpu: asked 1 core, used ", "share 1 core", "memory: asked 1.2", "share 1.25Gi")

    def __init__(self, scene: HeadroomScene, *, cpu: str = "4", memory: str = "5Gi", percent: int = 50) -> None:
        self.scene, self.api = scene, scene.api
        self.namespace = scene.base.namespace()
        self.path = f"/api/v1/namespaces/{self.namespace}"
        self.machines = f"{KUBEVIRT}/namespaces/{self.namespace}/virtualmachines"
        self.instances = f"{KUBEVIRT}/namespaces/{self.namespace}/virtualmachineinstances"
        self.migrations = f"{KUBEVIRT}/namespaces/{self.namespace}/virtualmachineinstancemigrations"
        quota = json.dumps({"limit": {"limitsCpu": cpu, "limitsMemory": memory}})
        reserve = json.dumps({"limit": {"limitsCPUPercent": percent, "limitsMemoryPercent": percent}})
        marks = {"field.cattle.io/resourceQuota": quota, "harvesterhci.io/maintenanceQuota": reserve}
        self.api.merge(self.path, {"metadata": {"annotations": marks}})
        scene.bring_core_quota(self.path, {"limits.cpu": cpu, "limits.memory": memory})
        eventually("its shares are in force", self._is_in_force)
        eventually("the quota of the cluster itself is there", lambda: self.core_quota().get("status", {}).get("hard"))

    def _is_in_force(self) -> bool:
        answer = self.api.get(f"{LEDGERS}/ns-{self.namespace}")
        if answer.code != 200:
            return False
        spec, status = answer.obj.get("spec", {}), answer.obj.get("status", {})
        return "compute/vms" in spec.get("limits", {}) and status.get("change", 0) == spec.get("change", 0)

    def annotations(self) -> Json:
        return dict(self.api.get(self.path).obj["metadata"].get("annotations") or {})

    def core_quota(self) -> Json:
        """The cluster's own, which Rancher would make of the annotation."""
        found = self.api.get(f"{self.path}/resourcequotas").obj["items"]
        return dict(found[0]) if found else {}

    # --- machines ---

    def machine(self, name: str, strategy: str = "Always", *claims: str, **annotations: str) -> Json:
        domain = {
            "cpu": {"cores": 1},
            "memory": {"guest": "924Mi"},
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "devices": {"disks": [{"name": f"disk-{one}", "disk": {"bus": "virtio"}} for one in claims]},
        }
        volumes = [{"name": f"disk-{one}", "persistentVolumeClaim": {"claimName": one}} for one in claims]
        template = {"metadata": {"annotations": annotations}, "spec": {"domain": domain, "volumes": volumes}}
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}}
        return {**body, "spec": {"runStrategy": strategy, "template": template}}

    def ask_machine(self, name: str, strategy: str = "Always", *claims: str) -> Answer:
        return self.api.call("POST", self.machines, self.machine(name, strategy, *claims))

    def run(self, *names: str) -> None:
        """Makes them, and waits until they run."""
        for name in names:
            answer = self.ask_machine(name)
            assert answer.code == CREATED, answer.raw
        self.until("Running", *names)

    def set_strategy(self, name: str, strategy: str) -> Answer:
        change = {"spec": {"runStrategy": strategy}}
        return self.api.call("PATCH", f"{self.machines}/{name}", change, headers=MERGE)

    def stop(self, name: str) -> None:
        answer = self.set_strategy(name, "Halted")
        assert answer.code == 200, answer.raw

    def restart(self, name: str) -> None:
        requests = [{"action": "Stop", "uid": self.uid(name)}, {"action": "Start"}]
        self.api.merge(f"{self.machines}/{name}/status", {"status": {"stateChangeRequests": requests}})

    def word(self, name: str) -> str:
        return str(self.api.get(f"{self.machines}/{name}").obj.get("status", {}).get("printableStatus", ""))

    def until(self, word: str, *names: str) -> None:
        for name in names:
            eventually(f"{name} is {word}", lambda name=name: self.word(name) == word)  # type: ignore[misc]

    def instance(self, name: str) -> Json:
        """Empty where there is none."""
        answer = self.api.get(f"{self.instances}/{name}")
        return answer.obj if answer.code == 200 else {}

    def uid(self, name: str) -> str:
        return str(self.instance(name).get("metadata", {}).get("uid", ""))

    def node_of(self, name: str) -> str:
        return str(self.instance(name).get("status", {}).get("nodeName", ""))

    def pause(self, name: str, *, paused: bool = True) -> None:
        self.annotate_instance(name, "ullage.io/paused", "true" if paused else "false")
        self.until("Paused" if paused else "Running", name)

    def annotate_instance(self, name: str, key: str, value: str) -> None:
        self.api.merge(f"{self.instances}/{name}", {"metadata": {"annotations": {key: value}}})

    def takes(self, name: str, time: str) -> None:
        """How long the copying of this instance takes; `never`: until it is deleted."""
        self.annotate_instance(name, "ullage.io/migration-time", time)

    def running(self) -> list[str]:
        found = self.api.get(self.instances).obj["items"]
        return sorted(one["metadata"]["name"] for one in found if one.get("status", {}).get("phase") == "Running")

    # --- migrations ---

    def ask_migration(self, machine: str, name: str = "") -> Answer:
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration"}
        meta = {"name": name or f"move-{machine}"}
        return self.api.call("POST", self.migrations, {**body, "metadata": meta, "spec": {"vmiName": machine}})

    def migrate(self, machine: str, name: str = "") -> str:
        answer = self.ask_migration(machine, name)
        assert answer.code == CREATED, answer.raw
        return str(answer.obj["metadata"]["name"])

    def phase(self, migration: str) -> str:
        return str(self.api.get(f"{self.migrations}/{migration}").obj.get("status", {}).get("phase", ""))

    def moved(self, migration: str) -> None:
        """Waits until it has succeeded."""
        eventually(f"{migration} is over", lambda: self.phase(migration) in OVER)
        found = self.api.get(f"{self.migrations}/{migration}").obj
        assert found["status"]["phase"] == "Succeeded", found["status"]

    def unfinished(self) -> list[str]:
        found = self.api.get(self.migrations).obj["items"]
        return [one["metadata"]["name"] for one in found if one.get("status", {}).get("phase") not in OVER]

    def refused_pods(self) -> list[str]:
        """What the cluster's own quota, or anybody else, has said against the pods of migrations."""
        told = self.api.get(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events").obj["items"]
        events = [
            one["note"]
            for one in told
            if one["regarding"]["kind"] == "VirtualMachineInstanceMigration" and one["reason"] == "FailedCreate"
        ]
        found = self.api.get(self.migrations).obj["items"]
        conditions = [condition for one in found for condition in one.get("status", {}).get("conditions", ())]
        return [*events, *(one["message"] for one in conditions if one["type"] == "migrationRejectedByResourceQuota")]


@contextlib.contextmanager
def watched(look: Callable[[], str]) -> Iterator[None]:
    """Looks again and again while something goes on; whatever it finds, the test fails with it."""
    over, found = threading.Event(), list[str]()

    def run() -> None:
        while not over.is_set():
            try:
                problem = look()
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                found.append(problem)
                return
            over.wait(0.02)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not found, found[0]


def never_stops(tenant: Tenant, names: Sequence[str]) -> Callable[[], str]:
    """That every one of these goes on running, as the instance that it is now."""
    before = {name: tenant.uid(name) for name in names}

    def look() -> str:
        for name, uid in before.items():
            found = tenant.instance(name)
            phase = found.get("status", {}).get("phase")
            if phase != "Running" or found["metadata"]["uid"] != uid:
                return f"{name} is {phase or 'gone'}"
        return ""

    return look
