"""Claims, volumes, pods, jobs and sets in few words."""

from __future__ import annotations

from typing import Any

import msgspec

from ullage.kube.builtin.core import (
    ClaimResources,
    ClaimSpec,
    ClaimStatus,
    ClaimVolumeSource,
    Container,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodStatus,
    PodVolume,
    VolumeMount,
    VolumeSpec,
    VolumeStatus,
)
from ullage.kube.builtin.storage import StorageClass
from ullage.kube.kinds import Meta, OwnerReference
from ullage.standalone.world.model import BIND_COMPLETED, HOSTPATH_FINALIZER, NODE, PROVISIONED_BY, PROVISIONER

UID = "11111111-2222-3333-4444-555555555555"
OTHER_UID = "99999999-2222-3333-4444-555555555555"
GOING = "2026-01-01T00:00:00Z"


def claim(
    *, size: str = "1Gi", uid: str = UID, bound: bool = False, going: bool = False, phase: str = "Pending", **spec: Any
) -> PersistentVolumeClaim:
    """Of class `fast`, unless the spec says otherwise. `bound`: its binding was completed once."""
    meta = Meta(
        name="data",
        namespace="default",
        uid=uid,
        resource_version="7",
        annotations=spec.pop("annotations", {}) | ({BIND_COMPLETED: "yes"} if bound else {}),
        deletion_timestamp=GOING if going else None,
    )
    wanted = {"access_modes": ("ReadWriteOnce",), "storage_class_name": "fast", **spec}
    return PersistentVolumeClaim(
        metadata=meta,
        spec=ClaimSpec(resources=ClaimResources(requests={"storage": size}), **wanted),
        status=ClaimStatus(phase=phase),
    )


def volume(
    name: str = "v",
    *,
    size: str = "1Gi",
    claimed_by: str | None = None,
    phase: str = "Available",
    going: bool = False,
    ours: bool = False,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> PersistentVolume:
    """`claimed_by` is the uid in its claimRef to default/data; empty: by name only. `ours`: made by the world."""
    marks = {**(annotations or {}), **({PROVISIONED_BY: PROVISIONER} if ours else {})}
    meta = Meta(
        name=name,
        uid=f"uid-{name}",
        annotations=marks,
        labels=labels or {},
        finalizers=(HOSTPATH_FINALIZER,) if ours else (),
        deletion_timestamp=GOING if going else None,
    )
    reference = None if claimed_by is None else ObjectReference(namespace="default", name="data", uid=claimed_by)
    wanted = {"access_modes": ("ReadWriteOnce",), "storage_class_name": "fast", **spec}
    return PersistentVolume(
        metadata=meta,
        spec=VolumeSpec(capacity={"storage": size}, claim_ref=reference, **wanted),
        status=VolumeStatus(phase=phase),
    )


def replaced(found: PersistentVolume, **meta: Any) -> PersistentVolume:
    """The volume with other metadata."""
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **meta))


def storage_class(name: str = "fast", *, provisioner: str = PROVISIONER, default: bool = False, **rest: Any) -> StorageClass:
    marks = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    meta = Meta(name=name, annotations=marks, creation_timestamp=rest.pop("created", ""))
    return StorageClass(metadata=meta, provisioner=provisioner, **rest)


def container(*words: str, name: str = "main", **mounts: str) -> Container:
    """A container with a command; each volume is mounted at the path given for it."""
    found = tuple(VolumeMount(name=volume, mount_path=path) for volume, path in mounts.items())
    return Container(name=name, image="busybox", command=words, volume_mounts=found)


def pod(
    *containers: Container,
    name: str = "app",
    uid: str = UID,
    node: str = NODE,
    phase: str = "Pending",
    of_job: bool = False,
    ready: bool = False,
    going: bool = False,
    claims: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Pod:
    """One of a job ends by itself (restartPolicy Never)."""
    job = OwnerReference(api_version="batch/v1", kind="Job", name="job", uid="job", controller=True)
    meta = Meta(
        name=name,
        namespace="default",
        uid=uid,
        owner_references=(job,) if of_job else (),
        labels=labels or {},
        deletion_timestamp=GOING if going else None,
    )
    volumes = tuple(PodVolume(name=each, persistent_volume_claim=ClaimVolumeSource(claim_name=each)) for each in claims)
    wanted = {"node_name": node, "restart_policy": "Never" if of_job else "Always", **spec}
    conditions = ({"type": "Ready", "status": "True"},) if ready else ()
    return Pod(
        metadata=meta,
        spec=PodSpec(containers=containers or (container("mysqld"),), volumes=volumes, **wanted),
        status=PodStatus(phase=phase, conditions=conditions),
    )
