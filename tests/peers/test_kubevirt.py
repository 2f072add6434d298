"""Ullage beside KubeVirt's own virt-api and virt-controller: shares hold over their starts, stops and migrations, and nothing
that fits is refused for the way in which Go writes objects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.built import built
from tests.e2e.engine_scene import eventually
from tests.e2e.headroom_scene import CREATED, FORBIDDEN, KUBEVIRT, MI, never_stops, watched
from tests.e2e.test_headroom_hostile import used
from tests.e2e.test_vm_verbs import NO_ROOM, Person
from tools.peers.kubevirt.build import kubevirt
from ullage.quantity import Quantity

from .kubevirt_scene import KubeVirtScene, RealTenant, kubevirt_scene

Json = dict[str, Any]
POOL = "pool.kubevirt.io/v1alpha1"

pytestmark = [
    pytest.mark.peers,
    pytest.mark.timeout(1200),  # the first time includes the build
]


@pytest.fixture(scope="module")
def scene() -> Iterator[KubeVirtScene]:
    with kubevirt_scene(built(kubevirt)) as (made, _):
        yield made


def test_a_vm_is_created_started_and_migrated_as_its_share_allows(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene, cpu="8", memory="10Gi", percent=50)
    tenant.run("vm1")
    before, uid = tenant.node_of("vm1"), tenant.uid("vm1")
    tenant.moved(tenant.migrate("vm1"))
    assert tenant.node_of("vm1") != before
    assert (tenant.uid("vm1"), tenant.word("vm1")) == (uid, "Running")
    assert tenant.refused_pods() == []


def test_a_vm_is_charged_what_its_pod_may_use(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene)
    tenant.run("vm1")
    assert counted(tenant) > 1024 * MI
    eventually("it is charged the same", lambda: used(tenant) == counted(tenant))


def test_two_vms_that_fill_their_share_move_at_once_beside_a_core_quota(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene)
    tenant.run("vm1", "vm2")
    for one in [tenant.migrate("vm1"), tenant.migrate("vm2")]:
        tenant.moved(one)
    assert tenant.refused_pods() == []


def test_an_instance_without_a_vm_is_created(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene, cpu="8", memory="10Gi", percent=50)
    template = tenant.machine("alone")["spec"]["template"]
    body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "alone"}}
    answer = tenant.api.call("POST", tenant.instances, {**body, "spec": template["spec"]})
    assert answer.code == CREATED, answer.raw
    eventually("it runs", lambda: tenant.running() == ["alone"])


def test_the_share_holds_over_real_starts(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene)
    tenant.run("vm1", "vm2")
    refused = tenant.ask_machine("vm3")
    assert refused.code == FORBIDDEN, refused.raw
    assert NO_ROOM in refused.message
    tenant.ask_machine("vm4", "Halted")
    tenant.until("Stopped", "vm4")
    started = tenant.subresource("virtualmachines", "vm4", "start")
    assert started.code >= 400, started.raw
    assert NO_ROOM in started.message
    assert tenant.running() == ["vm1", "vm2"]
    assert tenant.subresource("virtualmachines", "vm1", "stop").code == 202
    tenant.until("Stopped", "vm1")
    eventually("there is room", lambda: tenant.subresource("virtualmachines", "vm4", "start").code == 202)
    tenant.until("Running", "vm4")


def test_ullage_vm_starts_stops_restarts_and_pauses(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene, cpu="8", memory="10Gi", percent=50)
    person, place = Person(tenant), tenant.namespace
    tenant.run("a")
    assert person.does("pause", "a")[-1] == f"{place}/a: Paused"
    assert person.does("unpause", "a")[-1] == f"{place}/a: Running"
    before = tenant.uid("a")
    assert person.does("restart", "a")[-1] == f"{place}/a: Running"
    assert tenant.uid("a") != before
    assert person.does("stop", "a")[-1] == f"{place}/a: Stopped"
    assert person.does("start", "a")[-1] == f"{place}/a: Running"


def test_a_vm_that_crashes_in_a_loop_is_stopped_and_stays_stopped(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene)
    person = Person(tenant)
    assert tenant.ask(tenant.crashing("bad")).code == CREATED
    tenant.until("CrashLoopBackOff", "bad")
    status = tenant.api.get(f"{tenant.machines}/bad").obj["status"]
    retry = datetime.fromisoformat(status["startFailure"]["retryAfterTimestamp"])
    assert person.does("stop", "bad")[-1] == f"{tenant.namespace}/bad: Stopped"
    while datetime.now(UTC) < retry + timedelta(seconds=3):  # KubeVirt would have tried again by then
        found = tenant.api.get(f"{tenant.machines}/bad").obj
        assert found["spec"]["runStrategy"] == "Halted", found["metadata"]["managedFields"]
        assert tenant.instance("bad") == {}
        time.sleep(0.2)


def test_what_a_condition_of_go_leaves_null_does_not_lock_a_vm(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene, cpu="8", memory="10Gi", percent=50)
    tenant.run("vm1")
    conditions = tenant.api.get(f"{tenant.machines}/vm1").obj["status"]["conditions"]
    assert any(one["lastTransitionTime"] is None for one in conditions), conditions
    assert tenant.change("vm1", {"metadata": {"labels": {"team": "a"}}}).code == 200


def test_a_drain_moves_one_vm_after_another_where_the_reserve_is_for_one(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene, cpu="5", memory="8Gi", percent=25)
    tenant.run("vm1", "vm2")
    before = {name: (tenant.uid(name), tenant.node_of(name)) for name in ("vm1", "vm2")}
    with watched(never_stops(tenant, ["vm1", "vm2"])):
        for name in ("vm1", "vm2"):
            answer = tenant.evict(name)
            assert answer.code == 429, answer.raw  # virt-api: it is moved instead
        for name, (_, node) in before.items():
            eventually(f"{name} has moved", lambda name=name, node=node: tenant.node_of(name) not in ("", node))  # type: ignore[misc]
    assert {name: tenant.uid(name) for name in before} == {name: uid for name, (uid, _) in before.items()}
    assert "maintenance resource is insufficient" in tenant.events("vm1") + tenant.events("vm2")


def test_a_replica_set_gets_as_many_instances_as_fit(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene)
    spec = tenant.machine("set")["spec"]["template"]["spec"]
    labels = {"set": "a"}
    wanted = {"replicas": 3, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
    body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet", "metadata": {"name": "set"}}
    tenant.api.create(f"{KUBEVIRT}/namespaces/{tenant.namespace}/virtualmachineinstancereplicasets", {**body, "spec": wanted})
    eventually("two of them run", lambda: len(tenant.running()) == 2)
    eventually("the third is refused in words", lambda: NO_ROOM in tenant.events("set"))
    assert len(tenant.running()) == 2


def test_processors_are_plugged_into_a_running_vm_as_far_as_its_share_goes(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene, cpu="8", memory="20Gi", percent=50)
    body = tenant.machine("vm1")
    domain = body["spec"]["template"]["spec"]["domain"]
    domain.update(cpu={"cores": 1, "sockets": 1, "threads": 1, "maxSockets": 16}, memory={"guest": "1Gi"})
    domain["resources"] = {}
    tenant.run_body(body)
    uid = tenant.uid("vm1")
    answer = tenant.change("vm1", sockets(2))
    assert answer.code == 200, answer.raw
    eventually("the guest has them", lambda: tenant.instance("vm1")["status"]["currentCPUTopology"]["sockets"] == 2)
    eventually("its migration is over", lambda: not tenant.unfinished())
    refused = tenant.change("vm1", sockets(16))
    assert refused.code == FORBIDDEN, refused.raw
    assert NO_ROOM in refused.message
    assert (tenant.uid("vm1"), tenant.word("vm1")) == (uid, "Running")


def sockets(count: int) -> Json:
    return {"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": count}}}}}}


def test_memory_is_plugged_into_a_running_vm_as_far_as_its_share_goes(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene, cpu="8", memory="20Gi", percent=50)
    body = tenant.machine("vm1")
    domain = body["spec"]["template"]["spec"]["domain"]
    domain.update(cpu={"cores": 1, "sockets": 1, "threads": 1}, memory={"guest": "1Gi", "maxGuest": "16Gi"})
    domain["resources"] = {}
    tenant.run_body(body)
    uid = tenant.uid("vm1")
    answer = tenant.change("vm1", memory("2Gi"))
    assert answer.code == 200, answer.raw
    eventually("the guest has it", lambda: tenant.instance("vm1")["status"]["memory"]["guestCurrent"] == "2Gi")
    eventually("its migration is over", lambda: not tenant.unfinished())
    eventually("it is charged what its pod may use", lambda: used(tenant) == counted(tenant))
    refused = tenant.change("vm1", memory("12Gi"))
    assert refused.code == FORBIDDEN, refused.raw
    assert NO_ROOM in refused.message
    assert (tenant.uid("vm1"), tenant.word("vm1")) == (uid, "Running")


def counted(tenant: RealTenant) -> int:
    """Bytes: what the core ResourceQuota has of the namespace's pods."""
    return Quantity.parse(tenant.core_quota()["status"]["used"]["limits.memory"]).value()


