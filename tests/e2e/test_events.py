"""Events as people meet them: in `kubectl describe` and `kubectl events`, counted and not repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.kinds import Kind, Meta, Object

from .api import Api
from .kinds import configmap
from .kubectl import Kubectl

MAPS = Kind("", "v1", "ConfigMap", "configmaps", Object, whole=False, status=False)
NAMESPACES = Kind("", "v1", "Namespace", "namespaces", Object, namespaced=False, whole=False)
FILLED = Reason("MapFilled", action="Fill")
DENIED = Reason("MapDenied", type="Warning")


@pytest.fixture
def kubectl(api: Api, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(api.plane, namespace=namespace, home=tmp_path)


def record(api: Api, say: Callable[[Recorder], None]) -> None:
    """One process's life: it says something and stops."""

    async def main() -> None:
        async with (
            Client(Config.load(api.plane.kubeconfig)) as client,
            Recorder(client, "ullage.io/e2e", instance="here_1") as recorder,
        ):
            say(recorder)

    asyncio.run(main())


def map_of(api: Api, namespace: str) -> Object:
    made = api.create(f"/api/v1/namespaces/{namespace}/configmaps", configmap("m"))
    return Object(metadata=Meta(name="m", namespace=namespace, uid=made["metadata"]["uid"]))


def test_describe_and_events_show_what_happened(api: Api, namespace: str, kubectl: Kubectl) -> None:
    obj = map_of(api, namespace)

    def say(recorder: Recorder) -> None:
        recorder.record(MAPS, obj, FILLED, note="filled to 80 %")
        for _ in range(7):
            recorder.record(MAPS, obj, DENIED, note="over the limit by 1Gi; try `ullage prune`")

    record(api, say)
    described = " ".join(kubectl("describe", "configmap", "m").out.split())
    assert "Normal MapFilled" in described
    assert "ullage.io/e2e filled to 80 %" in described
    assert "Warning MapDenied" in described
    assert "(x7 over" in described
    listed = kubectl("events", "--for", "configmap/m").out
    assert listed.count("MapDenied") == 1
    assert "over the limit by 1Gi; try `ullage prune`" in listed


def test_a_later_process_counts_on(api: Api, namespace: str, kubectl: Kubectl) -> None:
    obj = map_of(api, namespace)
    for _ in range(3):
        record(api, lambda recorder: recorder.record(MAPS, obj, DENIED, note="no"))
    [event] = kubectl("get", "events.events.k8s.io", "-o", "json").json["items"]
    assert (event["reason"], event["series"]["count"]) == ("MapDenied", 3)


def test_an_event_on_a_cluster_wide_object(api: Api, namespace: str, kubectl: Kubectl) -> None:
    found = api.get(f"/api/v1/namespaces/{namespace}").obj["metadata"]
    whole = Object(metadata=Meta(name=namespace, uid=found["uid"]))
    record(api, lambda recorder: recorder.record(NAMESPACES, whole, DENIED, note="no room"))
    events = kubectl("get", "events", "-n", "default", "-o", "json").json["items"]
    [event] = [one for one in events if one["involvedObject"]["name"] == namespace]
    assert (event["message"], event["source"]) == ("no room", {})
    kubectl("delete", "event", event["metadata"]["name"], "-n", "default")


def test_an_event_in_a_namespace_that_is_gone_harms_nobody(api: Api) -> None:
    obj = Object(metadata=Meta(name="m", namespace="never-there", uid="1"))
    record(api, lambda recorder: recorder.record(MAPS, obj, DENIED, note="no"))
