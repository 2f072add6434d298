"""The shares of a namespace on a whole control plane: written in the request that sets them, by nobody else, refused where they
cannot be, and limits of its ledger afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ullage.app.installer.roles import WORLD
from ullage.app.up.identities import Identity
from ullage.headroom.namespaces import EXCEEDS, HEADROOM_LABEL
from ullage.headroom.shares import MAINTENANCE_AVAILABLE, MAINTENANCE_QUOTA, RESOURCE_QUOTA, VM_AVAILABLE
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.vms.api.machines import VIRTUAL_MACHINES

from .apart import IS_BORROWED
from .api import Answer, Api
from .headroom_scene import FORMULA
from .snapshot_scene import Process, Scene, eventually, scene
from .test_space_commands import Here

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="it limits namespaces of a cluster that is somebody else's")

Json = dict[str, Any]
NAMESPACES = "/api/v1/namespaces"
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"
MERGE = {"Content-Type": "application/merge-patch+json"}
HALVES = {
    VM_AVAILABLE: '{"limit":{"limitsCpu":2000,"limitsMemory":2684354560}}',
    MAINTENANCE_AVAILABLE: '{"limit":{"limitsCpu":2000,"limitsMemory":2684354560}}',
}
OURS = (VM_AVAILABLE, MAINTENANCE_AVAILABLE, EXCEEDS)


class Stage:
    """A scene whose webhook can be taken away for a while."""

    def __init__(self, found: Scene) -> None:
        self.scene = found
        self.webhook = self._start()

    def _start(self) -> Process:
        return Process(*self.scene.webhook(), *FORMULA, log=self.scene.directory / "webhook.log")

    @contextlib.contextmanager
    def silenced(self) -> Iterator[None]:
        self.webhook.end()
        try:
            yield
        finally:
            self.webhook = self._start()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with scene(tmp_path_factory.mktemp("headroom")) as made, made.running(made.controller(*FORMULA)):
        found = Stage(made)
        yield found
        found.webhook.end()


@pytest.fixture
def served(stage: Stage) -> Api:
    return stage.scene.api


@pytest.fixture
def namespace(stage: Stage) -> str:
    return stage.scene.namespace()


def quota(cpu: str = "4000m", memory: str = "5120Mi") -> Json:
    return {RESOURCE_QUOTA: json.dumps({"limit": {"limitsCpu": cpu, "limitsMemory": memory}})}


def kept(cpu: Any = 50, memory: Any = "50") -> Json:
    return {MAINTENANCE_QUOTA: json.dumps({"limit": {"limitsCPUPercent": cpu, "limitsMemoryPercent": memory}})}


def annotate(api: Api, namespace: str, annotations: Json, *, subresource: str = "", labels: Json | None = None) -> Answer:
    meta = {"annotations": annotations, **({"labels": labels} if labels is not None else {})}
    path = f"{NAMESPACES}/{namespace}{f'/{subresource}' if subresource else ''}"
    return api.call("PATCH", path, {"metadata": meta}, headers=MERGE)


def told(obj: Json) -> tuple[Json, str]:
    """What Ullage has written on a Namespace."""
    meta = obj["metadata"]
    found = {key: value for key, value in meta.get("annotations", {}).items() if key in OURS}
    return found, meta.get("labels", {}).get(HEADROOM_LABEL, "")


def limits(api: Api, namespace: str) -> Json:
    found = api.get(f"{LEDGERS}/ns-{namespace}")
    return found.obj.get("spec", {}).get("limits", {}) if found.code == 200 else {}


def test_shares_come_with_the_request_and_are_limits_of_the_ledger(served: Api, namespace: str) -> None:
    answer = annotate(served, namespace, quota() | kept())
    assert answer.code == 200, answer.raw
    assert told(answer.obj) == (HALVES, "on")
    share = {"cpu": "2", "memory": "2560Mi"}
    eventually("limits", lambda: limits(served, namespace) == {"compute/maintenance": share, "compute/vms": share})
    answer = annotate(served, namespace, kept(25, 0))
    assert told(answer.obj) == (
        {VM_AVAILABLE: '{"limit":{"limitsCpu":3000}}', MAINTENANCE_AVAILABLE: '{"limit":{"limitsCpu":1000}}'},
        "on",
    )
    eventually(
        "other limits",
        lambda: limits(served, namespace) == {"compute/maintenance": {"cpu": "1"}, "compute/vms": {"cpu": "3"}},
    )
    answer = annotate(served, namespace, {MAINTENANCE_QUOTA: None})
    assert told(answer.obj) == ({}, "")
    eventually("no limits", lambda: not limits(served, namespace))


def test_a_new_namespace_has_them_too_whatever_its_author_wrote(served: Api, namespace: str) -> None:
    annotations = quota() | kept() | {VM_AVAILABLE: '{"limit":{"limitsCpu":999000}}', EXCEEDS: "true"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "headroom-", "annotations": annotations}}
    made = served.create(NAMESPACES, body)
    assert told(made) == (HALVES, "on")
    served.delete(f"{NAMESPACES}/{made['metadata']['name']}")


@pytest.mark.parametrize("subresource", ["", "status", "finalize"])
def test_nobody_else_writes_them(served: Api, namespace: str, subresource: str) -> None:
    """Through no part of a Namespace that the API server lets annotations be written through."""
    annotate(served, namespace, quota() | kept())
    lies = {VM_AVAILABLE: '{"limit":{"limitsCpu":999000}}', MAINTENANCE_AVAILABLE: None, EXCEEDS: "true"}
    if subresource == "finalize":  # it has no PATCH
        body = served.get(f"{NAMESPACES}/{namespace}").obj
        body["metadata"]["annotations"] |= {key: value for key, value in lies.items() if value}
        body["metadata"]["labels"].pop(HEADROOM_LABEL)
        answer = served.call("PUT", f"{NAMESPACES}/{namespace}/finalize", body)
    else:
        answer = annotate(served, namespace, lies, subresource=subresource, labels={HEADROOM_LABEL: None})
    assert answer.code == 200, answer.raw
    assert told(served.get(f"{NAMESPACES}/{namespace}").obj) == (HALVES, "on")


@pytest.mark.parametrize(
    ("annotations", "annotation", "message"),
    [
        pytest.param(
            quota() | kept(101),
            MAINTENANCE_QUOTA,
            "limit.limitsCPUPercent is 101; a whole number from 0 to 100 is allowed, and 0 keeps nothing back",
            id="more than all",
        ),
        pytest.param(
            quota() | kept(50, "-1"),
            MAINTENANCE_QUOTA,
            "limit.limitsMemoryPercent is '-1'; a whole number from 0 to 100 is allowed, and 0 keeps nothing back",
            id="less than none",
        ),
        pytest.param(
            quota() | {MAINTENANCE_QUOTA: "50"},
            MAINTENANCE_QUOTA,
            '\'50\' is no JSON object; something like {"limit":{"limitsCpuPercent":50,"limitsMemoryPercent":50}} is allowed',
            id="no object",
        ),
        pytest.param(
            {RESOURCE_QUOTA: "{"} | kept(),
            RESOURCE_QUOTA,
            '\'{\' is not JSON; something like {"limit":{"limitsCpu":"4000m","limitsMemory":"5120Mi"}} is allowed',
            id="a malformed quota",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    served: Api, namespace: str, annotations: Json, annotation: str, message: str
) -> None:
    before = served.get(f"{NAMESPACES}/{namespace}").obj
    answer = annotate(served, namespace, annotations)
    assert (answer.code, answer.reason) == (422, "Invalid"), answer.raw
    field = f"metadata.annotations[{annotation}]"
    assert f"{field}: {message}" in answer.message
    assert [(one["field"], one["message"]) for one in answer.causes] == [(field, message)]
    assert served.get(f"{NAMESPACES}/{namespace}").obj == before


def test_rancher_takes_its_quota_away_and_what_follows_from_it_goes_too(served: Api, namespace: str) -> None:
    annotate(served, namespace, quota() | kept())
    eventually("limits", lambda: len(limits(served, namespace)) == 2)
    answer = annotate(served, namespace, {RESOURCE_QUOTA: None})
    assert (answer.code, told(answer.obj)) == (200, ({}, ""))
    assert MAINTENANCE_QUOTA in answer.obj["metadata"]["annotations"], "what people asked for stays"
    assert any("keeps 50 % of a quota that is not there: cpu has no limit" in one for one in answer.warnings)
    eventually("no limits", lambda: not limits(served, namespace))
    # Of a quota of CPU alone the percentages count for CPU, and memory has no limit.
    answer = annotate(served, namespace, {RESOURCE_QUOTA: json.dumps({"limit": {"limitsCpu": "4"}})})
    share = '{"limit":{"limitsCpu":2000}}'
    assert told(answer.obj) == ({VM_AVAILABLE: share, MAINTENANCE_AVAILABLE: share}, "on")
    assert any("memory has no limit" in one for one in answer.warnings)
    wanted = {"compute/maintenance": {"cpu": "2"}, "compute/vms": {"cpu": "2"}}
    eventually("limits of CPU", lambda: limits(served, namespace) == wanted)


def test_namespaces_are_edited_while_nobody_answers(stage: Stage, served: Api, namespace: str) -> None:
    """Only what is about shares needs the webhook: a namespace without them never does, nor any edit of another kind."""
    annotate(served, namespace, quota() | kept())
    other = stage.scene.namespace()
    with stage.silenced():
        for name, change in (
            (other, {"note": "x"} | quota()),
            (namespace, {"note": "x"}),
            ("kube-system", quota() | kept()),
        ):
            answer = annotate(served, name, change, labels={"team": "a"})
            assert answer.code == 200, answer.raw
        refused = annotate(served, namespace, {EXCEEDS: "true"})
        assert refused.code == 500, refused.raw
        made = served.call(
            "POST", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "plain-"}}
        )
        assert made.code == 201, made.raw
        served.delete(f"{NAMESPACES}/{made.obj['metadata']['name']}")
    annotate(served, "kube-system", dict.fromkeys((RESOURCE_QUOTA, MAINTENANCE_QUOTA, "note")), labels={"team": None})
    assert told(served.get(f"{NAMESPACES}/{namespace}").obj) == (HALVES, "on")


# --- VMs ---------------------------------------------------------------------------------------------------------------


class Tenant:
    """A namespace with VMs that nobody really runs: their objects, as KubeVirt's controllers would have them."""

    def __init__(self, stage: Stage) -> None:
        self.api = stage.scene.api
        self.name = stage.scene.namespace()
        self.group = f"/apis/kubevirt.io/v1/namespaces/{self.name}"
        self._kubevirt = Config.load(Identity(WORLD, stage.scene.directory).kubeconfig, environ={})

    def annotate(self, annotations: Json) -> Answer:
        return annotate(self.api, self.name, annotations)

    def machine(self, name: str, strategy: str = "Always") -> Answer:
        """1 CPU, and 1222Mi with what comes on top."""
        domain = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "memory": {"guest": "924Mi"}, "devices": {}}
        spec = {"runStrategy": strategy, "template": {"spec": {"domain": domain}}}
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name}, "spec": spec}
        return self.api.call("POST", f"{self.group}/virtualmachines", body)

    def instance(self, machine: str) -> None:
        found = self.api.get(f"{self.group}/virtualmachines/{machine}").obj
        meta = {"name": machine, "ownerReferences": [owner(found)]}
        body = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": meta}
        self.api.create(f"{self.group}/virtualmachineinstances", {**body, "spec": found["spec"]["template"]["spec"]})

    def migrate(self, name: str, machine: str) -> Answer:
        kind = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration"}
        body = {**kind, "metadata": {"name": name}, "spec": {"vmiName": machine}}
        return self.api.call("POST", f"{self.group}/virtualmachineinstancemigrations", body)

    def runs(self, machine: str, status: str) -> None:
        """As KubeVirt says: it has happened."""

        async def say() -> None:
            async with Client(self._kubevirt) as client:
                merge = {"status": {"printableStatus": status}}
                await client.patch(VIRTUAL_MACHINES, machine, self.name, merge=merge, subresource="status")

        asyncio.run(say())

    def exceeded(self) -> str:
        return str(told(self.api.get(f"{NAMESPACES}/{self.name}").obj)[0].get(EXCEEDS, ""))

    def used(self) -> str:
        """What the accounts of the ledger have, counted and pending."""
        found = self.api.get(f"{LEDGERS}/ns-{self.name}")
        return " ".join(found.obj.get("status", {}).get("summary", ())) if found.code == 200 else ""


