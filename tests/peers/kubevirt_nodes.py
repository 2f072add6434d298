"""Nodes on which pods start at once and guests run that are not there: what scheduler, kubelet and virt-handler write.

Each player is a function of the objects that are there now, and gives the next write. virt-handler's writes are those of
KubeVirt v1.6 (`pkg/virt-handler`): whole objects, with the nulls that Go writes for times that are not set.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.e2e.api import Answer, Api
from tests.e2e.snapshot_scene import eventually

Json = dict[str, Any]
NAMES: Final = ("node-1", "node-2", "node-3")
HOSTNAME: Final = "kubernetes.io/hostname"
NAMESPACE: Final = "kubevirt"
INSTANCES: Final = "/apis/kubevirt.io/v1/virtualmachineinstances"
KIND: Final = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance"}  # which lists leave out
CREATED_BY: Final = "kubevirt.io/created-by"
CRASHES: Final = "tests.ullage.io/crashes"  # on an instance: its guest ends as soon as it has started
COPYING: Final = "tests.ullage.io/copying"  # on an instance: how long its migration takes, as `4s`; `never` is no time
OVER: Final = ("Succeeded", "Failed")
EVERY_SECONDS: Final = 0.1
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
CONFLICT: Final = 409


# --- scheduler ---------------------------------------------------------------------------------------------------------


def pick_node(pod: Json, nodes: Sequence[Json], pods: Sequence[Json]) -> str:
    """The least used node that the pod's selector allows and no other pod of its instance is on; empty if there is none."""
    wanted = pod["spec"].get("nodeSelector") or {}
    instance = pod["metadata"].get("labels", {}).get(CREATED_BY)
    alive = [one for one in pods if one["status"].get("phase") not in OVER and one["spec"].get("nodeName")]
    taken = {
        one["spec"]["nodeName"] for one in alive if instance and one["metadata"].get("labels", {}).get(CREATED_BY) == instance
    }
    load = {node["metadata"]["name"]: 0 for node in nodes}
    for one in alive:
        load[one["spec"]["nodeName"]] = load.get(one["spec"]["nodeName"], 0) + 1
    fit = [
        node["metadata"]["name"]
        for node in nodes
        if not node["spec"].get("unschedulable")
        and not any(taint["effect"] == "NoSchedule" for taint in node["spec"].get("taints") or ())
        and wanted.items() <= node["metadata"].get("labels", {}).items()
        and node["metadata"]["name"] not in taken
    ]
    return min(fit, key=lambda name: (load[name], name), default="")


# --- kubelet -----------------------------------------------------------------------------------------------------------


