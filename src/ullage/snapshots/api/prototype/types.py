"""The kinds of `volumesnapshot.external-storage.k8s.io/v1`: VolumeSnapshot and VolumeSnapshotData.

This is the API as it was first proposed. Three fields are ours, all in the status: `phase` (a column shows one plain field and
cannot look through conditions), `restoreSize`, and `snapshotDataName`. The last one is in the spec too, where whoever may
edit the snapshot can write it: what is bound is read from the status only.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value, listed_by
from ullage.kube.objects import MESSAGE_LIMIT
from ullage.snapshots.api.common import INT64, TIME, WHOLE, ObjectReference, Size

GROUP: Final = "volumesnapshot.external-storage.k8s.io"
VERSION: Final = "v1"

# The API server refuses rules that might cost too much, so what a rule compares has an end.
_NAME: Final = msgspec.Meta(extra_json_schema={"maxLength": 253})
_HANDLE: Final = msgspec.Meta(extra_json_schema={"maxLength": 4096})

Phase = Literal["creating", "uploading", "ready", "error"]


class Condition(Value):
    """One observation of the state of a snapshot."""

    type: str
    """The aspect that this is about: Creating, Uploading, Ready or Error."""
    status: Literal["True", "False", "Unknown"]
    """Whether the aspect holds: True, False or Unknown."""
    last_transition_time: Annotated[str, TIME] = ""
    """When status last changed."""
    reason: str = ""
    """Why, in one word for programs."""
    message: Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MESSAGE_LIMIT})] = ""
    """Why, in a sentence for people."""


Conditions = Annotated[tuple[Condition, ...], listed_by("type")]


class Status(Value):
    """What came of it. Users read this and never write it."""

    phase: Phase | UnsetType = UNSET
    """Its conditions in one word: creating, uploading (it is cut, and the application may write again), ready, or error."""
    creation_timestamp: Annotated[str, TIME] = ""
    """The moment whose data the snapshot has. Once it is set, the application may write again."""
    restore_size: Size = ""
    """The least size, in bytes, that a volume made from it must have (`10Gi`). Absent: not known."""
    conditions: Conditions = ()
    """Uploading: it is cut and being stored. Ready: a volume can be made from it. Error: something went wrong. A
    VolumeSnapshot has Creating as well: it is not cut yet."""


# --- VolumeSnapshot --------------------------------------------------------------------------------------------------


class PrototypeSnapshotSpec(Value):
    """What is asked for."""

    persistent_volume_claim_name: Annotated[str, _NAME] = ""
    """The claim, in the same namespace, that the snapshot is taken of. It cannot be changed."""
    persistent_volume_claim: Annotated[str, _NAME] = ""
    """Another spelling of persistentVolumeClaimName. If both are set, they must agree."""
    snapshot_data_name: Annotated[str, _NAME] = ""
    """The VolumeSnapshotData that stands for the snapshot. It is filled in for a snapshot of a claim. Without a claim, it names
    one that an administrator has made for a snapshot which exists already. Once they are bound, it cannot be changed."""
    storage_class_name: Annotated[str, _NAME] = ""
    """The StorageClass that says how it is taken: its provisioner must be the claim's, and its annotation
    ullage.io/snapshot-parameters (a JSON object of strings) is handed to the provisioner. Absent: the claim's own class; it
    must be set where the claim has none. Once set, it cannot be changed."""


class PrototypeSnapshotStatus(Status):
    """What came of it. Users read this and never write it."""

    snapshot_data_name: Annotated[str, _NAME] = ""
    """The VolumeSnapshotData that it is bound to."""


class PrototypeSnapshot(Object):
    """Asks for a snapshot of a claim's volume, or stands for one that exists already. Deleting it deletes the snapshot."""

    spec: PrototypeSnapshotSpec
    """What is asked for."""
    status: PrototypeSnapshotStatus = PrototypeSnapshotStatus()
    """What came of it."""


# --- VolumeSnapshotData ----------------------------------------------------------------------------------------------


class HostPathSource(Value):
    """A snapshot of a directory on a node."""

    snapshot: Annotated[str, _HANDLE]
    """The path of the snapshot. Empty: it is not taken yet."""


class EbsSource(Value):
    """A snapshot in Amazon EBS."""

    snapshot_id: Annotated[str, _HANDLE]
    """The snapshot's id (`snap-…`). Empty: it is not taken yet."""


class CsiSource(Value):
    """A snapshot that a CSI driver has."""

    driver: Annotated[str, msgspec.Meta(extra_json_schema={"minLength": 1, "maxLength": 253})]
    """The name of the driver. It cannot be changed."""
    snapshot_handle: Annotated[str, _HANDLE]
    """The snapshot, as its driver knows it. Empty: it is not taken yet."""
    created_at: Annotated[int, INT64] | UnsetType = UNSET
    """The moment whose data the snapshot has, in nanoseconds since the beginning of 1970, UTC."""


class DataSpec(Value):
    """What it stands for: exactly one of hostPath, awsElasticBlockStore and csiVolumeSnapshotSource is set."""

    host_path: HostPathSource | UnsetType = UNSET
    """A snapshot of a directory on a node."""
    aws_elastic_block_store: EbsSource | UnsetType = UNSET
    """A snapshot in Amazon EBS."""
    csi_volume_snapshot_source: CsiSource | UnsetType = UNSET
    """A snapshot that a CSI driver has."""
    volume_snapshot_ref: Annotated[ObjectReference, WHOLE]
    """The VolumeSnapshot that this belongs to. Name and namespace must be set; the uid is filled in when they are bound, and
    from then on it cannot be changed."""
    persistent_volume_ref: Annotated[ObjectReference, WHOLE] | UnsetType = UNSET
    """The PersistentVolume that the snapshot was taken of."""


