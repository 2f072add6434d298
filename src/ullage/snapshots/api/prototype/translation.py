"""`volumesnapshot.external-storage.k8s.io/v1`, the API as it was proposed: its objects in our terms, and our states in its
fields.

The proposal keeps the storage system's handle in the spec of a VolumeSnapshotData. What we make has the source volume in an
annotation from the beginning, and its handle is filled in later; one with a handle and without that annotation was made by
hand, for a snapshot that exists already. A handle is never taken away again: whoever has to delete the snapshot needs it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeVar

import msgspec
from msgspec import UnsetType

from ullage.kube.builtin.storage import STORAGE_CLASSES, StorageClass
from ullage.kube.objects import Json, merge_patch
from ullage.snapshots.api.common import (
    bound_to,
    new_metadata,
    read_ref,
    read_secret,
    read_size,
    reference,
    secret_names,
    write_nanoseconds,
    write_size,
    write_time,
)
from ullage.snapshots.api.prototype.conditions import (
    OF_DATA,
    OF_SNAPSHOT,
    conditions_of,
    is_ready,
    phase_of,
    problem_in,
    waiting_in,
)
from ullage.snapshots.api.prototype.types import (
    DATAS,
    PROTOTYPE_SNAPSHOTS,
    CsiSource,
    DataSpec,
    EbsSource,
    HostPathSource,
    PrototypeSnapshot,
    Status,
    VolumeSnapshotData,
)
from ullage.snapshots.backends.base import Parameters
from ullage.snapshots.model import NODE, SOURCE, Change, Problem, Record, Ref, Snapshot, SnapshotClass, State
from ullage.snapshots.settings import EBS, HOSTPATH
from ullage.times import read_time

# Parameters for snapshots on a StorageClass, which has no field for them: an annotation holds them, as JSON. The
# proposal's limits hold: keys are not empty, 512 parameters at most, 256 KiB together.


ANNOTATION: Final = "ullage.io/snapshot-parameters"
MOST: Final = 512
MOST_BYTES: Final = 256 * 1024
_ALLOWED: Final = 'a JSON object of strings, such as {"tier": "cold"}'


def read_parameters(class_name: str, text: str) -> Parameters | Problem:
    try:
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError) as error:
        return _problem(class_name, f"it cannot be read ({error}); it must be {_ALLOWED}")
    if "" in found:
        return _problem(class_name, f"a key is empty; it must be {_ALLOWED}, whose keys are not empty")
    if len(found) > MOST:
        return _problem(class_name, f"it has {len(found)} parameters; {MOST} are allowed")
    made: dict[str, str] = {}
    for key, raw in found.items():
        try:
            made[key] = msgspec.json.decode(raw, type=str)
        except (ValueError, RecursionError):
            return _problem(class_name, f"the value of {key!r} is not a string; it must be {_ALLOWED}")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in made.items())
    if size > MOST_BYTES:
        return _problem(class_name, f"keys and values have {size} bytes; {MOST_BYTES} bytes (256 KiB) are allowed")
    return made


def _problem(class_name: str, what: str) -> Problem:
    return Problem("BadParameters", f"StorageClass {class_name}, annotation {ANNOTATION}: {what}")


SECRET_NAME: Final = "ullage.io/deletion-secret-name"
SECRET_NAMESPACE: Final = "ullage.io/deletion-secret-namespace"
CLASS: Final = "ullage.io/storage-class"
MODE: Final = "ullage.io/source-volume-mode"

S = TypeVar("S", bound=Status)


class Prototype:
    """See `model.Dialect`."""

    name: Final = "prototype"
    snapshots: Final = PROTOTYPE_SNAPSHOTS
    records: Final = DATAS
    classes: Final = STORAGE_CLASSES
    finalizers: Final = ("ullage.io/snapshot",)
    record_finalizer: Final = "ullage.io/snapshot-data"
    claim_finalizer: Final = "ullage.io/snapshot-source"
    defaults: Final = False
    class_field: Final = ""

    def read_snapshot(self, obj: PrototypeSnapshot) -> Snapshot:
        spec = obj.spec
        claim = spec.persistent_volume_claim_name or spec.persistent_volume_claim
        return Snapshot(
            meta=obj.metadata,
            claim=claim,
            imported_record="" if claim else spec.snapshot_data_name,
            class_name=spec.storage_class_name or None,
            state=_state(obj.status, record=obj.status.snapshot_data_name),
        )

    def read_record(self, obj: VolumeSnapshotData) -> Record:
        spec, meta = obj.spec, obj.metadata
        volume, volume_ref = meta.annotations.get(SOURCE, ""), spec.persistent_volume_ref
        driver, handle = _source(spec)
        return Record(
            meta=meta,
            ref=read_ref(spec.volume_snapshot_ref),
            driver=driver,
            volume=volume,
            volume_name="" if isinstance(volume_ref, UnsetType) else volume_ref.name,
            volume_mode=meta.annotations.get(MODE, ""),
            imported="" if volume else handle,
            class_name=meta.annotations.get(CLASS, ""),
            secret=read_secret(meta, name=SECRET_NAME, namespace=SECRET_NAMESPACE),
            node=meta.annotations.get(NODE, ""),
            state=_state(obj.status, handle=handle),
        )

    def read_class(self, obj: StorageClass) -> SnapshotClass:
        name, driver = obj.metadata.name, obj.provisioner
        text = obj.metadata.annotations.get(ANNOTATION)
        found = read_parameters(name, text) if text is not None else {}
        if isinstance(found, Problem):
            return SnapshotClass(name=name, driver=driver, problem=found)
        return SnapshotClass(name=name, driver=driver, parameters=found)

    def record_name(self, snapshot: Snapshot) -> str:
        return f"snapdata-{snapshot.meta.uid}"

    def new_record(self, record: Record) -> Json:
        secret = record.secret or Ref("", "")
        more = {
            SOURCE: record.volume,
            NODE: record.node,
            MODE: record.volume_mode,
            CLASS: record.class_name,
            SECRET_NAME: secret.name,
            SECRET_NAMESPACE: secret.namespace,
        }
        spec: Json = {
            **_new_source(record.driver),
            "volumeSnapshotRef": reference(
                record.ref, kind=PROTOTYPE_SNAPSHOTS.kind, api_version=PROTOTYPE_SNAPSHOTS.api_version
            ),
        }
        if record.volume_name:
            spec["persistentVolumeRef"] = {"kind": "PersistentVolume", "apiVersion": "v1", "name": record.volume_name}
        metadata = new_metadata(record.meta, finalizer=self.record_finalizer, more=more)
        return {"apiVersion": DATAS.api_version, "kind": DATAS.kind, "metadata": metadata, "spec": spec}

    def snapshot_change(self, obj: PrototypeSnapshot, state: State, *, now: datetime) -> Change:
        named = state.record if state.record != obj.spec.snapshot_data_name else ""
        new = msgspec.structs.replace(_status(obj.status, state, types=OF_SNAPSHOT, now=now), snapshot_data_name=state.record)
        return _change({"snapshotDataName": named} if named else None, merge_patch(obj.status, new))

    def record_change(self, obj: VolumeSnapshotData, state: State, *, now: datetime) -> Change:
        new = _status(obj.status, state, types=OF_DATA, now=now)
        spec = merge_patch(obj.spec, _with_handle(obj.spec, state)) if state.handle else None
        return _change(spec, merge_patch(obj.status, new))

    def record_binding(self, obj: VolumeSnapshotData, ref: Ref, *, class_name: str = "") -> Change:
        main: Json = {}
        if patch := bound_to(obj.spec.volume_snapshot_ref, ref):
            main["spec"] = {"volumeSnapshotRef": patch}
        if class_name and class_name != obj.metadata.annotations.get(CLASS):
            main["metadata"] = {"annotations": {CLASS: class_name}}
        return Change(main=main or None)

    def record_class(self, obj: VolumeSnapshotData, record: Record) -> Change:
        names = secret_names(record.secret, name=SECRET_NAME, namespace=SECRET_NAMESPACE)
        return Change(main={"metadata": {"annotations": {CLASS: record.class_name, **names}}})


PROTOTYPE: Final = Prototype()

# --- sources ---------------------------------------------------------------------------------------------------------


def _source(spec: DataSpec) -> tuple[str, str]:
    """The driver and the handle."""
    if isinstance(spec.host_path, HostPathSource):
        return HOSTPATH, spec.host_path.snapshot
    if isinstance(spec.aws_elastic_block_store, EbsSource):
        return EBS, spec.aws_elastic_block_store.snapshot_id
    if isinstance(spec.csi_volume_snapshot_source, CsiSource):
        return spec.csi_volume_snapshot_source.driver, spec.csi_volume_snapshot_source.snapshot_handle
    return "", ""


def _new_source(driver: str) -> Json:
    if driver == HOSTPATH:
        return {"hostPath": {"snapshot": ""}}
    if driver == EBS:
        return {"awsElasticBlockStore": {"snapshotId": ""}}
    return {"csiVolumeSnapshotSource": {"driver": driver, "snapshotHandle": ""}}


def _with_handle(spec: DataSpec, state: State) -> DataSpec:
    if isinstance(spec.host_path, HostPathSource):
        return msgspec.structs.replace(spec, host_path=HostPathSource(snapshot=state.handle))
    if isinstance(spec.aws_elastic_block_store, EbsSource):
        return msgspec.structs.replace(spec, aws_elastic_block_store=EbsSource(snapshot_id=state.handle))
    old = spec.csi_volume_snapshot_source
    if not isinstance(old, CsiSource):
        return spec
    # Only once: the status has the same moment to the second, and would wear this one down.
    cut = write_nanoseconds(state.cut, old.created_at) if isinstance(old.created_at, UnsetType) else old.created_at
    new = msgspec.structs.replace(old, snapshot_handle=state.handle, created_at=cut)
    return msgspec.structs.replace(spec, csi_volume_snapshot_source=new)


# --- status ----------------------------------------------------------------------------------------------------------


def _state(status: Status, *, record: str = "", handle: str = "") -> State:
    return State(
        record=record,
        handle=handle,
        cut=read_time(status.creation_timestamp),
        ready=is_ready(status.conditions),
        restore_size=read_size(status.restore_size),
        problem=problem_in(status.conditions),
        waiting=waiting_in(status.conditions),
    )


def _status(old: S, state: State, *, types: tuple[str, ...], now: datetime) -> S:
    return msgspec.structs.replace(
        old,
        phase=phase_of(state),
        creation_timestamp=write_time(state.cut, old.creation_timestamp),
        restore_size=write_size(state.restore_size, old.restore_size),
        conditions=conditions_of(state, old.conditions, types=types, now=now),
    )


def _change(spec: Json | None, status: Json | None) -> Change:
    return Change(main={"spec": spec} if spec else None, status={"status": status} if status else None)
