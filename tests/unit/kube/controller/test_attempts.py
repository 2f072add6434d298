"""When what failed is tried again: soon, after a long time, or at once where it is another case."""

from __future__ import annotations

import pytest

from ullage.kube.backoff import Backoff
from ullage.kube.controller.attempts import AFTER_REFUSAL, Attempts

SOON = Backoff(first=1.0, cap=60.0)
LATE = Backoff(first=300.0, cap=3600.0)


def attempts() -> Attempts[str]:
    return Attempts(SOON, after_refusal=LATE)


def test_what_may_pass_is_tried_later_and_later() -> None:
    tries = attempts()
    assert [tries.failed("a", 1, 0.0) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_refusal_is_tried_again_after_a_long_time_up_to_an_hour() -> None:
    tries = attempts()
    assert [tries.refused("a", 1, 0.0) for _ in range(6)] == [300, 600, 1200, 2400, 3600, 3600]
    assert AFTER_REFUSAL == LATE


@pytest.mark.parametrize(
    ("facts", "now", "wait"),
    [
        pytest.param("same", 100.0, 200.0, id="nothing has changed"),
        pytest.param("same", 300.0, 0.0, id="the time has come"),
        pytest.param("other", 100.0, 0.0, id="something has changed"),
    ],
)
def test_a_refusal_rests_until_its_time_or_a_change(facts: str, now: float, wait: float) -> None:
    tries = attempts()
    tries.refused("a", "same", 0.0)
    assert tries.wait("a", facts, now) == wait
    assert tries.wait("b", "same", now) == 0.0


def test_a_refusal_after_many_failures_begins_a_count_of_its_own() -> None:
    tries = attempts()
    for _ in range(5):
        tries.failed("a", 1, 0.0)
    assert tries.refused("a", 1, 0.0) == 300
    assert tries.failed("a", 1, 0.0) == 1
