"""Cron expressions: what is read, what is refused and in which words, and the times that follow."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.errors import BadInput
from ullage.policies.schedules.cron import LONGEST, MACROS, read_timetable, read_zone

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "first"),
    [
        ("*/15 * * * *", "2026-01-01 00:15"),
        ("0 2 * * *", "2026-01-01 02:00"),
        ("0 2 * * mon-fri", "2026-01-01 02:00"),
        ("0 2 * * 7", "2026-01-04 02:00"),
        ("0 0 1 FEB *", "2026-02-01 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("5,35 1-3/2 * * *", "2026-01-01 01:05"),
        ("@hourly", "2026-01-01 01:00"),
        ("@Daily", "2026-01-02 00:00"),
        ("  0  2  *  *  *  ", "2026-01-01 02:00"),
    ],
)
def test_the_first_time(schedule: str, first: str) -> None:
    found = read_timetable(schedule).next_after(START)
    assert found is not None
    assert f"{found:%Y-%m-%d %H:%M}" == first


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("", "it has 0 fields; five are needed: minute, hour, day of month, month, day of week"),
        ("* * * *", "it has 4 fields"),
        ("0 * * * * *", "it has 6 fields"),
        ("60 * * * *", "minute '60': '60' is not allowed; write *, a number from 0 to 59"),
        ("* 24 * * *", "hour '24'"),
        ("* * 0 * *", "day of month '0'"),
        ("* * * 13 *", "month '13': '13' is not allowed; write *, a number from 1 to 12 or JAN to DEC"),
        ("* * * * 8", "day of week '8'"),
        ("* * * * MON#2", "day of week 'MON#2'"),
        ("* * L * *", "day of month 'L'"),
        ("*/0 * * * *", "the step '0' is not a number from 1 to 99"),
        ("*/ * * * *", "the step '' is not"),
        ("9-5 * * * *", "the range 9-5 ends before it begins"),
        ("1,,2 * * * *", "minute '1,,2'"),
        ("-1 * * * *", "minute '-1'"),
        ("٣ * * * *", "minute '٣'"),
        ("0 0 31 2 *", "no month has such a day"),
        ("0 0 30 2 */7", "no month has such a day"),
        ("@reboot", "there is no such word; write five fields, or one of @hourly"),
        ("*" * (LONGEST + 1), f"it has {LONGEST + 1} characters; {LONGEST} at most are allowed"),
    ],
)
def test_what_cannot_be_is_told_with_its_field(schedule: str, words: str) -> None:
    with pytest.raises(BadInput, match=r"spec\.schedule") as error:
        read_timetable(schedule)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "name", ["", "Europe", "Mars/Phobos", "../../etc/passwd", "localtime", "right/UTC", "Factory", "A" * 999]
)
def test_time_zones_that_are_none(name: str) -> None:
    with pytest.raises(BadInput, match=r"spec\.timeZone .*Europe/Berlin") as error:
        read_zone(name)
    assert len(str(error.value)) < 300


def test_a_second_of_an_hour_that_comes_twice_does_not_bring_a_time_of_day_back() -> None:
    table = read_timetable("50 2 * * *", "Europe/Berlin")
    second_pass = datetime(2026, 10, 25, 1, 45, tzinfo=UTC)  # 02:45 for the second time
    found = table.next_after(second_pass)
    assert found == datetime(2026, 10, 26, 1, 50, tzinfo=UTC)


def test_a_midnight_that_does_not_exist() -> None:
    """In Beirut clocks go forward at midnight, on 2026-03-29."""
    table = read_timetable("0 0 * * *", "Asia/Beirut")
    found = table.next_after(datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert found == datetime(2026, 3, 28, 22, tzinfo=UTC), "01:00 there"


def test_what_is_rare_costs_little() -> None:
    began = time.process_time()
    table = read_timetable("0 0 29 2 */7", "America/New_York")
    assert table.last_between(datetime(1990, 1, 1, tzinfo=UTC), START) == datetime(2004, 2, 29, 5, tzinfo=UTC)
    minutes = read_timetable("* * * * *", "Europe/Berlin")
    assert minutes.last_between(datetime(1990, 1, 1, tzinfo=UTC), START) == START
    assert time.process_time() - began < 2.0


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "15 */3 * * 1-5", "0 0 1 * *", "59 23 28-31 * *", *MACROS]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]),
    st.integers(0, 2 * 365 * 86400),
    st.integers(0, 40 * 86400),
)
def test_the_last_time_is_the_one_that_going_through_all_finds(schedule: str, zone: str, start: int, seconds: int) -> None:
    table, after = read_timetable(schedule, zone), START + timedelta(seconds=start)
    until = after + timedelta(seconds=seconds if "7" not in schedule else seconds % 86400)
    last, found = None, table.next_after(after)
    while found is not None and found <= until:
        last, found = found, table.next_after(found)
    assert table.last_between(after, until) == last


def test_a_search_ends_although_clocks_once_went_back_over_midnight() -> None:
    """A search without an end would stop the schedules of everybody."""

    def hangs(*_: object) -> None:
        raise TimeoutError("it goes round for ever")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, 10)
    try:
        found = read_timetable("59 * */9 * 0", "America/St_Johns").next_after(datetime(2009, 10, 20, 18, 19, 51, tzinfo=UTC))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert found is None
