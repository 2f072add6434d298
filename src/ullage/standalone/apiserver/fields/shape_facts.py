"""What the published definitions leave out, and field ownership shows: which built-in structs hold others by value.

A struct held by value is there whenever its parent is, so nobody ever owns it as such (`f:strategy` has no `.` in
managedFields, `f:rollingUpdate`, a pointer, has one). Read off a running kube-apiserver, whose own OpenAPI marks these fields
with `default: {}`.
"""

from __future__ import annotations

from typing import Any, Final

# by value nearly everywhere; POINTERS lists where not
USUAL_STRUCTS: Final = frozenset({"metadata", "spec", "status", "template"})
POINTERS: Final = frozenset({("io.k8s.api.core.v1.ReplicationControllerSpec", "template")})

_BY_VALUE: Final = """
admissionregistration.v1.MutatingWebhook clientConfig
admissionregistration.v1.ValidatingWebhook clientConfig
apps.v1.DaemonSetSpec updateStrategy
apps.v1.DeploymentSpec strategy
apps.v1.StatefulSetSpec updateStrategy
authentication.v1.SelfSubjectReviewStatus userInfo
authentication.v1.TokenReviewStatus user
autoscaling.v1.HorizontalPodAutoscalerSpec scaleTargetRef
autoscaling.v2.ContainerResourceMetricSource target
autoscaling.v2.ContainerResourceMetricStatus current
autoscaling.v2.ExternalMetricSource metric target
autoscaling.v2.ExternalMetricStatus current metric
autoscaling.v2.HorizontalPodAutoscalerSpec scaleTargetRef
autoscaling.v2.ObjectMetricSource describedObject metric target
autoscaling.v2.ObjectMetricStatus current describedObject metric
autoscaling.v2.PodsMetricSource metric target
autoscaling.v2.PodsMetricStatus current metric
autoscaling.v2.ResourceMetricSource target
autoscaling.v2.ResourceMetricStatus current
batch.v1.CronJobSpec jobTemplate
core.v1.Binding target
core.v1.Container resources
core.v1.ContainerStatus lastState state
core.v1.EphemeralContainer resources
core.v1.Event involvedObject source
core.v1.NodeDaemonEndpoints kubeletEndpoint
core.v1.NodeStatus daemonEndpoints nodeInfo
core.v1.PersistentVolumeClaimSpec resources
core.v1.PreferredSchedulingTerm preference
core.v1.ServiceStatus loadBalancer
core.v1.WeightedPodAffinityTerm podAffinityTerm
discovery.v1.Endpoint conditions
events.v1.Event deprecatedSource regarding
flowcontrol.v1.FlowSchemaSpec priorityLevelConfiguration
flowcontrol.v1.LimitedPriorityLevelConfiguration limitResponse
networking.v1.HTTPIngressPath backend
networking.v1.IngressServiceBackend port
networking.v1.IngressStatus loadBalancer
networking.v1.NetworkPolicySpec podSelector
rbac.v1.ClusterRoleBinding roleRef
rbac.v1.RoleBinding roleRef
resource.v1.AllocationResult devices
resource.v1.ResourceClaimSpec devices
resource.v1.ResourceSliceSpec pool
storage.v1.VolumeAttachmentSpec source
"""

_CRD: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."


def _table() -> dict[str, frozenset[str]]:
    rows = [line.split() for line in _BY_VALUE.strip().splitlines()]
    found = {f"io.k8s.api.{name}": frozenset(fields) for name, *fields in rows}
    found[_CRD + "CustomResourceDefinitionSpec"] = frozenset({"names"})
    found[_CRD + "CustomResourceDefinitionStatus"] = frozenset({"acceptedNames"})
    return found


STRUCTS: Final = _table()

# optional fields that are written even when they are zero, as if they were required
ALWAYS_WRITTEN: Final[dict[str, frozenset[str]]] = {
    "io.k8s.api.apps.v1.StatefulSetSpec": frozenset({"serviceName"}),
    "io.k8s.api.apps.v1.StatefulSetStatus": frozenset({"availableReplicas"}),
    "io.k8s.api.core.v1.Event": frozenset({"reportingComponent", "reportingInstance"}),
    "io.k8s.api.core.v1.ReplicationControllerSpec": frozenset({"minReadySeconds"}),
}

# the only keys of built-in lists that have a default; the published definitions dropped it
KEY_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "io.k8s.api.core.v1.ContainerPort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.ServicePort": {"protocol": "TCP"},
}
