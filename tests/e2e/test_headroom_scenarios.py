"""The test plan of the document on quotas that leave room to migrate, scenario by scenario and under its numbers.

A namespace of 4 CPUs and 5Gi, half of it kept for migrations, and VMs of 1 CPU and 1222Mi: two fit into either half. In
scenario 4 a quarter is kept: of a half, two migrations would fit as two VMs do.
`tests/peers/test_kubevirt_scenarios.py` has scenarios 1 to 5 beside the real KubeVirt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from .apart import IS_BORROWED
from .api import Answer
from .engine_scene import eventually
from .headroom_scene import (
    CREATED,
    FORBIDDEN,
    MI,
    HeadroomScene,
    Json,
    headroom_scene,
    never_stops,
    watched,
)

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(420),
]
NO_ROOM = "VM available resources are insufficient"
NO_RESERVE = "maintenance resource is insufficient"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadroomScene]:
    with headroom_scene(tmp_path_factory.mktemp("headroom")) as made:
        yield made


def is_refused(answer: Answer, text: str) -> None:
    assert answer.code == FORBIDDEN, answer.raw
    assert text in answer.message


def test_the_shares_of_the_scenarios(scene: HeadroomScene) -> None:
    found = scene.tenant().annotations()
    half = {"limit": {"limitsCpu": 2000, "limitsMemory": 2560 * MI}}
    assert json.loads(found["harvesterhci.io/vmAvailable"]) == half
    assert json.loads(found["harvesterhci.io/maintenanceAvailable"]) == half


def test_scenario_1_a_vm_is_migrated_although_the_vms_have_all_of_their_share(scene: HeadroomScene) -> None:
    tenant = scene.tenant()
    tenant.run("vm1", "vm2")
    uid, left = tenant.uid("vm1"), tenant.node_of("vm1")
    with watched(never_stops(tenant, ["vm1", "vm2"])):
        tenant.moved(tenant.migrate("vm1"))
    assert tenant.word("vm1") == "Running"
    assert tenant.uid("vm1") == uid
    assert tenant.node_of("vm1") in set(scene.nodes) - {left}
    state = tenant.instance("vm1")["status"]["migrationState"]
    assert (state["sourceNode"], state["targetNode"], state["completed"]) == (left, tenant.node_of("vm1"), True)
    assert tenant.refused_pods() == []


def test_scenario_2_a_vm_is_migrated_while_another_is_stopped_started_and_restarted(scene: HeadroomScene) -> None:
    tenant = scene.tenant()
    tenant.run("vm1", "vm2")
    uid = tenant.uid("vm2")
    tenant.stop("vm1")
    with watched(never_stops(tenant, ["vm2"])):
        tenant.moved(tenant.migrate("vm2", "while-it-stops"))
        tenant.until("Stopped", "vm1")
        assert tenant.set_strategy("vm1", "Always").code == 200
        tenant.moved(tenant.migrate("vm2", "while-it-starts"))
        tenant.until("Running", "vm1")
        tenant.restart("vm1")
        tenant.moved(tenant.migrate("vm2", "while-it-restarts"))
    assert (tenant.word("vm2"), tenant.uid("vm2")) == ("Running", uid)
    tenant.until("Running", "vm1")
    assert tenant.refused_pods() == []


def test_scenario_3_what_does_not_run_for_a_while_keeps_its_place(scene: HeadroomScene) -> None:
    tenant = scene.tenant()
    tenant.run("vm1", "vm2")
    is_refused(tenant.ask_machine("vm3"), NO_ROOM)
    assert tenant.api.get(f"{tenant.machines}/vm3").code == 404

    tenant.pause("vm1")
    is_refused(tenant.ask_machine("vm3"), NO_ROOM)
    tenant.pause("vm1", paused=False)

    tenant.stop("vm1")
    tenant.until("Stopped", "vm1")
    assert tenant.set_strategy("vm1", "Always").code == 200
    tenant.until("Running", "vm1")
    with scene.nothing_stops():
        tenant.stop("vm1")
        is_refused(tenant.ask_machine("vm3"), NO_ROOM)

    tenant.until("Stopped", "vm1")
    eventually("there is room now", lambda: tenant.ask_machine("vm3").code in (CREATED, 409))
    tenant.until("Running", "vm3")
    is_refused(tenant.set_strategy("vm1", "Always"), NO_ROOM)


def test_scenario_4_a_second_migration_waits_until_the_reserve_is_free(scene: HeadroomScene) -> None:
    tenant = scene.tenant(percent=25)
    tenant.run("vm1", "vm2")
    tenant.takes("vm1", "never")
    first = tenant.migrate("vm1")
    eventually("it is being copied", lambda: tenant.phase(first) == "Running")
    refused = tenant.ask_migration("vm2")
    is_refused(refused, NO_RESERVE)
    for said in (*tenant.no_reserve, "Next: kubectl get vmim"):
        assert said in refused.message

    tenant.api.delete(f"{tenant.migrations}/{first}")
    eventually("it was aborted", lambda: tenant.api.get(f"{tenant.migrations}/{first}").code == 404)
    eventually("the reserve is free", lambda: tenant.ask_migration("vm2").code in (CREATED, 409))
    tenant.moved("move-vm2")
    assert {tenant.word("vm1"), tenant.word("vm2")} == {"Running"}
    assert tenant.instance("vm1")["status"]["migrationState"]["abortStatus"] == "Succeeded"


def test_scenario_4_of_a_half_two_migrations_fit_as_two_vms_do(scene: HeadroomScene) -> None:
    tenant = scene.tenant(percent=50)
    tenant.run("vm1", "vm2")
    both = [tenant.migrate("vm1"), tenant.migrate("vm2")]
    for one in both:
        tenant.moved(one)
    assert tenant.refused_pods() == []


def test_scenario_5_a_backup_is_restored_as_a_new_vm_where_there_is_room(scene: HeadroomScene) -> None:
    tenant = scene.tenant()
    scene.claim(tenant.namespace, "disk")
    answer = tenant.ask_machine("vm1", "Always", "disk")
    assert answer.code == CREATED, answer.raw
    tenant.until("Running", "vm1")
    tenant.run("vm2")
    harvester = f"/apis/harvesterhci.io/v1beta1/namespaces/{tenant.namespace}"
    source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "vm1"}
    backup = harvester_body("VirtualMachineBackup", "backup", source=source, type="snapshot")
    tenant.api.create(f"{harvester}/virtualmachinebackups", backup)
    path = f"{harvester}/virtualmachinebackups/backup"
    eventually("the backup is ready", lambda: tenant.api.get(path).obj.get("status", {}).get("readyToUse") is True)

    reference = {"virtualMachineBackupName": "backup", "virtualMachineBackupNamespace": tenant.namespace}
    target = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "vm4"}
    restore = harvester_body("VirtualMachineRestore", "restore", target=target, newVM=True, **reference)
    restores = f"{harvester}/virtualmachinerestores"
    is_refused(tenant.api.call("POST", restores, restore), NO_ROOM)
    assert tenant.api.get(f"{tenant.machines}/vm4").code == 404

    tenant.stop("vm2")
    tenant.until("Stopped", "vm2")
    eventually("there is room now", lambda: tenant.api.call("POST", restores, restore).code in (CREATED, 409))
    eventually("vm4 is there", lambda: tenant.api.get(f"{tenant.machines}/vm4").code == 200)
    tenant.until("Running", "vm4")
    is_refused(tenant.set_strategy("vm2", "Always"), NO_ROOM)


def harvester_body(kind: str, name: str, **spec: object) -> Json:
    body = {"apiVersion": "harvesterhci.io/v1beta1", "kind": kind, "metadata": {"name": name}}
    return {**body, "spec": spec}


def test_scenario_6_no_vm_stops_while_everything_is_restarted_and_every_node_drained(scene: HeadroomScene) -> None:
    tenant = scene.tenant()
    tenant.run("vm1", "vm2")
    with watched(never_stops(tenant, ["vm1", "vm2"])):
        for name in ("vm1", "vm2"):
            tenant.takes(name, "4s")
        both = [tenant.migrate("vm1"), tenant.migrate("vm2")]
        eventually("they are being copied", lambda: all(tenant.phase(one) == "Running" for one in both))
        for process in scene.processes:
            scene.kill(process)
        for one in both:
            tenant.moved(one)
        for name in ("vm1", "vm2"):
            tenant.takes(name, "1s")
        for node, process in zip(scene.nodes, reversed(scene.processes), strict=True):
            scene.drain(node)
            scene.kill(process)
            eventually(f"{node} is empty", lambda node=node: node not in map(tenant.node_of, ("vm1", "vm2")))  # type: ignore[misc]
            eventually("its migrations are over", lambda: not tenant.unfinished())
            scene.uncordon(node)
    assert tenant.refused_pods() == []
