"""`snapshot.storage.k8s.io/v1`, what every tool speaks: its objects in our terms, and our states in its fields.

It has no place for two things. The reason of a problem stands before its message (`ClaimNotBound: …`), which is how it is read
back; of what a snapshot waits for, how far a copy is stands in an annotation, and Events tell the rest.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from ullage.kube.kinds import Value
from ullage.kube.objects import Json, merge_patch
from ullage.snapshots.api.common import (
    bound_to,
    new_metadata,
    read_nanoseconds,
    read_ref,
    read_secret,
    read_size,
    reference,
    secret_names,
    write_nanoseconds,
    write_size,
    write_time,
)
from ullage.snapshots.api.ga.errors import error_of, problem_of
from ullage.snapshots.api.ga.types import (
    CONTENTS,
    SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOTS,
    ContentStatus,
    SnapshotStatus,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from ullage.snapshots.model import (
    COPYING,
    NODE,
    PROGRESS,
    VOLUME_LABEL,
    Change,
    Problem,
    Record,
    Ref,
    Snapshot,
    SnapshotClass,
    State,
)
from ullage.times import read_time

_PREFIX: Final = "snapshot.storage.kubernetes.io"
DEFAULT_CLASS: Final = f"{_PREFIX}/is-default-class"
SECRET_NAME: Final = f"{_PREFIX}/deletion-secret-name"
SECRET_NAMESPACE: Final = f"{_PREFIX}/deletion-secret-namespace"


class Ga:
    """See `model.Dialect`."""

    name: Final = "ga"
    snapshots: Final = VOLUME_SNAPSHOTS
    records: Final = CONTENTS
    classes: Final = SNAPSHOT_CLASSES
    finalizers: Final = (f"{_PREFIX}/volumesnapshot-as-source-protection", f"{_PREFIX}/volumesnapshot-bound-protection")
    record_finalizer: Final = f"{_PREFIX}/volumesnapshotcontent-bound-protection"
    claim_finalizer: Final = f"{_PREFIX}/pvc-as-source-protection"
    defaults: Final = True
    class_field: Final = "volumeSnapshotClassName"

    def read_snapshot(self, obj: VolumeSnapshot) -> Snapshot:
        source, status = obj.spec.source, obj.status
        state = State(
            record=status.bound_volume_snapshot_content_name,
            cut=read_time(status.creation_time),
            ready=status.ready_to_use is True,
            restore_size=read_size(status.restore_size),
            problem=problem_of(status.error),
            waiting=_copying(obj),
        )
        return Snapshot(
            meta=obj.metadata,
            claim=source.persistent_volume_claim_name,
            imported_record=source.volume_snapshot_content_name,
            class_name=obj.spec.volume_snapshot_class_name or None,
            state=state,
        )

    def read_record(self, obj: VolumeSnapshotContent) -> Record:
        spec, meta = obj.spec, obj.metadata
        return Record(
            meta=meta,
            ref=read_ref(spec.volume_snapshot_ref),
            driver=spec.driver,
            volume=spec.source.volume_handle,
            volume_name=meta.labels.get(VOLUME_LABEL, ""),
            volume_mode=spec.source_volume_mode,
            imported=spec.source.snapshot_handle,
            policy=spec.deletion_policy,
            class_name=spec.volume_snapshot_class_name,
            secret=read_secret(meta, name=SECRET_NAME, namespace=SECRET_NAMESPACE),
            node=meta.annotations.get(NODE, ""),
            state=_record_state(obj.status),
        )

    def read_class(self, obj: VolumeSnapshotClass) -> SnapshotClass:
        return SnapshotClass(
            name=obj.metadata.name,
            driver=obj.driver,
            policy=obj.deletion_policy,
            parameters=obj.parameters,
            is_default=obj.metadata.annotations.get(DEFAULT_CLASS) == "true",
        )

    def record_name(self, snapshot: Snapshot) -> str:
        return f"snapcontent-{snapshot.meta.uid}"

    def new_record(self, record: Record) -> Json:
        secret = record.secret or Ref("", "")
        metadata = new_metadata(
            record.meta,
            finalizer=self.record_finalizer,
            more={NODE: record.node, SECRET_NAME: secret.name, SECRET_NAMESPACE: secret.namespace},
        )
        spec: Json = {
            "volumeSnapshotRef": reference(record.ref, kind=VOLUME_SNAPSHOTS.kind, api_version=VOLUME_SNAPSHOTS.api_version),
            "deletionPolicy": record.policy,
            "driver": record.driver,
            "source": {"volumeHandle": record.volume},
        }
        if record.class_name:
            spec["volumeSnapshotClassName"] = record.class_name
        if record.volume_mode:
            spec["sourceVolumeMode"] = record.volume_mode
        return {"apiVersion": CONTENTS.api_version, "kind": CONTENTS.kind, "metadata": metadata, "spec": spec}

    def snapshot_change(self, obj: VolumeSnapshot, state: State, *, now: datetime) -> Change:
        old = obj.status
        new = msgspec.structs.replace(
            old,
            bound_volume_snapshot_content_name=state.record,
            creation_time=write_time(state.cut, old.creation_time),
            ready_to_use=state.ready,
            restore_size=write_size(state.restore_size, old.restore_size),
            error=error_of(state.problem, old.error, now),
        )
        change = _change(old, new, nothing=SnapshotStatus(ready_to_use=False))
        waiting = _copying(obj)
        wanted = state.waiting if state.waiting is not None and state.waiting.reason == COPYING else None
        if waiting == wanted:
            return change
        told = {"metadata": {"annotations": {PROGRESS: wanted.message if wanted else None}}}
        return replace(change, main=told)

    def record_change(self, obj: VolumeSnapshotContent, state: State, *, now: datetime) -> Change:
        old = obj.status
        new = msgspec.structs.replace(
            old,
            snapshot_handle=state.handle,
            creation_time=write_nanoseconds(state.cut, old.creation_time),
            ready_to_use=state.ready,
            restore_size=UNSET if state.restore_size is None else state.restore_size,
            error=error_of(state.problem, old.error, now),
        )
        return _change(old, new, nothing=ContentStatus(ready_to_use=False))

    def record_binding(self, obj: VolumeSnapshotContent, ref: Ref, *, class_name: str = "") -> Change:
        spec: Json = {}
        if patch := bound_to(obj.spec.volume_snapshot_ref, ref):
            spec["volumeSnapshotRef"] = patch
        if class_name and class_name != obj.spec.volume_snapshot_class_name:
            spec["volumeSnapshotClassName"] = class_name
        return Change(main={"spec": spec} if spec else None)

    def record_class(self, obj: VolumeSnapshotContent, record: Record) -> Change:
        names = secret_names(record.secret, name=SECRET_NAME, namespace=SECRET_NAMESPACE)
        spec = {"volumeSnapshotClassName": record.class_name, "deletionPolicy": record.policy}
        return Change(main={"metadata": {"annotations": names}, "spec": spec})


GA: Final = Ga()


def _copying(obj: VolumeSnapshot) -> Problem | None:
    """The API has no field for what a snapshot waits for."""
    told = obj.metadata.annotations.get(PROGRESS)
    return Problem(COPYING, told) if told else None


def _record_state(status: ContentStatus) -> State:
    cut, size = status.creation_time, status.restore_size
    return State(
        handle=status.snapshot_handle,
        cut=None if isinstance(cut, UnsetType) else read_nanoseconds(cut),
        ready=status.ready_to_use is True,
        restore_size=None if isinstance(size, UnsetType) else size,
        problem=problem_of(status.error),
    )


def _change(old: Value, new: Value, *, nothing: Value) -> Change:
    """`nothing` is a status that says no more than an absent one."""
    if new == nothing and old == type(nothing)():
        return Change()
    patch = merge_patch(old, new)
    return Change(status={"status": patch} if patch else None)
