"""What is equal is held once, and nothing else changes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping

import msgspec
import pytest

from ullage.kube.cache.interning import Pool, collector_paused
from ullage.kube.kinds import Meta, Object, OwnerReference, Value


class Part(Value):
    volume: str = ""
    sizes: Mapping[str, int] = {}


class Thing(Object):
    spec: Part = Part()
    parts: tuple[Part, ...] = ()


DOCUMENT = {
    "metadata": {
        "name": "a",
        "namespace": "tenant",
        "labels": {"app": "db", "tier": "back"},
        "annotations": {},
        "finalizers": ["ullage.io/snapshot"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Volume", "name": "vol-1", "uid": "u-1"}],
    },
    "spec": {"volume": "vol-1", "sizes": {"used": 5}},
    "parts": [{"volume": "vol-1"}, {"volume": "vol-2", "sizes": {"used": 1}}],
}


def decoded() -> Thing:
    return msgspec.json.decode(msgspec.json.encode(DOCUMENT), type=Thing)


def test_a_compacted_object_is_equal_to_what_it_was() -> None:
    pool = Pool()
    pool.compact(decoded())
    thing = decoded()
    pool.compact(thing)
    assert thing == decoded()


def test_what_a_change_leaves_alone_is_taken_from_the_object_before_and_not_looked_through() -> None:
    before, pool = decoded(), Pool()
    change = {**DOCUMENT, "spec": {"volume": "vol-9", "sizes": {"used": 5}}}
    thing = msgspec.json.decode(msgspec.json.encode(change), type=Thing)
    pool.compact(thing, before)
    assert thing == msgspec.json.decode(msgspec.json.encode(change), type=Thing)
    assert thing.metadata is before.metadata
    assert thing.parts is before.parts
    assert thing.spec.sizes is before.spec.sizes
    assert set(pool._strings) == {"vol-9"}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(lambda thing: thing.metadata.namespace, id="the namespace"),
        pytest.param(lambda thing: thing.metadata.labels, id="a set of labels"),
        pytest.param(lambda thing: thing.metadata.annotations, id="an empty mapping"),
        pytest.param(lambda thing: thing.metadata.finalizers, id="finalizers"),
        pytest.param(lambda thing: thing.metadata.owner_references, id="owners"),
        pytest.param(lambda thing: thing.spec.volume, id="a string inside the spec"),
        pytest.param(lambda thing: thing.spec.sizes, id="a mapping of numbers"),
        pytest.param(lambda thing: thing.parts[1].volume, id="a string inside a list"),
    ],
)
def test_two_equal_objects_share(part: Callable[[Thing], object]) -> None:
    pool, one, other = Pool(), decoded(), decoded()
    pool.compact(one)
    pool.compact(other)
    assert part(one) is part(other)


def test_a_full_pool_starts_over_and_still_tells_the_truth() -> None:
    pool = Pool(room=3)
    for number in range(20):
        thing = Thing(
            metadata=Meta(
                namespace=f"n{number}",
                labels={"number": str(number)},
                finalizers=(f"f/{number}",),
                owner_references=(OwnerReference(api_version="v1", kind="K", name=f"k{number}", uid="u"),),
            )
        )
        pool.compact(thing)
        assert thing.metadata.namespace == f"n{number}"
        assert thing.metadata.labels == {"number": str(number)}
        assert thing.metadata.finalizers == (f"f/{number}",)
        assert thing.metadata.owner_references[0].name == f"k{number}"


def test_long_annotations_are_not_remembered() -> None:
    pool = Pool()
    text = "x" * 1000
    things = [Object(metadata=Meta(annotations={"last-applied": "".join([text, "y"])})) for _ in range(2)]
    for thing in things:
        pool.compact(thing)
    assert things[0].metadata.annotations is not things[1].metadata.annotations
    assert things[0] == things[1]


def test_the_collector_rests_until_the_last_pause_is_over() -> None:
    assert gc.isenabled()
    first, second = collector_paused(), collector_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled(), "the second pause still holds"
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "large",
    [
        pytest.param({"labels": {f"key-{number}": "v" for number in range(1000)}}, id="a mapping of many entries"),
        pytest.param({"labels": {"k" * 10_000: "v"}}, id="a long key"),
        pytest.param({"labels": {"k": "v" * 10_000}}, id="a long value"),
        pytest.param({"finalizers": ["f" * 10_000]}, id="a long string in a list"),
        pytest.param({"finalizers": [f"f-{number}" for number in range(1000)]}, id="a list of many strings"),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Volume", "name": "n" * 10_000, "uid": "u"}]},
            id="a long string in an object in a list",
        ),
    ],
)
def test_nothing_large_stays_in_a_pool_after_its_objects_are_gone(large: dict[str, object]) -> None:
    pool = Pool()
    thing = msgspec.json.decode(msgspec.json.encode({"metadata": large}), type=Thing)
    pool.compact(thing)
    assert thing == msgspec.json.decode(msgspec.json.encode({"metadata": large}), type=Thing)
    assert (pool._tuples, pool._mappings) == ({}, {})
    assert all(len(text) <= 200 for text in pool._strings)
