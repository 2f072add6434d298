"""The core group: claims, volumes, pods, nodes, quotas, Secrets and ConfigMaps."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Kind, Meta, Object, Value

# --- references ------------------------------------------------------------------------------------------------------


class ObjectReference(Value):
    """Names an object of any kind."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""

    @classmethod
    def of(cls, kind: Kind[Any], meta: Meta) -> Self:
        return cls(api_version=kind.api_version, kind=kind.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid)

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    def names(self, meta: Meta) -> bool:
        """Whether it means the object with this metadata. Without a uid it means whichever has the name."""
        return self.key == (meta.namespace, meta.name) and self.uid in ("", meta.uid)


class TypedObjectReference(Value):
    """Where a claim's data comes from (`dataSource`, `dataSourceRef`)."""

    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


# --- claims ----------------------------------------------------------------------------------------------------------

BETA_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class ClaimResources(Value):
    # Here and below: a quantity for each resource, `storage: 10Gi`.
    requests: Mapping[str, str | int] = {}


class ClaimSpec(Value):
    access_modes: tuple[str, ...] = ()
    resources: ClaimResources = ClaimResources()
    storage_class_name: str | None = None  # "" is a choice too: no class
    volume_mode: str = "Filesystem"
    volume_name: str = ""
    selector: Mapping[str, Any] | None = None
    data_source: TypedObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None


class ClaimStatus(Value):
    phase: str = ""
    capacity: Mapping[str, str | int] = {}
    access_modes: tuple[str, ...] = ()


class PersistentVolumeClaim(Object):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def class_name(self) -> str | None:
        """Its StorageClass as Kubernetes reads it: the annotation from before the field existed goes first."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name)


# --- volumes ---------------------------------------------------------------------------------------------------------


class HostPathVolumeSource(Value):
    path: str = ""
    type: str | None = None


class LocalVolumeSource(Value):
    path: str = ""


class EbsVolumeSource(Value):
    volume_id: str = msgspec.field(default="", name="volumeID")


class CsiVolumeSource(Value):
    driver: str = ""
    volume_handle: str = ""


class NodeSelectorRequirement(Value):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Value):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Value):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class VolumeNodeAffinity(Value):
    required: NodeSelector | None = None


class VolumeSpec(Value):
    capacity: Mapping[str, str | int] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    local: LocalVolumeSource | None = None
    aws_elastic_block_store: EbsVolumeSource | None = None


class VolumeStatus(Value):
    phase: str = ""
    message: str = ""


class PersistentVolume(Object):
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


# --- pods and nodes --------------------------------------------------------------------------------------------------


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


class ClaimVolumeSource(Value):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(Value):
    """That it is there says enough: the claim's name follows from the pod's."""


class PodVolume(Value):
    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class NodeAffinity(Value):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Value):
    node_affinity: NodeAffinity | None = None


class Toleration(Value):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""  # empty: all of them


class PodSpec(Value):
    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
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
        return _is_ready(self.status.conditions)


class NodeSpec(Value):
    taints: tuple[Mapping[str, Any], ...] = ()
    unschedulable: bool = False


class NodeStatus(Value):
    conditions: tuple[Mapping[str, Any], ...] = ()
    daemon_endpoints: Mapping[str, Any] = {}


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        return _is_ready(self.status.conditions)


def _is_ready(conditions: tuple[Mapping[str, Any], ...]) -> bool:
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


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


# --- quotas ----------------------------------------------------------------------------------------------------------


class CoreQuotaSpec(Value):
    hard: Mapping[str, str | int] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: Mapping[str, Any] | None = None


class CoreQuotaStatus(Value):
    hard: Mapping[str, str | int] = {}
    used: Mapping[str, str | int] = {}


class CoreQuota(Object):
    """The cluster's own ResourceQuota; Harvester and KKP have kinds of the same name."""

    spec: CoreQuotaSpec = CoreQuotaSpec()
    status: CoreQuotaStatus = CoreQuotaStatus()


# --- Secrets and ConfigMaps ------------------------------------------------------------------------------------------


class Secret(Object):
    type: str = ""
    data: Mapping[str, str] = {}  # in base64

    def __repr__(self) -> str:
        """Without what is in it: this may end up in a log."""
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"

    def value(self, key: str) -> bytes:
        """What a key holds. Raises binascii.Error for what is no base64, which only a broken server sends."""
        return base64.b64decode(self.data[key], validate=True)


def secret_data(values: Mapping[str, bytes]) -> dict[str, str]:
    """Values as a Secret holds them."""
    return {key: base64.b64encode(value).decode() for key, value in values.items()}


class ConfigMap(Object):
    data: Mapping[str, str] = {}


def _kind(kind: str, plural: str, type: type[Any], *, namespaced: bool = True, status: bool = True) -> Kind[Any]:
    return Kind("", "v1", kind, plural, type, namespaced=namespaced, whole=False, status=status)


CLAIMS: Final[Kind[PersistentVolumeClaim]] = _kind("PersistentVolumeClaim", "persistentvolumeclaims", PersistentVolumeClaim)
PERSISTENT_VOLUMES: Final[Kind[PersistentVolume]] = _kind(
    "PersistentVolume", "persistentvolumes", PersistentVolume, namespaced=False
)
PODS: Final[Kind[Pod]] = _kind("Pod", "pods", Pod)
NODES: Final[Kind[Node]] = _kind("Node", "nodes", Node, namespaced=False)
NAMESPACES: Final[Kind[Object]] = _kind("Namespace", "namespaces", Object, namespaced=False)
CORE_QUOTAS: Final[Kind[CoreQuota]] = _kind("ResourceQuota", "resourcequotas", CoreQuota)
REPLICATION_CONTROLLERS: Final[Kind[Workload]] = _kind("ReplicationController", "replicationcontrollers", Workload)
SECRETS: Final[Kind[Secret]] = _kind("Secret", "secrets", Secret, status=False)
CONFIG_MAPS: Final[Kind[ConfigMap]] = _kind("ConfigMap", "configmaps", ConfigMap, status=False)
SERVICE_ACCOUNTS: Final[Kind[Object]] = _kind("ServiceAccount", "serviceaccounts", Object, status=False)