def owner(machine: Json) -> Json:
    meta = machine["metadata"]
    ref = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": meta["name"], "uid": meta["uid"]}
    return {**ref, "controller": True, "blockOwnerDeletion": True}


@pytest.fixture
def tenant(stage: Stage) -> Tenant:
    return Tenant(stage)


def in_force(tenant: Tenant) -> None:
    eventually("the shares are limits", lambda: bool(limits(tenant.api, tenant.name)))


def test_a_quota_that_what_runs_would_not_fit_into_is_refused_with_the_numbers(tenant: Tenant) -> None:
    assert tenant.annotate(quota() | kept()).code == 200
    in_force(tenant)
    for name in ("vm1", "vm2"):
        answer = tenant.machine(name)
        assert answer.code == 201, answer.raw
    refused = tenant.machine("vm3")
    assert (refused.code, "VM available resources are insufficient" in refused.message) == (403, True), refused.raw
    answer = tenant.annotate(quota("3", "5Gi"))
    assert answer.code == 403, answer.raw
    assert f"what runs in namespace {tenant.name} takes 2 cores" in answer.message
    assert "of cpu, and 1.5 cores would be left for it, 0.5 cores too little" in answer.message
    assert f"Next: ullage usage -n {tenant.name}" in answer.message
    answer = tenant.annotate(kept(75, 75))
    assert answer.code == 403
    assert "of cpu, and 1 core would be left for it" in answer.message
    assert "of memory, and 1.25Gi would be left for it, 1.14Gi too little" in answer.message
    assert told(tenant.api.get(f"{NAMESPACES}/{tenant.name}").obj) == (HALVES, "on")
    assert tenant.annotate(kept(25, 50)).code == 200, "more for VMs"
    assert tenant.annotate({MAINTENANCE_QUOTA: None}).code == 200, "nothing moves: it may be switched off"


