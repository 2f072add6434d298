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


def test_who_edits_again_and_again_gets_some_tries_at_once_and_then_waits() -> None:
    tries, now, waited = attempts(), 0.0, []
    for edit in range(14):
        wait = tries.wait("a", edit, now)
        waited.append(wait)
        now += wait
        tries.refused("a", edit, now)
    assert waited == [0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert tries.wait("a", "once more", now + 121) == 0.0, "the next edit comes after a pause, and counts as the first"


def test_a_success_forgets_the_edits() -> None:
    tries = attempts()
    for edit in range(20):
        tries.refused("a", edit, 0.0)
    assert tries.wait("a", "other", 0.0) > 0
    tries.forget("a")
    assert tries.wait("a", "other", 0.0) == 0
