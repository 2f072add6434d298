"""The kinds of VMs, backups and restores: accepted by API servers, and what their own rules refuse."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from ullage.kube.crds.definitions import crd_of, to_yaml
from ullage.kube.kinds import Kind
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.kubevirts import KUBEVIRTS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.api.restores import VM_RESTORES

from .api import Api
from .choice import DISPOSABLE
from .conftest import DEFINITIONS, wait_served
from .kubectl import Kubectl

Json = dict[str, Any]
KINDS: tuple[Kind[Any], ...] = (VIRTUAL_MACHINES, INSTANCES, MIGRATIONS, KUBEVIRTS, VM_BACKUPS, VM_RESTORES)
VM: Json = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}


@pytest.fixture(scope="module")
def served(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Api:
    if os.environ.get("E2E_KUBECONFIG") and not os.environ.get(DISPOSABLE):
        pytest.skip("a cluster of somebody's own may have these kinds for real")
    home: Path = tmp_path_factory.mktemp("kubectl-vms")
    admin = Kubectl(api.plane, namespace="default", home=home)
    text = to_yaml(*map(crd_of, KINDS))
    assert admin("apply", "--server-side", "--field-manager=ullage", "-f", "-", stdin=text).err == "", "no warnings"
    for kind in KINDS:
        wait_served(api, kind.path())
    return api


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in KINDS])
def test_the_definition_is_accepted_as_it_is(served: Api, kind: Kind[Any]) -> None:
    found = served.get(f"{DEFINITIONS}/{kind.name}").obj
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert (conditions["Established"], conditions["NamesAccepted"]) == ("True", "True")
    assert "NonStructuralSchema" not in conditions


def body(kind: Kind[Any], spec: Json) -> Json:
    name = f"x{uuid.uuid4().hex[:8]}"
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


RESTORE: Json = {"target": VM, "virtualMachineBackupName": "one", "virtualMachineBackupNamespace": "team"}


@pytest.mark.parametrize(
    ("kind", "spec", "field", "text"),
    [
        pytest.param(
            VM_BACKUPS,
            {"source": {**VM, "name": ""}},
            "spec.source.name",
            "name the VM that is to be backed up",
            id="a backup of nothing",
        ),
        pytest.param(
            VM_BACKUPS,
            {"source": {**VM, "kind": "Pod"}},
            "spec.source",
            "only a VirtualMachine of kubevirt.io can be backed up",
            id="a backup of a pod",
        ),
        pytest.param(
            VM_BACKUPS,
            {"source": VM, "type": "clone"},
            "spec.type",
            'supported values: "backup", "snapshot"',
            id="another type",
        ),
        pytest.param(
            VM_RESTORES,
            {**RESTORE, "target": {**VM, "name": ""}},
            "spec.target.name",
            "name the VM that is to be restored",
            id="a restore to nothing",
        ),
        pytest.param(
            VM_RESTORES,
            {**RESTORE, "virtualMachineBackupName": ""},
            "spec.virtualMachineBackupName",
            "name the VirtualMachineBackup to restore from",
            id="a restore from nothing",
        ),
        pytest.param(
            VM_RESTORES,
            {**RESTORE, "deletionPolicy": "keep"},
            "spec.deletionPolicy",
            'supported values: "delete", "retain"',
            id="another policy",
        ),
        pytest.param(
            VM_RESTORES,
            {**RESTORE, "newVM": False, "start": True},
            "spec.start",
            "only a new VM is started: one that is restored in place stays stopped",
            id="a start in place",
        ),
    ],
)
def test_what_the_kinds_themselves_refuse(
    served: Api, namespace: str, kind: Kind[Any], spec: Json, field: str, text: str
) -> None:
    answer = served.call("POST", kind.path(namespace), body(kind, spec))
    assert answer.code == 422, answer.obj
    assert text in answer.obj["message"]
    assert field in [cause["field"] for cause in answer.obj["details"]["causes"]]


@pytest.mark.parametrize(
    ("kind", "spec", "change", "text"),
    [
        pytest.param(VM_BACKUPS, {"source": VM}, {"type": "snapshot"}, "the spec of a backup cannot be changed", id="backup"),
        pytest.param(VM_RESTORES, RESTORE, {"newVM": True}, "the spec of a restore cannot be changed", id="restore"),
    ],
)
def test_a_spec_cannot_be_changed(served: Api, namespace: str, kind: Kind[Any], spec: Json, change: Json, text: str) -> None:
    made = body(kind, spec)
    created = served.call("POST", kind.path(namespace), made)
    assert created.code == 201, created.obj
    path = kind.path(namespace, made["metadata"]["name"])
    refused = served.call("PATCH", path, {"spec": change}, headers={"Content-Type": "application/merge-patch+json"})
    assert (refused.code, text in refused.obj["message"]) == (422, True), refused.obj


def test_what_is_left_out_has_harvesters_defaults(served: Api, namespace: str) -> None:
    made = served.call("POST", VM_BACKUPS.path(namespace), body(VM_BACKUPS, {"source": {"name": "db"}})).obj
    assert made["spec"] == {"source": VM, "type": "backup"}
    restored = served.call("POST", VM_RESTORES.path(namespace), body(VM_RESTORES, RESTORE)).obj
    assert restored["spec"]["deletionPolicy"] == "delete"
