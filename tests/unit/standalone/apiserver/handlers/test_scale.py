"""The scale subresource: a Scale stands for its object, and changes nothing but its replicas."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.standalone.apiserver.served_kinds import builtins
from ullage.standalone.apiserver.handlers.scale import check_scale, replicas_path, scale_of, scaled, with_replica_faults
from ullage.standalone.apiserver.kinds.resources import Resource, Subresource
from ullage.standalone.apiserver.status import ApiError

Json = dict[str, Any]

DEPLOYMENTS = next(resource for resource in builtins() if resource.plural == "deployments")
CONTROLLERS = next(resource for resource in builtins() if resource.plural == "replicationcontrollers")
PATHS = {"specReplicasPath": ".spec.pool.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}
POOLS = Resource(
    "example.com",
    "v1",
    "pools",
    "pool",
    "Pool",
    namespaced=True,
    subresources={"scale": Subresource("scale", "Scale", ("get", "update", "patch"))},
    custom={"versions": [{"name": "v1", "subresources": {"scale": PATHS}}]},
)
META = {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"}}


def deployment(replicas: int = 2) -> Json:
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    return {"metadata": META, "spec": {"replicas": replicas, "selector": selector, "paused": True}, "status": {"replicas": 1}}


def test_a_scale_shows_replicas_and_selector() -> None:
    assert scale_of(DEPLOYMENTS, deployment()) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "x", "namespace": "n", "uid": "u", "resourceVersion": "5"},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "app=web,tier"},
    }


def test_the_selector_of_a_replication_controller_is_a_plain_map() -> None:
    found = scale_of(CONTROLLERS, {"metadata": META, "spec": {"replicas": 0, "selector": {"app": "web"}}})
    assert (found["spec"], found["status"]) == ({}, {"replicas": 0, "selector": "app=web"})


def test_custom_kinds_say_where_their_replicas_are() -> None:
    obj = {"metadata": META, "spec": {"pool": {"size": 4}}, "status": {"size": 3, "selector": "a=b"}}
    assert replicas_path(POOLS) == ("spec", "pool", "size")
    found = scale_of(POOLS, obj)
    assert (found["spec"], found["status"]) == ({"replicas": 4}, {"replicas": 3, "selector": "a=b"})


def test_scaling_changes_the_replicas_and_leaves_the_original() -> None:
    live = deployment()
    new = scaled(DEPLOYMENTS, live, {"metadata": {"name": "x"}, "spec": {"replicas": 7}})
    assert new["spec"] == live["spec"] | {"replicas": 7}
    assert live["spec"]["replicas"] == 2


def test_scaling_makes_the_path_where_there_is_none() -> None:
    new = scaled(POOLS, {"metadata": META}, {"metadata": {"name": "x"}, "spec": {"replicas": 7}})
    assert new["spec"] == {"pool": {"size": 7}}


@pytest.mark.parametrize("key", ["resourceVersion", "uid"])
def test_what_the_scale_insists_on_is_handed_on(key: str) -> None:
    new = scaled(DEPLOYMENTS, deployment(), {"metadata": {"name": "x", key: "other"}, "spec": {}})
    assert new["metadata"][key] == "other"


def test_negative_replicas_are_refused() -> None:
    with pytest.raises(ApiError) as caught:
        scaled(DEPLOYMENTS, deployment(), {"metadata": {"name": "x"}, "spec": {"replicas": -1}})
    assert caught.value.code == 422


@pytest.mark.parametrize(
    ("scale", "code"),
    [
        pytest.param({"spec": {}}, 400, id="no metadata"),
        pytest.param({"metadata": None}, 400, id="metadata that is null"),
        pytest.param({"metadata": {"name": "y"}}, 400, id="another name"),
        pytest.param([], 422, id="a list, out of a patch"),
    ],
)
def test_a_scale_has_to_name_its_object(scale: object, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        check_scale(scale, "x")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        ({"pool": {"size": 1}}, 0),
        ({}, 0),
        ({"pool": {"size": -1}}, 1),
        ({"pool": [1]}, 1),
    ],
)
def test_replicas_of_a_custom_kind_are_checked_with_its_objects(spec: Json, faults: int) -> None:
    assert len(with_replica_faults(POOLS, {"metadata": META, "spec": spec}, [])) == faults
