"""Event and HorizontalPodAutoscaler between their two versions. The expected objects are what kube-apiserver 1.36 answered."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ullage.standalone.apiserver.kinds import conversion

Json = dict[str, Any]

CORE_EVENT: Json = {
    "kind": "Event",
    "apiVersion": "v1",
    "metadata": {"name": "e1", "namespace": "demo"},
    "involvedObject": {"kind": "Pod", "namespace": "demo", "name": "p"},
    "reason": "R",
    "message": "hello",
    "source": {"component": "c", "host": "h"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-02T00:00:00Z",
    "count": 3,
    "type": "Normal",
    "eventTime": None,
    "action": "A",
    "related": {"kind": "X", "name": "n"},
    "reportingComponent": "rc",
    "reportingInstance": "ri",
}
NEW_EVENT: Json = {
    "kind": "Event",
    "apiVersion": "events.k8s.io/v1",
    "metadata": {"name": "e1", "namespace": "demo"},
    "eventTime": None,
    "reportingController": "rc",
    "reportingInstance": "ri",
    "action": "A",
    "reason": "R",
    "regarding": {"kind": "Pod", "namespace": "demo", "name": "p"},
    "related": {"kind": "X", "name": "n"},
    "note": "hello",
    "type": "Normal",
    "deprecatedSource": {"component": "c", "host": "h"},
    "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
    "deprecatedLastTimestamp": "2026-01-02T00:00:00Z",
    "deprecatedCount": 3,
}


def test_a_core_event_shows_in_the_newer_group() -> None:
    assert conversion.new_event(CORE_EVENT) == NEW_EVENT


def test_a_newer_event_is_stored_as_a_core_one() -> None:
    assert conversion.core_event(NEW_EVENT) == CORE_EVENT


CPU: Json = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}
MEMORY: Json = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
PODS: Json = {
    "type": "Pods",
    "pods": {
        "metric": {"name": "pp", "selector": {"matchLabels": {"x": "y"}}},
        "target": {"type": "AverageValue", "averageValue": "10"},
    },
}
SERVICE = {"kind": "Service", "name": "s", "apiVersion": "v1"}
OBJECT: Json = {
    "type": "Object",
    "object": {"describedObject": SERVICE, "metric": {"name": "oo"}, "target": {"type": "Value", "value": "10"}},
}
OBJECT_AVERAGE: Json = {
    "type": "Object",
    "object": {"describedObject": SERVICE, "metric": {"name": "oo"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
EXTERNAL: Json = {
    "type": "External",
    "external": {"metric": {"name": "ee"}, "target": {"type": "AverageValue", "averageValue": "30"}},
}
CONTAINER: Json = {
    "type": "ContainerResource",
    "containerResource": {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 61}},
}
BEHAVIOR: Json = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
        "tolerance": "50m",
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
}


def stored(*metrics: Json, status: Json | None = None, **spec: Any) -> Json:
    found: Json = {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "h", "namespace": "demo", "annotations": {"a": "b"}},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 2, "maxReplicas": 5, **spec},
    }
    if metrics:
        found["spec"]["metrics"] = list(metrics)
    if status is not None:
        found["status"] = status
    return found


def note(shown: Json, key: str) -> Any:
    """What an annotation of the v1 object holds, as JSON."""
    return json.loads(shown["metadata"]["annotations"][f"autoscaling.alpha.kubernetes.io/{key}"])


def test_the_use_of_cpu_is_a_field_of_the_first_version() -> None:
    shown = conversion.hpa_v1(stored(CPU))
    assert shown["apiVersion"] == "autoscaling/v1"
    assert shown["spec"]["targetCPUUtilizationPercentage"] == 60
    assert "metrics" not in shown["spec"]
    assert shown["metadata"]["annotations"] == {"a": "b"}


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        pytest.param(MEMORY, '{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}', id="a resource"),
        pytest.param(
            PODS,
            '{"type":"Pods","pods":{"metricName":"pp","targetAverageValue":"10","selector":{"matchLabels":{"x":"y"}}}}',
            id="a metric of pods",
        ),
        pytest.param(
            OBJECT,
            '{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"oo",'
            '"targetValue":"10"}}',
            id="a metric of an object",
        ),
        pytest.param(
            OBJECT_AVERAGE,
            '{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"oo",'
            '"targetValue":"0","averageValue":"10"}}',
            id="an object's average, beside a zero that cannot be left out",
        ),
        pytest.param(
            EXTERNAL, '{"type":"External","external":{"metricName":"ee","targetAverageValue":"30"}}', id="an external metric"
        ),
        pytest.param(
            CONTAINER,
            '{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":61,"container":"app"}}',
            id="a container's resource",
        ),
    ],
)
def test_other_metrics_stand_in_an_annotation(metric: Json, text: str) -> None:
    shown = conversion.hpa_v1(stored(metric))
    assert shown["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] == f"[{text}]"
    assert conversion.hpa_v2(shown) == stored(metric)


def test_behavior_stands_in_an_annotation_with_capital_names_and_nulls() -> None:
    shown = conversion.hpa_v1(stored(CPU, behavior=BEHAVIOR))
    assert shown["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"] == (
        '{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max",'
        '"Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":"50m"},'
        '"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max",'
        '"Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}'
    )
    assert conversion.hpa_v2(shown) == stored(CPU, behavior=BEHAVIOR)


CURRENT: Json = {
    "observedGeneration": 1,
    "currentReplicas": 2,
    "desiredReplicas": 3,
    "currentMetrics": [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 55, "averageValue": "100m"}}},
        {"type": "Pods", "pods": {"metric": {"name": "pp"}, "current": {"averageValue": "10"}}},
    ],
    "conditions": [{"type": "AbleToScale", "status": "True", "reason": "r", "message": "m"}],
}


def test_status_keeps_its_numbers_and_puts_the_rest_into_annotations() -> None:
    shown = conversion.hpa_v1(stored(CPU, status=CURRENT))
    assert shown["status"] == {
        "observedGeneration": 1,
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "currentCPUUtilizationPercentage": 55,
    }
    assert note(shown, "conditions") == CURRENT["conditions"]
    assert [metric["type"] for metric in note(shown, "current-metrics")] == ["Resource", "Pods"]
    assert conversion.hpa_v2(shown) == stored(CPU, status=CURRENT)


def test_everything_at_once_comes_back_with_cpu_last() -> None:
    everything = stored(MEMORY, CPU, PODS, OBJECT, EXTERNAL, CONTAINER, status=CURRENT, behavior=BEHAVIOR)
    expected = stored(MEMORY, PODS, OBJECT, EXTERNAL, CONTAINER, CPU, status=CURRENT, behavior=BEHAVIOR)
    assert conversion.hpa_v2(conversion.hpa_v1(everything)) == expected


def test_of_two_goals_for_cpu_the_first_shows() -> None:
    second = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
    assert conversion.hpa_v1(stored(CPU, second))["spec"]["targetCPUUtilizationPercentage"] == 60


def test_a_status_written_in_the_first_version_becomes_a_metric() -> None:
    shown = conversion.hpa_v1(stored(CPU))
    shown["status"] = {"currentReplicas": 1, "desiredReplicas": 1, "currentCPUUtilizationPercentage": 33}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 33}}}
    assert conversion.hpa_v2(shown)["status"] == {"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": [cpu]}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("metrics", "[{bad", id="not JSON"),
        pytest.param("metrics", '{"type":"Resource"}', id="an object where a list belongs"),
        pytest.param("behavior", "[]", id="a list where an object belongs"),
        pytest.param("conditions", "[1]", id="a list of numbers"),
        pytest.param("metrics", '[{"type":5}]', id="a metric whose type is a number"),
        pytest.param("current-metrics", '[{"type":"Pods","pods":"x"}]', id="a metric whose details are text"),
        pytest.param("behavior", '{"ScaleUp":{"Policies":5}}', id="a number of policies"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_dropped(key: str, text: str) -> None:
    shown = conversion.hpa_v1(stored(CPU))
    shown["metadata"]["annotations"] = {"a": "b", f"autoscaling.alpha.kubernetes.io/{key}": text}
    assert conversion.hpa_v2(shown) == stored(CPU)


def test_conversion_leaves_its_argument_alone() -> None:
    everything = stored(MEMORY, CPU, status=CURRENT, behavior=BEHAVIOR)
    kept = copy.deepcopy(everything)
    shown = conversion.hpa_v1(everything)
    kept_shown = copy.deepcopy(shown)
    conversion.hpa_v2(shown)
    assert (everything, shown) == (kept, kept_shown)
