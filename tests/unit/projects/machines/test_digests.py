"""Provider specs that are one have one digest, and others have others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ullage.projects.machines.digests import MOST_DEEP, MOST_PARTS, BadSpec, digest, same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}, id="keys in another order"),
        pytest.param({"a": 1, "b": None}, {"a": 1}, id="null is absent"),
        pytest.param({"disk": 25.0}, {"disk": 25}, id="a whole number that was written as a fraction"),
        pytest.param({"disk": 1e3}, {"disk": 1000}, id="a whole number that was written with an exponent"),
    ],
)
def test_what_the_api_may_give_back_is_the_same(one: Any, other: Any) -> None:
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"flavour": "m"}, {"flavour": "l"}, id="another value"),
        pytest.param({"cpus": 1}, {"cpus": "1"}, id="a number and its text"),
        pytest.param({"gpu": 1}, {"gpu": True}, id="a number and a truth"),
        pytest.param({"disks": [1, 2]}, {"disks": [2, 1]}, id="a list in another order"),
        pytest.param({"disks": [1, None]}, {"disks": [1]}, id="null in a list is an element"),
        pytest.param({"a": {"b": 1}}, {"a": {}, "b": 1}, id="at another place"),
        pytest.param({"disk": 1.5}, {"disk": 1}, id="a fraction"),
        pytest.param(None, {}, id="none at all, and an empty one"),
    ],
)
def test_what_differs_has_another_digest(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)
    assert not same(one, other)


def nested(depth: int) -> Any:
    spec: Any = 1
    for _ in range(depth):
        spec = {"a": spec}
    return spec


def test_a_spec_that_is_nested_too_deeply_is_an_error_that_names_the_field() -> None:
    with pytest.raises(BadSpec, match=r"^spec.providerSpec …: it is nested too deeply, more than 100 levels$"):
        digest(nested(20_000))
    assert not same(nested(20_000), nested(20_000))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"a": list(range(MOST_PARTS))}, id="elements of a list"),
        pytest.param({"a": {str(number): 0 for number in range(MOST_PARTS)}}, id="fields of an object"),
        pytest.param([[0]] * (MOST_PARTS // 2 + 1), id="parts of parts"),
    ],
)
def test_a_spec_of_too_many_parts_is_an_error_that_names_the_field(spec: Any) -> None:
    with pytest.raises(BadSpec, match=r"^spec.providerSpec …: it has more than 5000 fields and elements$"):
        digest(spec)


def test_a_spec_that_is_as_large_and_deep_as_may_be_has_a_digest() -> None:
    assert digest(list(range(MOST_PARTS)))
    assert digest(nested(MOST_DEEP))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: list(range(MOST_PARTS + 1)), id="too many parts"),
        pytest.param(lambda: nested(MOST_DEEP + 1), id="too deep"),
    ],
)
def test_what_has_no_digest_is_like_what_is_equal_to_it_alone(make: Callable[[], Any]) -> None:
    with pytest.raises(BadSpec):
        digest(make())
    assert same(make(), make())
    assert not same(make(), [make()])
    assert not same(make(), {"a": 1})


def test_what_is_no_json_is_an_error_that_names_the_field() -> None:
    with pytest.raises(BadSpec, match=r"^spec.providerSpec …: it is no JSON: "):
        digest({"a": "\ud800"})
