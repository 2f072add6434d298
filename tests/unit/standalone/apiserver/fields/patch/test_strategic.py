"""Strategic merge patches of a Deployment: what kube-apiserver 1.36 made of the same patches."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ullage.standalone.apiserver.fields.patch.strategic import strategic_merge
from ullage.standalone.apiserver.fields.shape import Shape
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import REF, load
from ullage.standalone.apiserver.status import ApiError


def deployment() -> Json:
    containers = [
        {"name": "a", "image": "1", "ports": [{"containerPort": 1}, {"containerPort": 2}]},
        {"name": "b", "image": "2", "env": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]},
    ]
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]
    return {
        "metadata": {"name": "d", "finalizers": ["c", "d"], "labels": {"a": "1"}},
        "spec": {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"spec": {"containers": containers, "volumes": volumes, "tolerations": [{"key": "t"}]}},
        },
    }


def patched(patch: Any) -> Json:
    live = deployment()
    sent = copy.deepcopy(patch)
    found = strategic_merge(live, patch, Shape.of({"$ref": f"{REF}io.k8s.api.apps.v1.Deployment"}, load()))
    assert (live, patch) == (deployment(), sent), "the inputs were changed"
    return found


def pod(**spec: Any) -> Json:
    return {"spec": {"template": {"spec": spec}}}


def names(*wanted: str) -> list[Json]:
    return [{"name": name} for name in wanted]


def c(name: str, image: str = "9", **more: Any) -> Json:
    return {"name": name, "image": image, **more}


@pytest.mark.parametrize(
    ("spec", "images"),
    [
        pytest.param({"containers": [c("b")]}, "a:1 b:9", id="an item merges by its key and stays where it is"),
        pytest.param({"containers": [c("z")]}, "z:9 a:1 b:2", id="a new item comes before those that only the server has"),
        pytest.param(
            {"containers": [c("z"), c("b", "3"), c("q")]}, "z:9 a:1 b:3 q:9", id="around a known item, the patch's order"
        ),
        pytest.param({"containers": [{"name": "a", "$patch": "delete"}]}, "b:2", id="delete takes an item out"),
        pytest.param({"containers": [{"$patch": "replace"}, c("n"), c("b", "5")]}, "n:9 b:5", id="replace puts in a new list"),
        pytest.param({"$setElementOrder/containers": names("b", "a")}, "b:2 a:1", id="an order alone"),
        pytest.param(
            {"$setElementOrder/containers": names("b", "a"), "containers": [c("a")]}, "b:2 a:9", id="an order with a change"
        ),
        pytest.param(
            {"$setElementOrder/containers": names("n", "b"), "containers": [c("n"), {"name": "a", "$patch": "delete"}]},
            "n:9 b:2",
            id="an order with an addition and a removal",
        ),
        pytest.param(
            {"$setElementOrder/containers": names("b"), "containers": [c("b")]}, "a:1 b:9", id="an order that leaves some out"
        ),
        pytest.param(
            {"$setElementOrder/containers": names("zz", "b", "a")}, "b:2 a:1", id="an order that names what is not there"
        ),
        pytest.param({"containers": []}, "a:1 b:2", id="an empty list changes nothing"),
        pytest.param({"hostNetwork": True}, "a:1 b:2", id="a patch of another field"),
    ],
)
def test_containers(spec: Json, images: str) -> None:
    found = patched(pod(**spec))["spec"]["template"]["spec"]["containers"]
    assert " ".join(f"{item['name']}:{item['image']}" for item in found) == images


@pytest.mark.parametrize(
    ("patch", "path", "value"),
    [
        pytest.param(
            pod(containers=[{"name": "b", "env": None}]), "containers.1", {"name": "b", "image": "2"}, id="null in an item"
        ),
        pytest.param(
            pod(containers=[{"name": "b", "$setElementOrder/env": names("y", "n", "x"), "env": [{"name": "n", "value": "3"}]}]),
            "containers.1.env",
            [{"name": "y", "value": "2"}, {"name": "n", "value": "3"}, {"name": "x", "value": "1"}],
            id="an order in an item",
        ),
        pytest.param(
            pod(containers=[{"name": "a", "ports": [{"containerPort": 3}, {"containerPort": 1, "name": "x"}]}]),
            "containers.0.ports",
            [{"containerPort": 3}, {"containerPort": 1, "name": "x"}, {"containerPort": 2}],
            id="keys may be numbers",
        ),
        pytest.param(
            pod(containers=[{"name": "b", "securityContext": {"runAsUser": None, "runAsGroup": 1}}]),
            "containers.1.securityContext",
            {"runAsGroup": 1},
            id="a new struct has no nulls",
        ),
        pytest.param(
            pod(volumes=[{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"}}]),
            "volumes",
            [{"name": "v", "configMap": {"name": "x"}}, {"name": "w", "emptyDir": {}}],
            id="retainKeys clears the other members of a union",
        ),
        pytest.param(pod(tolerations=[{"key": "u"}]), "tolerations", [{"key": "u"}], id="a list without a key is replaced"),
    ],
)
def test_below_the_pod_template(patch: Json, path: str, value: Any) -> None:
    here: Any = patched(patch)["spec"]["template"]["spec"]
    for step in path.split("."):
        here = here[int(step)] if isinstance(here, list) else here[step]
    assert here == value


@pytest.mark.parametrize(
    ("meta", "finalizers"),
    [
        pytest.param({"finalizers": ["z", "c"]}, "z c d", id="a set takes new values, in the patch's order"),
        pytest.param({"$deleteFromPrimitiveList/finalizers": ["c"]}, "d", id="values are deleted by name"),
        pytest.param(
            {"$deleteFromPrimitiveList/finalizers": ["c"], "finalizers": ["q"]}, "q d", id="deleted and added at once"
        ),
        pytest.param({"$setElementOrder/finalizers": ["d", "e", "c"], "finalizers": ["e"]}, "d e c", id="added in an order"),
        pytest.param(
            {"$setElementOrder/finalizers": ["e", "d"], "$deleteFromPrimitiveList/finalizers": ["c"], "finalizers": ["e"]},
            "e d",
            id="added, deleted and ordered",
        ),
        pytest.param({"$deleteFromPrimitiveList/finalizers": "c"}, "c d", id="a deletion list that is none is passed over"),
    ],
)
def test_finalizers(meta: Json, finalizers: str) -> None:
    assert patched({"metadata": meta})["metadata"]["finalizers"] == finalizers.split()


@pytest.mark.parametrize(
    ("patch", "field", "value"),
    [
        pytest.param({"metadata": {"labels": {"b": "2", "a": None}}}, ("metadata", "labels"), {"b": "2"}, id="maps merge"),
        pytest.param(
            {"metadata": {"labels": {"$patch": "replace", "z": "1"}}}, ("metadata", "labels"), {"z": "1"}, id="or are replaced"
        ),
        pytest.param({"metadata": {"labels": {"$patch": "delete"}}}, ("metadata", "labels"), {}, id="or emptied"),
        pytest.param(
            {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
            ("spec", "strategy"),
            {"type": "Recreate"},
            id="retainKeys in a struct",
        ),
        pytest.param(
            {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}},
            ("spec", "strategy"),
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
            id="structs merge",
        ),
        pytest.param({"spec": {"template": [1]}}, ("spec", "template"), [1], id="another type replaces, and is refused later"),
        pytest.param(None, ("metadata", "labels"), {"a": "1"}, id="null is an empty patch"),
    ],
)
def test_maps(patch: Any, field: tuple[str, str], value: Any) -> None:
    found = patched(patch)
    assert found[field[0]][field[1]] == value


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        pytest.param(
            pod(containers=[{"image": "x"}]), 500, "map: map[image:x] does not contain declared merge key: name", id="no key"
        ),
        pytest.param(
            pod(containers=[{"$patch": "delete"}]),
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
            id="a deletion without a key",
        ),
        pytest.param(
            pod(containers=[{"$patch": "foo", "name": "a"}]),
            500,
            "unknown patch type: foo in map: map[$patch:foo name:a]",
            id="an unknown directive in an item",
        ),
        pytest.param(
            pod(containers=[{"$patch": "merge", "name": "a"}]),
            500,
            "merging lists cannot yet be specified in the patch",
            id="a merge directive in an item",
        ),
        pytest.param(
            {"spec": {"$patch": "merge", "replicas": 4}},
            500,
            "unknown patch type: merge in map: map[$patch:merge replicas:4]",
            id="a merge directive in a map",
        ),
        pytest.param(
            {"spec": {"$patch": 1}},
            500,
            "unknown patch type: %!s(int64=1) in map: map[$patch:1]",
            id="a directive that is a number",
        ),
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveList/finalizers": [{"a": 1}]}},
            500,
            "list element types are not identical: [[c d] [map[a:1]]]",
            id="items of two types",
        ),
        pytest.param(
            {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}},
            400,
            "invalid patch format of retainKeys",
            id="retainKeys that leaves out a field of the patch",
        ),
        pytest.param(
            {"spec": {"strategy": {"$retainKeys": "type"}}},
            400,
            "invalid patch format of retainKeys",
            id="retainKeys that is no list",
        ),
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveListfinalizers": ["c"]}},
            400,
            "invalid patch format of primitive list",
            id="a deletion list for no field",
        ),
        pytest.param(
            pod(**{"$setElementOrdercontainers": names("a")}),
            400,
            "invalid patch format of setElementOrder list",
            id="an order for no field",
        ),
        pytest.param(
            pod(**{"$setElementOrder/containers": "x"}),
            500,
            "expected a []interface {}, but received a string",
            id="an order that is no list",
        ),
        pytest.param(
            pod(**{"$setElementOrder/containers": names("a"), "containers": [c("b")]}),
            500,
            "The order in patch list:\n[map[image:9 name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
            id="an order without an item of the patch",
        ),
        pytest.param(
            pod(**{"$setElementOrder/containers": names("b", "a"), "containers": [c("a"), c("b")]}),
            500,
            "The order in patch list:\n[map[image:9 name:a] map[image:9 name:b]]\n"
            " doesn't match $setElementOrder list:\n[map[name:b] map[name:a]]\n",
            id="an order that the patch itself does not keep",
        ),
        pytest.param(
            pod(**{"$setElementOrder/containers": [{"nam": "b"}], "containers": [c("a")]}),
            500,
            "map: map[nam:b] does not contain declared merge key: name",
            id="an order without keys",
        ),
        pytest.param(
            [], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}", id="a list for a patch"
        ),
    ],
)
def test_refusals(patch: Any, code: int, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        patched(patch)
    assert (refusal.value.code, refusal.value.message) == (code, message)


def test_keys_that_are_no_scalars_are_compared_too() -> None:
    found = patched(pod(containers=[{"name": {"x": 1}, "image": "9"}]))
    assert len(found["spec"]["template"]["spec"]["containers"]) == 3
