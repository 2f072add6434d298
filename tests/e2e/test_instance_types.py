"""Instance types and preferences: a VM costs what KubeVirt makes of them, from the request that creates it.

A namespace of 4 CPUs and 8Gi, half of it kept for migrations.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .apart import IS_BORROWED
from .engine_scene import eventually
from .headroom_scene import CREATED, FORBIDDEN, HeadroomScene, Json, Tenant, headroom_scene

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]
GROUP = "/apis/instancetype.kubevirt.io/v1beta1"
OF_NAMESPACE = {"name": "own", "kind": "VirtualMachineInstancetype"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadroomScene]:
    with headroom_scene(tmp_path_factory.mktemp("types")) as made:
        types = f"{GROUP}/virtualmachineclusterinstancetypes"
        for name, cpus, memory in (("u1.small", 1, "1Gi"), ("u1.2xlarge", 8, "32Gi")):
            answer = made.api.call("POST", types, instance_type("VirtualMachineClusterInstancetype", name, cpus, memory))
            assert answer.code == CREATED, answer.raw
        yield made


def instance_type(kind: str, name: str, cpus: int, memory: str) -> Json:
    spec = {"cpu": {"guest": cpus}, "memory": {"guest": memory}}
    return {"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def typed(name: str, matcher: Json, strategy: str = "Always") -> Json:
    template: Json = {"spec": {"domain": {"devices": {}}}}
    body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}}
    return {**body, "spec": {"runStrategy": strategy, "instancetype": matcher, "template": template}}


def test_u1_2xlarge_in_a_share_of_2_cpus_and_4gi_is_refused_at_create_with_the_numbers(scene: HeadroomScene) -> None:
    tenant = Tenant(scene, memory="8Gi")
    answer = scene.api.call("POST", tenant.machines, typed("big", {"name": "u1.2xlarge"}))
    assert answer.code == FORBIDDEN, answer.raw
    assert "VM available resources are insufficient: cpu: asked 8 cores, used 0, pending 0, share 2 cores" in answer.message
    assert "memory: asked 32." in answer.message
    assert "share 4Gi" in answer.message
    small = scene.api.call("POST", tenant.machines, typed("small", {"name": "u1.small"}))
    assert small.code == CREATED, small.raw
    tenant.until("Running", "small")
    assert tenant.instance("small")["spec"]["domain"]["memory"] == {"guest": "1Gi"}


def test_an_instance_type_that_is_edited_does_not_change_the_vms_that_have_it(scene: HeadroomScene) -> None:
    tenant = Tenant(scene, memory="8Gi")
    types = f"{GROUP}/namespaces/{tenant.namespace}/virtualmachineinstancetypes"
    assert scene.api.call("POST", types, instance_type("VirtualMachineInstancetype", "own", 1, "1Gi")).code == CREATED
    assert scene.api.call("POST", tenant.machines, typed("first", OF_NAMESPACE)).code == CREATED
    tenant.until("Running", "first")
    scene.api.merge(f"{types}/own", {"spec": {"cpu": {"guest": 8}, "memory": {"guest": "32Gi"}}})

    refused = scene.api.call("POST", tenant.machines, typed("second", OF_NAMESPACE))
    assert refused.code == FORBIDDEN, refused.raw
    assert "asked 8 cores, used 1 core" in refused.message
    tenant.stop("first")
    eventually("first is stopped", lambda: tenant.instance("first") == {})
    assert tenant.set_strategy("first", "Always").code == 200
    tenant.until("Running", "first")
    assert tenant.instance("first")["spec"]["domain"]["cpu"]["sockets"] == 1
    reference = scene.api.get(f"{tenant.machines}/first").obj["status"]["instancetypeRef"]
    revision = reference["controllerRevisionRef"]["name"]
    found = scene.api.get(f"/apis/apps/v1/namespaces/{tenant.namespace}/controllerrevisions/{revision}")
    assert found.obj["data"]["spec"]["cpu"] == {"guest": 1}


def test_a_vm_may_wait_halted_for_its_instance_type_and_starts_only_where_that_fits(scene: HeadroomScene) -> None:
    tenant = Tenant(scene, memory="8Gi")
    types = f"{GROUP}/namespaces/{tenant.namespace}/virtualmachineinstancetypes"
    refused = scene.api.call("POST", tenant.machines, typed("early", OF_NAMESPACE))
    assert refused.code == 422, refused.raw
    assert "VirtualMachineInstancetype own: it does not exist" in refused.message
    assert scene.api.call("POST", tenant.machines, typed("early", OF_NAMESPACE, "Halted")).code == CREATED
    assert scene.api.call("POST", types, instance_type("VirtualMachineInstancetype", "own", 3, "1Gi")).code == CREATED
    late = tenant.set_strategy("early", "Always")
    assert late.code == FORBIDDEN, late.raw
    assert "asked 3 cores" in late.message
    assert scene.api.call("POST", types, instance_type("VirtualMachineInstancetype", "fits", 2, "1Gi")).code == CREATED
    change = {"spec": {"runStrategy": "Always", "instancetype": {**OF_NAMESPACE, "name": "fits"}}}
    scene.api.merge(f"{tenant.machines}/early", change)
    tenant.until("Running", "early")
