"""Objects and their indexes."""

from __future__ import annotations

import pytest

from ullage.kube.cache.indexer import Indexer, Key, key_of
from ullage.kube.kinds import Meta, Object


def thing(name: str, *colours: str) -> Object:
    return Object(metadata=Meta(name=name, namespace="n", labels=dict.fromkeys(colours, "")))


def indexer() -> Indexer[Object]:
    made: Indexer[Object] = Indexer()
    made.index("by_colour", lambda obj: obj.metadata.labels)
    return made


def put(on: Indexer[Object], *objects: Object) -> None:
    for obj in objects:
        on.put(key_of(obj), obj)


def names(objects: list[Object]) -> list[str]:
    return [obj.metadata.name for obj in objects]


A = Key("n", "a")


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        pytest.param((), ("red",), {"red": ["a"]}, id="an object is found once it has a value"),
        pytest.param(("red",), ("blue",), {"blue": ["a"]}, id="a value that an object lost finds it no more"),
        pytest.param(("red", "blue"), ("blue",), {"blue": ["a"]}, id="one of two values is lost"),
        pytest.param(("red",), ("red", "blue"), {"red": ["a"], "blue": ["a"]}, id="one of two values is kept"),
        pytest.param(("red",), (), {}, id="an object without a value is found under none"),
    ],
)
def test_a_change_moves_an_object(before: tuple[str, ...], after: tuple[str, ...], found: dict[str, list[str]]) -> None:
    made = indexer()
    put(made, thing("a", *before))
    put(made, thing("a", *after))
    assert {value: names(made.by("by_colour", value)) for value in ("red", "blue") if made.by("by_colour", value)} == found


def test_a_value_finds_all_that_have_it_until_the_last_is_gone() -> None:
    made = indexer()
    put(made, thing("a", "red"), thing("b", "red"), thing("c", "red"))
    assert names(made.by("by_colour", "red")) == ["a", "b", "c"]
    made.put(A, None)
    assert names(made.by("by_colour", "red")) == ["b", "c"]
    made.put(Key("n", "b"), None)
    made.put(Key("n", "c"), None)
    assert made.by("by_colour", "red") == []
    assert made.values("by_colour") == [], "an index keeps nothing of what is gone"


def test_what_is_found_is_the_newest_object() -> None:
    made = indexer()
    newest = thing("a", "red")
    put(made, thing("a", "red"), newest)
    assert made.by("by_colour", "red")[0] is newest


def test_an_index_that_comes_late_knows_what_is_there() -> None:
    made = indexer()
    put(made, thing("a", "red"), thing("b"))
    made.index("by_letter", lambda obj: obj.metadata.name)
    assert names(made.by("by_letter", "b")) == ["b"]


def test_an_index_that_is_not_there_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="by_size"):
        indexer().by("by_size", "1")


def test_two_indexes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="by_colour"):
        indexer().index("by_colour", lambda obj: ())


def test_taking_away_what_is_not_there_changes_nothing() -> None:
    made = indexer()
    assert made.put(A, None) is None
    assert len(made) == 0


def test_a_key_reads_like_kubectl_shows_it() -> None:
    assert (str(Key("n", "a")), str(Key("", "a"))) == ("n/a", "a")
