"""What the server decides beyond an object's content: priorities, ports, generations, kinds on their way out."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

from typing import Any

from ..kinds import LOOSE, throwaway
from .access import AS_ROBOT, READ, allowed, rule
from .case import (
    APPLY,
    CLAIMS,
    CONFIGMAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    MERGE_PATCH,
    PODS,
    SERVICES,
    Case,
    Check,
    Json,
    Step,
    post,
)
from .storage_kinds import claim

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices"
CRUMBS = "/apis/{ns}.example.com/v1/namespaces/{ns}/crumbs"
OLD = CRUMBS.replace("/v1/", "/v1beta1/")
DEFINITION = f"{DEFINITIONS}/crumbs.{{ns}}.example.com"


def bound(storage_class: str) -> tuple[Step, ...]:
    """A claim of one gibibyte that has its volume."""
    return (
        post(CLAIMS, claim(storageClassName=storage_class)),
        Step("PATCH", f"{CLAIMS}/a", {"spec": {"volumeName": "pv-{ns}"}}, MERGE_PATCH),
        Step("PATCH", f"{CLAIMS}/a/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}, MERGE_PATCH),
    )


def storage_class(*, grows: bool) -> Step:
    return post(CLASSES, {"metadata": {"name": "{ns}"}, "provisioner": "example.com/none", "allowVolumeExpansion": grows})


GROWN = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
NOT_RESIZABLE = 'persistentvolumeclaims "a" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize'
CLASS_GONE = (Step("DELETE", f"{CLASSES}/{{ns}}"),)

GROWTH = (
    Case("a bound claim grows if its class lets it", "PATCH", f"{CLAIMS}/a", GROWN, MERGE_PATCH, setup=(storage_class(grows=True), *bound("{ns}")), has={"spec.resources.requests.storage": "2Gi"}, cleanup=CLASS_GONE),
    Case("a bound claim does not grow against its class", "PATCH", f"{CLAIMS}/a", GROWN, MERGE_PATCH, setup=(storage_class(grows=False), *bound("{ns}")), expect=(403, "Forbidden"), message=NOT_RESIZABLE, cleanup=CLASS_GONE),
    Case("a bound claim does not grow without its class", "PATCH", f"{CLAIMS}/a", GROWN, MERGE_PATCH, setup=bound("no-such-class"), expect=(403, "Forbidden"), message=NOT_RESIZABLE),
    Case("a claim that is not bound does not grow at all", "PATCH", f"{CLAIMS}/a", GROWN, MERGE_PATCH, setup=(storage_class(grows=True), post(CLAIMS, claim(storageClassName="{ns}"))), expect=(422, "Invalid"), causes=(("spec", "FieldValueForbidden"),), cleanup=CLASS_GONE),
)  # fmt: skip


def service(name: str = "a", **spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def node_port(number: int, name: str = "a", **more: Any) -> Json:
    return service(name, type="NodePort", ports=[{"port": 80, "nodePort": number, **more}])


def twins(first: Json, second: Json) -> Json:
    return service(type="NodePort", ports=[{"name": "x", "port": 80, **first}, {"name": "y", "port": 80, **second}])


PORT_TAKEN = "Invalid value: {}: provided port is already allocated"
CAUSE = (("spec.ports[0].nodePort", "FieldValueInvalid"),)

GOODS = (
    Case("a node port is kept as it was asked for", "POST", SERVICES, node_port(31101), expect=(201, ""), has={"spec.ports[0].nodePort": 31101}),
    Case("a node port is given once", "POST", SERVICES, node_port(31102, "b"), setup=(post(SERVICES, node_port(31102)),), expect=(422, "Invalid"), message=f'Service "b" is invalid: spec.ports[0].nodePort: {PORT_TAKEN.format(31102)}', causes=CAUSE),
    Case("a node port is given once, whatever the protocol", "POST", SERVICES, node_port(31103, "b", protocol="UDP"), setup=(post(SERVICES, node_port(31103)),), expect=(422, "Invalid"), causes=CAUSE),
    Case("a node port is free again when its service is gone", "POST", SERVICES, node_port(31104, "b"), setup=(post(SERVICES, node_port(31104)), Step("DELETE", f"{SERVICES}/a")), expect=(201, "")),
    Case("a node port is free again when its service has no more use for it", "POST", SERVICES, node_port(31105, "b"), setup=(post(SERVICES, node_port(31105)), Step("PATCH", f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}, MERGE_PATCH)), expect=(201, "")),
    Case("a node port is free again when its create failed", "POST", SERVICES, node_port(31106), setup=(Step("POST", f"{SERVICES}?dryRun=All", node_port(31106)),), expect=(201, "")),
    Case("a node port lies in the range", "POST", SERVICES, node_port(80), expect=(422, "Invalid"), message='Service "a" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767', causes=CAUSE),
    Case("two ports of a service do not share a node port", "POST", SERVICES, twins({"nodePort": 31107}, {"port": 81, "nodePort": 31107}), expect=(422, "Invalid"), causes=(("spec.ports[1].nodePort", "FieldValueInvalid"),)),
    Case("two protocols of a port share the node port", "POST", SERVICES, twins({"nodePort": 31108}, {"protocol": "UDP"}), expect=(201, ""), has={"spec.ports[1].nodePort": 31108}),
    Case("an update without the node port keeps it", "PUT", f"{SERVICES}/a", service(type="NodePort"), setup=(post(SERVICES, node_port(31109)),), has={"spec.ports[0].nodePort": 31109}),
    Case("a node port goes with the name of its port", "PUT", f"{SERVICES}/a", service(type="NodePort", ports=[{"port": 81}]), setup=(post(SERVICES, node_port(31110)),), has={"spec.ports[0].nodePort": 31110, "spec.ports[0].port": 81}),
    Case("a health check port is taken like any other", "POST", SERVICES, service("b", type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=31111), setup=(post(SERVICES, node_port(31111)),), expect=(500, "InternalError"), message="Internal error occurred: failed to allocate requested HealthCheck NodePort 31111: provided port is already allocated"),
    Case("a health check port is for local load balancers", "POST", SERVICES, service(type="LoadBalancer", healthCheckNodePort=31112), expect=(422, "Invalid"), causes=(("spec.healthCheckNodePort", "FieldValueInvalid"),)),
    Case("a load balancer may do without node ports", "POST", SERVICES, service(type="LoadBalancer", allocateLoadBalancerNodePorts=False), expect=(201, ""), has={"spec.ports[0].nodePort": None}),
    Case("a cluster address is given once", "POST", SERVICES, service("b", clusterIP="10.96.1.201"), setup=(post(SERVICES, service(clusterIP="10.96.1.201")),), expect=(422, "Invalid"), message='Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.96.1.201"]: failed to allocate IP 10.96.1.201: provided IP is already allocated'),
    Case("a cluster address lies in the range", "POST", SERVICES, service(clusterIP="10.1.1.1"), expect=(422, "Invalid"), message='Service "a" is invalid: spec.clusterIPs: Invalid value: ["10.1.1.1"]: failed to allocate IP 10.1.1.1: the provided network does not match the current range'),
    Case("the range's own address is nobody's", "POST", SERVICES, service(clusterIP="10.96.0.0"), expect=(422, "Invalid"), causes=(("spec.clusterIPs", "FieldValueInvalid"),)),
    Case("a service without addresses and pods has both families", "POST", SERVICES, service(clusterIP="None"), expect=(201, ""), has={"spec.ipFamilies": ["IPv4", "IPv6"], "spec.ipFamilyPolicy": "RequireDualStack"}),
    Case("a service without addresses has one family", "POST", SERVICES, service(clusterIP="None", selector={"a": "b"}), expect=(201, ""), has={"spec.ipFamilies": ["IPv4"], "spec.ipFamilyPolicy": "SingleStack"}),
    Case("two families are one too many", "POST", SERVICES, service(ipFamilyPolicy="RequireDualStack"), expect=(422, "Invalid"), message='Service "a" is invalid: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'),
    Case("a service that was a name gets an address", "PATCH", f"{SERVICES}/a", {"spec": {"type": "ClusterIP", "externalName": None, "ports": [{"port": 1}]}}, MERGE_PATCH, setup=(post(SERVICES, {"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "a.b"}}),), has={"spec.clusterIPs.#": 1, "spec.ipFamilies": ["IPv4"]}),
)  # fmt: skip


def pod(**spec: Any) -> Json:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


COMPUTED = "must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name"

PRIORITY = (
    Case("a pod's class must exist", "POST", PODS, pod(priorityClassName="none"), expect=(403, "Forbidden"), message='pods "a" is forbidden: no PriorityClass with name none was found'),
    Case("a pod has the priority of its class", "POST", PODS, pod(priorityClassName="system-node-critical"), expect=(201, ""), has={"spec.priority": 2000001000, "spec.preemptionPolicy": "PreemptLowerPriority"}),
    Case("a pod does not choose its priority", "POST", PODS, pod(priority=5), expect=(403, "Forbidden"), message=f'pods "a" is forbidden: the integer value of priority (5) {COMPUTED.format(0)}'),
    Case("a pod does not choose how it preempts", "POST", PODS, pod(preemptionPolicy="Never"), expect=(403, "Forbidden"), message=f'pods "a" is forbidden: the string value of PreemptionPolicy (Never) {COMPUTED.format("PreemptLowerPriority")}'),
    Case("a pod tolerates bad nodes for five minutes", "POST", PODS, pod(), expect=(201, ""), has={"spec.tolerations.#": 2, "spec.tolerations[0].tolerationSeconds": 300}),
    Case("a pod that tolerates everything gets nothing added", "POST", PODS, pod(tolerations=[{"operator": "Exists"}]), expect=(201, ""), has={"spec.tolerations": [{"operator": "Exists"}]}),
)  # fmt: skip

LABELLED = {"metadata": {"labels": {"a": "b"}}}
NOTED = {"metadata": {"annotations": {"a": "b"}}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYED = post(
    DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
)
SLICED = post(SLICES, {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []})
DRIVEN = post(DRIVERS, {"metadata": {"name": "{ns}"}, "spec": {}})
RANKED = post(PRIORITIES, {"metadata": {"name": "{ns}"}, "value": 3})
DRIVER_GONE = (Step("DELETE", f"{DRIVERS}/{{ns}}"),)
RANK_GONE = (Step("DELETE", f"{PRIORITIES}/{{ns}}"),)

GENERATIONS = (
    Case("an annotation is a new generation of a deployment", "PATCH", f"{DEPLOYMENTS}/a", NOTED, MERGE_PATCH, setup=(DEPLOYED,), has={"metadata.generation": 2}),
    Case("a label is no new generation of a deployment", "PATCH", f"{DEPLOYMENTS}/a", LABELLED, MERGE_PATCH, setup=(DEPLOYED,), has={"metadata.generation": 1}),
    Case("an annotation by way of the status is none", "PATCH", f"{DEPLOYMENTS}/a/status", NOTED, MERGE_PATCH, setup=(DEPLOYED,), has={"metadata.generation": 1}),
    Case("a label is a new generation of an endpoint slice", "PATCH", f"{SLICES}/a", LABELLED, MERGE_PATCH, setup=(SLICED,), has={"metadata.generation": 2}),
    Case("a priority class has one generation", "PATCH", f"{PRIORITIES}/{{ns}}", {"description": "x"}, MERGE_PATCH, setup=(RANKED,), has={"metadata.generation": 1}, cleanup=RANK_GONE),
    Case("a driver begins without a generation", "PATCH", f"{DRIVERS}/{{ns}}", LABELLED, MERGE_PATCH, setup=(DRIVEN,), has={"metadata.generation": None}, cleanup=DRIVER_GONE),
    Case("a driver's first change is its first generation", "PATCH", f"{DRIVERS}/{{ns}}", {"spec": {"requiresRepublish": True}}, MERGE_PATCH, setup=(DRIVEN,), has={"metadata.generation": 1}, cleanup=DRIVER_GONE),
)  # fmt: skip

NAMED = rule(["configmaps"], ["list", "watch"], resourceNames=["x"])
ROBOT_MAY_NOT = (
    'User "system:serviceaccount:{ns}:robot" cannot list resource "configmaps" in API group "" in the namespace "{ns}"'
)

SELECTED = (
    Case("a list of one name needs the right to that name", "GET", f"{CONFIGMAPS}?fieldSelector=metadata.name%3Dx", headers=AS_ROBOT, setup=allowed(NAMED), has={"kind": "ConfigMapList"}),
    Case("a list of another name is refused by that name", "GET", f"{CONFIGMAPS}?fieldSelector=metadata.name%3Dy", headers=AS_ROBOT, setup=allowed(NAMED), expect=(403, "Forbidden"), message=f'configmaps "y" is forbidden: {ROBOT_MAY_NOT}'),
    Case("a list of all but one name is a list of all", "GET", f"{CONFIGMAPS}?fieldSelector=metadata.name!%3Dx", headers=AS_ROBOT, setup=allowed(NAMED), expect=(403, "Forbidden"), message=f"configmaps is forbidden: {ROBOT_MAY_NOT}"),
    Case("the right to all names covers one", "GET", f"{CONFIGMAPS}?fieldSelector=metadata.name%3Dy", headers=AS_ROBOT, setup=allowed(READ), has={"kind": "ConfigMapList"}),
    Case("deleting a collection needs the right to all names", "DELETE", f"{CONFIGMAPS}?fieldSelector=metadata.name%3Dx", headers=AS_ROBOT, setup=allowed(rule(["configmaps"], ["deletecollection"], resourceNames=["x"])), expect=(403, "Forbidden")),
)  # fmt: skip


def definition(**old: Any) -> Json:
    """A kind with a version that is on its way out."""
    made = throwaway("{ns}.example.com")
    second = {"name": "v1beta1", "served": True, "storage": False, "schema": LOOSE, **old}
    return {**made, "spec": {**made["spec"], "versions": [*made["spec"]["versions"], second]}}


def served(**old: Any) -> tuple[Step, ...]:
    established = {"status.conditions[1].status": "True"}
    return (
        post(DEFINITIONS, definition(**old)),
        Step("GET", DEFINITION, until=established),
        *(Step("GET", path, until={"kind": "CrumbList"}) for path in (CRUMBS, OLD)),
    )


def crumb(name: str = "a", **meta: Any) -> Json:
    return {"apiVersion": "{ns}.example.com/v1", "kind": "Crumb", "metadata": {"name": name, **meta}}


DEFINITION_GONE = (Step("DELETE", DEFINITION),)
HELD = (
    *served(),
    post(CRUMBS, crumb(finalizers=["example.com/held"])),
    Step("DELETE", DEFINITION),
    Step("GET", DEFINITION, until={"status.conditions[2].type": "Terminating"}),
)
RELEASED = (Step("PATCH", f"{CRUMBS}/a", {"metadata": {"finalizers": None}}, MERGE_PATCH),)
TERMINATING = "create not allowed while custom resource definition is terminating"

GOING = (
    Case("an old version warns of itself", "GET", OLD, setup=served(deprecated=True), warnings=("{ns}.example.com/v1beta1 Crumb is deprecated; use {ns}.example.com/v1 Crumb",), cleanup=DEFINITION_GONE),
    Case("an old version warns in its own words", "GET", f"{OLD}/none", setup=served(deprecated=True, deprecationWarning='do "not"'), warnings=('do "not"',), expect=(404, "NotFound"), cleanup=DEFINITION_GONE),
    Case("a good version warns of nothing", "GET", CRUMBS, setup=served(deprecated=True), warnings=(), cleanup=DEFINITION_GONE),
    Case("endpoints warn of themselves", "GET", "/api/v1/namespaces/{ns}/endpoints", warnings=("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)),
    Case("component statuses warn of themselves", "GET", "/api/v1/componentstatuses", has={"kind": "ComponentStatusList"}, warnings=("v1 ComponentStatus is deprecated in v1.19+",)),
    Case("nothing is created of a kind that is going", "POST", CRUMBS, crumb("b"), setup=HELD, expect=(403, "Forbidden"), message=f'crumbs.{{ns}}.example.com "b" is forbidden: {TERMINATING}', cleanup=RELEASED),
    Case("nothing is applied into being of a kind that is going", "PATCH", f"{CRUMBS}/b?fieldManager=m", crumb("b"), APPLY, setup=HELD, expect=(403, "Forbidden"), message=f'crumbs.{{ns}}.example.com "b" is forbidden: {TERMINATING}', cleanup=RELEASED),
    Case("what is left of a kind that is going can change", "PATCH", f"{CRUMBS}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH, setup=HELD, has={"metadata.labels": {"a": "b"}}, cleanup=RELEASED),
)  # fmt: skip

PART = {"apiGroups": ["example.com"], "resources": ["crumbs"], "verbs": ["get"]}
WHOLE = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"gather": "{ns}"}}]}}
GATHERED = (
    post(ROLES, {"metadata": {"name": "{ns}-whole"}, "rules": [], **WHOLE}),
    post(ROLES, {"metadata": {"name": "{ns}-part", "labels": {"gather": "{ns}"}}, "rules": [PART]}),
    Step("GET", f"{ROLES}/{{ns}}-whole", until={"rules[0].resources": ["crumbs"]}),
)
ROLES_GONE = (Step("DELETE", f"{ROLES}/{{ns}}-whole"), Step("DELETE", f"{ROLES}/{{ns}}-part"))

PATHS = (
    Case("an aggregated role shows what it gathers", "GET", f"{ROLES}/{{ns}}-whole", setup=GATHERED, has={"rules": [PART], "metadata.managedFields[0].manager": "clusterrole-aggregation-controller"}, cleanup=ROLES_GONE),
    Case("an aggregated role forgets what has gone", "GET", f"{ROLES}/{{ns}}-whole", setup=(*GATHERED, Step("DELETE", f"{ROLES}/{{ns}}-part"), Step("GET", f"{ROLES}/{{ns}}-whole", until={"rules": None})), has={"rules": None}, cleanup=ROLES_GONE),
    Case("the issuer tells where its keys are", "GET", "/.well-known/openid-configuration", has={"issuer": "https://kubernetes.default.svc.cluster.local", "subject_types_supported": ["public"]}),
    Case("the issuer's keys are for signatures", "GET", "/openid/v1/jwks", has={"keys.#": 1, "keys[0].use": "sig"}),
    Case("a health check can be asked alone", "GET", "/livez/ping", text="ok"),
    Case("an unknown health check is not there", "GET", "/livez/nothing", expect=(404, ""), text="404 page not found\n"),
    Case("deployments do not count twice", "PATCH", f"{DEPLOYMENTS}/a", {"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 2}}, MERGE_PATCH, setup=(DEPLOYED,), has={"metadata.generation": 2}, then=(Check(f"{DEPLOYMENTS}/a", has={"metadata.generation": 2}),)),
)  # fmt: skip

CASES = (*GROWTH, *GOODS, *PRIORITY, *GENERATIONS, *SELECTED, *GOING, *PATHS)
