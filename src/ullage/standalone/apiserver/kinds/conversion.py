"""The two built-in kinds whose versions differ in more than their name: Event and HorizontalPodAutoscaler.

Objects are stored as core/v1 Events and autoscaling/v2 autoscalers; the other version is a view of them. What autoscaling/v1
has no field for travels in annotations, in the words of the version that first had it: a client can write back what it read.
"""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from ullage.standalone.apiserver.objects import Json

# core/v1 to events.k8s.io/v1
_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_EVENT_FIELDS_BACK = {new: core for core, new in _EVENT_FIELDS.items()}


def new_event(event: Json) -> Json:
    """A core/v1 Event as events.k8s.io/v1 shows it."""
    return {_EVENT_FIELDS.get(key, key): value for key, value in event.items()} | {"apiVersion": "events.k8s.io/v1"}


def core_event(event: Json) -> Json:
    """An events.k8s.io/v1 Event as it is stored."""
    return {_EVENT_FIELDS_BACK.get(key, key): value for key, value in event.items()} | {"apiVersion": "v1"}


_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS = f"{_PREFIX}metrics"
CURRENT_METRICS = f"{_PREFIX}current-metrics"
CONDITIONS = f"{_PREFIX}conditions"
BEHAVIOR = f"{_PREFIX}behavior"


class _Metric(TypedDict, total=False):
    """One entry of an annotation. Anybody may write an annotation: what does not fit here is not read."""

    type: str
    resource: Json | None
    containerResource: Json | None
    pods: Json | None
    object: Json | None
    external: Json | None


class _ScalingPolicy(TypedDict, total=False):
    Type: str
    Value: int
    PeriodSeconds: int


class _Direction(TypedDict, total=False):
    StabilizationWindowSeconds: int | None
    SelectPolicy: str | None
    Policies: list[_ScalingPolicy] | None
    Tolerance: str | None


class _Behavior(TypedDict, total=False):
    ScaleUp: _Direction | None
    ScaleDown: _Direction | None


_SHAPES: dict[str, Any] = {METRICS: list[_Metric], CURRENT_METRICS: list[_Metric], CONDITIONS: list[Json], BEHAVIOR: _Behavior}

Fields = tuple[tuple[str, tuple[str, ...]], ...]

_RESOURCE: Fields = (
    ("name", ("name",)),
    ("targetAverageUtilization", ("target", "averageUtilization")),
    ("targetAverageValue", ("target", "averageValue")),
)
_RESOURCE_STATUS: Fields = (
    ("name", ("name",)),
    ("currentAverageUtilization", ("current", "averageUtilization")),
    ("currentAverageValue", ("current", "averageValue")),
)

# By metric type: the field in the annotation, and where v2 keeps it.
_SPEC: dict[str, Fields] = {
    "Resource": _RESOURCE,
    "ContainerResource": (*_RESOURCE, ("container", ("container",))),
    "Pods": (
        ("metricName", ("metric", "name")),
        ("targetAverageValue", ("target", "averageValue")),
        ("selector", ("metric", "selector")),
    ),
    "Object": (
        ("target", ("describedObject",)),
        ("metricName", ("metric", "name")),
        ("targetValue", ("target", "value")),
        ("selector", ("metric", "selector")),
        ("averageValue", ("target", "averageValue")),
    ),
    "External": (
        ("metricName", ("metric", "name")),
        ("metricSelector", ("metric", "selector")),
        ("targetValue", ("target", "value")),
        ("targetAverageValue", ("target", "averageValue")),
    ),
}
_STATUS: dict[str, Fields] = {
    "Resource": _RESOURCE_STATUS,
    "ContainerResource": (*_RESOURCE_STATUS, ("container", ("container",))),
    "Pods": (
        ("metricName", ("metric", "name")),
        ("currentAverageValue", ("current", "averageValue")),
        ("selector", ("metric", "selector")),
    ),
    "Object": (
        ("target", ("describedObject",)),
        ("metricName", ("metric", "name")),
        ("currentValue", ("current", "value")),
        ("selector", ("metric", "selector")),
        ("averageValue", ("current", "averageValue")),
    ),
    "External": (
        ("metricName", ("metric", "name")),
        ("metricSelector", ("metric", "selector")),
        ("currentValue", ("current", "value")),
        ("currentAverageValue", ("current", "averageValue")),
    ),
}

# Fields that the annotation's version could not leave out.
_ALWAYS = {
    ("Object", "targetValue"),
    ("Resource", "currentAverageValue"),
    ("ContainerResource", "currentAverageValue"),
    ("Object", "currentValue"),
    ("External", "currentValue"),
}


def hpa_v1(stored: Json) -> Json:
    """An autoscaling/v2 HorizontalPodAutoscaler as autoscaling/v1 shows it."""
    spec = dict(stored.get("spec") or {})
    status = dict(stored.get("status") or {})
    metrics = spec.pop("metrics", None) or []
    current = status.pop("currentMetrics", None) or []
    conditions = status.pop("conditions", None)
    behavior = spec.pop("behavior", None)
    notes: dict[str, Any] = {
        BEHAVIOR: _capitalised_behavior(behavior) if behavior else None,
        CONDITIONS: conditions,
        CURRENT_METRICS: [_to_annotation(metric, _STATUS) for metric in current],
        METRICS: [_to_annotation(metric, _SPEC) for metric in metrics if _cpu(metric, "target") is None],
    }
    if (target := next((cpu for metric in metrics if (cpu := _cpu(metric, "target")) is not None), None)) is not None:
        spec["targetCPUUtilizationPercentage"] = target
    if (now := next((cpu for metric in current if (cpu := _cpu(metric, "current")) is not None), None)) is not None:
        status["currentCPUUtilizationPercentage"] = now
    shown = {**stored, "apiVersion": "autoscaling/v1", "spec": spec}
    if "status" in stored:
        shown["status"] = {**status, "currentReplicas": status.get("currentReplicas", 0)}
    texts = {key: msgspec.json.encode(value).decode() for key, value in notes.items() if value}
    if texts:
        metadata = stored["metadata"]
        shown["metadata"] = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **texts}}
    return shown


