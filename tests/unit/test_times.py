"""Times as text: RFC 3339, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from ullage.times import micro_timestamp, read_time, timestamp

EAST = datetime(2026, 1, 1, 12, 0, 0, 7, tzinfo=timezone(timedelta(hours=2)))


def test_times_are_written_in_utc() -> None:
    assert timestamp(EAST) == "2026-01-01T10:00:00Z"
    assert micro_timestamp(EAST) == "2026-01-01T10:00:00.000007Z"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param("2026-01-01T10:00:00Z", datetime(2026, 1, 1, 10, tzinfo=UTC), id="in UTC"),
        pytest.param("2026-01-01T12:00:00+02:00", datetime(2026, 1, 1, 10, tzinfo=UTC), id="with an offset"),
        pytest.param("2026-01-01T10:00:00", datetime(2026, 1, 1, 10, tzinfo=UTC), id="without an offset it is UTC"),
        pytest.param("0001-01-01T00:00:00+02:00", None, id="a moment before the first year"),
        pytest.param("soon", None, id="no time"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_time_is_read(text: str, moment: datetime | None) -> None:
    assert read_time(text) == moment