def test_a_first_share_has_to_fit_what_runs_already(tenant: Tenant) -> None:
    for name in ("vm1", "vm2", "vm3"):
        assert tenant.machine(name).code == 201
    eventually("it is counted", lambda: tenant.annotate(quota() | kept()).code == 403)
    answer = tenant.annotate(quota() | kept())
    assert "takes 3 cores of cpu, and 2 cores would be left for it, 1 core too little" in answer.message
    assert tenant.annotate(quota("6", "8Gi") | kept()).code == 200


def test_a_migration_keeps_what_it_needs(tenant: Tenant) -> None:
    tenant.annotate(quota() | kept())
    in_force(tenant)
    assert tenant.machine("vm1").code == 201
    tenant.instance("vm1")
    moved = tenant.migrate("move", "vm1")
    assert moved.code == 201, moved.raw
    for change in (kept(20, 50), kept(0, 50), {MAINTENANCE_QUOTA: None}):
        answer = tenant.annotate(change)
        assert answer.code == 403, answer.raw
        assert f"migrations that are under way in namespace {tenant.name} hold 1 core" in answer.message
    assert tenant.annotate(kept(25, 50)).code == 200
    tenant.api.delete(f"{tenant.group}/virtualmachineinstancemigrations/move")
    eventually("nothing is held any more", lambda: tenant.annotate({MAINTENANCE_QUOTA: None}).code == 200)


