"""A machine-controller beside the API server of a user cluster, and the Nodes that the servers of its Machines would become."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from tests.e2e.headroom_scene import MERGE
from tests.e2e.projects_scene import KUBE_SYSTEM, UserCluster
from tests.e2e.snapshot_scene import eventually
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS, MACHINES

Json = dict[str, Any]
DEPLOYMENTS: Final = MACHINE_DEPLOYMENTS.path(KUBE_SYSTEM)
SETS: Final = MACHINE_SETS.path(KUBE_SYSTEM)
EVENTS: Final = f"/api/v1/namespaces/{KUBE_SYSTEM}/events"
NODES: Final = "/api/v1/nodes"
COMBINED: Final = "(combined from similar events): "  # what Go's recorder puts before the eleventh message and later ones
KUBELET: Final = "1.30.0"
HOLDS: Final = "machine-delete-finalizer"  # of a Machine that machine-controller asked its provider for
OWNER: Final = "machine-controller/owned-by"  # label of a Node: the uid of its Machine
EVERY: Final = 0.3  # seconds between two looks for Machines without a Node


class MachineController:
    """Runs for the length of the block."""

    def __init__(self, programs: Path, cluster: UserCluster, log: Path) -> None:
        self._programs = programs
        self._cluster = cluster
        self._log = log
        self._ended = threading.Event()
        self._nodes = threading.Thread(target=self._make_nodes, daemon=True)

    def __enter__(self) -> Self:
        options = ("-leader-election-namespace", KUBE_SYSTEM, "-health-probe-address", "0", "-metrics-address", "0")
        command = [
            str(self._programs / "machine-controller"),
            *("-kubeconfig", str(self._cluster.server.kubeconfig)),
            *("-enable-leader-election=false", "-node-csr-approver=false", *options),
        ]
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        self._nodes.start()
        eventually("machine-controller has started", self._started, seconds=60)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._process.kill()
        self._process.wait()
        self._nodes.join()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _started(self) -> bool:
        assert self._process.poll() is None, self.log()[-3000:]
        return "startup complete" in self.log()

    def _make_nodes(self) -> None:
        """The server of each Machine joins as a Node, which machine-controller deletes with the Machine.

        The servers of its provider `fake` have no address, and without one it looks for no Node. So the reference that it would
        write is written here; it takes one away again where it has not seen the Node yet.
        """
        while not self._ended.wait(EVERY):
            for machine in self._cluster.api.get(self._cluster.machines).obj["items"]:
                meta = machine["metadata"]
                begun = HOLDS in meta.get("finalizers", ()) and "deletionTimestamp" not in meta
                if begun and "nodeRef" not in machine.get("status", {}):
                    self._join(meta)

    def _join(self, machine: Json) -> None:
        api, name = self._cluster.api, machine["name"]
        # machine-controller finds what it deletes by the label. It writes into both maps, and ends where one is not there.
        maps = {"labels": {OWNER: machine["uid"]}, "annotations": {"played": "yes"}}
        node = {"metadata": {"name": name, **maps}, "spec": {"providerID": f"fake:///{machine['uid']}"}}
        api.call("POST", NODES, {"apiVersion": "v1", "kind": "Node", **node})  # it may be there already
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it is played"}
        info = {"kubeletVersion": f"v{KUBELET}", "operatingSystem": "linux", "architecture": "amd64"}
        api.merge(f"{NODES}/{name}/status", {"status": {"conditions": [ready], "nodeInfo": info}})
        ref = {"apiVersion": "v1", "kind": "Node", "name": name}
        path = f"{self._cluster.machines}/{name}"
        joined = api.call("PATCH", path, {"status": {"nodeRef": ref}}, headers=MERGE)
        assert joined.code in {200, 404}, joined.raw  # it may have gone


def template(pool: str, *, cpu: str = "1", kubelet: str = KUBELET) -> Json:
    size = {"cpu": cpu, "memory": "1Gi", "storage": "10Gi", "passValidation": True}
    value = {"cloudProvider": "fake", "cloudProviderSpec": size, "operatingSystem": "ubuntu", "operatingSystemSpec": {}}
    spec = {"providerSpec": {"value": value}, "versions": {"kubelet": kubelet}, "metadata": {"labels": {"pool": pool}}}
    return {"metadata": {"labels": {"pool": pool}}, "spec": spec}


def deployment(name: str, replicas: int, *, surge: int = 1, unavailable: int = 0) -> Json:
    """With all that machine-controller's own webhook would fill in."""
    return {
        "apiVersion": MACHINE_DEPLOYMENTS.api_version,
        "kind": MACHINE_DEPLOYMENTS.kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"pool": name}},
            "template": template(name),
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            },
            "minReadySeconds": 0,
            "revisionHistoryLimit": 1,
            "progressDeadlineSeconds": 600,
        },
    }


class Pool:
    """A MachineDeployment, and what machine-controller makes of it."""

    def __init__(self, cluster: UserCluster, name: str, replicas: int, **strategy: int) -> None:
        self.api = cluster.api
        self.name = name
        self.api.create(DEPLOYMENTS, deployment(name, replicas, **strategy))

    def change(self, **spec: Any) -> None:
        self.api.merge(f"{DEPLOYMENTS}/{self.name}", {"spec": spec})

    def delete(self) -> None:
        assert self.api.call("DELETE", f"{DEPLOYMENTS}/{self.name}").code == 200

    def sets(self) -> list[Json]:
        """Oldest first."""
        found = [one for one in self.api.get(SETS).obj["items"] if one["spec"]["selector"]["matchLabels"]["pool"] == self.name]
        return sorted(found, key=lambda one: int(one["metadata"]["annotations"]["machinedeployment.clusters.k8s.io/revision"]))

    def machines(self, kubelet: str = "") -> list[Json]:
        found = [one for one in self.api.get(MACHINES.path(KUBE_SYSTEM)).obj["items"] if _pool(one) == self.name]
        return [one for one in found if kubelet in ("", one["spec"]["versions"]["kubelet"])]

    def available(self) -> int:
        status = self.api.get(f"{DEPLOYMENTS}/{self.name}").obj.get("status", {})
        return int(status.get("availableReplicas", 0))

    def events(self, *reasons: str) -> list[Json]:
        """Those on the deployment and its sets."""
        about = {self.name, *(one["metadata"]["name"] for one in self.sets())}
        found = [one for one in self.api.get(EVENTS).obj["items"] if one["involvedObject"]["name"] in about]
        return [one for one in found if one["reason"] in reasons] if reasons else found


def wait_for_a_pause(told: Callable[[], int], seconds: float) -> None:
    """Until it tells nothing for so long: its waits between two tries double."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < seconds:
        if (now := told()) != last:
            last, since = now, time.monotonic()
        time.sleep(0.1)


def times(events: list[Json]) -> int:
    """How often they were told: the same one is counted, and not made again."""
    return sum(one.get("count") or 1 for one in events)


def _pool(machine: Json) -> str:
    return str(machine["metadata"].get("labels", {}).get("pool", ""))