def running_status(pod: Json, now: str) -> Json:
    """Of a pod whose containers have all started."""
    ready = [
        {"type": type, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        for type in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    running: Json = {"running": {"startedAt": now}}
    ended: Json = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    return {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "startTime": now,
        "conditions": ready,
        "containerStatuses": [_started(one, running) for one in pod["spec"]["containers"]],
        "initContainerStatuses": [
            _started(one, running if one.get("restartPolicy") == "Always" else ended)
            for one in pod["spec"].get("initContainers") or ()
        ],
    }


def _started(container: Json, state: Json) -> Json:
    image = container["image"]
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"{image}@sha256:{'0' * 64}",
        "containerID": f"containerd://{container['name']}",
        "ready": True,
        "started": "running" in state,
        "restartCount": 0,
        "lastState": {},
        "state": state,
    }


def is_done(pod: Json, instance: Json | None) -> bool:
    """Whether virt-launcher has ended: its guest is off, or lives on another node, or never came from there."""
    if instance is None:
        return True
    status = instance.get("status", {})
    if status.get("phase") in OVER:
        return True
    state = status.get("migrationState") or {}
    if state.get("endTimestamp") is None or not (state.get("completed") or state.get("failed")):
        return False
    if state.get("failed"):
        return bool(state.get("targetPod") == pod["metadata"]["name"])
    return bool(pod["spec"].get("nodeName") == state.get("sourceNode") != status.get("nodeName"))


# --- virt-handler ------------------------------------------------------------------------------------------------------


def handled(instance: Json, now: str) -> Json | None:
    """The instance as virt-handler writes it next; None where nothing is to be written."""
    found = copy.deepcopy(instance)
    status = found.get("status", {})
    phase = status.get("phase")
    if phase not in ("Scheduled", "Running"):
        return None
    if found["metadata"].get("deletionTimestamp"):
        return _moved_to("Succeeded", found, now)
    if found["metadata"].get("annotations", {}).get(CRASHES):
        return _moved_to("Failed", found, now)
    if phase == "Scheduled":
        status["selinuxContext"] = "none"
        status["machine"] = {"type": "q35"}
        _set_condition(found, "LiveMigratable", "True")
        _set_condition(found, "StorageLiveMigratable", "True")
        return _moved_to("Running", found, now)
    return _migrated(found, now)


def _moved_to(phase: str, instance: Json, now: str) -> Json:
    status = instance["status"]
    status["phase"] = phase
    stamps = status.get("phaseTransitionTimestamps") or []
    status["phaseTransitionTimestamps"] = [*stamps, {"phase": phase, "phaseTransitionTimestamp": now}]
    return instance


def _migrated(instance: Json, now: str) -> Json | None:
    """The next step of a migration, of the handler on the target node or of that on the source node."""
    status, meta = instance["status"], instance["metadata"]
    state = status.get("migrationState")
    if not state or state.get("endTimestamp") or not state.get("targetNode"):
        return None
    if not state.get("targetNodeAddress"):
        if meta.get("labels", {}).get("kubevirt.io/migrationTargetNodeName") != state["targetNode"]:
            return None
        state.update(targetNodeAddress="127.0.0.1", targetDirectMigrationNodePorts={"49152": 0})
    elif not state.get("startTimestamp"):
        state.update(startTimestamp=now, mode="PreCopy")
    elif state.get("abortRequested"):
        state.update(endTimestamp=now, completed=True, failed=True, abortStatus="Succeeded")
    elif not _is_copied(meta.get("annotations", {}).get(COPYING, "0s"), since=state["startTimestamp"], now=now):
        return None
    elif not state.get("targetNodeDomainReadyTimestamp"):
        state.update(targetNodeDomainDetected=True, targetNodeDomainReadyTimestamp=now)
    else:
        _end_migration(instance, now)
    return instance


def _is_copied(time: str, *, since: str, now: str) -> bool:
    if time == "never":
        return False
    return datetime.fromisoformat(now) - datetime.fromisoformat(since) >= timedelta(seconds=int(time.removesuffix("s")))


def _end_migration(instance: Json, now: str) -> None:
    """The guest goes on at the target, with the processors and the memory that were plugged."""
    status, labels = instance["status"], instance["metadata"]["labels"]
    state = status["migrationState"]
    state.update(endTimestamp=now, completed=True)
    status["nodeName"] = labels["kubevirt.io/nodeName"] = state["targetNode"]
    changed = {one["type"] for one in status.get("conditions", ())}
    domain = instance["spec"]["domain"]
    if "HotVCPUChange" in changed:
        status["currentCPUTopology"] = {key: domain["cpu"][key] for key in ("sockets", "cores", "threads")}
    if "HotMemoryChange" in changed:
        status["memory"]["guestRequested"] = status["memory"]["guestCurrent"] = domain["memory"]["guest"]
    gone = {"HotVCPUChange", "HotMemoryChange"}
    status["conditions"] = [one for one in status.get("conditions", ()) if one["type"] not in gone]
    for label in ("virtualMachinePodCPULimits", "virtualMachinePodMemoryRequests", "memory-hotplug-overhead-ratio"):
        labels.pop(f"kubevirt.io/{label}", None)


def with_pause(instance: Json, *, paused: bool) -> Json:
    """The instance as virt-handler writes it after a guest was paused, or goes on."""
    found = copy.deepcopy(instance)
    if paused:
        _set_condition(found, "Paused", "True", reason="PausedByUser", message="VMI was paused by user")
    else:
        kept = [one for one in found["status"].get("conditions", ()) if one["type"] != "Paused"]
        found["status"]["conditions"] = kept
    return found


def _set_condition(instance: Json, type: str, status: str, **more: str) -> None:
    found = [one for one in instance["status"].get("conditions", ()) if one["type"] != type]
    added = {"type": type, "status": status, "lastProbeTime": None, "lastTransitionTime": None, **more}
    instance["status"]["conditions"] = [*found, added]


# --- all of them, going on ---------------------------------------------------------------------------------------------


class Nodes:
    """Three nodes, looked after by a thread. An error in it fails the test at the end of `kept`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._over = threading.Event()
        self._turns = threading.Lock()
        self._problem: BaseException | None = None

    @contextlib.contextmanager
    def kept(self, handler: Api, *, handler_port: int) -> Iterator[None]:
        """`handler` speaks as virt-handler's account, which listens on a port for what virt-api asks of guests."""
        for name in NAMES:
            self._bring(name, handler_port)
        eventually("virt-handler's account has its rights", lambda: handler.get(INSTANCES).code == 200)
        thread = threading.Thread(target=self._run, args=(handler,), name="nodes")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if self._problem is not None:
            raise RuntimeError("the nodes of the test ended early") from self._problem

    @contextlib.contextmanager
    def halted(self) -> Iterator[None]:
        """Nothing starts or ends on any node meanwhile."""
        with self._turns:
            yield

    def _bring(self, name: str, handler_port: int) -> None:
        labels = {HOSTNAME: name, "kubernetes.io/arch": "amd64", "kubevirt.io/schedulable": "true"}
        labels |= {"machine-type.node.kubevirt.io/q35": "true"}  # as virt-handler labels them
        beat = {"kubevirt.io/heartbeat": f'"{_now()}"'}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels, "annotations": beat}}
        self._api.create("/api/v1/nodes", body)
        self._api.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})  # that of a node that is not ready yet
        room = {"cpu": "64", "memory": "256Gi", "pods": "500"}
        room |= {f"devices.kubevirt.io/{device}": "1k" for device in ("kvm", "tun", "vhost-net")}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        address = {"type": "InternalIP", "address": "127.0.0.1"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready], "addresses": [address]}
        self._api.merge(f"/api/v1/nodes/{name}/status", {"status": status})
        container = {"name": "virt-handler", "image": "example.com/virt-handler:v1.6.0"}
        meta = {"name": f"virt-handler-{name}", "labels": {"kubevirt.io": "virt-handler"}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": name, "containers": [container]}}
        self._api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)

    def _run(self, handler: Api) -> None:
        try:
            while not self._over.wait(EVERY_SECONDS):
                with self._turns:
                    self._turn(handler)
        except BaseException as problem:
            self._problem = problem

    def _turn(self, handler: Api) -> None:
        pods = self._api.get("/api/v1/pods").obj["items"]
        nodes = self._api.get("/api/v1/nodes").obj["items"]
        listed = [one | KIND for one in handler.get(INSTANCES).obj["items"]]
        instances = {one["metadata"]["uid"]: one for one in listed}
        for one in instances.values():
            if (written := handled(one, _now())) is not None:
                _expect(handler.call("PUT", _path(one), written))
        for pod in pods:
            self._keep_pod(pod, nodes, pods, instances)

    def _keep_pod(self, pod: Json, nodes: Sequence[Json], pods: Sequence[Json], instances: Mapping[str, Json]) -> None:
        meta, path = pod["metadata"], f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        uid = meta.get("labels", {}).get(CREATED_BY)
        if meta.get("deletionTimestamp"):
            _expect(self._api.call("DELETE", f"{path}?gracePeriodSeconds=0"))
        elif not pod["spec"].get("nodeName"):
            if node := pick_node(pod, nodes, pods):
                pod["spec"]["nodeName"] = node  # those that follow in this turn count it
                target = {"apiVersion": "v1", "kind": "Node", "name": node}
                body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
                _expect(self._api.call("POST", f"{path}/binding", body))
        elif pod["status"].get("phase") == "Pending":
            self._write(path, meta, running_status(pod, _now()))
        elif uid and pod["status"].get("phase") == "Running" and is_done(pod, instances.get(uid)):
            crashed = (instances.get(uid) or {}).get("status", {}).get("phase") == "Failed"
            self._write(path, meta, {"phase": "Failed" if crashed else "Succeeded"})

    def _write(self, path: str, meta: Json, status: Json) -> None:
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        _expect(self._api.call("PATCH", f"{path}/status", body, headers=MERGE))


def _path(instance: Json) -> str:
    meta = instance["metadata"]
    return f"/apis/kubevirt.io/v1/namespaces/{meta['namespace']}/virtualmachineinstances/{meta['name']}"


def _expect(answer: Answer) -> None:
    """What somebody else changed or deleted in the meantime is looked at again in the next turn."""
    if answer.code >= 400 and answer.code not in (404, CONFLICT):
        raise RuntimeError(f"{answer.code}: {answer.raw[:800]!r}")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
