"""What a share makes in another namespace: a record that names the same snapshot of the storage system, and a VolumeSnapshot
that is bound to it. Pure.

The data is not copied. Every record that names it keeps it: the storage system's snapshot is deleted with the last one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ullage.kube.kinds import Meta
from ullage.kube.objects import Json, name_for
from ullage.policies.sharing.api import SnapshotShare
from ullage.snapshots.model import SHARED_BY, Dialect, Record, Ref, Snapshot, State

FINALIZER: Final = "ullage.io/snapshot-share"  # on a share, until what it gave is taken back
SHARED_FROM: Final = "ullage.io/shared-from"  # on the VolumeSnapshot, for people: namespace/name of the source
_HANDLES: Final = {"hostPath": "snapshot", "awsElasticBlockStore": "snapshotId", "csiVolumeSnapshotSource": "snapshotHandle"}


def name_there(share: SnapshotShare) -> str:
    """Of the VolumeSnapshot."""
    return share.spec.name or share.spec.source.name


def record_name(share: SnapshotShare, namespace: str) -> str:
    """The same for one share and namespace, however often it is made."""
    return name_for("snapshare", share.metadata.uid, namespace, limit=100)


def new_record(share: SnapshotShare, namespace: str, source: Record, dialect: Dialect[Any, Any]) -> Json:
    """For the same data, and for no other snapshot than the one of that name in that namespace."""
    meta = Meta(name=record_name(share, namespace), annotations={SHARED_BY: share.metadata.name})
    ref = Ref(namespace, name_there(share))
    body = dialect.new_record(replace(source, meta=meta, ref=ref, volume="", volume_name="", imported="", state=State()))
    del body["spec"]["volumeSnapshotRef"]["uid"]  # it is filled in when they are bound
    if dialect.name == "ga":
        body["spec"]["source"] = {"snapshotHandle": source.handle}
    for field, key in _HANDLES.items():
        if field in body["spec"]:
            body["spec"][field][key] = source.handle
    return body


def new_snapshot(share: SnapshotShare, namespace: str, dialect: Dialect[Any, Any]) -> Json:
    source, record = share.spec.source, record_name(share, namespace)
    named = {"source": {"volumeSnapshotContentName": record}} if dialect.name == "ga" else {"snapshotDataName": record}
    notes = {SHARED_FROM: f"{source.namespace}/{source.name}"}
    return {"metadata": {"name": name_there(share), "namespace": namespace, "annotations": notes}, "spec": named}


def stands_for(snapshot: Snapshot, record: str) -> bool:
    """Whether a snapshot is the one that a share has given, or somebody's who uses what was given."""
    return snapshot.imported_record == record
