"""Field ownership and server-side apply, against what kube-apiserver 1.36 did with the same requests.

`golden/apply_stories.json` holds its answers: each story is one object, each step one request by one manager. A step starts
from the server's own object before it, so a difference shows in the step that makes it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ullage.standalone.apiserver.fields.apply.merge import apply
from ullage.standalone.apiserver.fields.managers import track_scale, track_update
from ullage.standalone.apiserver.fields.shape import Shape
from ullage.standalone.apiserver.handlers.endpoints import reset_fields
from ullage.standalone.apiserver.kinds.resources import Resource, Subresource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import REF, load
from ullage.standalone.apiserver.status import ApiError

GOLDEN = msgspec.json.decode((Path(__file__).parent / "golden" / "apply_stories.json").read_bytes())
NOW = "2026-02-02T00:00:00Z"


def shape_of(name: str) -> Shape:
    own = GOLDEN["schemas"].get(name)
    return Shape.of(own or {"$ref": REF + name}, load())


def resource(story: Json) -> Resource:
    group, _, version = story["apiVersion"].rpartition("/")
    kind = story["shape"].rpartition(".")[2].capitalize()
    subresources = {"status": Subresource("status", kind, ("get", "patch", "update"))} if story["status"] else {}
    custom: Json | None = {} if story["custom"] else None
    return Resource(group, version, f"{kind.lower()}s", kind.lower(), kind, True, subresources=subresources, custom=custom)


def steps() -> Iterator[Any]:
    for story in GOLDEN["stories"]:
        live: Json | None = None
        for step in story["steps"]:
            yield pytest.param(story, live, step, id=f"{story['name']}: {step['manager']} {step['does']}")
            live = step.get("result", live)


def replay(story: Json, live: Json | None, step: Json) -> Json:
    """The object after a step, by our own code."""
    subresource = step.get("subresource", "")
    common: dict[str, Any] = {
        "manager": step["manager"],
        "subresource": subresource,
        "api_version": story["apiVersion"],
        "time": step["time"],
        "shape": shape_of(story["shape"]),
        "reset": reset_fields(resource(story), subresource),
    }
    if step["verb"] == "apply":
        return apply(live, step["config"], force=step.get("force", False), **common)
    new: Json = copy.deepcopy(step["result"])
    sent = step.get("sent", None if live is None else live["metadata"].get("managedFields"))
    new["metadata"].pop("managedFields", None)
    if sent is not None:
        new["metadata"]["managedFields"] = copy.deepcopy(sent)
    track_update(live, new, **common)
    return new


@pytest.mark.parametrize(("story", "live", "step"), list(steps()))
def test_the_server_did_the_same(story: Json, live: Json | None, step: Json) -> None:
    before = copy.deepcopy((live, step))
    if "refused" in step:
        with pytest.raises(ApiError) as refusal:
            replay(story, live, step)
        status = refusal.value.status()
        assert {key: status[key] for key in ("code", "reason", "message", "details") if key in status} == step["refused"]
        return
    found = replay(story, live, step)
    assert (live, step) == before
    wanted = step["result"]["metadata"].get("managedFields")
    assert found["metadata"].get("managedFields") == wanted
    assert steps_in_order(found["metadata"].get("managedFields")) == steps_in_order(wanted)
    if step["verb"] == "apply":
        assert_same_object(found, step, story=story)


def steps_in_order(entries: list[Json] | None) -> list[bytes]:
    """Equality of dicts is blind to order; the server's order is part of what it sends."""
    return [msgspec.json.encode(entry["fieldsV1"]) for entry in entries or ()]


def assert_same_object(found: Json, step: Json, *, story: Json) -> None:
    ignored = {"metadata"} | ({"status"} if story["status"] and not step.get("subresource") else set())
    if step.get("subresource"):
        ignored.add("spec")
    ours = {key: value for key, value in found.items() if key not in ignored}
    theirs = {key: value for key, value in step["result"].items() if key not in ignored}
    if not story["custom"]:
        assert_within(ours, theirs)  # the rest of theirs are defaults
        return
    if "spec" in ours:
        ours = {**ours, "spec": {"size": "small", **ours["spec"]}}
        if "ports" in ours["spec"]:
            ours["spec"]["ports"] = [{"protocol": "TCP", **port} for port in ours["spec"]["ports"]]
    assert ours == theirs


