"""Kinds that say how others are to be treated: budgets, autoscalers, priorities, flows, runtimes."""

from __future__ import annotations

from ullage.standalone.apiserver.kinds.metadata import IMMUTABLE, label, path_segment
from ullage.standalone.apiserver.kinds.strategies.base import (
    Faults,
    Strategy,
    collect,
    collect_update,
    fill,
    filler,
    go_names,
    immutable,
    int_or_percent,
    items,
    label_selector,
    named,
    one_of,
    part,
    spec_of,
)
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import forbidden_field, invalid_value, required

MAX_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical", "system-cluster-critical"}
FLOW = "flowcontrol.apiserver.k8s.io"
SCALE_UP: Json = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
SCALE_DOWN: Json = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
CPU_METRIC: Json = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def _budget_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        fields = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {go_name: spec.get(name) for name in fields for go_name in go_names({name: None})}
        yield invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    yield from int_or_percent("spec.minAvailable", least)
    yield from int_or_percent("spec.maxUnavailable", most)
    yield from label_selector("spec.selector", spec.get("selector"))


def _budget_create(obj: Json) -> None:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    fill(obj, {"status": dict.fromkeys(counts, 0)})


def _scaler_default(obj: Json) -> None:
    spec = spec_of(obj)
    fill(spec, {"minReplicas": 1})
    if obj.get("apiVersion") == "autoscaling/v1":
        fill(spec, {"targetCPUUtilizationPercentage": 80})
    elif not spec.get("metrics"):
        fill(spec, {"metrics": [CPU_METRIC]})
    if isinstance(behavior := spec.get("behavior"), dict):
        fill(behavior, {"scaleUp": SCALE_UP, "scaleDown": SCALE_DOWN})


def _scaler_create(obj: Json) -> None:
    fill(obj, {"status": {"desiredReplicas": 0}})
    if obj.get("apiVersion") == "autoscaling/v1":
        fill(obj["status"], {"currentReplicas": 0})


def _scaler_faults(obj: Json) -> Faults:
    spec, target = part(obj, "spec"), part(obj, "spec", "scaleTargetRef")
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    if least is not None and most < least:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    if least == 0:
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden_field("spec.metrics", detail)
    for field in ("kind", "name"):
        yield from named(f"spec.scaleTargetRef.{field}", target.get(field), path_segment)
    if not target.get("apiVersion") and not target.get("kind"):
        yield invalid_value("spec.scaleTargetRef.apiVersion", "", "apiVersion must specify API group")


def _priority_faults(obj: Json) -> Faults:
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    system = name.startswith("system-")
    if system and name not in SYSTEM_CLASSES:
        detail = (
            "priority class names with 'system-' prefix are reserved for system use only. "
            f"error: {name} is not a known system priority class"
        )
        yield forbidden_field("metadata.name", detail)
    elif not system and value > MAX_PRIORITY:
        yield forbidden_field("value", f"maximum allowed value of a user defined priority is {MAX_PRIORITY}")
    yield from one_of("preemptionPolicy", obj.get("preemptionPolicy"), ("PreemptLowerPriority", "Never"))


def _priority_update(new: Json, old: Json) -> Faults:
    if (new.get("value") or 0) != (old.get("value") or 0):
        yield forbidden_field("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield invalid_value("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE)


def _flow_faults(obj: Json) -> Faults:
    spec = part(obj, "spec")
    precedence = spec.get("matchingPrecedence")
    if precedence is not None and precedence > 10000:
        yield invalid_value("spec.matchingPrecedence", precedence, "must not be greater than 10000")
    if not part(spec, "priorityLevelConfiguration").get("name"):
        yield required("spec.priorityLevelConfiguration.name", "must reference a priority level")


def _flow_default(obj: Json) -> None:
    spec = spec_of(obj)
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000


def _level_default(obj: Json) -> None:
    spec = spec_of(obj)
    if isinstance(limited := spec.get("limited"), dict):
        fill(limited, {"nominalConcurrencyShares": 30, "lendablePercent": 0})
        if isinstance(queuing := part(limited, "limitResponse").get("queuing"), dict):
            fill(queuing, {"queues": 64, "handSize": 8, "queueLengthLimit": 50})
    if isinstance(exempt := spec.get("exempt"), dict):
        fill(exempt, {"nominalConcurrencyShares": 0, "lendablePercent": 0})


def _level_faults(obj: Json) -> Faults:
    spec, exempt = part(obj, "spec"), obj["metadata"].get("name") == "exempt"
    kind, response = spec.get("type"), part(spec, "limited", "limitResponse")
    yield from one_of("spec.type", kind or "", ("Exempt", "Limited"))
    if kind in ("Exempt", "Limited") and (kind == "Exempt") != exempt:
        yield invalid_value("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind == "Limited" and not spec.get("limited"):
        yield required("spec.limited", "must not be empty when type is Limited")
    if response.get("type") == "Queue" and response.get("queuing") is None:
        detail = "must not be empty if limited.limitResponse.type is Limited"
        yield required("spec.limited.limitResponse.queuing", detail)


def _empty_status(obj: Json) -> None:
    fill(obj, {"status": {}})


def _subjects_present(obj: Json) -> Faults:
    for index, rule in enumerate(items(obj, "spec", "rules")):
        if not rule.get("subjects"):
            yield required(f"spec.rules[{index}].subjects", "subjects must contain at least one value")


STRATEGIES = {
    ("policy", "PodDisruptionBudget"): Strategy(
        name_rule=path_segment,
        generation=True,
        unstored_status=True,
        prepare_create=_budget_create,
        validate=collect(_budget_faults),
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): Strategy(
        unstored_status=True, default=_scaler_default, prepare_create=_scaler_create, validate=collect(_scaler_faults)
    ),
    ("scheduling.k8s.io", "PriorityClass"): Strategy(
        generation=True,
        fixed_generation=True,
        default=filler({"preemptionPolicy": "PreemptLowerPriority"}),
        validate=collect(_priority_faults),
        validate_update=collect_update(_priority_update),
    ),
    (FLOW, "FlowSchema"): Strategy(
        generation=True,
        unstored_status=True,
        default=_flow_default,
        prepare_create=_empty_status,
        validate=collect(_flow_faults, _subjects_present),
    ),
    (FLOW, "PriorityLevelConfiguration"): Strategy(
        generation=True,
        unstored_status=True,
        default=_level_default,
        prepare_create=_empty_status,
        validate=collect(_level_faults),
    ),
    ("node.k8s.io", "RuntimeClass"): Strategy(
        validate=collect(lambda obj: named("handler", obj.get("handler"), label)),
        validate_update=collect_update(immutable("handler")),
    ),
    ("certificates.k8s.io", "CertificateSigningRequest"): Strategy(
        unstored_status=True, prepare_create=_empty_status, validate_update=collect_update(immutable("spec"))
    ),
    ("apiregistration.k8s.io", "APIService"): Strategy(name_rule=path_segment, unstored_status=True),
    ("resource.k8s.io", "ResourceClaim"): Strategy(
        unstored_status=True, prepare_create=_empty_status, validate_update=collect_update(immutable("spec"))
    ),
    ("resource.k8s.io", "DeviceClass"): Strategy(generation=True),
    ("resource.k8s.io", "ResourceSlice"): Strategy(generation=True),
    ("resource.k8s.io", "ResourceClaimTemplate"): Strategy(validate_update=collect_update(immutable("spec"))),
}
