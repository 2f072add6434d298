"""The worst patches that fit into 3 MiB: each ends soon, with the outcome that a short one of its form has.

A quadratic step takes minutes here and a linear one about a second, so the timeout tells them apart on any machine.
"""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.apiserver.fields.patch.json_patch import json_patch
from ullage.standalone.apiserver.fields.patch.strategic import strategic_merge
from ullage.standalone.apiserver.fields.shape import Shape
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.schema.definitions import REF, load
from ullage.standalone.apiserver.status import ApiError

pytestmark = pytest.mark.timeout(15)

REJECTED = "the server rejected our request due to an error in our request"
MIB = 1024 * 1024


def op(kind: str, path: str, value: Any = None, source: str | None = None) -> Json:
    return {"op": kind, "path": path} | ({"from": source} if source is not None else {"value": value})


def doubling(times: int) -> list[Json]:
    step = [
        op("add", "/b", {}),
        op("copy", "/b/l", source="/a"),
        op("copy", "/b/r", source="/a"),
        op("move", "/a", source="/b"),
    ]
    return [op("add", "/a", "x" * 100), *step * times]


def copies(times: int) -> list[Json]:
    return [op("add", "/a", "x" * MIB), *(op("copy", f"/{n}", source="/a") for n in range(times))]


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param(doubling(40), id="a copy that doubles forty times"),
        pytest.param(copies(9_000), id="one MiB copied 9,000 times"),
        pytest.param([op("add", "/a/" + "9" * MIB, 1)], id="an index of a million digits"),
        pytest.param([op("remove", "/a/-" + "9" * 5_000)], id="a negative index of five thousand digits"),
        pytest.param([op("add", "/x" * MIB, 1)], id="a path of a million steps"),
        pytest.param([op("add", "/a" + "/0" * MIB, 1)], id="a path of a million steps into a list"),
        pytest.param([op("test", "/a", [1, [2.0]]), op("add", "/b", 1)], id="a test that takes 2.0 for 2 inside a list"),
        pytest.param([op("test", "/o", {"k": True})], id="a test that takes true for 1 inside an object"),
    ],
)
def test_a_json_patch_that_asks_too_much_is_refused(ops: list[Json]) -> None:
    with pytest.raises(ApiError) as refusal:
        json_patch({"a": [1, [2]], "o": {"k": 1}}, ops)
    assert (refusal.value.code, refusal.value.reason, refusal.value.message) == (422, "Invalid", REJECTED)


def test_three_mib_of_copies_are_allowed_and_a_byte_more_is_not() -> None:
    third = "x" * (MIB - 2)  # with its quotes one MiB
    ops = [op("add", "/a", third), *(op("copy", f"/{n}", source="/a") for n in range(3))]
    assert json_patch({}, ops) == dict.fromkeys(("a", "0", "1", "2"), third)
    with pytest.raises(ApiError, match=REJECTED):
        json_patch({}, [*ops, op("copy", "/x", source="/none"), op("add", "/y", 1), op("copy", "/z", source="/y")])


LONG = 700_000
NUMBERS = list(range(LONG))


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        pytest.param([op("add", "/a/0", -1)] * 10_000, [-1] * 10_000 + NUMBERS, id="inserts before the first item"),
        pytest.param([op("remove", "/a/0")] * 10_000, NUMBERS[10_000:], id="removals of the first item"),
        pytest.param(
            [op("move", "/a/0", source="/a/-1")] * 10_000,
            NUMBERS[-10_000:] + NUMBERS[:-10_000],
            id="moves from the end to the start",
        ),
        pytest.param(
            [op("copy", "/a/0", source="/a/8"), op("remove", "/a/9")] * 5_000,
            NUMBERS[9 - 5_000 % 9 : 9] + NUMBERS[: 9 - 5_000 % 9] + NUMBERS[9:],
            id="copies inside the list",
        ),
        pytest.param(
            [op("add", "/a/-", 1), op("test", f"/a/{LONG}", 1), op("remove", "/a/-1")] * 3_000,
            NUMBERS,
            id="appends, tests and removals at the end",
        ),
        pytest.param(
            [op("replace", "/a/350000", {"k": []}), op("add", "/a/350000/k/0", 1)] * 5_000,
            [*NUMBERS[:350_000], {"k": [1]}, *NUMBERS[350_001:]],
            id="changes below an item",
        ),
    ],
)
def test_many_operations_on_a_long_list(ops: list[Json], expected: list[Any]) -> None:
    found = json_patch({"a": NUMBERS}, ops)
    assert type(found["a"]) is list
    assert found["a"] == expected
    assert list(range(LONG)) == NUMBERS, "the object was changed"


