"""Which bounds of a LimitRange an object does not keep, in the words of kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.admission.quotas.limit_ranges import claim_faults, pod_faults

Json = dict[str, Any]


def ranges(type: str, **limit: Json) -> list[Json]:
    return [{"spec": {"limits": [{"type": type, **limit}]}}]


def pod(requests: Json | None = None, limits: Json | None = None) -> Json:
    resources = {side: said for side, said in (("requests", requests), ("limits", limits)) if said}
    return {"spec": {"containers": [{"name": "c", "resources": resources}]}}


@pytest.mark.parametrize("type", ["Container", "Pod"])
@pytest.mark.parametrize(
    ("limit", "asked", "said"),
    [
        pytest.param({"min": {"cpu": "1"}}, pod({"cpu": "1"}, {"cpu": "1"}), "", id="the least is enough"),
        pytest.param(
            {"min": {"cpu": "1"}}, pod(), "minimum cpu usage per TYPE is 1.  No request is specified", id="no request"
        ),
        pytest.param(
            {"min": {"cpu": "1"}}, pod({"cpu": "500m"}), "minimum cpu usage per TYPE is 1, but request is 500m", id="too little"
        ),
        pytest.param(
            {"min": {"cpu": "1"}},
            pod({"cpu": "1"}, {"cpu": "900m"}),
            "minimum cpu usage per TYPE is 1, but limit is 900m",
            id="a limit that is too low",
        ),
        pytest.param({"max": {"cpu": "1"}}, pod({"cpu": "1"}, {"cpu": "1"}), "", id="the most is allowed"),
        pytest.param(
            {"max": {"cpu": "1"}}, pod({"cpu": "1"}), "maximum cpu usage per TYPE is 1.  No limit is specified", id="no limit"
        ),
        pytest.param(
            {"max": {"cpu": "1"}},
            pod({"cpu": "3"}, {"cpu": "2"}),
            "maximum cpu usage per TYPE is 1, but limit is 2",
            id="of both that are too much the limit is told",
        ),
        pytest.param(
            {"max": {"cpu": "1"}},
            pod({"cpu": "2"}, {"cpu": "1"}),
            "maximum cpu usage per TYPE is 1, but request is 2",
            id="a request that is too much",
        ),
    ],
)
def test_pods(type: str, limit: Json, asked: Json, said: str) -> None:
    assert pod_faults(asked, ranges(type, **limit)) == ([said.replace("TYPE", type)] if said else [])


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        pytest.param({"min": {"storage": "2Gi"}}, [], id="the least is enough"),
        pytest.param({"max": {"storage": "2Gi"}}, [], id="the most is allowed"),
        pytest.param(
            {"min": {"storage": "3Gi"}},
            ["minimum storage usage per PersistentVolumeClaim is 3Gi, but request is 2Gi"],
            id="too little",
        ),
        pytest.param(
            {"max": {"storage": "1Gi"}},
            ["maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"],
            id="too much",
        ),
        pytest.param(
            {"max": {"other": "1"}},
            ["maximum other usage per PersistentVolumeClaim is 1.  No request is specified"],
            id="nothing asked of what has a bound",
        ),
    ],
)
def test_claims(limit: Json, said: list[str]) -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert claim_faults(claim, ranges("PersistentVolumeClaim", **limit)) == said


def test_ranges_of_other_types_are_not_about_it() -> None:
    assert pod_faults(pod(), ranges("PersistentVolumeClaim", min={"cpu": "1"})) == []
    assert claim_faults({"spec": {}}, ranges("Container", min={"storage": "1"})) == []