@pytest.mark.slow  # a new ledger is exact when every request of before has ended: after a minute
def test_a_namespace_that_runs_more_than_its_share_says_so_until_it_does_not(tenant: Tenant) -> None:
    tenant.annotate(quota() | kept())
    in_force(tenant)
    for name in ("vm1", "vm2", "vm3"):
        assert tenant.machine(name, "Halted").code == 201, "halted it takes nothing"
    for name in ("vm1", "vm2", "vm3"):
        tenant.runs(name, "Running")
    eventually("it is said", lambda: tenant.exceeded() == "true", seconds=180)
    refused = tenant.machine("vm4", "Halted")
    assert refused.code == 403, "while that is so no VM is created"
    assert "exceeds its quota" in refused.message
    assert tenant.annotate({EXCEEDS: None}).code == 200
    assert tenant.exceeded() == "true", "nobody else takes it away"
    tenant.runs("vm3", "Stopped")
    eventually("it is not said any more", lambda: not tenant.exceeded())
    eventually("VMs are created again", lambda: tenant.machine("vm4", "Halted").code == 201)
    found = tenant.api.get("/apis/events.k8s.io/v1/namespaces/default/events").obj["items"]
    said = {one["reason"]: one["note"] for one in found if one["regarding"]["name"] == tenant.name}
    assert "3 cores of cpu, 1 core more than the share of 2 cores" in said["QuotaExceeded"]
    assert "fits its share again" in said["WithinQuota"]


