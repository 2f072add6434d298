"""apps: StatefulSets, what other kinds that make pods have in common, and ControllerRevisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ullage.kube.builtin.core import PodSpec, Workload
from ullage.kube.kinds import Kind, Object, Value, without_nulls


class Ordinals(Value):
    start: int = 0


class UpdateStrategy(Value):
    type: str = "RollingUpdate"


class StatefulSetSpec(Value):
    """Templates are kept as they are: pods and claims are made from them."""

    replicas: int = 1
    selector: Mapping[str, Any] = {}
    template: Mapping[str, Any] = {}
    service_name: str = ""
    volume_claim_templates: tuple[Mapping[str, Any], ...] = ()
    pod_management_policy: str = "OrderedReady"
    update_strategy: UpdateStrategy = UpdateStrategy()
    ordinals: Ordinals = Ordinals()


class StatefulSetStatus(Value, omit_defaults=False):
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
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def pod_spec(self) -> PodSpec:
        """The spec of its pods, as far as it is known here."""
        return msgspec.convert(without_nulls(self.spec.template.get("spec") or {}), PodSpec)

    @property
    def claim_templates(self) -> tuple[str, ...]:
        """The names of its templates of claims."""
        return tuple(template["metadata"]["name"] for template in self.spec.volume_claim_templates)


class ControllerRevision(Object):
    """What an object was like at one time. `data` never changes."""

    data: Mapping[str, Any] = {}
    revision: int = 0


STATEFUL_SETS: Final = Kind("apps", "v1", "StatefulSet", "statefulsets", StatefulSet, whole=False)
DEPLOYMENTS: Final = Kind("apps", "v1", "Deployment", "deployments", Workload, whole=False)
REPLICA_SETS: Final = Kind("apps", "v1", "ReplicaSet", "replicasets", Workload, whole=False)
DAEMON_SETS: Final = Kind("apps", "v1", "DaemonSet", "daemonsets", Workload, whole=False)
CONTROLLER_REVISIONS: Final = Kind(
    "apps", "v1", "ControllerRevision", "controllerrevisions", ControllerRevision, whole=False, status=False
)
