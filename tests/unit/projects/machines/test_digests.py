"""Provider specs that are one have one digest, and others have others."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.projects.machines.digests import BadSpec, digest, same


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


def test_a_spec_that_is_nested_too_deeply_is_an_error_that_names_the_field() -> None:
    spec: Any = 1
    for _ in range(20_000):
        spec = {"a": spec}
    with pytest.raises(BadSpec, match=r"^spec.providerSpec …: it is nested too deeply$"):
        digest(spec)
    assert not same(spec, spec)


def test_what_is_no_json_is_an_error_that_names_the_field() -> None:
    with pytest.raises(BadSpec, match=r"^spec.providerSpec …: it is no JSON: "):
        digest({"a": "\ud800"})
