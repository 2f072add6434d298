"""The kinds: explained to the last field, and readable as KubeVirt and Harvester write them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.kube.kinds import Kind
from ullage.vms.api.backups import VM_BACKUPS
from ullage.vms.api.instance_types import TYPE_KINDS
from ullage.vms.api.kubevirts import KUBEVIRTS
from ullage.vms.api.machines import INSTANCES, VIRTUAL_MACHINES
from ullage.vms.api.migrations import MIGRATIONS
from ullage.vms.api.restores import VM_RESTORES

KINDS: tuple[Kind[Any], ...] = (VIRTUAL_MACHINES, INSTANCES, MIGRATIONS, KUBEVIRTS, VM_BACKUPS, VM_RESTORES, *TYPE_KINDS)


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.plural) for kind in KINDS])
def test_every_field_is_explained(kind: Kind[Any]) -> None:
    assert undocumented(crd_of(kind)) == []


HARVESTERS: dict[str, Any] = {
    "spec": {"source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}, "type": "backup"},
    "status": {
        "sourceUID": "u",
        "creationTime": "2026-05-01T11:59:58Z",
        "backupTarget": {"endpoint": "s3://x"},
        "csiDriverVolumeSnapshotClassNames": {"driver.longhorn.io": "longhorn"},
        "source": {"metadata": {"name": "db", "creationTimestamp": None}, "spec": {"runStrategy": "Halted"}},
        "volumeBackups": [
            {
                "name": "one-volume-disk-0",
                "volumeName": "disk-0",
                "csiDriverName": "driver.longhorn.io",
                "persistentVolumeClaim": {"metadata": {"name": "db-0"}, "spec": {"volumeMode": "Block"}},
                "longhornBackupName": "backup-1",
                "volumeSize": 10737418240,
                "progress": 100,
                "readyToUse": True,
            }
        ],
        "secretBackups": [{"name": "s"}],
        "progress": 100,
        "readyToUse": True,
        "conditions": [{"type": "Ready", "status": "True", "lastUpdateTime": "2026-05-01T11:59:58Z"}],
    },
}


def test_what_harvester_writes_is_read_and_names_on_the_wire_are_its_own() -> None:
    found = msgspec.json.decode(msgspec.json.encode({"metadata": {"name": "one"}, **HARVESTERS}), type=VM_BACKUPS.type)
    assert (found.status.source_uid, found.status.volume_backups[0].csi_driver_name) == ("u", "driver.longhorn.io")
    wire = msgspec.to_builtins(found)["status"]
    assert {"sourceUID", "csiDriverVolumeSnapshotClassNames", "volumeBackups", "readyToUse", "creationTime"} <= wire.keys()
    assert wire["volumeBackups"][0] == {
        key: value for key, value in HARVESTERS["status"]["volumeBackups"][0].items() if key != "longhornBackupName"
    }


def test_a_restore_s_names_on_the_wire_are_harvesters() -> None:
    spec = {
        "target": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "new"},
        "virtualMachineBackupName": "one",
        "virtualMachineBackupNamespace": "team",
        "newVM": True,
        "deletionPolicy": "retain",
        "keepMacAddress": True,
    }
    status = {
        "restores": [{"volumeName": "d", "persistentVolumeClaimSpec": {"metadata": {"name": "c"}}, "volumeBackupName": "s"}],
        "restoreTime": "2026-05-01T11:59:58Z",
        "deletedVolumes": ["old"],
        "complete": True,
        "targetUID": "u",
        "progress": 100,
    }
    body = {"metadata": {"name": "r"}, "spec": spec, "status": status}
    wire = msgspec.json.decode(msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(body), type=VM_RESTORES.type)))
    assert (wire["spec"], wire["status"]) == (spec, status)


def test_how_kubevirt_migrates_is_read_under_its_own_names() -> None:
    migrations = {
        "parallelMigrationsPerCluster": 5,
        "parallelOutboundMigrationsPerNode": 2,
        "bandwidthPerMigration": "64Mi",
        "completionTimeoutPerGiB": 150,
        "progressTimeout": 150,
        "allowAutoConverge": True,
        "allowPostCopy": False,
        "allowWorkloadDisruption": False,
        "disableTLS": False,
        "network": "migration",
        "nodeDrainTaintKey": "kubevirt.io/drain",
        "unsafeMigrationOverride": False,
        "matchSELinuxLevelOnMigration": True,
    }
    body = {"metadata": {"name": "kubevirt"}, "spec": {"configuration": {"migrations": migrations}}}
    found = msgspec.json.decode(msgspec.json.encode(body), type=KUBEVIRTS.type)
    assert msgspec.to_builtins(found)["spec"]["configuration"]["migrations"] == migrations
