"""Admission webhooks in their order: patches, reinvocation, refusals and warnings.

Texts and codes are those that kube-apiserver 1.36 gave for the same answers.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.unit.standalone.apiserver.admission.webhook_server import (
    OLD_WIDGETS,
    WIDGET,
    WIDGETS,
    World,
    add,
    allow,
    answer,
    attributes,
    patch,
    rule,
)
from ullage.standalone.apiserver.admission.webhooks.dispatch import warning_headers
from ullage.standalone.apiserver.kinds.resources import Resource
from ullage.standalone.apiserver.objects import Json
from ullage.standalone.apiserver.status import ApiError


async def test_patches_build_on_each_other_in_order(world: World) -> None:
    world.mutate_with(world.hook("late", patch(add("/data/late", "2"))), name="z")
    world.mutate_with(
        world.hook("one", patch(add("/data/one", "1"))), world.hook("two", patch(add("/data/two", "1"))), name="a"
    )
    attrs = attributes()
    before = attrs.object
    await world.webhooks.mutate(attrs)
    assert world.asked() == ["one", "two", "late"]
    assert attrs.object is not None
    assert attrs.object["data"] == {"x": "y", "one": "1", "two": "1", "late": "2"}
    assert world.server.seen[1][1]["request"]["object"]["data"] == {"x": "y", "one": "1"}
    assert before is not None
    assert before["data"] == {"x": "y"}, "the object itself is never changed"


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        pytest.param({"reinvocationPolicy": "IfNeeded"}, {}, ["one", "two", "one"], id="a later change asks it again"),
        pytest.param({}, {}, ["one", "two"], id="unless it never wanted that"),
        pytest.param({}, {"reinvocationPolicy": "IfNeeded"}, ["one", "two"], id="its own change does not count"),
    ],
)
async def test_reinvocation(world: World, first: Json, second: Json, asked: list[str]) -> None:
    world.mutate_with(world.hook("one", allow, **first), world.hook("two", patch(add("/data/two", "1")), **second))
    await world.webhooks.mutate(attributes())
    assert world.asked() == asked


@pytest.mark.parametrize(
    ("policy", "asked", "last"),
    [
        pytest.param(
            "IfNeeded", ["one", "two", "one", "two"], "2", id="who comes later is asked again too, and has the last word"
        ),
        pytest.param("Never", ["one", "two", "one"], "1", id="unless it does not want that"),
    ],
)
async def test_a_change_of_who_is_asked_again_counts_as_any(world: World, policy: str, asked: list[str], last: str) -> None:
    """As kube-apiserver does it: one more round, in which each is asked whose object was changed since it was asked."""
    world.mutate_with(
        world.hook("one", patch(add("/data/x", "1")), reinvocationPolicy="IfNeeded"),
        world.hook("two", patch(add("/data/x", "2")), reinvocationPolicy=policy),
    )
    attrs = attributes()
    await world.webhooks.mutate(attrs)
    assert attrs.object is not None
    assert (world.asked(), attrs.object["data"]["x"]) == (asked, last)


async def test_nothing_is_asked_again_while_nothing_changes(world: World) -> None:
    replace = {"op": "replace", "path": "/data/x", "value": "y"}
    world.mutate_with(
        world.hook("one", allow, reinvocationPolicy="IfNeeded"), world.hook("two", patch(replace)), world.hook("three", patch())
    )
    attrs = attributes()
    before = attrs.object
    await world.webhooks.mutate(attrs)
    assert world.asked() == ["one", "two", "three"]
    assert attrs.object is before


@pytest.mark.parametrize(
    ("op", "text"),
    [
        pytest.param(
            {"op": "remove", "path": "/nope"},
            "error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value",
            id="removing nothing",
        ),
        pytest.param(
            {"op": "test", "path": "/metadata/name", "value": "zz"},
            "testing value /metadata/name failed: test failed",
            id="a test",
        ),
        pytest.param(
            add("/a/b/c", 1), 'add operation does not apply: doc is missing path: "/a/b/c": missing value', id="adding nowhere"
        ),
        pytest.param({"op": "foo", "path": "/a"}, "Unexpected kind: foo", id="an unknown operation"),
    ],
)
async def test_a_patch_that_does_not_fit_fails_even_if_failures_are_ignored(world: World, op: Json, text: str) -> None:
    world.mutate_with(world.hook("h", patch(op), failurePolicy="Ignore"))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.mutate(attributes())
    assert (raised.value.code, raised.value.message) == (500, f"Internal error occurred: {text}")


async def test_a_refusal_counts_even_with_a_patch(world: World) -> None:
    world.mutate_with(world.hook("h", patch(add("/data/z", "1"), allowed=False)))
    attrs = attributes()
    with pytest.raises(ApiError, match="denied the request"):
        await world.webhooks.mutate(attrs)


async def test_the_first_refusal_in_time_is_told_and_all_are_asked(world: World) -> None:
    fast = threading.Event()

    async def slow(review: Json) -> Json:
        await asyncio.to_thread(fast.wait, 10)
        return answer(review, allowed=False, status={"message": "slow"})

    def quick(review: Json) -> Json:
        threading.Timer(0.2, fast.set).start()
        return answer(review, allowed=False, status={"message": "quick"}, warnings=["w"])

    world.validate_with(world.hook("a", lambda review: (200, {}, slow(review))), world.hook("b", quick))
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes())
    assert raised.value.message == 'admission webhook "b.example.com" denied the request: quick'
    assert sorted(world.asked()) == ["a", "b"], "they are asked side by side: one would wait for the other forever"
    assert raised.value.headers == (("warning", '299 - "w"'),)


async def test_warnings_are_returned(world: World) -> None:
    world.mutate_with(world.hook("m", lambda review: answer(review, warnings=["one"])))
    world.validate_with(world.hook("v", lambda review: answer(review, warnings=["two", "three"])))
    assert await world.webhooks.mutate(attributes()) == ["one"]
    assert await world.webhooks.validate(attributes()) == ["two", "three"]


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        pytest.param(["one", "two", "one"], 2, id="each is said once"),
        pytest.param(["x" * 300], 1, id="a long one is left alone"),
        pytest.param([f"{at:03}{'x' * 200}" for at in range(40)], 21, id="many long ones are cut off"),
        pytest.param([f"{at:03}{'x' * 60}" for at in range(100)], 66, id="many short ones are cut off"),
        pytest.param(["a\nb", "", "tab\t"], 0, id="control characters and nothing are dropped"),
    ],
)
def test_how_many_warnings_are_sent(texts: list[str], count: int) -> None:
    assert len(warning_headers(texts)) == count


def test_a_warning_is_quoted() -> None:
    assert warning_headers(['say "hi" \\ there']) == [("warning", r'299 - "say \"hi\" \\ there"')]
    assert {len(value) for _, value in warning_headers(["x" * 5000, "y" * 10])} == {256 + 8, 10 + 8}


async def test_an_equivalent_version_is_converted_there_and_back(world: World) -> None:
    world.mutate_with(world.hook("h", patch(add("/spec", {"n": 1})), rules=[rule(["widgets"], apiVersions=["v1"])]))
    attrs = attributes(resource=OLD_WIDGETS, object=WIDGET, name="w")
    await world.webhooks.mutate(attrs)
    [(_, review)] = world.server.seen
    request = review["request"]
    assert request["kind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert request["requestKind"] == {"group": "example.com", "version": "v1beta1", "kind": "Widget"}
    assert request["object"]["apiVersion"] == "example.com/v1"
    assert attrs.object == WIDGET | {"spec": {"n": 1}}


async def test_side_effects_forbid_a_dry_run(world: World) -> None:
    world.validate_with(world.hook("h", allow, sideEffects="Some"))
    await world.webhooks.validate(attributes())
    with pytest.raises(ApiError) as raised:
        await world.webhooks.validate(attributes(dry_run=True))
    assert (raised.value.code, raised.value.message) == (400, 'admission webhook "h.example.com" does not support dry run')


async def test_changed_configurations_and_resources_take_effect_at_once(world: World) -> None:
    attrs = attributes(resource=OLD_WIDGETS, object=WIDGET)
    assert await world.webhooks.validate(attrs) == []
    world.validate_with(world.hook("h", allow, rules=[rule(["widgets"], apiVersions=["v2"])]))
    await world.webhooks.validate(attrs)
    assert world.asked() == []
    world.registry.add(Resource("example.com", "v2", "widgets", "widget", "Widget", namespaced=True, storage=WIDGETS.storage))
    await world.webhooks.validate(attrs)
    assert world.asked() == ["h"]
    world.validating = []
    await world.webhooks.validate(attrs)
    assert world.asked() == ["h"]
