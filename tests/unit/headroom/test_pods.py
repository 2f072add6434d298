"""What a pod takes, and which pods are somebody else's to pay."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.headroom.builders import TEAM, made
from ullage.headroom.pods import pod_takes
from ullage.kube.builtin.watched_pods import WATCHED_PODS
from ullage.ledger.charging.stamps import STAMP

Json = dict[str, Any]
LAUNCHER = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "db", "uid": "u", "controller": True}


def container(*, limits: Json | None = None, requests: Json | None = None, **more: Any) -> Json:
    resources = {key: value for key, value in (("limits", limits), ("requests", requests)) if value}
    return {"name": "one", "resources": resources, **more}


ONE = container(limits={"cpu": "1", "memory": "1Gi"})


def takes(*containers: Json, phase: str = "Running", meta: Json | None = None, **spec: Any) -> Json:
    body = {
        "metadata": {"name": "web", "namespace": TEAM, **(meta or {})},
        "spec": {"containers": list(containers), **spec},
        "status": {"phase": phase},
    }
    return dict(pod_takes(made(WATCHED_PODS, body)).written().get("compute/vms", {}))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(takes(ONE, ONE), {"cpu": "2", "memory": "2Gi"}, id="the limits of its containers"),
        pytest.param(takes(container(requests={"cpu": "500m"})), {"cpu": "500m"}, id="what it asks for where it has no limit"),
        pytest.param(
            takes(ONE, container(requests={"cpu": "2", "memory": "1Mi"}, limits={"memory": "4Mi"})),
            {"cpu": "3", "memory": "1028Mi"},
            id="each container by its own",
        ),
        pytest.param(takes(container()), {}, id="one that says nothing takes nothing"),
        pytest.param(
            takes(ONE, initContainers=[container(limits={"cpu": "3"}), container(limits={"cpu": "1"}, restartPolicy="Always")]),
            {"cpu": "3", "memory": "1Gi"},
            id="init containers and sidecars as a quota counts them",
        ),
        pytest.param(
            takes(ONE, overhead={"cpu": "250m", "memory": "64Mi"}), {"cpu": "1250m", "memory": "1088Mi"}, id="overhead on top"
        ),
        pytest.param(takes(ONE, resources={"limits": {"cpu": "4"}}), {"cpu": "4", "memory": "1Gi"}, id="the pod's own limit"),
        pytest.param(
            takes(ONE, resources={"requests": {"cpu": "1m"}}),
            {"cpu": "1", "memory": "1Gi"},
            id="what the pod asks for as a whole does not hide what its containers may use",
        ),
        pytest.param(
            takes(ONE, ephemeralContainers=[container(limits={"cpu": "8"})]),
            {"cpu": "1", "memory": "1Gi"},
            id="ephemeral containers take nothing",
        ),
        pytest.param(takes(container(limits={"cpu": 2, "memory": 1024})), {"cpu": "2", "memory": "1024"}, id="numbers"),
        pytest.param(takes(ONE, phase=""), {"cpu": "1", "memory": "1Gi"}, id="one that nobody has looked at yet"),
        pytest.param(takes(ONE, phase="Succeeded"), {}, id="one that has ended"),
        pytest.param(takes(ONE, phase="Failed"), {}, id="one that has failed"),
    ],
)
def test_what_a_pod_takes(found: Json, expected: Json) -> None:
    assert found == expected


@pytest.mark.parametrize(
    ("meta", "free"),
    [
        pytest.param({"annotations": {STAMP: "{}"}, "ownerReferences": [LAUNCHER]}, True, id="marked, and of an instance"),
        pytest.param({"annotations": {STAMP: "{}"}}, False, id="marked, and its instance is gone from it"),
        pytest.param({"ownerReferences": [LAUNCHER]}, False, id="of an instance, and not marked"),
        pytest.param(
            {"annotations": {STAMP: "{}"}, "ownerReferences": [{**LAUNCHER, "controller": False}]}, False, id="not controlled"
        ),
        pytest.param(
            {"annotations": {STAMP: "{}"}, "ownerReferences": [{**LAUNCHER, "apiVersion": "example.com/v1"}]},
            False,
            id="a kind of that name in another group",
        ),
        pytest.param(
            {"annotations": {STAMP: '{"compute/vms":{"cpu":"1m"}}'}, "ownerReferences": [LAUNCHER]}, False, id="another stamp"
        ),
    ],
)
def test_which_pods_are_paid_for(meta: Json, free: bool) -> None:
    assert takes(ONE, meta=meta) == ({} if free else {"cpu": "1", "memory": "1Gi"})