def test_the_commands_set_a_quota_and_show_how_it_stands(stage: Stage, tenant: Tenant) -> None:
    here = Here(stage.scene.plane, tenant.api, tenant.name)
    where = f"ns/{tenant.name}"
    ran = here.run(
        "quota", "set", where, "--cpu", "4", "--memory", "5Gi", "--maintenance-cpu", "25", "--maintenance-memory", "25"
    )
    assert (ran.code, ran.out.splitlines()) == (
        0,
        [
            f"cpu of namespace {tenant.name} is limited to 4 cores: 3 cores for VMs, 1 core for maintenance",
            f"memory of namespace {tenant.name} is limited to 5Gi: 3.75Gi for VMs, 1.25Gi for maintenance",
        ],
    ), ran.err
    in_force(tenant)
    for name in ("vm1", "vm2"):
        assert tenant.machine(name).code == 201
    tenant.instance("vm1")
    assert tenant.migrate("move", "vm1").code == 201
    ran = here.run("usage", "-n", tenant.name)
    shown = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "2 VMs run: they ask for 2 cores and 2Gi, and cost 2 cores and 2.39Gi" in shown
    assert [
        line for line in shown if line.startswith("migration move of VM vm1 holds 1 core and 1.2Gi of the maintenance share")
    ]
    rows = [line.removeprefix(f"{tenant.name} ") for line in shown]
    assert [row for row in rows if row.startswith("VMs, pods cpu ") and row.endswith("3 cores 1 core 66")]
    assert [row for row in rows if row.startswith("maintenance memory ") and row.endswith("1.25Gi 58Mi 95")]
    ran = here.run("quota", "set", where, "--maintenance-cpu", "10")
    assert (ran.code, "migrations that are under way" in ran.err) == (1, True), ran.err
    ran = here.run("quota", "set", where, "--cpu", "8", "--dry-run")
    assert ran.out.splitlines()[0].endswith("would be limited to 8 cores: 6 cores for VMs, 2 cores for maintenance")
    assert told(tenant.api.get(f"{NAMESPACES}/{tenant.name}").obj)[0][VM_AVAILABLE].startswith('{"limit":{"limitsCpu":3000')
