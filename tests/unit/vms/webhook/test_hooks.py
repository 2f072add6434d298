"""What is refused when it is created: every wrong input has a text of its own, and names its field."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.unit.snapshots.memory_api import MemoryApi
from tests.unit.vms.builders import NAMESPACE, body, machine_body
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind
from ullage.kube.review import Decision, GroupVersionKind, GroupVersionResource, Request, Review
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.restores import VM_RESTORES
from ullage.vms.lookup import BY_TARGET
from ullage.vms.webhook import BackupHook, RestoreHook

Json = dict[str, Any]
MOVING: Json = {"phase": "Running", "migrationState": {"startTimestamp": "2026-01-01T00:00:00Z"}}
GOING: Json = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
READY: Json = {"readyToUse": True, "progress": 100}
FAILED: Json = {
    "readyToUse": False,
    "error": {"message": "DriverError: volume disk-a (claim a): full"},
    "conditions": [{"type": "Failed", "status": "True"}],
}


def review(kind: Kind[Any], obj: Json) -> Review:
    return Review(
        Request(
            uid="r",
            operation="CREATE",
            kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
            resource=GroupVersionResource(group=kind.group, version=kind.version, resource=kind.plural),
            namespace=NAMESPACE,
            object=msgspec.Raw(msgspec.json.encode(obj)),
        )
    )


def machine(run_strategy: str = "Halted", status: str = "Stopped", **content: Any) -> Json:
    return machine_body(run_strategy=run_strategy, status={"printableStatus": status}, **content)


def instance(status: Json) -> Json:
    return body(INSTANCES, "db", status=status)


def backup(status: Json, **content: Any) -> Json:
    return body(VM_BACKUPS, "one", spec={"source": {"name": "db"}}, status=status, **content)


def said(decision: Decision) -> tuple[int, str, str]:
    field = decision.causes[0].field if decision.causes else ""
    return decision.code, field, decision.message.removeprefix(f"{field}: ")


# --- backups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "source", "answer"),
    [
        pytest.param([machine("Always", "Running")], "db", None, id="a VM that runs"),
        pytest.param([machine()], "db", None, id="a VM that is stopped"),
        pytest.param([], "", "name the VM that is to be backed up", id="no name"),
        pytest.param([], "db", "VM team/db does not exist", id="no such VM"),
        pytest.param([machine(metadata=GOING)], "db", "VM team/db is being deleted", id="a VM that goes"),
        pytest.param(
            [machine("Always"), instance(MOVING)],
            "db",
            "VM team/db is in migration; back it up when it has arrived",
            id="a VM that moves",
        ),
        pytest.param(
            [machine("Always"), instance({**MOVING, "migrationState": {**MOVING["migrationState"], "completed": True}})],
            "db",
            None,
            id="a VM that has moved",
        ),
    ],
)
async def test_backups(there: list[Json], source: str, answer: str | None) -> None:
    api = MemoryApi()
    for one in there:
        api.put(VIRTUAL_MACHINES if one["kind"] == VIRTUAL_MACHINES.kind else INSTANCES, one)
    decision = await BackupHook(api).answer(review(VM_BACKUPS, body(VM_BACKUPS, "new", spec={"source": {"name": source}})))
    assert said(decision) == ((200, "", "") if answer is None else (422, "spec.source.name", answer))


# --- restores --------------------------------------------------------------------------------------------------------

TARGET, BACKUP = "spec.target.name", "spec.virtualMachineBackupName"


def restore(name: str = "new", *, new: bool = True, target: str = "copy", status: Json | None = None, **spec: Any) -> Json:
    given = {"target": {"name": target}, "virtualMachineBackupName": "one", "newVM": new, **spec}
    return body(VM_RESTORES, name, spec=given, status=status or {})


IN_PLACE = restore(new=False, target="db")


@pytest.mark.parametrize(
    ("there", "wanted", "field", "answer"),
    [
        pytest.param([backup(READY)], restore(), "", "", id="a new VM"),
        pytest.param([backup(READY), machine()], IN_PLACE, "", "", id="in place, when it is stopped"),
        pytest.param(
            [backup(READY), machine("RerunOnFailure", "Stopped")],
            IN_PLACE,
            "",
            "",
            id="in place, when it was shut down from inside",
        ),
        pytest.param(
            [backup(READY), machine("RerunOnFailure", "Stopped"), instance({"phase": "Succeeded"})],
            IN_PLACE,
            "",
            "",
            id="in place, when what ran has ended",
        ),
        pytest.param([backup(READY)], restore(target=""), TARGET, "name the VM that is to be restored", id="no target"),
        pytest.param(
            [backup(READY)],
            restore(virtualMachineBackupNamespace="other"),
            "spec.virtualMachineBackupNamespace",
            "it is other, and snapshots can be restored in their own namespace only: leave it out, or name team",
            id="a backup of another namespace",
        ),
        pytest.param([], restore(), BACKUP, "VirtualMachineBackup team/one does not exist", id="no such backup"),
        pytest.param(
            [backup(READY, metadata=GOING)],
            restore(),
            BACKUP,
            "VirtualMachineBackup team/one is being deleted",
            id="a backup that goes",
        ),
        pytest.param(
            [backup({"readyToUse": False, "progress": 40})],
            restore(),
            BACKUP,
            "VirtualMachineBackup team/one is not ready, 40 percent are done",
            id="a backup that is not ready",
        ),
        pytest.param(
            [backup(FAILED)],
            restore(),
            BACKUP,
            "VirtualMachineBackup team/one has failed: DriverError: volume disk-a (claim a): full",
            id="a backup that failed",
        ),
        pytest.param(
            [backup(READY), machine()],
            restore(target="db"),
            TARGET,
            "VM team/db exists already; name another, or restore it in place with newVM: false",
            id="a new VM under a name that is taken",
        ),
        pytest.param(
            [backup(READY)],
            IN_PLACE,
            TARGET,
            "VM team/db does not exist; restore it as a new one with newVM: true",
            id="in place, where nothing is",
        ),
        pytest.param(
            [backup(READY), machine("Always", "Running"), instance({"phase": "Running"})],
            IN_PLACE,
            TARGET,
            "VM team/db is Running; stop it before it is restored in place",
            id="in place, while it runs",
        ),
        pytest.param(
            [backup(READY), machine("Always", "")],
            IN_PLACE,
            TARGET,
            "VM team/db is not stopped; stop it before it is restored in place",
            id="in place, when it is about to run",
        ),
        pytest.param(
            [backup(READY), machine("Always", "Running"), instance(MOVING)],
            IN_PLACE,
            TARGET,
            "VM team/db is in migration; stop it before it is restored in place",
            id="in place, while it moves",
        ),
        pytest.param(
            [backup(READY), machine(metadata=GOING)], IN_PLACE, TARGET, "VM team/db is being deleted", id="in place, as it goes"
        ),
        pytest.param(
            [backup(READY), machine(name="web")],
            restore(new=False, target="web"),
            TARGET,
            "the backup is of VM db, not of web; restore it as a new one with newVM: true",
            id="in place of another VM",
        ),
        pytest.param(
            [backup(READY), restore("first")],
            restore(),
            TARGET,
            "VirtualMachineRestore first restores VM team/copy already; wait until it is complete",
            id="while another restore of it goes on",
        ),
        pytest.param([backup(READY), restore("first", status={"complete": True})], restore(), "", "", id="after another"),
        pytest.param([backup(READY), restore("first", target="web")], restore(), "", "", id="beside one of another VM"),
    ],
)
async def test_restores(there: list[Json], wanted: Json, field: str, answer: str) -> None:
    api = MemoryApi()
    kinds = {kind.kind: kind for kind in (VIRTUAL_MACHINES, INSTANCES, VM_BACKUPS, VM_RESTORES)}
    for one in there:
        api.put(kinds[one["kind"]], one)
    restores = Cache(api, VM_RESTORES)
    restores.index(BY_TARGET, lambda one: (str(Key(one.metadata.namespace, one.spec.target.name)),))
    running = asyncio.create_task(restores.run())
    try:
        await restores.reached(api.version)
        decision = await RestoreHook(api, restores).answer(review(VM_RESTORES, wanted))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert said(decision) == ((422, field, answer) if answer else (200, "", ""))
