"""How a kind's fields hang together: which lists are keyed, which maps are one piece, which structs are always there.

Patches and field ownership need no validation, only this much of a schema. A `Shape` reads it from the published
definitions of a built-in kind and from a CustomResourceDefinition's schema alike; where a schema says nothing, maps are
taken field by field and lists in one piece. Children are made when first asked for and kept, so recursive definitions cost
nothing.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import REF, Definitions

# What the published definitions leave out, and field ownership shows: which built-in structs hold others by value. A
# struct held by value is there whenever its parent is, so nobody ever owns it as such (`f:strategy` has no `.` in
# managedFields, `f:rollingUpdate`, a pointer, has one). Read off a running kube-apiserver, whose own OpenAPI marks
# these fields with `default: {}`.


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


OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
SCALARS: Final = {"string": "string", "integer": "numeric", "number": "numeric", "boolean": "boolean"}
SCHEMALESS: Final[Json] = {"x-kubernetes-preserve-unknown-fields": True}
ZEROS: Final[dict[str, Any]] = {"string": "", "numeric": 0, "boolean": False}


class Absent:
    """The type of `ABSENT`: a field that is not there, as opposed to one that is null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


class Shape:
    """A cheap view over one schema node. Equal for all objects of a kind: make it once and keep it."""

    __slots__ = (
        "_any_key", "_definitions", "_fields", "_implied", "_item", "_items", "_name", "_properties", "_required",
        "_values", "atomic", "closed", "container", "custom", "key_defaults", "list_type", "map_keys", "merge_key",
        "patch_strategy", "scalar",
    )  # fmt: skip

    def __init__(self, raw: Json, definitions: Definitions | None, *, custom: bool, root: bool = False) -> None:
        body = raw
        self._name = ""
        if definitions is not None and "$ref" in raw:
            self._name = raw["$ref"].removeprefix(REF)
            body = definitions.resolve(raw)
        self._definitions, self.custom = definitions, custom
        self._properties: dict[str, Json] = body.get("properties") or {}
        self._required = frozenset(() if custom else body.get("required", ())) | ALWAYS_WRITTEN.get(self._name, frozenset())
        self._fields: dict[str, Shape] = {}
        self._implied: dict[str, Any] = {}
        self._items: Json | None = body.get("items")
        self._item: Shape | None = None
        self._any_key: Shape | None = None
        more = body.get("additionalProperties")
        self._values: Json | None = more if isinstance(more, dict) and more else None
        kept = bool(body.get("x-kubernetes-preserve-unknown-fields")) or more is True or more == {}
        self._embed(root=root, embedded=bool(body.get("x-kubernetes-embedded-resource")))
        self.container = self._container(body)
        self.closed = self.container == "map" and self._values is None and not kept
        self.scalar = "" if body.get("x-kubernetes-int-or-string") else SCALARS.get(body.get("type", ""), "")
        self.atomic = self._is_atomic(raw, body)
        self.patch_strategy = tuple(filter(None, raw.get("x-kubernetes-patch-strategy", "").split(",")))
        self.merge_key: str = raw.get("x-kubernetes-patch-merge-key", "")
        self.list_type, keys = self._list_marks(raw, body)
        self.map_keys: tuple[str, ...] = tuple(sorted(keys))
        self.key_defaults: dict[str, Any] = self._defaults_of_keys() if keys else {}

    @classmethod
    def of(cls, raw: Json | None, definitions: Definitions | None) -> Shape:
        """The shape of whole objects: a `$ref` names a built-in kind, anything else is a custom kind's own schema."""
        if raw is not None and "$ref" in raw and definitions is not None:
            return _named(raw, definitions)
        return cls(raw or SCHEMALESS, definitions, custom=True, root=True)

    def field(self, name: str) -> Shape:
        """The shape under a field or a map key. What is not declared is schemaless."""
        found = self._fields.get(name)
        if found is not None:
            return found
        if name in self._properties:
            found = self._fields[name] = self._child(self._properties[name])
            return found
        if self._any_key is None:  # one for all keys of a map: they are without number
            self._any_key = ANY if self._values is None else self._child(self._values)
        return self._any_key

    def element(self) -> Shape:
        """The shape of a list's items."""
        if self._item is None:
            self._item = ANY if self._items is None else self._child(self._items)
        return self._item

    def declares(self, name: str) -> bool:
        """Whether the name is a field of this struct, not a key of a map: ownership treats the two differently."""
        return name in self._properties

    def implied(self, name: str) -> Any:
        """What a field reads as when it is not written: a struct that is held by value exists with its parent."""
        if self.custom or not self._properties:
            return ABSENT
        try:
            return self._implied[name]
        except KeyError:
            found = self._implied[name] = self._zero(name)
            return found

    def _zero(self, name: str) -> Any:
        if name not in self._properties:
            return ABSENT
        child = self.field(name)
        usual = name in USUAL_STRUCTS and (self._name, name) not in POINTERS
        if child.container == "map" and child._properties and (usual or name in STRUCTS.get(self._name, ())):
            return {}
        if name not in self._required:
            return ABSENT
        return None if child.container else ZEROS.get(child.scalar)

    def _child(self, raw: Json) -> Shape:
        if self._definitions is not None and "$ref" in raw:
            return _named(raw, self._definitions)
        return Shape(raw, self._definitions, custom=self.custom)

    def _embed(self, *, root: bool, embedded: bool) -> None:
        """A custom kind's schema leaves the fields that every object has to the server."""
        if not (self.custom and (root or embedded)):
            return
        meta: Json = SCHEMALESS if self._definitions is None else {"$ref": REF + OBJECT_META}
        self._properties = {**self._properties, "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": meta}

    def _container(self, body: Json) -> str:
        """`map`, `list`, or nothing for scalars and for what may be anything."""
        if self._properties or self._values is not None:
            return "map"
        if body.get("type") == "array":
            return "list"
        return "map" if body.get("type") == "object" and self.custom else ""

    def _is_atomic(self, raw: Json, body: Json) -> bool:
        mark = raw.get("x-kubernetes-map-type", body.get("x-kubernetes-map-type"))
        if mark is not None:
            return bool(mark == "atomic")
        # RawExtension and its like: built-in objects of no declared form are owned in one piece
        return not self.custom and not self.container and not self._properties

    def _list_marks(self, raw: Json, body: Json) -> tuple[str, tuple[str, ...]]:
        kind = raw.get("x-kubernetes-list-type", body.get("x-kubernetes-list-type"))
        keys = tuple(raw.get("x-kubernetes-list-map-keys", body.get("x-kubernetes-list-map-keys")) or ())
        if kind is None and "merge" in self.patch_strategy:
            return ("map", (self.merge_key,)) if self.merge_key else ("set", ())
        return (kind or "atomic", keys if kind == "map" else ())

    def _defaults_of_keys(self) -> dict[str, Any]:
        """A key that an item leaves out counts with its default: `protocol: TCP` in ports."""
        items = self.element()
        declared = {key: items._properties.get(key, {}).get("default", ABSENT) for key in self.map_keys}
        published = KEY_DEFAULTS.get(items._name, {})
        found = {key: published.get(key, value) for key, value in declared.items()}
        return {key: value for key, value in found.items() if value is not ABSENT}


ANY: Final = Shape(SCHEMALESS, None, custom=True)

_NAMED: WeakKeyDictionary[Definitions, dict[str, Shape]] = WeakKeyDictionary()


def _named(raw: Json, definitions: Definitions) -> Shape:
    """The shape behind a `$ref`; shared by all fields that put no marks of their own beside it."""
    if any(key.startswith("x-kubernetes-") for key in raw):
        return Shape(raw, definitions, custom=False)
    known = _NAMED.setdefault(definitions, {})
    found = known.get(raw["$ref"])
    if found is None:
        found = known[raw["$ref"]] = Shape(raw, definitions, custom=False)
    return found
