"""What a pod asks for: sums beside each other, the largest of what runs one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.admission.quotas.pods import is_best_effort, total

Json = dict[str, Any]


def asks(cpu: str, **more: Any) -> Json:
    return {"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}, **more}


STAYS = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "requests", "limits"),
    [
        pytest.param({"containers": [{}]}, "", "", id="nothing"),
        pytest.param({"containers": [asks("1"), asks("500m")]}, "1500m", "1500m", id="containers run beside each other"),
        pytest.param(
            {"containers": [asks("1")], "initContainers": [asks("3"), asks("2")]},
            "3",
            "3",
            id="init containers run one after the other, before them",
        ),
        pytest.param(
            {"containers": [asks("2")], "initContainers": [asks("1")]}, "2", "2", id="and are forgotten where they are smaller"
        ),
        pytest.param(
            {"containers": [asks("1")], "initContainers": [asks("1", **STAYS)]}, "2", "2", id="one that stays is added"
        ),
        pytest.param(
            {"containers": [asks("1")], "initContainers": [asks("1", **STAYS), asks("3")]},
            "4",
            "4",
            id="what starts after it runs beside it",
        ),
        pytest.param(
            {"containers": [asks("1")], "initContainers": [asks("3"), asks("1", **STAYS)]},
            "3",
            "3",
            id="what has ended before it starts does not",
        ),
        pytest.param(
            {"containers": [asks("1")], "resources": {"requests": {"cpu": "5"}}}, "5", "1", id="the pod says it as a whole"
        ),
        pytest.param({"containers": [asks("1")], "overhead": {"cpu": "250m"}}, "1250m", "1250m", id="overhead is on top"),
        pytest.param({"containers": [{}], "overhead": {"cpu": "250m"}}, "250m", "", id="overhead alone is no limit"),
    ],
)
def test_total(spec: Json, requests: str, limits: str) -> None:
    found = [total({"spec": spec}, side).get("cpu") for side in ("requests", "limits")]
    assert [str(one) if one is not None else "" for one in found] == [requests, limits]


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param({}, True, id="nothing is said"),
        pytest.param({"resources": {"requests": {"cpu": "0"}}}, True, id="nothing is asked for"),
        pytest.param({"resources": {"requests": {"ephemeral-storage": "1Gi"}}}, True, id="only the disk"),
        pytest.param({"resources": {"limits": {"memory": "1Mi"}}}, False, id="a limit"),
    ],
)
def test_best_effort(container: Json, expected: bool) -> None:
    assert is_best_effort({"spec": {"containers": [container]}}) is expected
