"""How an amount was found: of several the worst, and when another way is worth a write."""

from __future__ import annotations

import pytest

from ullage.cli.why.text import METHODS as SPELLED
from ullage.ledger.charging.methods import METHODS, UNKNOWN, is_better, weakest


@pytest.mark.parametrize(
    ("methods", "worst"),
    [
        pytest.param(["engine-size", "capacity", "measured"], "capacity", id="a sum is as good as the worst of it"),
        pytest.param(["engine-head", "engine-size"], "engine-head", id="before the cut is worse than after it"),
        pytest.param(["capacity", "last-snapshot"], "last-snapshot", id="what may be less is worse than a bound"),
        pytest.param(["a guess"], "unknown", id="what is no method tells nothing"),
        pytest.param([], "unknown", id="nor does nothing"),
    ],
)
def test_of_several_the_weakest(methods: list[str], worst: str) -> None:
    assert weakest(methods) == worst


@pytest.mark.parametrize(
    ("method", "had", "better"),
    [
        pytest.param("measured", "capacity", True, id="a bound that is known now"),
        pytest.param("engine-size", "unknown", True, id="what nobody knew"),
        pytest.param("restore-size", "capacity", False, id="another bound"),
        pytest.param("engine-size", "engine-head", False, id="what was known"),
        pytest.param("restore-size", "last-snapshot", True, id="a bound for what is a guess"),
        pytest.param("allocated-blocks", "last-snapshot", True, id="a guess that is known now"),
        pytest.param("last-snapshot", "capacity", False, id="a guess for a bound"),
        pytest.param("unknown", "last-snapshot", False, id="nothing for a guess"),
        pytest.param("", "capacity", False, id="nobody says anything"),
        pytest.param("measured", "", False, id="it never said: that comes with the next amount"),
    ],
)
def test_what_is_worth_a_write(method: str, had: str, better: bool) -> None:
    assert is_better(method, had) is better


def test_people_are_told_of_every_method() -> None:
    assert SPELLED.keys() == set(METHODS) - {UNKNOWN}
