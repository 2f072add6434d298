"""Templates that KubeVirt's own code has made with instance types and preferences: ours have the same pods. See README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from ullage.errors import BadInput
from ullage.kube.kinds import without_nulls
from ullage.vms.api.instance_types import InstanceTypeSpec, PreferenceSpec
from ullage.vms.api.kubevirts import KubeVirtConfiguration
from ullage.vms.instance_types.expansion import expanded
from ullage.vms.launcher.pod import LauncherPod, launcher_pod
from ullage.vms.launcher.settings import NamespaceRules, settings_of
from ullage.vms.launcher.versions import numbers_of

Json = dict[str, Any]
HERE: Final = Path(__file__).parent
VERSION: Final = "v1.6.0"
SETTINGS: Final = settings_of(KubeVirtConfiguration(), numbers_of(VERSION, where="test"))
WITH_QUOTA: Final = NamespaceRules(limits_cpu=True, limits_memory=True)


def lines(name: str) -> list[Json]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


CASES: Final = list(zip(lines("cases.jsonl"), lines(f"templates_{VERSION}.jsonl"), strict=True))


def ours(case: Json) -> Json:
    kind, preference = case["instancetype"], case["preference"]
    made = expanded(
        {"spec": {"template": case["template"]}},
        msgspec.convert(kind, InstanceTypeSpec) if kind is not None else None,
        msgspec.convert(preference, PreferenceSpec) if preference is not None else None,
    )
    found: Json = made["spec"]["template"]
    return found


def pod_of(template: Json) -> LauncherPod:
    annotations = template.get("metadata", {}).get("annotations") or {}
    return launcher_pod(without_nulls(template["spec"]), SETTINGS, WITH_QUOTA, annotations)


@pytest.mark.parametrize(("case", "real"), [pytest.param(case, real, id=case["name"]) for case, real in CASES])
def test_the_pod_is_the_one_of_kubevirts_template(case: Json, real: Json) -> None:
    assert real["name"] == case["name"]
    if "1 vCPUs" in real.get("refused", ""):  # refused by its webhook, and run by its controller
        cpu = ours(case)["spec"]["domain"]["cpu"]
        assert (cpu["sockets"], cpu["cores"], cpu["threads"]) == (1, 1, 1)
        return
    if "divisible" in real.get("refused", ""):
        with pytest.raises(BadInput, match=r"vCPUs cannot be divided by"):
            ours(case)
        return
    if real.get("refused"):  # what the template says, too: KubeVirt's webhook refuses it, and so does its controller
        ours(case)
        return
    made, wanted = pod_of(ours(case)), pod_of(real["template"])
    assert (made.limits, made.requests) == (wanted.limits, wanted.requests)


def test_the_cases_have_every_kind_of_answer() -> None:
    refused = [real.get("refused", "") for _, real in CASES]
    spread = sum("divisible" in one for one in refused)
    assert spread > 5
    assert sum(bool(one) for one in refused) > spread + 20
    pods = {str(pod_of(real["template"]).limits) for _, real in CASES if not real.get("refused")}
    assert len(pods) > 30
