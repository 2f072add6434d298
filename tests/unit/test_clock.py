"""Time as an argument: both clocks keep the promises of the protocol."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from ullage.clock import BootClock, Clock, FakeClock, SystemClock


def test_the_system_clock_is_aware_and_in_utc() -> None:
    clock: Clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has this clock by this name")
def test_the_boot_clock_counts_the_time_that_the_machine_slept() -> None:
    clock: Clock = BootClock()
    before, now, after = time.clock_gettime(time.CLOCK_BOOTTIME), clock.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= now <= after


def test_a_fake_clock_moves_only_when_told_to_and_both_hands_together() -> None:
    clock = FakeClock(datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC))
    assert clock.now() == clock.now()
    before = clock.monotonic()
    clock.advance(1.5)
    assert clock.now() == datetime(2026, 3, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    assert clock.monotonic() - before == 1.5


def test_a_fake_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="-1 s"):
        FakeClock().advance(-1)