def assert_within(ours: Any, theirs: Any) -> None:
    if isinstance(ours, dict):
        assert ours.keys() <= theirs.keys()
        for key, value in ours.items():
            assert_within(value, theirs[key])
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_within(mine, other)
    else:
        assert ours == theirs


CONFIG_MAP = "io.k8s.api.core.v1.ConfigMap"


def config_map(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": data}


def written(live: Json | None, new: Json, *, manager: str = "m", time: str = NOW, subresource: str = "") -> Json:
    track_update(live, new, manager=manager, subresource=subresource, api_version="v1", time=time, shape=shape_of(CONFIG_MAP))
    return new


def applied(live: Json | None, config: Json, *, manager: str = "m", time: str = NOW, force: bool = False) -> Json:
    return apply(
        live, config, manager=manager, force=force, shape=shape_of(CONFIG_MAP), time=time, subresource="", api_version="v1"
    )


def test_an_update_that_changes_nothing_keeps_the_time() -> None:
    live = written(None, config_map(a="1"), time="2026-01-01T00:00:00Z")
    assert written(live, {**copy.deepcopy(live)}, manager="other") == live


def test_an_apply_that_changes_nothing_returns_an_equal_object() -> None:
    live = applied(None, config_map(a="1"), time="2026-01-01T00:00:00Z")
    assert applied(live, config_map(a="1")) == live


def test_a_null_creation_time_in_a_configuration_asks_for_nothing() -> None:
    live = applied(None, config_map(a="1"))
    live["metadata"]["creationTimestamp"] = NOW
    config = config_map(a="1")
    config["metadata"]["creationTimestamp"] = None
    assert applied(live, config) == live


def test_a_subresource_cannot_send_managed_fields() -> None:
    live = written(None, config_map(a="1"))
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = [{}]
    assert written(live, new, subresource="status") == live


def test_the_same_manager_has_one_entry_for_each_subresource() -> None:
    live = written(None, config_map(a="1"))
    found = written(live, {**copy.deepcopy(live), "data": {"a": "2"}}, subresource="scale")
    assert [(e["manager"], e.get("subresource")) for e in found["metadata"]["managedFields"]] == [("m", None), ("m", "scale")]


def test_old_updaters_join_an_entry_of_ancient_changes_that_is_newer_than_one_of_them() -> None:
    live = written(None, config_map(a="1"), time="2026-01-01T00:00:00Z")
    fields: Json = {"f:data": {"f:old": {}}}
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    crowd = [{"manager": f"u{n:02}", "time": f"2026-01-03T00:00:{n:02}Z", **entry} for n in range(9)]
    ancient = {"manager": "ancient-changes", "time": "2026-01-02T00:00:00Z", **entry, "fieldsV1": {"f:data": {"f:kept": {}}}}
    live["metadata"]["managedFields"] = [*live["metadata"]["managedFields"], ancient, *crowd]
    new = {**copy.deepcopy(live), "data": {"a": "1", "old": "x", "kept": "y", "new": "z"}}
    live["data"] = {"a": "1", "old": "x", "kept": "y"}
    found = written(live, new, manager="one-too-many")
    updaters = {entry["manager"]: entry["fieldsV1"] for entry in found["metadata"]["managedFields"]}
    assert len(updaters) == 10
    assert updaters["ancient-changes"] == {"f:data": {"f:kept": {}, "f:old": {}}}


def deployment(replicas: int, *owners: Json) -> Json:
    return {"metadata": {"name": "d", "managedFields": list(owners)}, "spec": {"replicas": replicas}}


def owner(manager: str, fields: Json, **more: str) -> Json:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


COUNT: Json = {"f:spec": {"f:replicas": {}}}


@pytest.mark.parametrize(
    ("before", "replicas", "after"),
    [
        pytest.param([owner("a", COUNT)], 5, [owner("s", COUNT, subresource="scale")], id="an owned count changes hands"),
        pytest.param([owner("a", COUNT)], 1, [owner("a", COUNT)], id="an unchanged count does not"),
        pytest.param([owner("a", {"f:data": {}})], 5, [owner("a", {"f:data": {}})], id="a count that nobody owns stays so"),
    ],
)
def test_scale(before: list[Json], replicas: int, after: list[Json]) -> None:
    new = deployment(replicas)
    track_scale(deployment(1, *before), new, manager="s", api_version="apps/v1")
    assert new["metadata"]["managedFields"] == after
