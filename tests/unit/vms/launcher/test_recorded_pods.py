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
VERSIONS = sorted(path.stem.removeprefix("pods_") for path in RECORDED.glob("pods_*.jsonl"))
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


def differences(version: str) -> Iterator[str]:
    for case, rendered in zip(lines("cases.jsonl"), lines(f"pods_{version}.jsonl"), strict=True):
        assert case["name"] == rendered["name"]
        pod = pod_of(case, version)
        pairs = {
            "limits": (counted(pod.limits), recorded(rendered["limits"])),
            "requests": (counted(pod.rendered_requests), recorded(rendered["requests"])),
            "containers": (
                {one.name: one.limits for one in pod.containers},
                {name: parsed(found) for name, found in rendered["each"].items()},
            ),
            "overhead": (pod.overhead, int(rendered["overhead"])),
        }
        for what, (ours, theirs) in pairs.items():
            if ours != theirs:
                yield f"{case['name']}, quota {case['quota']}: {what} {ours}, and KubeVirt has {theirs}"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_pod_is_as_kubevirt_renders_it(version: str) -> None:
    assert list(differences(version)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_parts_add_up_to_what_a_pod_may_use(version: str) -> None:
    for case in lines("cases.jsonl"):
        pod = pod_of(case, version)
        bounds = counted(pod.bounds)
        found = sum(one.memory for one in pod.parts), sum(one.cpu for one in pod.parts)
        assert found == (bounds["memory"], bounds["cpu"]), case["name"]


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_charged_below_what_a_quota_counts(version: str) -> None:
    """Where `compute` has limits the charge is what a core ResourceQuota counts; without limits it is all that may be used."""
    for case in lines("cases.jsonl"):
        pod = pod_of(case, version)
        limits, requests, bounds = counted(pod.limits), counted(pod.requests), counted(pod.bounds)
        compute = next(one for one in pod.containers if one.name == "compute")
        for name in ("cpu", "memory"):
            assert bounds[name] >= max(limits.get(name, 0), requests[name]), case["name"]
            if name in compute.limits:
                assert bounds[name] == limits[name], case["name"]


def test_recorded_versions_are_there() -> None:
    assert {"v1.4.0", "v1.6.0"} <= set(VERSIONS)
