"""VMs on several nodes, each in a pod that is counted by the ResourceQuota which Rancher's annotation asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .apart import IS_BORROWED
from .engine_scene import EngineScene, engine_scene, eventually

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.timeout(300),
    pytest.mark.slow,
]
Json = dict[str, Any]
KUBEVIRT = "/apis/kubevirt.io/v1"
QUOTA = "field.cattle.io/resourceQuota"
LABEL = "resourcequota.management.cattle.io/default-resource-quota"
MEMORY = "1394Mi"  # of `compute`: 1Gi, and 370Mi around it
CPU = 1015  # thousandths: 15 are those of guest-console-log


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineScene]:
    with engine_scene(tmp_path_factory.mktemp("pods")) as made:
        made.world_options = ("--nodes", "3")
        made.kill("world")
        yield made


class Tenant:
    """A namespace with limits, and VMs of 1 CPU and 1Gi in it."""

    def __init__(self, scene: EngineScene) -> None:
        self.api = scene.api
        self.namespace = scene.base.namespace()
        self.path = f"/api/v1/namespaces/{self.namespace}"
        self.vms = f"{KUBEVIRT}/namespaces/{self.namespace}/virtualmachines"

    def limit(self, text: str | None) -> None:
        self.api.merge(self.path, {"metadata": {"annotations": {QUOTA: text}}})

    def create(self, name: str) -> None:
        domain = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "memory": {"guest": "924Mi"}}
        spec = {"runStrategy": "Always", "template": {"spec": {"domain": domain}}}
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}, "spec": spec}
        self.api.create(self.vms, body)

    def status(self, name: str) -> Json:
        found: Json = self.api.get(f"{self.vms}/{name}").obj.get("status", {})
        return found

    def becomes(self, name: str, word: str) -> None:
        eventually(f"VM {name} is {word}", lambda: self.status(name).get("printableStatus") == word)

    def pods(self) -> dict[str, Json]:
        """By VM."""
        found = self.api.get(f"{self.path}/pods?labelSelector=kubevirt.io%3Dvirt-launcher").obj["items"]
        return {one["metadata"]["annotations"]["kubevirt.io/domain"]: one for one in found}

    def quotas(self) -> list[Json]:
        found = self.api.get(f"{self.path}/resourcequotas").obj["items"]
        return [one for one in found if one["metadata"].get("labels", {}).get(LABEL) == "true"]

    def used(self) -> Json:
        found: Json = self.quotas()[0].get("status", {}).get("used", {})
        return found


def test_vms_start_on_all_nodes_up_to_the_quota_and_the_next_one_when_there_is_room(scene: EngineScene) -> None:
    tenant = Tenant(scene)
    tenant.limit(f'{{"limit":{{"limitsCpu":"{4 * CPU}m","limitsMemory":"6144Mi"}}}}')
    eventually("the quota counts", lambda: [one.get("status", {}).get("used") is not None for one in tenant.quotas()] == [True])
    (quota,) = tenant.quotas()
    assert quota["metadata"]["name"].startswith("default-")
    assert quota["spec"]["hard"] == {"limits.cpu": f"{4 * CPU}m", "limits.memory": "6Gi"}

    for number in range(4):
        tenant.create(f"vm{number}")
        tenant.becomes(f"vm{number}", "Running")
    pods = tenant.pods()
    assert sorted(pods) == ["vm0", "vm1", "vm2", "vm3"]
    assert {one["spec"]["nodeName"] for one in pods.values()} == {"ullage", "ullage-2", "ullage-3"}
    assert pods["vm0"]["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": MEMORY}
    instance = scene.api.get(f"{KUBEVIRT}/namespaces/{tenant.namespace}/virtualmachineinstances/vm1").obj
    assert instance["status"]["nodeName"] == pods["vm1"]["spec"]["nodeName"]
    assert instance["status"]["activePods"] == {pods["vm1"]["metadata"]["uid"]: pods["vm1"]["spec"]["nodeName"]}
    eventually("all four are counted", lambda: tenant.used().get("limits.cpu") == f"{4 * CPU}m")

    tenant.create("vm4")
    tenant.becomes("vm4", "Unschedulable")
    failure = next(one for one in tenant.status("vm4")["conditions"] if one["type"] == "Failure")
    assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")
    assert "exceeded quota: default-" in failure["message"]
    assert f"limits.cpu={CPU}m" in failure["message"]

    scene.kill("world")
    scene.api.merge(f"{tenant.vms}/vm0", {"spec": {"runStrategy": "Halted"}})
    tenant.becomes("vm0", "Stopped")
    tenant.becomes("vm4", "Running")
    assert sorted(tenant.pods()) == ["vm1", "vm2", "vm3", "vm4"]
    assert "Failure" not in {one["type"] for one in tenant.status("vm4")["conditions"]}

    for number in range(5):
        scene.api.delete(f"{tenant.vms}/vm{number}")
    eventually("nothing is left of them", lambda: not tenant.pods() and tenant.used().get("limits.cpu") == "0")


def test_the_quota_follows_the_annotation_whoever_changes_it(scene: EngineScene) -> None:
    tenant = Tenant(scene)
    tenant.limit('{"limit":{"limitsCpu":"4"}}')
    eventually("there is a quota", lambda: bool(tenant.quotas()))
    path = f"{tenant.path}/resourcequotas/{tenant.quotas()[0]['metadata']['name']}"
    scene.api.merge(path, {"metadata": {"labels": {LABEL: None}}, "spec": {"hard": {"limits.cpu": "40", "pods": "1"}}})
    eventually("it is put right", lambda: [one["spec"]["hard"] for one in tenant.quotas()] == [{"limits.cpu": "4"}])
    tenant.limit('{"limit":{"limitsCpu":"6","pods":"10"}}')
    wanted = {"limits.cpu": "6", "pods": "10"}
    eventually("it follows", lambda: [one["spec"]["hard"] for one in tenant.quotas()] == [wanted])
    scene.api.delete(path)
    eventually("it is back", lambda: [one["spec"]["hard"] for one in tenant.quotas()] == [wanted])
    tenant.limit(None)
    eventually("it is gone", lambda: scene.api.get(path).code == 404)


def test_no_vm_starts_on_a_node_that_is_cordoned_or_tainted(scene: EngineScene) -> None:
    tenant = Tenant(scene)
    nodes = [f"/api/v1/nodes/{name}" for name in ("ullage", "ullage-2", "ullage-3")]
    taint = {"key": "kubevirt.io/drain", "value": "draining", "effect": "NoSchedule"}
    try:
        scene.api.merge(nodes[0], {"spec": {"unschedulable": True}})
        scene.api.merge(nodes[1], {"spec": {"taints": [taint]}})
        for name in ("a", "b"):
            tenant.create(name)
            tenant.becomes(name, "Running")
        assert {one["spec"]["nodeName"] for one in tenant.pods().values()} == {"ullage-3"}
        scene.api.merge(nodes[2], {"spec": {"unschedulable": True}})
        tenant.create("c")
        tenant.becomes("c", "Unschedulable")
        scene.api.merge(nodes[1], {"spec": {"taints": None}})
        tenant.becomes("c", "Running")
        assert tenant.pods()["c"]["spec"]["nodeName"] == "ullage-2"
    finally:
        for path in nodes:
            scene.api.merge(path, {"spec": {"unschedulable": None, "taints": None}})


def test_a_launcher_that_somebody_deletes_comes_again_with_another_instance(scene: EngineScene) -> None:
    tenant = Tenant(scene)
    tenant.create("a")
    tenant.becomes("a", "Running")
    first = tenant.pods()["a"]["metadata"]
    scene.api.delete(f"{tenant.path}/pods/{first['name']}")
    eventually(
        "there is another", lambda: tenant.pods().get("a", {}).get("metadata", {}).get("uid") not in (None, first["uid"])
    )
    tenant.becomes("a", "Running")
    assert tenant.pods()["a"]["metadata"]["labels"]["kubevirt.io/created-by"] != first["labels"]["kubevirt.io/created-by"]
