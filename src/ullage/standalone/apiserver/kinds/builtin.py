"""The built-in kinds: what the published OpenAPI definitions leave unsaid.

A definition knows a kind's fields, but not its plural, its scope, its short names or its subresources. Those stand here, one
line a kind, in the order in which a cluster lists its groups. Everything else about a kind comes from its definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from ullage.standalone.apiserver.kinds import conversion
from ullage.standalone.apiserver.kinds.resources import ALL_VERBS, Resource, Schema, Subresource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import REF, Definitions
from ullage.standalone.apiserver.status import group_resource

# plural | kind | scope | short names | categories | subresources | verbs, where they are not all (`-x`: all but x).
# The first version of a group is its preferred one.
TABLE = """
v1
  bindings                  | Binding                | namespace |        |     |                     | create
  componentstatuses         | ComponentStatus        | cluster   | cs     |     |                     | get list
  configmaps                | ConfigMap              | namespace | cm     |     |
  endpoints                 | Endpoints              | namespace | ep     |     |
  events                    | Event                  | namespace | ev     |     |
  limitranges               | LimitRange             | namespace | limits |     |
  namespaces                | Namespace              | cluster   | ns     |     | finalize status     | -deletecollection
  nodes                     | Node                   | cluster   | no     |     | proxy status
  persistentvolumeclaims    | PersistentVolumeClaim  | namespace | pvc    |     | status
  persistentvolumes         | PersistentVolume       | cluster   | pv     |     | status
  pods | Pod | namespace | po | all | attach binding ephemeralcontainers eviction exec log portforward proxy resize status
  podtemplates              | PodTemplate            | namespace |        |     |
  replicationcontrollers    | ReplicationController  | namespace | rc     | all | scale status
  resourcequotas            | ResourceQuota          | namespace | quota  |     | status
  secrets                   | Secret                 | namespace |        |     |
  serviceaccounts           | ServiceAccount         | namespace | sa     |     | token
  services                  | Service                | namespace | svc    | all | proxy status
apiregistration.k8s.io/v1
  apiservices               | APIService             | cluster   |        | api-extensions | status
apps/v1
  controllerrevisions       | ControllerRevision     | namespace |        |     |
  daemonsets                | DaemonSet              | namespace | ds     | all | status
  deployments               | Deployment             | namespace | deploy | all | scale status
  replicasets               | ReplicaSet             | namespace | rs     | all | scale status
  statefulsets              | StatefulSet            | namespace | sts    | all | scale status
events.k8s.io/v1
  events                    | Event                  | namespace | ev     |     |
authentication.k8s.io/v1
  selfsubjectreviews        | SelfSubjectReview      | cluster   |        |     |                     | create
  tokenreviews              | TokenReview            | cluster   |        |     |                     | create
authorization.k8s.io/v1
  localsubjectaccessreviews | LocalSubjectAccessReview | namespace |      |     |                     | create
  selfsubjectaccessreviews  | SelfSubjectAccessReview  | cluster |        |     |                     | create
  selfsubjectrulesreviews   | SelfSubjectRulesReview | cluster   |        |     |                     | create
  subjectaccessreviews      | SubjectAccessReview    | cluster   |        |     |                     | create
autoscaling/v2
  horizontalpodautoscalers  | HorizontalPodAutoscaler | namespace | hpa   | all | status
autoscaling/v1
  horizontalpodautoscalers  | HorizontalPodAutoscaler | namespace | hpa   | all | status
batch/v1
  cronjobs                  | CronJob                | namespace | cj     | all | status
  jobs                      | Job                    | namespace |        | all | status
certificates.k8s.io/v1
  certificatesigningrequests | CertificateSigningRequest | cluster | csr   |     | approval status
networking.k8s.io/v1
  ingressclasses            | IngressClass           | cluster   |        |     |
  ingresses                 | Ingress                | namespace | ing    |     | status
  ipaddresses               | IPAddress              | cluster   | ip     |     |
  networkpolicies           | NetworkPolicy          | namespace | netpol |     |
  servicecidrs              | ServiceCIDR            | cluster   |        |     | status
