"""The custom kinds of the suite: one namespaced with everything a schema can say, one cluster-scoped with almost nothing."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
GROUP = "e2e.example.com"
ROOT_CA = "kube-root-ca.crt"  # the ConfigMap that every namespace is given
OWN_MAPS = f"fieldSelector=metadata.name!%3D{ROOT_CA}"  # a test's own ConfigMaps, without that one

GAUGE_SPEC: Json = {
    "type": "object",
    "description": "What the gauge should measure.",
    "required": ["capacity"],
    "properties": {
        "capacity": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "How much fits into the tank."},
        "mode": {"type": "string", "enum": ["Strict", "Loose"], "default": "Loose", "description": "How limits are kept."},
        "label": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 10},
        "ratio": {"type": "number", "exclusiveMaximum": True, "maximum": 1, "multipleOf": 0.25},
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "owner": {"type": "string"},
        "replicas": {"type": "integer", "default": 1},
        "limit": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True},
        "address": {"type": "string", "format": "ipv4"},
        "since": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "number": {"type": "integer", "format": "int32"},
                    "protocol": {"type": "string", "default": "TCP"},
                },
            },
        },
        "hard": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "nested": {
            "type": "object",
            "properties": {"depth": {"type": "integer", "default": 3}, "enabled": {"type": "boolean"}},
        },
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low must not be above high"},
        {
            "rule": "!has(oldSelf.owner) || has(self.owner) && self.owner == oldSelf.owner",
            "message": "owner is immutable",
            "fieldPath": ".owner",
            "reason": "FieldValueForbidden",
        },
        {
            "rule": "!has(self.label) || self.label != 'forbidden'",
            "messageExpression": "'label ' + self.label + ' is taken'",
        },
    ],
}

GAUGE_STATUS: Json = {
    "type": "object",
    "description": "What the gauge shows.",
    "properties": {
        "level": {"type": "integer", "minimum": 0},
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"}},
            },
        },
    },
}

GAUGE_SCHEMA: Json = {
    "openAPIV3Schema": {
        "type": "object",
        "description": "Gauge measures how full a tank is.",
        "required": ["spec"],
        "properties": {"spec": GAUGE_SPEC, "status": GAUGE_STATUS},
    }
}

GAUGE_COLUMNS: list[Json] = [
    {"name": "Capacity", "type": "integer", "jsonPath": ".spec.capacity"},
    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "description": "how limits are kept"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Label", "type": "string", "jsonPath": ".spec.label", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def _gauge_version(name: str, *, served: bool = True, storage: bool = False) -> Json:
    return {
        "name": name,
        "served": served,
        "storage": storage,
        "schema": GAUGE_SCHEMA,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": GAUGE_COLUMNS,
        "selectableFields": [{"jsonPath": ".spec.mode"}],
    }


def _definition(
    plural: str, kind: str, scope: str, *, versions: list[Json], names: Json | None = None, group: str = GROUP
) -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List", **(names or {})},
            "versions": versions,
        },
    }


GAUGES = _definition(
    "gauges",
    "Gauge",
    "Namespaced",
    names={"shortNames": ["ga"], "categories": ["tanks"]},
    versions=[
        _gauge_version("v1", storage=True),
        _gauge_version("v1beta1"),
        _gauge_version("v1alpha1", served=False),
    ],
)

LOOSE: Json = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
TANKS = _definition("tanks", "Tank", "Cluster", versions=[{"name": "v1", "served": True, "storage": True, "schema": LOOSE}])


def throwaway(group: str, *, plural: str = "crumbs", kind: str = "Crumb") -> Json:
    """A definition for a test that creates and deletes one; the group keeps tests apart."""
    version: Json = {"name": "v1", "served": True, "storage": True, "schema": LOOSE}
    return _definition(plural, kind, "Namespaced", versions=[version], group=group)


def gauge(name: str, **spec: Any) -> Json:
    """A valid Gauge, changed by the given spec fields."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gauge",
        "metadata": {"name": name},
        "spec": {"capacity": 10, **spec},
    }


def configmap(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


def pod(name: str, **metadata: Any) -> Json:
    container = {"name": "main", "image": "registry.example.com/main:1"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": {"containers": [container]}}


def deployment(name: str, *, replicas: int = 2) -> Json:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
