"""A tenant with every right in his namespace: he edits every annotation, makes instances and pods himself, and writes statuses.
Whatever he does, what runs is counted, and no more runs than fits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ullage.clock import SystemClock
from ullage.ledger.accounts import accounts
from ullage.ledger.api import Ledger
from ullage.ledger.codec import book_of

from .apart import IS_BORROWED
from .api import Answer
from .engine_scene import eventually
from .headroom_scene import COST, CREATED, FORBIDDEN, MERGE, MI, HeadroomScene, Tenant, headroom_scene
from .test_snapshot_cli import environment

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
Json = dict[str, Any]
STAMP, PRICE = "ullage.io/takes", "ullage.io/cost"
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
NO_ROOM = "VM available resources are insufficient"
NOTHING = {STAMP: "{}", PRICE: '{"cpu":"0","memory":"0"}'}


class Owner:
    """Whoever owns the namespace: every verb on everything in it, and nothing elsewhere."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant, self.api, self.name = tenant, tenant.api, f"owner-of-{tenant.namespace}"
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        where = f"{RBAC}/{tenant.namespace}"
        self.api.create(f"{where}/roles", {"metadata": {"name": "owner"}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "owner"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": self.name}
        self.api.create(f"{where}/rolebindings", {"metadata": {"name": "owner"}, "roleRef": role, "subjects": [subject]})

    def call(self, verb: str, path: str, body: Json | None = None) -> Answer:
        headers = {"Impersonate-User": self.name, **(MERGE if verb == "PATCH" else {})}
        return self.api.call(verb, path, body, headers=headers)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadroomScene]:
    with headroom_scene(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.fixture
def tenant(scene: HeadroomScene) -> Tenant:
    """There is room for two VMs, and for two that move."""
    return Tenant(scene)


@pytest.fixture
def owner(tenant: Tenant) -> Owner:
    return Owner(tenant)


def used(tenant: Tenant, account: str = "compute/vms") -> int:
    """With what is pending: bytes."""
    found = msgspec.convert(tenant.api.get(f"{LEDGERS}/ns-{tenant.namespace}").obj, Ledger)
    listed = accounts(book_of(found, now=SystemClock().now()))
    return next(((one.used + one.reserved).value() for one in listed if (one.name, one.resource) == (account, "memory")), 0)


def is_used(tenant: Tenant, count: int, account: str = "compute/vms") -> None:
    eventually(f"{count} are counted", lambda: used(tenant, account) == count * COST)


def marks(tenant: Tenant, path: str) -> Json:
    """Those that mean anything there: a pod has no cost of its own."""
    found = tenant.api.get(path).obj["metadata"].get("annotations", {})
    return {key: found.get(key) for key in (STAMP, PRICE) if key == STAMP or "/pods/" not in path}


def launcher(tenant: Tenant, machine: str) -> str:
    """The path of the pod that it runs in."""
    pods = f"{tenant.path}/pods"
    (found,) = [
        one for one in tenant.api.get(pods).obj["items"] if one["metadata"]["name"].startswith(f"virt-launcher-{machine}-")
    ]
    return f"{pods}/{found['metadata']['name']}"


def test_what_he_writes_on_our_marks_is_put_back_or_refused(tenant: Tenant, owner: Owner) -> None:
    tenant.run("vm1", "vm2")
    tenant.takes("vm1", "never")
    tenant.migrate("vm1", "move")
    paths = [f"{tenant.machines}/vm1", f"{tenant.instances}/vm1", f"{tenant.migrations}/move", launcher(tenant, "vm2")]
    is_used(tenant, 2)
    is_used(tenant, 1, "compute/maintenance")
    before = {path: marks(tenant, path) for path in paths}
    for path in paths:
        for forged in (NOTHING, dict.fromkeys(NOTHING), {STAMP: '{"compute/vms":{"memory":"-9Gi"}}', PRICE: "cheap"}):
            answer = owner.call("PATCH", path, {"metadata": {"annotations": forged}})
            assert answer.code in (200, FORBIDDEN, 422, 429), answer.raw
    assert {path: marks(tenant, path) for path in paths} == before
    is_used(tenant, 2)
    is_used(tenant, 1, "compute/maintenance")
    assert owner.call("POST", tenant.machines, tenant.machine("vm3")).code == FORBIDDEN


def test_marks_in_a_template_and_on_what_is_new_count_for_nothing(tenant: Tenant, owner: Owner) -> None:
    body = tenant.machine("vm1", "Always", **NOTHING)
    body["metadata"]["annotations"] = NOTHING
    answer = owner.call("POST", tenant.machines, body)
    assert answer.code == CREATED, answer.raw
    tenant.until("Running", "vm1")
    assert json.loads(marks(tenant, f"{tenant.instances}/vm1")[PRICE]) == {"cpu": "1", "memory": "1222Mi"}
    is_used(tenant, 1)


def instance(tenant: Tenant, name: str, owners: list[Json]) -> Json:
    spec = tenant.machine(name)["spec"]["template"]["spec"]
    meta = {"name": name, "annotations": NOTHING, "ownerReferences": owners}
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": meta, "spec": spec}


def reference(tenant: Tenant, machine: str, **more: Any) -> Json:
    uid = tenant.api.get(f"{tenant.machines}/{machine}").obj["metadata"]["uid"]
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": machine, "uid": uid, "controller": True, **more}


def test_instances_that_he_makes_pay_for_themselves_whoever_they_say_owns_them(tenant: Tenant, owner: Owner) -> None:
    tenant.run("vm1")
    answer = owner.call("POST", tenant.instances, instance(tenant, "own", [reference(tenant, "vm1")]))
    assert answer.code == CREATED, answer.raw
    is_used(tenant, 2)
    for owners in ([], [reference(tenant, "vm1")], [reference(tenant, "vm1", name="more")]):
        refused = owner.call("POST", tenant.instances, instance(tenant, "more", owners))
        assert refused.code == FORBIDDEN, refused.raw
        assert NO_ROOM in refused.message


def test_an_instance_that_loses_its_machine_goes_on_being_counted(tenant: Tenant, owner: Owner) -> None:
    tenant.run("vm1")
    path = f"{tenant.machines}/vm1?propagationPolicy=Orphan"
    assert owner.call("DELETE", path).code in (200, 202)
    eventually("the machine is gone", lambda: tenant.api.get(f"{tenant.machines}/vm1").code == 404)
    # A garbage collector that has not heard of the kind yet finds nothing to leave behind, and takes the instance along later.
    eventually("it is counted while it is there", lambda: used(tenant) == COST or not tenant.instance("vm1"))
    assert owner.call("DELETE", f"{tenant.instances}/vm1").code in (200, 202, 404)
    is_used(tenant, 0)


def pod(name: str, memory: int, **meta: Any) -> Json:
    resources = {"limits": {"cpu": "100m", "memory": str(memory)}}
    container = {"name": "main", "image": "web", "resources": resources}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": {"containers": [container]}}


def test_pods_that_he_makes_do_not_eat_the_reserve_whatever_they_are_called(tenant: Tenant, owner: Owner) -> None:
    tenant.run("vm1")
    found = tenant.instance("vm1")["metadata"]
    of_instance = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "vm1",
        "uid": found["uid"],
        "controller": True,
    }
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": found["uid"]}
    disguised = {"labels": labels, "annotations": NOTHING, "ownerReferences": [of_instance]}
    pods = f"{tenant.path}/pods"
    for meta in ({}, disguised):
        refused = owner.call("POST", pods, pod("large", 1400 * MI, **meta))
        assert refused.code == FORBIDDEN, refused.raw
        assert NO_ROOM in refused.message
    answer = owner.call("POST", pods, pod("small", COST, **disguised))
    assert answer.code == CREATED, answer.raw
    is_used(tenant, 2)
    assert owner.call("POST", tenant.machines, tenant.machine("vm2")).code == FORBIDDEN


def test_statuses_that_he_writes_free_nothing_and_start_nothing(tenant: Tenant, owner: Owner) -> None:
    tenant.run("vm1", "vm2")
    tenant.takes("vm1", "never")
    tenant.migrate("vm1", "move")
    assert owner.call("POST", tenant.machines, tenant.machine("vm3", "Manual")).code == CREATED
    tenant.until("Stopped", "vm3")
    assert owner.call("PATCH", f"{tenant.machines}/vm2", {"spec": {"runStrategy": "Manual"}}).code == 200
    forged = {
        f"{tenant.machines}/vm2/status": {"printableStatus": "Stopped", "created": False, "ready": False},
        f"{tenant.instances}/vm2/status": {"phase": "Succeeded"},
        f"{tenant.migrations}/move/status": {"phase": "Failed"},
    }
    for path, status in forged.items():
        refused = owner.call("PATCH", path, {"status": status})
        assert refused.code == FORBIDDEN, refused.raw
    is_used(tenant, 2)
    is_used(tenant, 1, "compute/maintenance")
    start = {"status": {"stateChangeRequests": [{"action": "Start"}]}}
    refused = owner.call("PATCH", f"{tenant.machines}/vm3/status", start)
    assert (refused.code, NO_ROOM in refused.message) == (FORBIDDEN, True), refused.raw
    for path, word in ((f"{tenant.machines}/vm3/status", "Running"), (f"{tenant.machines}/vm3/status", "Starting")):
        owner.call("PATCH", path, {"status": {"printableStatus": word}})  # he only harms himself: it counts, or is refused
    eventually("no more run than fit", lambda: tenant.running() == ["vm1", "vm2"])


def test_whoever_holds_the_reserve_is_named_for_as_long_as_it_hangs(tenant: Tenant, owner: Owner, scene: HeadroomScene) -> None:
    tenant.run("vm1")
    tenant.takes("vm1", "never")
    tenant.migrate("vm1", "hanging")
    is_used(tenant, 1, "compute/maintenance")
    said = ullage(scene, "usage", "-n", tenant.namespace)
    assert "hanging" in said, said
    assert owner.call("DELETE", f"{tenant.migrations}/hanging").code in (200, 202)
    is_used(tenant, 0, "compute/maintenance")
    tenant.until("Running", "vm1")


def ullage(scene: HeadroomScene, *arguments: str) -> str:
    env = environment(Path(scene.base.plane.kubeconfig))
    done = subprocess.run(
        [sys.executable, "-m", "ullage", *arguments], capture_output=True, text=True, timeout=120, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
