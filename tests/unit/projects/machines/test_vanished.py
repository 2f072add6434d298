"""Machines that went count on while their server may run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.projects.machines.builders import LARGE, NOW, SMALL, later
from ullage.ledger.amounts import Amounts
from ullage.projects.machines.facts import times
from ullage.projects.machines.vanished import State, Vanished, answered, bounded, still_counts, sum_of

KEEP = timedelta(minutes=2)
OLD = Vanished(key="machines.cluster.k8s.io/c-1/u-1", amounts=SMALL, since=NOW, created=later(-3600))
YOUNG = replace(OLD, created=later(-60))
UNSEEN = replace(OLD, created=None)
LEFT = replace(YOUNG, there=later(5))


@pytest.mark.parametrize(
    ("vanished", "seconds", "counts"),
    [
        pytest.param(OLD, 119, True, id="nobody can be asked, and the time is not over"),
        pytest.param(OLD, 120, False, id="nobody can be asked, and the time is over"),
        pytest.param(LEFT, 3600, True, id="its server was there when the provider was last asked, within the hour"),
        pytest.param(LEFT, 3606, False, id="the provider cannot be asked for more than an hour"),
        pytest.param(replace(LEFT, there=later(90_000)), 90_001, True, id="its server is there, a day later"),
    ],
)
def test_it_counts_for_a_set_time_and_for_as_long_as_its_server_is_there(
    vanished: Vanished, seconds: int, counts: bool
) -> None:
    assert still_counts(vanished, now=later(seconds), keep=KEEP) == counts


@pytest.mark.parametrize(
    ("vanished", "state", "seconds", "after"),
    [
        pytest.param(OLD, "gone", 5, None, id="the provider says that it is gone"),
        pytest.param(OLD, "gone", 0, None, id="and was asked in the second in which the object went"),
        pytest.param(OLD, "gone", -5, OLD, id="it said so before the object went: the server came later"),
        pytest.param(OLD, "there", 5, replace(OLD, there=later(5)), id="it is there"),
        pytest.param(OLD, "there", -5, OLD, id="it was there before the object went"),
        pytest.param(YOUNG, "gone", 5, YOUNG, id="made a moment before: its server may be on its way"),
        pytest.param(YOUNG, "gone", 540, None, id="made long enough before by now"),
        pytest.param(UNSEEN, "gone", 5, UNSEEN, id="nobody has seen when it was made: the time counts"),
        pytest.param(LEFT, "gone", 60, None, id="it was there, and is gone now"),
        pytest.param(LEFT, "there", 60, replace(LEFT, there=later(60)), id="it is still there"),
    ],
)
def test_what_an_answer_makes_of_it(vanished: Vanished, state: State, seconds: int, after: Vanished | None) -> None:
    assert answered(vanished, state, asked=later(seconds)) == after


def test_all_that_may_run_are_one_sum() -> None:
    other = replace(OLD, key="b", amounts=LARGE, there=later(1))
    assert sum_of([OLD, other], now=later(2), keep=KEEP) == SMALL + LARGE
    assert sum_of([OLD, other], now=later(121), keep=KEEP) == LARGE
    assert sum_of([OLD, other], now=later(7200), keep=KEEP) == Amounts()


def test_those_whose_servers_are_there_are_kept_one_by_one_before_all_others() -> None:
    left = replace(OLD, key="left", since=later(50), there=later(60))
    kept = bounded([*(replace(OLD, key=f"m-{number}", since=later(number)) for number in range(20)), left], most=3, rest="rest")
    assert {one.key for one in kept} == {"left", "m-0", "rest"}


def test_whoever_loses_machines_by_the_thousand_fills_no_object() -> None:
    many = [replace(OLD, key=f"m-{number:04}", since=later(number)) for number in range(1000)]
    kept = bounded(many, most=10, rest="rest")
    assert len(kept) == 10
    assert [one.key for one in kept] == [*(f"m-{number:04}" for number in range(9)), "rest"]
    assert sum_of(kept, now=later(100), keep=KEEP) == times(SMALL, 1000)
    assert sum_of(kept, now=later(120 + 998), keep=KEEP) == times(SMALL, 991)
    assert sum_of(kept, now=later(120 + 999), keep=KEEP) == Amounts()
    again = bounded([*kept, replace(OLD, key="m-1000", since=later(1000))], most=10, rest="rest")
    assert len(again) == 10
    assert sum_of(again, now=later(100), keep=KEEP) == times(SMALL, 1001)


def test_few_are_kept_one_by_one() -> None:
    assert bounded([replace(OLD, key="b", since=later(1)), OLD], most=2, rest="rest") == (
        OLD,
        replace(OLD, key="b", since=later(1)),
    )