class VolumeSnapshotData(Object):
    """Stands for a snapshot in the storage system. It belongs to administrators; users see their VolumeSnapshots."""

    spec: DataSpec
    """What it stands for: exactly one of hostPath, awsElasticBlockStore and csiVolumeSnapshotSource is set."""
    status: Status = Status()
    """What came of it."""


# --- rules -----------------------------------------------------------------------------------------------------------
#
# Clients made from the proposal's types send empty strings for what is not set, so empty is absent.


def _text(of: str, field: str) -> str:
    return f"(has({of}.{field}) ? {of}.{field} : '')"


def _claim(of: str) -> str:
    name, alias = _text(of, "persistentVolumeClaimName"), _text(of, "persistentVolumeClaim")
    return f"({name} != '' ? {name} : {alias})"


def _same(field: str) -> str:
    return f"{_text('self', field)} == {_text('oldSelf', field)}"


def _set_once(field: str) -> str:
    return f"{_text('oldSelf', field)} == '' || {_same(field)}"


_SOURCES: Final = ("hostPath", "awsElasticBlockStore", "csiVolumeSnapshotSource")
_REF: Final = "spec.volumeSnapshotRef"
_HANDLE_STAYS: Final = "the handle of a snapshot cannot be changed once it is set"

_SNAPSHOT_RULES: Final = (
    Rule(
        f"{_text('self', 'persistentVolumeClaim')} == '' || {_text('self', 'persistentVolumeClaimName')} == '' || "
        "self.persistentVolumeClaim == self.persistentVolumeClaimName",
        "persistentVolumeClaim and persistentVolumeClaimName are two spellings of one field and must name the same claim",
        path="spec",
    ),
    Rule(
        f"{_claim('self')} != '' || {_text('self', 'snapshotDataName')} != ''",
        "set persistentVolumeClaimName (take a snapshot of a claim) or snapshotDataName (use a snapshot that exists)",
        path="spec",
    ),
    Rule(f"{_claim('self')} == {_claim('oldSelf')}", "the claim of a snapshot cannot be changed", path="spec"),
    Rule(_set_once("storageClassName"), "storageClassName cannot be changed once it is set", path="spec"),
    Rule(
        "!has(oldSelf.status) || !has(oldSelf.status.snapshotDataName) || oldSelf.status.snapshotDataName == '' || "
        f"{_text('self.spec', 'snapshotDataName')} == {_text('oldSelf.spec', 'snapshotDataName')}",
        "spec.snapshotDataName cannot be changed: the snapshot is bound to it",
    ),
)

_DATA_RULES: Final = (
    Rule(
        f"[{', '.join(f'has(self.{one})' for one in _SOURCES)}].filter(one, one).size() == 1",
        f"set exactly one of {_SOURCES[0]}, {_SOURCES[1]} and {_SOURCES[2]}",
        path="spec",
    ),
    Rule(
        " && ".join(f"has(self.{one}) == has(oldSelf.{one})" for one in _SOURCES),
        "the source of a snapshot cannot be changed to one of another kind",
        path="spec",
    ),
    Rule("oldSelf == '' || self == oldSelf", _HANDLE_STAYS, path="spec.hostPath.snapshot"),
    Rule("oldSelf == '' || self == oldSelf", _HANDLE_STAYS, path="spec.awsElasticBlockStore.snapshotId"),
    Rule("oldSelf == '' || self == oldSelf", _HANDLE_STAYS, path="spec.csiVolumeSnapshotSource.snapshotHandle"),
    Rule("self == oldSelf", "the driver of a snapshot cannot be changed", path="spec.csiVolumeSnapshotSource.driver"),
    Rule(
        f"{_text('self', 'name')} != '' && {_text('self', '__namespace__')} != ''",
        "name and namespace of the VolumeSnapshot must both be set",
        path=_REF,
    ),
    Rule(
        f"{_text('oldSelf', 'uid')} == '' || ({_same('uid')} && {_same('name')} && {_same('__namespace__')})",
        "volumeSnapshotRef cannot be changed: it is bound to that VolumeSnapshot",
        path=_REF,
    ),
)

# --- where they live -------------------------------------------------------------------------------------------------

PROTOTYPE_SNAPSHOTS: Final = Kind(
    GROUP,
    VERSION,
    "VolumeSnapshot",
    "volumesnapshots",
    PrototypeSnapshot,
    columns=(
        Column("Status", ".status.phase", description="creating, uploading (it is cut), ready or error."),
        Column(
            "Claim",
            ".spec['persistentVolumeClaimName','persistentVolumeClaim']",
            description="The claim that it is taken of.",
        ),
        Column("Data", ".spec.snapshotDataName", description="The VolumeSnapshotData that stands for it."),
        Column("Size", ".status.restoreSize", description="The least size of a volume made from it."),
        AGE,
    ),
    rules=_SNAPSHOT_RULES,
)

DATAS: Final = Kind(
    GROUP,
    VERSION,
    "VolumeSnapshotData",
    "volumesnapshotdatas",
    VolumeSnapshotData,
    namespaced=False,
    columns=(
        Column("Status", ".status.phase", description="creating, uploading (it is cut), ready or error."),
        Column("Namespace", ".spec.volumeSnapshotRef.namespace", description="The namespace of the VolumeSnapshot."),
        Column("Snapshot", ".spec.volumeSnapshotRef.name", description="The VolumeSnapshot that it belongs to."),
        Column("Volume", ".spec.persistentVolumeRef.name", description="The PersistentVolume that it was taken of."),
        Column("Size", ".status.restoreSize", description="The least size of a volume made from it."),
        AGE,
    ),
    rules=_DATA_RULES,
)
