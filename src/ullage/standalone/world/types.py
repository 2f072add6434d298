"""The built-in kinds, as far as the world needs them, and the names and marks that it shares with other controllers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind, Object, Value
from ullage.snapshots.settings import HOSTPATH

Json = dict[str, Any]

NODE: Final = "ullage"
HOSTNAME: Final = "kubernetes.io/hostname"
CLASS: Final = "ullage-hostpath"
PROVISIONER: Final = HOSTPATH
HELD: Final = "ullage.io/hostpath"  # the finalizer of a volume whose directory is ours to remove

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
RESTORED_FROM: Final = "ullage.io/restored-from"  # a volume that the snapshots slice made, and takes away
SNAPSHOT: Final = "snapshot.alpha.kubernetes.io/snapshot"  # a claim that asks for a snapshot's data in the old way
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
OLD_DEFAULT_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"
OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"

_VOLUME_NAME: Final = re.compile(r"pvc-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


def volume_name(uid: str) -> str:
    """The name of the volume, and of the directory, that a claim gets. From its uid alone, which the server made."""
    name = f"pvc-{uid}"
    if not _VOLUME_NAME.fullmatch(name):
        raise ValueError(f"claim uid {uid!r}: not a UUID, so no directory is named by it")
    return name


def uid_of(name: str) -> str | None:
    """The claim's uid in such a name; None for any other."""
    found = _VOLUME_NAME.fullmatch(name)
    return found[1] if found else None


# --- storage ---------------------------------------------------------------------------------------------------------


class Resources(Value):
    requests: Mapping[str, str] = {}


class ClaimSpec(Value):
    access_modes: tuple[str, ...] = ()
    resources: Resources = Resources()
    storage_class_name: str | None = None  # "" is a choice too: no class
    volume_mode: str = "Filesystem"
    volume_name: str = ""
    selector: Mapping[str, Any] | None = None
    data_source: Mapping[str, Any] | None = None
    data_source_ref: Mapping[str, Any] | None = None


class ClaimStatus(Value):
    phase: str = ""
    capacity: Mapping[str, str] = {}
    access_modes: tuple[str, ...] = ()


class Claim(Object):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def wants_data(self) -> bool:
        """Whether it is to be filled from somewhere, so that an empty volume would be wrong."""
        return bool(self.spec.data_source or self.spec.data_source_ref) or SNAPSHOT in self.metadata.annotations

    @property
    def class_name(self) -> str | None:
        return self.metadata.annotations.get(OLD_CLASS, self.spec.storage_class_name)


class ClaimReference(Value):
    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    def names(self, claim: Claim) -> bool:
        """Whether it means this claim. Without a uid it means whichever has the name."""
        return self.key == (claim.metadata.namespace, claim.metadata.name) and self.uid in ("", claim.metadata.uid)


class HostPath(Value):
    path: str = ""


class Csi(Value):
    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Value):
    capacity: Mapping[str, str] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    host_path: HostPath | None = None
    csi: Csi | None = None


class VolumeStatus(Value):
    phase: str = ""


class Volume(Object):
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def is_ours(self) -> bool:
        """Whether the world made it, and so takes its directory away."""
        marks = self.metadata.annotations
        return marks.get(PROVISIONED_BY) == PROVISIONER and RESTORED_FROM not in marks


class StorageClass(Object):
    provisioner: str = ""
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    mount_options: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        marks = self.metadata.annotations
        return "true" in (marks.get(DEFAULT_CLASS), marks.get(OLD_DEFAULT_CLASS))


# --- pods and what makes them ----------------------------------------------------------------------------------------


class VolumeMount(Value):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class Container(Value):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()


class ClaimSource(Value):
    claim_name: str = ""


class PodVolume(Value):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None