policy/v1
  poddisruptionbudgets      | PodDisruptionBudget    | namespace | pdb    |     | status
rbac.authorization.k8s.io/v1
  clusterrolebindings       | ClusterRoleBinding     | cluster   |        |     |
  clusterroles              | ClusterRole            | cluster   |        |     |
  rolebindings              | RoleBinding            | namespace |        |     |
  roles                     | Role                   | namespace |        |     |
storage.k8s.io/v1
  csidrivers                | CSIDriver              | cluster   |        |     |
  csinodes                  | CSINode                | cluster   |        |     |
  csistoragecapacities      | CSIStorageCapacity     | namespace |        |     |
  storageclasses            | StorageClass           | cluster   | sc     |     |
  volumeattachments         | VolumeAttachment       | cluster   |        |     | status
  volumeattributesclasses   | VolumeAttributesClass  | cluster   | vac    |     |
admissionregistration.k8s.io/v1
  mutatingadmissionpolicies         | MutatingAdmissionPolicy          | cluster | | api-extensions |
  mutatingadmissionpolicybindings   | MutatingAdmissionPolicyBinding   | cluster | | api-extensions |
  mutatingwebhookconfigurations     | MutatingWebhookConfiguration     | cluster | | api-extensions |
  validatingadmissionpolicies       | ValidatingAdmissionPolicy        | cluster | | api-extensions | status
  validatingadmissionpolicybindings | ValidatingAdmissionPolicyBinding | cluster | | api-extensions |
  validatingwebhookconfigurations   | ValidatingWebhookConfiguration   | cluster | | api-extensions |
apiextensions.k8s.io/v1
  customresourcedefinitions | CustomResourceDefinition | cluster | crd crds | api-extensions | status
scheduling.k8s.io/v1
  priorityclasses           | PriorityClass          | cluster   | pc     |     |
coordination.k8s.io/v1
  leases                    | Lease                  | namespace |        |     |
node.k8s.io/v1
  runtimeclasses            | RuntimeClass           | cluster   |        |     |
discovery.k8s.io/v1
  endpointslices            | EndpointSlice          | namespace |        |     |
resource.k8s.io/v1
  deviceclasses             | DeviceClass            | cluster   |        |     |
  resourceclaims            | ResourceClaim          | namespace |        |     | status
  resourceclaimtemplates    | ResourceClaimTemplate  | namespace |        |     |
  resourceslices            | ResourceSlice          | cluster   |        |     |
flowcontrol.apiserver.k8s.io/v1
  flowschemas               | FlowSchema             | cluster   |        |     | status
  prioritylevelconfigurations | PriorityLevelConfiguration | cluster | |     | status
"""

_READ_WRITE = ("get", "patch", "update")
_ANY_METHOD = ("create", "delete", "get", "patch", "update")

# A subresource is the same wherever it stands. `{}` in its kind is the parent's.
SUBRESOURCES = {
    "status": Subresource("status", "{}", _READ_WRITE),
    "scale": Subresource("scale", "Scale", _READ_WRITE, "autoscaling", "v1"),
    "approval": Subresource("approval", "{}", _READ_WRITE),
    "binding": Subresource("binding", "Binding", ("create",)),
    "ephemeralcontainers": Subresource("ephemeralcontainers", "{}", _READ_WRITE),
    "eviction": Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    "finalize": Subresource("finalize", "{}", ("update",)),
    "resize": Subresource("resize", "{}", _READ_WRITE),
    "token": Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),
    "log": Subresource("log", "{}", ("get",)),
    "attach": Subresource("attach", "{}AttachOptions", ("create", "get")),
    "exec": Subresource("exec", "{}ExecOptions", ("create", "get")),
    "portforward": Subresource("portforward", "{}PortForwardOptions", ("create", "get")),
    "proxy": Subresource("proxy", "{}ProxyOptions", _ANY_METHOD),
}

# In discovery like the rest, but they open a stream to a kubelet, and there is none: the server answers them as
# kube-apiserver does for a pod that no node has taken.
CONNECT = frozenset({"attach", "exec", "log", "portforward", "proxy"})

# Kinds that are questions: the answer is the response to their creation, and nothing is stored.
TRANSIENT = frozenset({"authentication.k8s.io", "authorization.k8s.io"})

# `kubectl top` looks for this group, and asks for metrics only where it finds it: only so can it be told why there are none.
METRICS = "metrics.k8s.io"
EMPTY_GROUPS = {METRICS: ("v1beta1",)}


class BuiltinKind(NamedTuple):
    """One line of the table, with the group and version above it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    subresources: tuple[str, ...]
    verbs: tuple[str, ...]

    @property
    def definition(self) -> str:
        """How messages name it when no definition is found."""
        return f"{self.group}/{self.version} {self.kind}"