def hpa_v2(shown: Json) -> Json:
    """An autoscaling/v1 HorizontalPodAutoscaler as it is stored. An annotation that cannot be read is dropped."""
    spec = dict(shown.get("spec") or {})
    status = dict(shown.get("status") or {})
    metadata, notes = _without_annotations(shown.get("metadata") or {})
    target = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [_from_annotation(metric, _SPEC) for metric in notes.get(METRICS, ())]
    if target is not None:
        metrics.append(_cpu_metric("target", {"type": "Utilization", "averageUtilization": target}))
    if metrics:
        spec["metrics"] = metrics
    if BEHAVIOR in notes:
        spec["behavior"] = _plain_behavior(notes[BEHAVIOR])
    now = status.pop("currentCPUUtilizationPercentage", None)
    current = [_from_annotation(metric, _STATUS) for metric in notes.get(CURRENT_METRICS, ())]
    if not current and now is not None:
        current = [_cpu_metric("current", {"averageUtilization": now})]
    if current:
        status["currentMetrics"] = current
    if notes.get(CONDITIONS):
        status["conditions"] = notes[CONDITIONS]
    stored = {**shown, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec}
    if status or "status" in shown:
        stored["status"] = status
    return stored


def _cpu(metric: Json, side: str) -> int | None:
    """The percentage of a metric that v1 has a field for: the utilization of the resource `cpu`."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found: int | None = (resource.get(side) or {}).get("averageUtilization")
    return found


def _cpu_metric(side: str, value: Json) -> Json:
    return {"type": "Resource", "resource": {"name": "cpu", side: value}}


def _source(kind: str) -> str:
    """`ContainerResource` to `containerResource`, the field that holds that type's details."""
    return kind[:1].lower() + kind[1:]


def _to_annotation(metric: Json, tables: dict[str, Fields]) -> Json:
    kind = metric.get("type", "")
    details = metric.get(_source(kind)) or {}
    found: Json = {}
    for name, path in tables.get(kind, ()):
        value: Any = details
        for step in path:
            value = (value or {}).get(step)
        if value is not None or (kind, name) in _ALWAYS:
            found[name] = "0" if value is None else value
    return {"type": kind, _source(kind): found}


def _from_annotation(metric: Json, tables: dict[str, Fields]) -> Json:
    kind = metric.get("type", "")
    details = metric.get(_source(kind)) or {}
    found: Json = {}
    for name, path in tables.get(kind, ()):
        if name in details:
            place = found
            for step in path[:-1]:
                place = place.setdefault(step, {})
            place[path[-1]] = details[name]
    if tables is _SPEC:
        _set_target_type(found.setdefault("target", {}))
    return {"type": kind, _source(kind): found}


def _set_target_type(target: Json) -> None:
    """v2 says in words which of its numbers counts; the annotation only has the numbers."""
    if "averageUtilization" in target:
        target["type"] = "Utilization"
    elif "averageValue" in target:
        target["type"] = "AverageValue"
        target.pop("value", None)  # the zero that the annotation could not leave out
    else:
        target["type"] = "Value"


def _without_annotations(metadata: Json) -> tuple[Json, dict[str, Any]]:
    """The metadata as it is stored, and what the annotations held."""
    annotations = metadata.get("annotations") or {}
    notes: dict[str, Any] = {}
    for key, shape in _SHAPES.items():
        try:
            if key in annotations:
                notes[key] = msgspec.json.decode(annotations[key], type=shape)
        except msgspec.DecodeError:
            continue
    kept = {key: value for key, value in annotations.items() if key not in _SHAPES}
    if kept == annotations:
        return metadata, notes
    bare = {key: value for key, value in metadata.items() if key != "annotations"}
    return (bare | {"annotations": kept} if kept else bare), notes


_DIRECTION = {
    "StabilizationWindowSeconds": "stabilizationWindowSeconds",
    "SelectPolicy": "selectPolicy",
    "Policies": "policies",
    "Tolerance": "tolerance",
}
_POLICY = {"Type": "type", "Value": "value", "PeriodSeconds": "periodSeconds"}


def _capitalised_behavior(behavior: Json) -> Json:
    """The annotation has Go's own field names, and `null` for what is absent."""
    return {name: _capitalised_direction(behavior.get(_source(name))) for name in ("ScaleUp", "ScaleDown")}


def _capitalised_direction(direction: Json | None) -> Json | None:
    if direction is None:
        return None
    found = {name: direction.get(field) for name, field in _DIRECTION.items()}
    if found["Policies"] is not None:
        found["Policies"] = [{name: policy.get(field) for name, field in _POLICY.items()} for policy in found["Policies"]]
    return found


def _plain_behavior(annotation: Json) -> Json:
    found: Json = {}
    for name in ("ScaleUp", "ScaleDown"):
        if isinstance(direction := annotation.get(name), dict):
            plain = {field: direction[key] for key, field in _DIRECTION.items() if direction.get(key) is not None}
            if "policies" in plain:
                plain["policies"] = [
                    {field: policy[key] for key, field in _POLICY.items() if key in policy} for policy in plain["policies"]
                ]
            found[_source(name)] = plain
    return found
