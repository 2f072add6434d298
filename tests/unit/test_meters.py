"""What is told of a call that was timed."""

from __future__ import annotations

import asyncio

import pytest

from ullage.clock import FakeClock
from ullage.errors import Impossible, NotNow, Retryable, Uncertain
from ullage.meters import outcome_of, timed


@pytest.mark.parametrize(
    ("error", "word"),
    [
        pytest.param(Uncertain("?"), "uncertain", id="it may have happened"),
        pytest.param(NotNow("busy"), "not_now", id="it may work later"),
        pytest.param(Retryable("away"), "not_now", id="anything else that is tried again"),
        pytest.param(Impossible("never"), "impossible", id="only an edit helps"),
        pytest.param(asyncio.CancelledError(), "cancelled", id="nobody wanted it any more"),
        pytest.param(KeyError("a"), "error", id="a fault of our own"),
    ],
)
def test_how_a_call_ended_is_one_word(error: BaseException, word: str) -> None:
    assert outcome_of(error) == word


def test_a_block_is_told_with_its_end_and_its_seconds() -> None:
    clock, told = FakeClock(), list[tuple[str, float]]()

    def call(seconds: float, error: Exception | None = None) -> None:
        with timed(lambda outcome, took: told.append((outcome, took)), clock=clock):
            clock.advance(seconds)
            if error is not None:
                raise error

    call(2.0)
    with pytest.raises(NotNow):
        call(3.0, NotNow("busy"))
    assert told == [("done", 2.0), ("not_now", 3.0)]
