"""JSON patch and merge patch, as kube-apiserver 1.36 answers them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ullage.standalone.apiserver.fields.patch.json_patch import json_patch
from ullage.standalone.apiserver.fields.patch.merge import merge_patch
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError

REJECTED = "the server rejected our request due to an error in our request"


def thing() -> Json:
    return {"a": [1, 2, {"b": None}], "o": {"x": 1, "~y/z": True}, "n": None}


def op(kind: str, path: str, value: Any = ..., source: str = "") -> Json:
    found: Json = {"op": kind, "path": path}
    if value is not ...:
        found["value"] = value
    if source:
        found["from"] = source
    return found


@pytest.mark.parametrize(
    ("ops", "changed"),
    [
        pytest.param([op("add", "/o/k", {"v": 1})], {"o": {"x": 1, "~y/z": True, "k": {"v": 1}}}, id="add a field"),
        pytest.param([op("add", "/a/-", 9)], {"a": [1, 2, {"b": None}, 9]}, id="append to a list"),
        pytest.param([op("add", "/a/1", 9)], {"a": [1, 9, 2, {"b": None}]}, id="insert into a list"),
        pytest.param([op("add", "/a/-1", 9)], {"a": [1, 2, {"b": None}, 9]}, id="an insert counts from behind the end"),
        pytest.param([op("add", "/o/k")], {"o": {"x": 1, "~y/z": True, "k": None}}, id="add without a value adds null"),
        pytest.param([op("remove", "/a/-1")], {"a": [1, 2]}, id="a removal counts from the end"),
        pytest.param([op("remove", "/o/~0y~1z")], {"o": {"x": 1}}, id="tilde and slash are escaped in paths"),
        pytest.param([op("replace", "/a/01", 7)], {"a": [1, 7, {"b": None}]}, id="an index may have leading zeros"),
        pytest.param([op("replace", "/zz", 7)], {"zz": 7}, id="replacing what is not there adds it"),
        pytest.param([op("move", "/m", source="/a")], {"m": [1, 2, {"b": None}], "a": ...}, id="move"),
        pytest.param([op("move", "/a/1", source="/a/0")], {"a": [2, 1, {"b": None}]}, id="move inside a list"),
        pytest.param([op("copy", "/m", source="/zz")], {"m": None}, id="a copy of nothing is null"),
        pytest.param(
            [op("copy", "/m", source="/o"), op("add", "/m/y", 2)],
            {"m": {"x": 1, "~y/z": True, "y": 2}},
            id="a copy is apart from its source",
        ),
        pytest.param(
            [op("add", "/k", []), op("add", "/k/-", 1), op("copy", "/l", source="/k"), op("add", "/l/-", 2)],
            {"k": [1], "l": [1, 2]},
            id="even if the patch itself made the source",
        ),
        pytest.param([op("test", "/zz", None)], {}, id="a test for null passes on nothing"),
        pytest.param([op("test", "/a", [1, 2, {"b": None}])], {}, id="a test compares whole values"),
        pytest.param([op("add", "/", 1)], {"": 1}, id="a slash alone names the empty field"),
        pytest.param(None, {}, id="null is an empty patch"),
    ],
)
def test_json_patch(ops: Any, changed: Json) -> None:
    live = thing()
    sent = copy.deepcopy(ops)
    expected = {key: value for key, value in {**thing(), **changed}.items() if value is not ...}
    assert json_patch(live, ops) == expected
    assert (live, ops) == (thing(), sent), "the inputs were changed"


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([op("jump", "/a")], id="an operation that is none"),
        pytest.param([{"op": "add", "value": 1}], id="no path"),
        pytest.param([{"path": "/a", "value": 1}], id="no operation"),
        pytest.param([None], id="a null operation"),
        pytest.param([op("test", "/o/x", 2)], id="a test that fails"),
        pytest.param([op("test", "/o/~0y~1z", 1)], id="a test that takes 1 for true"),
        pytest.param([op("test", "/o/x", 1.0)], id="a test that takes 1.0 for 1"),
        pytest.param([op("test", "/zz", 2)], id="a test of what is not there"),
        pytest.param([op("remove", "/zz")], id="removing what is not there"),
        pytest.param([op("remove", "")], id="removing everything"),
        pytest.param([op("replace", "", [])], id="an object that becomes a list"),
        pytest.param([op("move", "/m", source="/zz")], id="moving what is not there"),
        pytest.param([op("copy", "/m", source="/a/9")], id="copying past the end of a list"),
        pytest.param([op("add", "/zz/y", 1)], id="adding below what is not there"),
        pytest.param([op("add", "/o/x/y", 1)], id="adding below a number"),
        pytest.param([op("add", "a", 1)], id="a path that does not start with a slash"),
        pytest.param([op("add", "/a/4", 1)], id="inserting behind the end"),
        pytest.param([op("add", "/a/-5", 1)], id="inserting before the start"),
        pytest.param([op("replace", "/a/3", 1)], id="replacing behind the end"),
        pytest.param([op("remove", "/a/-")], id="removing the item behind the last"),
        pytest.param([op("add", "/a/x", 1)], id="an index that is none"),
    ],
)
def test_json_patch_that_cannot_be_applied(ops: Any) -> None:
    live = thing()
    with pytest.raises(ApiError) as refusal:
        json_patch(live, ops)
    assert (refusal.value.code, refusal.value.reason, refusal.value.message) == (422, "Invalid", REJECTED)
    assert live == thing(), "the object was changed"


UNDECODABLE = "error decoding patch: json: cannot unmarshal"


@pytest.mark.parametrize(
    ("ops", "code", "message"),
    [
        pytest.param({"op": "add"}, 400, f"{UNDECODABLE} object into Go value of type []handlers.jsonPatchOp", id="an object"),
        pytest.param("x", 400, f"{UNDECODABLE} string into Go value of type []handlers.jsonPatchOp", id="a string"),
        pytest.param(["x"], 400, f"{UNDECODABLE} string into Go value of type handlers.jsonPatchOp", id="a list of strings"),
        pytest.param(
            [{"op": 1, "path": "/a"}],
            400,
            f"{UNDECODABLE} number into Go struct field jsonPatchOp.op of type string",
            id="an operation that is a number",
        ),
        pytest.param(
            [op("test", "/o/x", 1)] * 10_001,
            413,
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
            id="more than ten thousand operations",
        ),
    ],
)
def test_json_patch_that_is_no_patch(ops: Any, code: int, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        json_patch(thing(), ops)
    assert (refusal.value.code, refusal.value.message) == (code, message)


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        pytest.param({"o": {"x": 2}}, {"o": {"x": 2, "~y/z": True}}, id="objects merge"),
        pytest.param({"o": {"x": None}, "zz": None}, {"o": {"~y/z": True}}, id="null removes"),
        pytest.param({"a": [3]}, {"a": [3]}, id="lists are replaced"),
        pytest.param({"o": 5}, {"o": 5}, id="a value replaces an object"),
        pytest.param({"a": {"z": None, "k": 1}}, {"a": {"k": 1}}, id="an object replaces a list, without its nulls"),
        pytest.param({"q": {"y": {"z": None}}}, {"q": {"y": {}}}, id="a new object has no nulls at any depth"),
        pytest.param(
            {"q": [{"a": None, "b": 1}, None]}, {"q": [{"b": 1}, None]}, id="nor have objects in lists, but items may be null"
        ),
        pytest.param({}, {}, id="an empty patch changes nothing"),
    ],
)
def test_merge_patch(patch: Json, changed: Json) -> None:
    live = thing()
    sent = copy.deepcopy(patch)
    assert merge_patch(live, patch) == {**thing(), **changed}
    assert (live, patch) == (thing(), sent), "the inputs were changed"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param([], f"{UNDECODABLE} array into Go value of type map[string]interface {{}}", id="a list"),
        pytest.param("x", f"{UNDECODABLE} string into Go value of type map[string]interface {{}}", id="a string"),
        pytest.param(1, f"{UNDECODABLE} number into Go value of type map[string]interface {{}}", id="a number"),
        pytest.param(None, "Invalid JSON Patch", id="null"),
    ],
)
def test_merge_patch_that_is_no_patch(patch: Any, message: str) -> None:
    with pytest.raises(ApiError) as refusal:
        merge_patch(thing(), patch)
    assert (refusal.value.code, refusal.value.message) == (400, message)


def test_a_patch_shares_what_it_does_not_touch() -> None:
    live = thing()
    assert merge_patch(live, {"n": 1})["o"] is live["o"]
    assert json_patch(live, [op("add", "/n", 1)])["o"] is live["o"]
