"""Objects of both APIs as they are on the wire, and what a merge patch makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ullage.kube.kinds import Kind
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import SOURCE, Change, Dialect

Json = dict[str, Any]


def patched(target: Json, patch: Json) -> Json:
    """As an API server merges: null removes, objects are merged, everything else is replaced."""
    made = dict(target)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict):
            inner = made.get(key)
            made[key] = patched(inner if isinstance(inner, dict) else {}, value)
        else:
            made[key] = value
    return made


def applied(body: Json, change: Change) -> Json:
    """Writes to an object leave its status alone, and writes to the status everything else."""
    main, status = change.main or {}, change.status or {}
    assert "status" not in main
    assert set(status) <= {"status"}
    return patched(patched(body, main), status)


def read(kind: Kind[Any], body: Json) -> Any:
    """Through JSON, as from a server."""
    return msgspec.json.decode(msgspec.json.encode(body), type=kind.type)


@dataclass(frozen=True)
class Sample:
    """One dialect, and an object of each of its kinds that nothing has happened to yet."""

    dialect: Dialect[Any, Any]
    snapshot: Json
    record: Json


def _meta(name: str, **more: Any) -> Json:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **more}


REF: Json = {"namespace": "team", "name": "snap", "uid": "uid-snap"}

GA_SAMPLE = Sample(
    GA,
    {"metadata": _meta("snap", namespace="team"), "spec": {"source": {"persistentVolumeClaimName": "data"}}},
    {
        "metadata": _meta("snapcontent-uid-snap"),
        "spec": {
            "volumeSnapshotRef": REF,
            "deletionPolicy": "Delete",
            "driver": "csi.example.com",
            "source": {"volumeHandle": "vol-1"},
        },
    },
)


def prototype_sample(source: Json) -> Sample:
    return Sample(
        PROTOTYPE,
        {"metadata": _meta("snap", namespace="team"), "spec": {"persistentVolumeClaimName": "data"}},
        {
            "metadata": _meta("snapdata-uid-snap", annotations={SOURCE: "vol-1"}),
            "spec": {**source, "volumeSnapshotRef": REF},
        },
    )


CSI_SAMPLE = prototype_sample({"csiVolumeSnapshotSource": {"driver": "csi.example.com", "snapshotHandle": ""}})
HOSTPATH_SAMPLE = prototype_sample({"hostPath": {"snapshot": ""}})
EBS_SAMPLE = prototype_sample({"awsElasticBlockStore": {"snapshotId": ""}})
