"""Virtual machines with volumes of engines, their backups, and the quota of their namespace: as `ullage up` has them.

Sizes are those of the documents, with a megabyte for each gigabyte: every block is really written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .api import Answer
from .engine_scene import MIB, EngineScene, engine_scene, eventually
from .snapshot_scene import GA, Dialect

Json = dict[str, Any]
QUOTA = "default-resource-quota"
GI = MIB  # what stands for a gigabyte
CREATED = 201
FORBIDDEN = 403


class Tenant:
    """A namespace whose VMs are backed up."""

    def __init__(self, scene: EngineScene, namespace: str = "") -> None:
        self.scene = scene
        self.api = scene.api
        self.namespace = namespace or scene.base.namespace()
        self.backups = f"/apis/harvesterhci.io/v1beta1/namespaces/{self.namespace}/virtualmachinebackups"
        self.quotas = f"/apis/harvesterhci.io/v1beta1/namespaces/{self.namespace}/resourcequotas"
        self.machines = f"/apis/kubevirt.io/v1/namespaces/{self.namespace}/virtualmachines"
        self.volumes: dict[str, tuple[str, int]] = {}  # the engine's volume of each claim, and its size

    # --- machines and volumes ---

    def claim(self, name: str, size: int, **more: Any) -> str:
        """Waits until it is bound; the engine's volume."""
        spec = {"storageClassName": "longhorn", "volumeMode": "Block", **more}
        path = self.scene.base.claim(self.namespace, name, size=str(size), **spec)
        eventually(f"{path} is bound", lambda: self.api.get(path).obj.get("status", {}).get("phase") == "Bound")
        volume = str(self.api.get(path).obj["spec"]["volumeName"])
        self.volumes[name] = (volume, size)
        return volume

    def machine(self, name: str, *claims: str, runs: bool = True) -> None:
        """Waits until it runs, and its volumes are attached."""
        volumes = [{"name": f"disk-{one}", "persistentVolumeClaim": {"claimName": one}} for one in claims]
        disks = [{"name": f"disk-{one}", "disk": {"bus": "virtio"}} for one in claims]
        domain = {"devices": {"disks": disks}, "resources": {"requests": {"memory": "64Mi"}}}
        spec = {"runStrategy": "Always" if runs else "Halted", "template": {"spec": {"domain": domain, "volumes": volumes}}}
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}, "spec": spec}
        self.api.create(self.machines, body)
        if runs:
            eventually(f"{name} runs", lambda: self.status_of(name) == "Running")
            for claim in claims:
                if claim in self.volumes:
                    self.attached(claim)

    def attached(self, claim: str) -> None:
        volume, _ = self.volumes[claim]
        eventually(f"{claim} is attached", lambda: self.scene.state(volume) == "attached")

    def status_of(self, machine: str) -> str:
        return str(self.api.get(f"{self.machines}/{machine}").obj.get("status", {}).get("printableStatus", ""))

    def fill(self, *claims: str, percent: int = 100) -> None:
        """So much of each, from its beginning."""
        for claim in claims:
            self.write(self.volumes[claim][1] * percent // 100, claim)

    def write(self, length: int, *claims: str) -> None:
        """Writes random bytes at the beginning of each, and waits until the API shows what was written: admission sees that."""
        for claim in claims:
            for offset in range(0, length, MIB):
                self.scene.write(self.volumes[claim][0], offset, os.urandom(min(MIB, length - offset)))
        for claim in claims:
            shown = partial(self.head, self.volumes[claim][0])
            eventually(f"the head of {claim} shows {length} bytes", lambda shown=shown: shown() >= length)  # type: ignore[misc]

    def head(self, volume: str) -> int:
        """As its Engine shows it."""
        found = (self.scene.get("engines", f"{volume}-e-0") or {}).get("status", {}).get("snapshots") or {}
        return int(found.get("volume-head", {}).get("size") or 0)

    # --- quotas ---

    def limit(self, **limits: Any) -> None:
        """`namespace=…`, `vms={…}`, in bytes."""
        spec: Json = {}
        if "namespace" in limits:
            spec["namespaceTotalSnapshotSizeQuota"] = limits["namespace"]
        if "vms" in limits:
            spec["vmTotalSnapshotSizeQuota"] = limits["vms"]
        body = {
            "apiVersion": "harvesterhci.io/v1beta1",
            "kind": "ResourceQuota",
            "metadata": {"name": QUOTA},
            "spec": {"snapshotLimit": spec},
        }
        if self.api.get(f"{self.quotas}/{QUOTA}").code == 200:
            self.api.merge(f"{self.quotas}/{QUOTA}", {"spec": {"snapshotLimit": spec}})
        else:
            self.api.create(self.quotas, body)
        generation = self.quota()["metadata"]["generation"]

        def in_force() -> bool:
            status = self.quota().get("status", {})
            return status.get("observedGeneration") == generation and self.condition("Ready") == "True"

        eventually("the limits are in force", in_force)

    def quota(self) -> Json:
        found: Json = self.api.get(f"{self.quotas}/{QUOTA}").obj
        return found

    def condition(self, type: str) -> str:
        found = self.quota().get("status", {}).get("conditions", ())
        return next((str(one["status"]) for one in found if one["type"] == type), "")

    def usage(self) -> int:
        status = self.quota().get("status", {}).get("snapshotLimitStatus") or {}
        return int(status.get("namespaceTotalSnapshotSizeUsage", -1))

    def usage_of(self, machine: str) -> int:
        status = self.quota().get("status", {}).get("snapshotLimitStatus") or {}
        return int((status.get("vmTotalSnapshotSizeUsage") or {}).get(machine, 0))

    # --- backups and snapshots ---

    def ask_backup(self, name: str, machine: str, *, type: str = "snapshot") -> Answer:
        source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": machine}
        body = {
            "apiVersion": "harvesterhci.io/v1beta1",
            "kind": "VirtualMachineBackup",
            "metadata": {"name": name},
            "spec": {"source": source, "type": type},
        }
        return self.api.call("POST", self.backups, body)

    def backup(self, name: str, machine: str, *, type: str = "snapshot") -> None:
        """Waits until it is ready."""
        answer = self.ask_backup(name, machine, type=type)
        assert answer.code == CREATED, answer.raw
        eventually(f"backup {name} is ready", lambda: self.is_ready(name))

    def is_ready(self, name: str) -> bool:
        status = self.api.get(f"{self.backups}/{name}").obj.get("status", {})
        assert "error" not in status, status["error"]
        return status.get("readyToUse") is True

    def delete_backups(self, *names: str) -> None:
        for name in names:
            self.api.delete(f"{self.backups}/{name}")
        eventually(
            f"backups {', '.join(names)} are gone",
            lambda: all(self.api.get(f"{self.backups}/{name}").code == 404 for name in names),
        )

    def ask_snapshot(self, name: str, claim: str, dialect: Dialect = GA) -> Answer:
        return self.api.call("POST", dialect.snapshots(self.namespace), dialect.of_claim(name, claim))

    def snapshot(self, name: str, claim: str, dialect: Dialect = GA) -> None:
        answer = self.ask_snapshot(name, claim, dialect)
        assert answer.code == CREATED, answer.raw
        path = f"{dialect.snapshots(self.namespace)}/{name}"
        eventually(f"snapshot {name} is ready", lambda: dialect.ready(self.api.get(path).obj))

    def delete_snapshot(self, name: str, dialect: Dialect = GA) -> None:
        path = f"{dialect.snapshots(self.namespace)}/{name}"
        self.api.delete(path)
        eventually(f"{path} is gone", lambda: self.api.get(path).code == 404)

    def members(self) -> Mapping[str, Json]:
        found = self.api.get(GA.snapshots(self.namespace)).obj["items"]
        return {one["metadata"]["name"]: one for one in found}


@contextlib.contextmanager
def space_scene(folder: Path) -> Iterator[EngineScene]:
    with engine_scene(folder) as made:
        yield made