def memory(guest: str) -> Json:
    return {"spec": {"template": {"spec": {"domain": {"memory": {"guest": guest}}}}}}


def test_a_pool_gets_as_many_vms_as_fit(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene)
    labels = {"pool": "a"}
    template = {"metadata": {"labels": labels}, "spec": tenant.machine("pool")["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "virtualMachineTemplate": template}
    pools = f"/apis/{POOL}/namespaces/{tenant.namespace}/virtualmachinepools"
    body = {"apiVersion": POOL, "kind": "VirtualMachinePool", "metadata": {"name": "pool"}, "spec": spec}
    tenant.api.create(pools, body)
    eventually("two of them run", lambda: len(tenant.running()) == 2)
    eventually("the third is refused in words", lambda: NO_ROOM in tenant.events("pool"))
    assert len(tenant.running()) == 2
    tenant.api.merge(f"{pools}/pool", {"spec": {"replicas": 1}})
    eventually("one of them goes", lambda: len(tenant.running()) == 1)
    eventually("its room is free", lambda: tenant.ask_machine("another").code == CREATED)
    tenant.until("Running", "another")


def test_a_vm_costs_what_its_instance_type_says(scene: KubeVirtScene) -> None:
    tenant = RealTenant(scene, cpu="8", memory="20Gi", percent=50)
    tenant.run_body(typed("small", "u1.small"))
    assert tenant.instance("small")["spec"]["domain"]["memory"]["guest"] == "2Gi"
    refused = tenant.ask(typed("large", "u1.2xlarge"))  # 8 processors, 32Gi
    assert refused.code == FORBIDDEN, refused.raw
    assert NO_ROOM in refused.message


def typed(name: str, instancetype: str) -> Json:
    template = {"spec": {"domain": {"devices": {}}, "volumes": []}}
    spec = {"runStrategy": "Always", "instancetype": {"name": instancetype}, "template": template}
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}, "spec": spec}