class PodSpec(Value):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    restart_policy: str = "Always"
    volumes: tuple[PodVolume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    scheduling_gates: tuple[Mapping[str, Any], ...] = ()


class PodStatus(Value):
    phase: str = ""
    conditions: tuple[Mapping[str, Any], ...] = ()
    start_time: str | None = None


class Pod(Object):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def claims(self) -> tuple[Key, ...]:
        """The claims that its volumes name."""
        named = (volume.persistent_volume_claim for volume in self.spec.volumes)
        return tuple(Key(self.metadata.namespace, source.claim_name) for source in named if source is not None)

    @property
    def is_over(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        return any(one.get("type") == "Ready" and one.get("status") == "True" for one in self.status.conditions)


class NodeSpec(Value):
    taints: tuple[Mapping[str, Any], ...] = ()


class NodeStatus(Value):
    conditions: tuple[Mapping[str, Any], ...] = ()


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class JobSpec(Value):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    suspend: bool = False
    managed_by: str = ""
    template: Mapping[str, Any] = {}


class JobStatus(Value):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()


class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def is_over(self) -> bool:
        over = ("Complete", "Failed")
        return any(one.get("type") in over and one.get("status") == "True" for one in self.status.conditions)


class Ordinals(Value):
    start: int = 0


class UpdateStrategy(Value):
    type: str = "RollingUpdate"


class SetSpec(Value):
    replicas: int = 1
    selector: Mapping[str, Any] = {}
    template: Mapping[str, Any] = {}
    service_name: str = ""
    volume_claim_templates: tuple[Mapping[str, Any], ...] = ()
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    ordinals: Ordinals = Ordinals()


class SetStatus(Value, omit_defaults=False):
    """A count that falls to zero is sent as zero: some of them may not be absent."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(Object):
    spec: SetSpec = SetSpec()
    status: SetStatus = SetStatus()


class WorkloadSpec(Value):
    replicas: int | None = None
    suspend: bool = False


class WorkloadStatus(Value):
    observed_generation: int = 0
    conditions: tuple[Mapping[str, Any], ...] = ()


class Workload(Object):
    """What Deployment, ReplicaSet, DaemonSet, ReplicationController and CronJob have in common."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


def _kind(group: str, kind: str, type: type[Any], *, plural: str, namespaced: bool = True, status: bool = True) -> Kind[Any]:
    return Kind(group, "v1", kind, plural, type, namespaced=namespaced, whole=False, status=status)


CLAIMS: Final[Kind[Claim]] = _kind("", "PersistentVolumeClaim", Claim, plural="persistentvolumeclaims")
VOLUMES: Final[Kind[Volume]] = _kind("", "PersistentVolume", Volume, plural="persistentvolumes", namespaced=False)
PODS: Final[Kind[Pod]] = _kind("", "Pod", Pod, plural="pods")
NAMESPACES: Final[Kind[Object]] = _kind("", "Namespace", Object, plural="namespaces", namespaced=False)
NODES: Final[Kind[Node]] = _kind("", "Node", Node, plural="nodes", namespaced=False)
JOBS: Final[Kind[Job]] = _kind("batch", "Job", Job, plural="jobs")
SETS: Final[Kind[StatefulSet]] = _kind("apps", "StatefulSet", StatefulSet, plural="statefulsets")
DEPLOYMENTS: Final[Kind[Workload]] = _kind("apps", "Deployment", Workload, plural="deployments")
REPLICA_SETS: Final[Kind[Workload]] = _kind("apps", "ReplicaSet", Workload, plural="replicasets")
DAEMON_SETS: Final[Kind[Workload]] = _kind("apps", "DaemonSet", Workload, plural="daemonsets")
REPLICATION_CONTROLLERS: Final[Kind[Workload]] = _kind("", "ReplicationController", Workload, plural="replicationcontrollers")
CRON_JOBS: Final[Kind[Workload]] = _kind("batch", "CronJob", Workload, plural="cronjobs")
CLASSES: Final[Kind[StorageClass]] = _kind(
    "storage.k8s.io", "StorageClass", StorageClass, plural="storageclasses", namespaced=False, status=False
)
