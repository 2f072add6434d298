"""`ullage vm backup` and `restore`: what they ask for, what they tell meanwhile, how they end."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.cli.snapshot.cluster import Json
from tests.unit.cli.vm.cluster import VmCluster
from tests.unit.cli.vm.test_command import NAMES, WHERE, at, called, refused
from ullage.cli.vm.backups import name_at
from ullage.kube.errors import Forbidden
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.restores import VM_RESTORES

BACKUP = "virtualmachinebackup.harvesterhci.io"
RESTORE = "virtualmachinerestore.harvesterhci.io"
VM = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> VmCluster:
    found = at(VmCluster(), monkeypatch)
    found.machine("db", "data")
    found.put(VM_BACKUPS, {"metadata": {"name": "monday"}, "spec": {"source": VM}})
    return found


def condition(type: str, status: str, reason: str, message: str) -> Json:
    return {"type": type, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["backup", "a", "--type", "copy"], "--type copy: snapshot or backup is allowed", id="a type"),
        pytest.param(["backup", "a", "--name", "A"], f"--name A: {NAMES}", id="a name"),
        pytest.param(["backup", "a/b/c"], f"{WHERE} a/b/c: a name, or NAMESPACE/NAME, is allowed", id="three parts"),
        pytest.param(["restore", "a", "--new-vm", "a/b"], f"--new-vm a/b: {NAMES}", id="a VM elsewhere"),
        pytest.param(
            ["restore", "a", "--new-vm", "b", "--keep-volumes"],
            "--keep-volumes with --new-vm b: a new VM had no volumes before: only one of them is allowed",
            id="volumes of a new VM",
        ),
        pytest.param(
            ["restore", "a", "--keep-mac-address"],
            "--keep-mac-address without --new-vm: in place the addresses are always kept",
            id="addresses in place",
        ),
        pytest.param(
            ["restore", "a", "--start"],
            "--start without --new-vm: one that is restored in place stays stopped",
            id="start in place",
        ),
    ],
)
def test_bad_input_is_refused_before_any_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    assert refused(*arguments) == text


@pytest.mark.parametrize(
    ("arguments", "kind", "spec"),
    [
        pytest.param(["backup", "db"], "VirtualMachineBackup", {"source": VM, "type": "snapshot"}, id="a backup"),
        pytest.param(
            ["backup", "shop/db", "--type", "backup"],
            "VirtualMachineBackup",
            {"source": VM, "type": "backup"},
            id="of that type",
        ),
        pytest.param(
            ["restore", "monday"],
            "VirtualMachineRestore",
            {"target": VM, "newVM": False, "deletionPolicy": "delete", "keepMacAddress": False},
            id="in place",
        ),
        pytest.param(
            ["restore", "shop/monday", "--keep-volumes"],
            "VirtualMachineRestore",
            {"target": VM, "newVM": False, "deletionPolicy": "retain", "keepMacAddress": False},
            id="in place, and what was there stays",
        ),
        pytest.param(
            ["restore", "monday", "--new-vm", "copy", "--keep-mac-address"],
            "VirtualMachineRestore",
            {"target": {**VM, "name": "copy"}, "newVM": True, "deletionPolicy": "delete", "keepMacAddress": True},
            id="a new VM",
        ),
        pytest.param(
            ["restore", "monday", "--new-vm", "copy", "--start"],
            "VirtualMachineRestore",
            {
                "target": {**VM, "name": "copy"},
                "newVM": True,
                "deletionPolicy": "delete",
                "keepMacAddress": False,
                "start": True,
            },
            id="a new VM that runs",
        ),
    ],
)
@pytest.mark.parametrize("dry", [False, True], ids=["really", "dry"])
def test_what_is_asked_for(cluster: VmCluster, arguments: list[str], kind: str, spec: Json, dry: bool) -> None:
    out = called(*arguments, "--name", "mine", *(["--dry-run"] if dry else [])).stdout
    [(given, was_dry)] = cluster.posted
    assert (given["kind"], was_dry) == (kind, dry)
    assert given["metadata"] == {"name": "mine", "namespace": "shop"}
    names = {"virtualMachineBackupName": "monday", "virtualMachineBackupNamespace": "shop"} if "target" in spec else {}
    assert given["spec"] == {**spec, **names}
    assert out == f"{kind.lower()}.harvesterhci.io/mine {'would be created (dry run)' if dry else 'created'}\n"


def test_a_name_tells_when_it_was_made() -> None:
    now = datetime(2026, 5, 1, 12, 30, 5, tzinfo=UTC)
    assert name_at("db", now) == "db-20260501-123005"
    assert len(name_at("a" * 253, now)) <= 253
    assert name_at("a" * 219 + "-b", now) == "a" * 219 + "-20260501-123005"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["backup", "web"], "VM web does not exist in namespace shop", id="no VM"),
        pytest.param(["restore", "sunday"], "backup sunday does not exist in namespace shop", id="no backup"),
    ],
)
def test_what_is_not_there(cluster: VmCluster, arguments: list[str], text: str) -> None:
    assert refused(*arguments) == text
    assert not cluster.posted


@pytest.mark.parametrize(
    ("kind", "arguments"), [(VM_BACKUPS, ["backup", "db"]), (VM_RESTORES, ["restore", "monday"])], ids=["backup", "restore"]
)
def test_a_cluster_without_the_kind(monkeypatch: pytest.MonkeyPatch, kind: Any, arguments: list[str]) -> None:
    at(VmCluster(kind), monkeypatch)
    assert refused(*arguments) == f"this cluster does not serve {kind.name}: VMs cannot be backed up or restored here"


def test_a_vm_without_volumes_is_noted(cluster: VmCluster) -> None:
    cluster.machine("bare")
    result = called("backup", "bare", "--name", "mine")
    assert result.stderr == "ullage: note: VM shop/bare has no volume with a claim: only its spec is kept\n"


def test_a_refusal_is_told_as_it_is(cluster: VmCluster) -> None:
    def refuse(given: Json) -> None:
        raise Forbidden("snapshots/vm/db: 30Gi asked for, 60Gi used, 70Gi allowed", code=403)

    cluster.refuse = refuse
    assert refused("backup", "db") == "snapshots/vm/db: 30Gi asked for, 60Gi used, 70Gi allowed"


# --- waiting ---------------------------------------------------------------------------------------------------------


def say(cluster: VmCluster, kind: Any, name: str, *said: list[Json], progress: tuple[int, ...] = ()) -> None:
    """What the status says, one after the other, whenever it is looked at."""
    words, numbers = iter(said), iter(progress)

    def go_on() -> None:
        place = (kind.name, "shop", name)
        if place in cluster.objects and (now := next(words, None)) is not None:
            cluster.objects[place]["status"] = {"conditions": now, "progress": next(numbers, 0)}

    cluster.before = go_on


WAITS = [condition("Ready", "False", "Preparing", "nothing is cut before all volumes are ready; data is not")]
STORES = [condition("Ready", "False", "Storing", "all volumes are cut; data is being stored")]
DONE = [condition("Ready", "True", "Ready", "the VM can be restored from it: 1 volume")]
FAILED = [condition("Failed", "True", "NoRoom", "volume data: no\x1broom. No volume is kept"), WAITS[0]]


def test_a_backup_is_waited_for(cluster: VmCluster) -> None:
    say(cluster, VM_BACKUPS, "mine", WAITS, WAITS, STORES, DONE)
    out = called("backup", "db", "--name", "mine", "--wait").stdout.splitlines()
    assert out[:3] == [
        f"{BACKUP}/mine created",
        "mine: nothing is cut before all volumes are ready; data is not",
        "mine: all volumes are cut; data is being stored",
    ]
    assert out[3].startswith("mine: the VM can be restored from it: 1 volume (")


def test_with_an_output_the_object_is_all_that_is_printed(cluster: VmCluster) -> None:
    say(
        cluster,
        VM_RESTORES,
        "mine",
        [],
        [condition("Ready", "True", "Restored", "VM shop/copy has 1 volume")],
        progress=(0, 100),
    )
    result = called("restore", "monday", "--new-vm", "copy", "--name", "mine", "--wait", "-o", "json")
    assert json.loads(result.stdout)["status"]["progress"] == 100
    assert "VM shop/copy has 1 volume" in result.stderr
    assert called("restore", "monday", "--name", "other", "-o", "name").stdout == f"{RESTORE}/other\n"


def test_a_failure_is_told(cluster: VmCluster) -> None:
    say(cluster, VM_BACKUPS, "mine", WAITS, FAILED)
    text = refused("backup", "db", "--name", "mine", "--wait")
    assert text == "backup mine has failed: volume data: no?room. No volume is kept"


def test_what_is_deleted_meanwhile_is_gone(cluster: VmCluster) -> None:
    looks = 0

    def go_on() -> None:
        nonlocal looks
        looks += bool(cluster.posted)
        if looks == 2:
            cluster.objects[VM_BACKUPS.name, "shop", "mine"]["metadata"]["uid"] = "another"

    cluster.before = go_on
    assert refused("backup", "db", "--name", "mine", "--wait") == "backup mine is gone"


def test_who_waits_too_long_learns_how_far_it_is(cluster: VmCluster) -> None:
    say(cluster, VM_BACKUPS, "mine", WAITS)
    assert refused("backup", "db", "--name", "mine", "--wait", "--timeout", "0") == (
        "not complete within 0 s: backup mine: nothing is cut before all volumes are ready; data is not; "
        "nothing was stopped, look at it with: kubectl describe vmbackup mine -n shop"
    )