def test_a_long_list_inside_what_is_copied_moved_and_tested() -> None:
    long = list(range(100_000))
    ops = [
        op("add", "/a/l/0", -1),
        op("copy", "/b", source="/a"),
        op("add", "/b/l/0", -2),
        op("test", "/b", {"l": [-2, -1, *long]}),
        op("move", "/c", source="/a"),
        op("test", "/c/l", [-1, *long]),
    ]
    assert json_patch({"a": {"l": long}}, ops) == {"b": {"l": [-2, -1, *long]}, "c": {"l": [-1, *long]}}
    assert long == list(range(100_000))


def test_tests_deep_inside_cost_what_their_paths_are_long() -> None:
    deep: Json = {"k": 1}
    for _ in range(150):
        deep = {"a": deep}
    assert json_patch(deep, [op("test", "/a" * 150 + "/k", 1)] * 10_000) == deep


MANY = 20_000


def keyed(*, reverse: Any = False, **more: Any) -> list[Json]:
    numbers = range(MANY - 1, -1, -1) if reverse else range(MANY)
    return [{"name": f"v{number}", **more} for number in numbers]


def volumes() -> Json:
    return {"metadata": {"finalizers": [f"v{n}" for n in range(MANY)]}, "spec": {"volumes": keyed(emptyDir={})}}


def named(found: Json) -> list[str]:
    return [volume["name"] for volume in found["spec"]["volumes"]]


FORWARD = [f"v{n}" for n in range(MANY)]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"volumes": keyed(hostPath={})}, FORWARD, id="every item is merged"),
        pytest.param({"volumes": keyed(reverse=True, hostPath={})}, FORWARD[::-1], id="every item is merged, from the last"),
        pytest.param(
            {"volumes": [{"name": f"n{n}"} for n in range(MANY)]},
            [f"n{n}" for n in range(MANY)] + FORWARD,
            id="as many items are added",
        ),
        pytest.param({"volumes": keyed(**{"$patch": "delete"})}, [], id="every item is deleted"),
        pytest.param({"$setElementOrder/volumes": keyed(reverse=True)}, FORWARD[::-1], id="every item is put in order"),
        pytest.param(
            {"$setElementOrder/volumes": keyed(), "volumes": keyed(hostPath={})},
            FORWARD,
            id="every item is merged and put in order",
        ),
        pytest.param({"$setElementOrder/volumes": [{"name": f"v{MANY - 1}"}]}, FORWARD, id="an order that names the last item"),
        pytest.param({"$retainKeys": [*FORWARD, "volumes"]}, FORWARD, id="twenty thousand keys to retain"),
    ],
)
def test_a_strategic_merge_of_many_items(patch: Json, expected: list[str]) -> None:
    shape = Shape.of({"$ref": f"{REF}io.k8s.api.core.v1.Pod"}, load())
    assert named(strategic_merge(volumes(), {"spec": patch}, shape)) == expected


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"finalizers": FORWARD[::-1]}, FORWARD[::-1], id="all are there already"),
        pytest.param({"$deleteFromPrimitiveList/finalizers": FORWARD[1:]}, FORWARD[:1], id="all but one are deleted"),
        pytest.param({"$setElementOrder/finalizers": FORWARD[::-1]}, FORWARD[::-1], id="all are put in order"),
        pytest.param({"$deleteFromPrimitiveList/finalizers": [{"a": 1}] * 3}, None, id="maps are no values to delete"),
    ],
)
def test_a_strategic_merge_of_many_values(patch: Json, expected: list[str] | None) -> None:
    shape = Shape.of({"$ref": f"{REF}io.k8s.api.core.v1.Pod"}, load())
    if expected is None:
        with pytest.raises(ApiError, match="list element types are not identical"):
            strategic_merge(volumes(), {"metadata": patch}, shape)
    else:
        assert strategic_merge(volumes(), {"metadata": patch}, shape)["metadata"]["finalizers"] == expected


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"$setElementOrder/volumes": keyed(), "volumes": keyed(reverse=True)}, id="two lists in two orders"),
        pytest.param({"volumes": ["x" * MIB] * 3}, id="items of another type"),
        pytest.param({"$patch": "x" * MIB, "k": "y" * MIB}, id="a directive that is none"),
        pytest.param({"volumes": [{"k": "x" * MIB}]}, id="an item without its key"),
    ],
)
def test_a_refusal_does_not_repeat_the_whole_patch(patch: Json) -> None:
    shape = Shape.of({"$ref": f"{REF}io.k8s.api.core.v1.Pod"}, load())
    with pytest.raises(ApiError) as refusal:
        strategic_merge(volumes(), {"spec": patch}, shape)
    assert refusal.value.code == 500
    assert len(refusal.value.message) < MIB / 3
