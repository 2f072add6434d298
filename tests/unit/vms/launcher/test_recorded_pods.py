"""The formula beside the pods that KubeVirt itself rendered: every shape, in every recorded version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ullage.pods.resources import Amounts
from ullage.quantity import Quantity
from ullage.vms.api.kubevirts import KubeVirtConfiguration
from ullage.vms.launcher.pod import LauncherPod, launcher_pod
from ullage.vms.launcher.settings import NamespaceRules, settings_of
from ullage.vms.launcher.versions import numbers_of

Json = dict[str, Any]
RECORDED = Path(__file__).parents[1] / "kubevirt_pods"
# The names of both files, and the version that rendered the second from the first.
RECORDINGS = [
    pytest.param(
        cases, pods.name, pods.stem.rpartition("_")[2], id=f"{cases.removesuffix('.jsonl')} {pods.stem.rpartition('_')[2]}"
    )
    for cases, pattern in (("cases.jsonl", "pods_*.jsonl"), ("more_cases.jsonl", "more_pods_*.jsonl"))
    for pods in sorted(RECORDED.glob(pattern))
]
QUOTA = {"limits.cpu": "100", "limits.memory": "100Gi"}
# Resources of the device plugin that KubeVirt brings: no limit of ours is on them.
PLUGINS = "devices.kubevirt.io/"


@cache
def lines(name: str) -> list[Json]:
    return [json.loads(line) for line in (RECORDED / name).read_text().splitlines()]


def pod_of(case: Json, version: str) -> LauncherPod:
    settings = settings_of(
        msgspec.convert(case["config"], KubeVirtConfiguration), numbers_of(version, where="the name of the file")
    )
    rules = NamespaceRules.of([QUOTA] if case["quota"] else [], case.get("namespaceLabels", {}))
    return launcher_pod(case["spec"], settings, rules, case.get("annotations"))


def counted(amounts: Amounts) -> dict[str, int]:
    """CPU in thousandths, all else in whole units."""
    return {name: one.milli() if name == "cpu" else one.value() for name, one in amounts.items()}


def recorded(amounts: Mapping[str, str]) -> dict[str, int]:
    return {name: int(text) for name, text in amounts.items() if not name.startswith(PLUGINS)}


def parsed(amounts: Mapping[str, str] | None) -> Amounts:
    return {name: Quantity.parse(text) for name, text in (amounts or {}).items() if not name.startswith(PLUGINS)}


def differences(cases: str, pods: str, version: str) -> Iterator[str]:
    for case, rendered in zip(lines(cases), lines(pods), strict=True):
        assert case["name"] == rendered["name"]
        pod = pod_of(case, version)
        plugins = sum(one.memory for one in pod.parts if one.name == "network bindings")  # which KubeVirt adds elsewhere
        pairs = {
            "limits": (counted(pod.limits), recorded(rendered["limits"])),
            "requests": (counted(pod.rendered_requests), recorded(rendered["requests"])),
            "containers": (
                {one.name: one.limits for one in pod.containers},
                {name: parsed(found) for name, found in rendered["each"].items()},
            ),
            "overhead": (pod.overhead - plugins, int(rendered["overhead"])),
        }
        for what, (ours, theirs) in pairs.items():
            if ours != theirs:
                yield f"{case['name']}, quota {case['quota']}: {what} {ours}, and KubeVirt has {theirs}"


@pytest.mark.parametrize(("cases", "pods", "version"), RECORDINGS)
def test_every_pod_is_as_kubevirt_renders_it(cases: str, pods: str, version: str) -> None:
    assert list(differences(cases, pods, version)) == []


@pytest.mark.parametrize(("cases", "pods", "version"), RECORDINGS)
def test_the_parts_add_up_to_what_a_pod_may_use(cases: str, pods: str, version: str) -> None:
    for case in lines(cases):
        pod = pod_of(case, version)
        bounds = counted(pod.bounds)
        found = sum(one.memory for one in pod.parts), sum(one.cpu for one in pod.parts)
        assert found == (bounds["memory"], bounds["cpu"]), case["name"]


@pytest.mark.parametrize(("cases", "pods", "version"), RECORDINGS)
def test_nothing_is_charged_below_what_a_quota_counts(cases: str, pods: str, version: str) -> None:
    """Where `compute` has limits the charge is what a core ResourceQuota counts; without limits it is all that may be used."""
    for case in lines(cases):
        pod = pod_of(case, version)
        limits, requests, bounds = counted(pod.limits), counted(pod.requests), counted(pod.bounds)
        compute = next(one for one in pod.containers if one.name == "compute")
        for name in ("cpu", "memory"):
            assert bounds[name] >= max(limits.get(name, 0), requests[name]), case["name"]
            if name in compute.limits:
                assert bounds[name] == limits[name], case["name"]


def test_recordings_are_there_and_every_shape_is_there_at_a_ratio_of_1_5() -> None:
    assert {"pods_v1.4.0.jsonl", "pods_v1.6.0.jsonl", "more_pods_v1.6.0.jsonl"} <= {str(one.values[1]) for one in RECORDINGS}
    shapes = {one["name"] for one in lines("cases.jsonl") if "additionalGuestMemoryOverheadRatio" not in one["config"]}
    more = {one["name"] for one in lines("more_cases.jsonl")}
    own = {name for name in more if name.removesuffix(", ratio 1.5") not in shapes}
    assert {f"{name}, ratio 1.5" for name in shapes} <= more
    assert len(own) >= 2 * len(shapes), "as many again, at both ratios"