class Shared(NamedTuple):
    """Where two kinds are views of the same objects: the key space, its apiVersion, and the way there and back."""

    storage: str
    version: str
    to_storage: Callable[[Json], Json]
    from_storage: Callable[[Json], Json]


SHARED = {
    ("events.k8s.io", "v1", "events"): Shared("events", "v1", conversion.core_event, conversion.new_event),
    ("autoscaling", "v1", "horizontalpodautoscalers"): Shared(
        "horizontalpodautoscalers.autoscaling", "autoscaling/v2", conversion.hpa_v2, conversion.hpa_v1
    ),
}


def rows() -> Iterator[BuiltinKind]:
    """The table, line by line."""
    group = version = ""
    for line in TABLE.strip().splitlines():
        if not line.startswith(" "):
            group, _, version = line.rpartition("/")
            continue
        cells = [cell.strip() for cell in line.split("|")] + [""]
        plural, kind, scope = cells[:3]
        short_names, categories, subresources = (tuple(cell.split()) for cell in cells[3:6])
        namespaced = scope == "namespace"
        yield BuiltinKind(group, version, plural, kind, namespaced, short_names, categories, subresources, _verbs(cells[6]))


@cache
def builtin_storages() -> frozenset[str]:
    """The key spaces of the built-in kinds, those that nothing is stored in included: no other kind may ever have one."""
    return frozenset({group_resource(row.group, row.plural) for row in rows()} | {one.storage for one in SHARED.values()})


@cache
def builtin_groups() -> frozenset[str]:
    return frozenset(row.group for row in rows())


def _verbs(cell: str) -> tuple[str, ...]:
    if not cell or cell.startswith("-"):
        return tuple(verb for verb in ALL_VERBS if verb != cell[1:])
    return tuple(cell.split())


def builtin_resources(definitions: Definitions, schema_for: Callable[[str], Schema]) -> list[Resource]:
    """Every kind of the stable groups, in discovery's order. `schema_for` compiles the definition of a given name."""
    return [_resource(row, definitions, schema_for) for row in rows()]


def _resource(row: BuiltinKind, definitions: Definitions, schema_for: Callable[[str], Schema]) -> Resource:
    name = definitions.name_of(row.group, row.version, row.kind)
    if name is None:
        raise LookupError(f"the published definitions have no {row.definition}")
    shared = SHARED.get((row.group, row.version, row.plural))
    own_version = f"{row.group}/{row.version}" if row.group else row.version
    return Resource(
        group=row.group,
        version=row.version,
        plural=row.plural,
        singular=row.kind.lower(),
        kind=row.kind,
        namespaced=row.namespaced,
        verbs=row.verbs,
        short_names=row.short_names,
        categories=row.categories,
        subresources={sub: subresource(sub, row.kind) for sub in row.subresources},
        storage=shared.storage if shared else group_resource(row.group, row.plural),
        storage_version=shared.version if shared else own_version,
        schema=schema_for(name),
        raw={"$ref": f"{REF}{name}"},
        to_storage=shared.to_storage if shared else None,
        from_storage=shared.from_storage if shared else None,
        list_kind=f"{row.kind}List",
    )


def subresource(name: str, parent_kind: str) -> Subresource:
    """The subresource of a kind, e.g. `proxy` of a Node."""
    found = SUBRESOURCES[name]
    return Subresource(name, found.kind.format(parent_kind), found.verbs, found.group, found.version)
