"""Claims, volumes, classes, snapshots and records for tests: whole ones, each with what a test wants to be different."""

from __future__ import annotations

from typing import Any

from ullage.kube.builtin import core, storage
from ullage.kube.kinds import Meta
from ullage.snapshots.model import CREATING, Record, Ref, Snapshot, SnapshotClass, State

DRIVER = "csi.example.com"
GA, PROTOTYPE = "snapshot.storage.k8s.io", "volumesnapshot.external-storage.k8s.io"
DELETED = "2026-01-01T00:05:00Z"


def claim(**changed: Any) -> core.PersistentVolumeClaim:
    spec: dict[str, Any] = {"volume_name": "pv-1", "storage_class_name": "fast"} | changed.pop("spec", {})
    phase = changed.pop("phase", "Bound")
    meta: dict[str, Any] = {"name": "db", "namespace": "team", "uid": "claim-uid", "resource_version": "5"} | changed
    return core.PersistentVolumeClaim(metadata=Meta(**meta), spec=core.ClaimSpec(**spec), status=core.ClaimStatus(phase=phase))


def volume(**spec: Any) -> core.PersistentVolume:
    ref = core.ObjectReference(kind="PersistentVolumeClaim", namespace="team", name="db", uid="claim-uid")
    given: dict[str, Any] = {"claim_ref": ref, "csi": core.CsiVolumeSource(driver=DRIVER, volume_handle="vol-1")} | spec
    return core.PersistentVolume(metadata=Meta(name="pv-1", uid="pv-uid"), spec=core.VolumeSpec(**given))


def storage_class(provisioner: str = DRIVER, name: str = "fast") -> storage.StorageClass:
    return storage.StorageClass(metadata=Meta(name=name), provisioner=provisioner)


def snapshot_class(name: str = "daily", **changed: Any) -> SnapshotClass:
    given: dict[str, Any] = {"name": name, "driver": DRIVER, "is_default": True}
    return SnapshotClass(**(given | changed))


def snapshot(**changed: Any) -> Snapshot:
    meta: dict[str, Any] = {
        "name": "snap",
        "namespace": "team",
        "uid": "snap-uid",
        "creation_timestamp": "2026-01-01T00:00:00Z",
    }
    meta |= changed.pop("meta", {})
    given: dict[str, Any] = {"claim": "db"} if "imported_record" not in changed else {}
    return Snapshot(meta=Meta(**meta), **(given | changed))


def record(**changed: Any) -> Record:
    begun = changed.pop("begun", False)
    meta: dict[str, Any] = {"name": "snapcontent-snap-uid", "uid": "record-uid", "creation_timestamp": "2026-01-01T00:00:01Z"}
    meta |= {"annotations": {CREATING: "true"}} if begun else {}
    meta |= changed.pop("meta", {})
    given: dict[str, Any] = {"ref": Ref("team", "snap", "snap-uid"), "driver": DRIVER, "volume": "vol-1", "volume_name": "pv-1"}
    if "imported" in changed:
        given |= {"volume": "", "volume_name": ""}
    return Record(meta=Meta(**meta), **(given | {"state": State()} | changed))


def reference(group: str | None = GA, **fields: Any) -> core.TypedObjectReference:
    return core.TypedObjectReference(**({"api_group": group, "kind": "VolumeSnapshot", "name": "snap"} | fields))


def restoring_claim(size: str = "1Gi", **fields: Any) -> core.PersistentVolumeClaim:
    """One that waits for its volume, which is to be made from a snapshot."""
    spec: dict[str, Any] = {"volume_name": "", "data_source_ref": reference(), "access_modes": ("ReadWriteOnce",)}
    spec |= {"resources": core.ClaimResources(requests={"storage": size})} | fields.pop("spec", {})
    return claim(name="copy", phase="Pending", spec=spec, **fields)
