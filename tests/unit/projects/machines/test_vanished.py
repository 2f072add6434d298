"""Machines that went count on while their server may run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.projects.machines.builders import LARGE, NOW, SMALL, later
from ullage.ledger.amounts import Amounts
from ullage.projects.machines.facts import times
from ullage.projects.machines.vanished import Answer, Vanished, bounded, still_counts, sum_of

KEEP = timedelta(hours=1)
GONE = Vanished(key="machines.cluster.k8s.io/c-1/kube-system/web-1/u-1", amounts=SMALL, since=NOW, provider_id="aws:///i-1")
NAMELESS = replace(GONE, provider_id="")


@pytest.mark.parametrize(
    ("vanished", "seconds", "answer", "counts"),
    [
        pytest.param(GONE, 10, None, True, id="nobody has asked yet"),
        pytest.param(GONE, 3599, None, True, id="nobody can be asked, and the time is not over"),
        pytest.param(GONE, 3600, None, False, id="nobody can be asked, and the time is over"),
        pytest.param(GONE, 10, Answer("gone", later(5)), False, id="the provider says that it is gone"),
        pytest.param(GONE, 10, Answer("gone", NOW), False, id="and was asked in the second in which the object went"),
        pytest.param(GONE, 10, Answer("gone", later(-5)), True, id="it said so before the object went: the server came later"),
        pytest.param(GONE, 9000, Answer("there", later(8990)), True, id="it still runs, hours later"),
        pytest.param(GONE, 9000, Answer("there", later(5400)), False, id="it ran when the provider was last asked, long ago"),
        pytest.param(GONE, 3700, Answer("unknown", later(3690)), False, id="the provider does not know: the time counts"),
        pytest.param(GONE, 10, Answer("unknown", later(5)), True, id="the provider does not know"),
        pytest.param(NAMELESS, 10, Answer("gone", later(5)), True, id="an id that the provider never named is not believed"),
        pytest.param(NAMELESS, 3600, Answer("there", later(3590)), False, id="nor is it that such a server runs"),
    ],
)
def test_it_counts_until_the_provider_says_gone_or_for_a_set_time(
    vanished: Vanished, seconds: int, answer: Answer | None, counts: bool
) -> None:
    assert still_counts(vanished, now=later(seconds), keep=KEEP, answer=answer) == counts


def test_all_that_may_run_are_one_sum() -> None:
    other = replace(GONE, key="b", amounts=LARGE)
    gone = {GONE.key: Answer("gone", later(1))}
    assert sum_of([GONE, other], now=later(2), keep=KEEP) == SMALL + LARGE
    assert sum_of([GONE, other], now=later(2), keep=KEEP, answers=gone) == LARGE
    assert sum_of([GONE, other], now=later(7200), keep=KEEP) == Amounts()


def test_whoever_loses_machines_by_the_thousand_fills_no_object() -> None:
    many = [replace(GONE, key=f"m-{number:04}", since=later(number)) for number in range(1000)]
    kept = bounded(many, most=10, rest="rest")
    assert len(kept) == 10
    assert [one.key for one in kept] == [*(f"m-{number:04}" for number in range(9)), "rest"]
    assert sum_of(kept, now=later(1000), keep=KEEP) == times(SMALL, 1000)
    assert sum_of(kept, now=later(3600 + 998), keep=KEEP) == times(SMALL, 991)
    assert sum_of(kept, now=later(3600 + 999), keep=KEEP) == Amounts()
    again = bounded([*kept, replace(GONE, key="m-1000", since=later(1000))], most=10, rest="rest")
    assert len(again) == 10
    assert sum_of(again, now=later(1000), keep=KEEP) == times(SMALL, 1001)


def test_few_are_kept_one_by_one() -> None:
    assert bounded([replace(GONE, key="b", since=later(1)), GONE], most=2, rest="rest") == (
        GONE,
        replace(GONE, key="b", since=later(1)),
    )
