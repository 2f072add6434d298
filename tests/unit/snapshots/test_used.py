"""What stands on a PersistentVolume about what is in it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ullage.kube.kinds import Meta
from ullage.ledger.charging.methods import CAPACITY, ENGINE_HEAD, MEASURED
from ullage.snapshots.used import USED, Used, estimated_by, read_used, written

AT = datetime(2026, 1, 1, 10, tzinfo=UTC)


def volume(text: str | None) -> Meta:
    return Meta(name="pv", annotations={} if text is None else {USED: text})


def test_what_is_written_is_json_that_people_can_read_and_is_read_back() -> None:
    used = Used(bytes=123, at=AT, by=MEASURED)
    assert written(used) == '{"bytes":123,"at":"2026-01-01T10:00:00Z","by":"measured"}'
    assert read_used(volume(written(used))) == used


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="nothing is there"),
        pytest.param("", id="it is empty"),
        pytest.param("123", id="a bare number"),
        pytest.param('{"bytes":123', id="no JSON"),
        pytest.param('{"bytes":-1,"at":"2026-01-01T10:00:00Z","by":"measured"}', id="less than nothing"),
        pytest.param('{"bytes":9223372036854775808,"at":"2026-01-01T10:00:00Z","by":"measured"}', id="more than there can be"),
        pytest.param('{"bytes":1.5,"at":"2026-01-01T10:00:00Z","by":"measured"}', id="a part of a byte"),
        pytest.param('{"bytes":"123","at":"2026-01-01T10:00:00Z","by":"measured"}', id="a text for a number"),
        pytest.param('{"bytes":123,"at":"soon","by":"measured"}', id="at no time"),
        pytest.param('{"bytes":123,"by":"measured"}', id="without a time"),
        pytest.param('{"bytes":123,"at":"2026-01-01T10:00:00Z","by":"guesswork"}', id="by a method that there is not"),
        pytest.param('{"bytes":123,"at":"2026-01-01T10:00:00Z","by":"measured","x":"' + "x" * 300 + '"}', id="too long"),
        pytest.param('{"bytes":1' + "0" * 200 + "}", id="digits without end"),
        pytest.param('"\ud800"', id="half a character"),
    ],
)
def test_what_cannot_be_read_is_nothing(text: str | None) -> None:
    assert read_used(volume(text)) is None


@pytest.mark.parametrize(
    ("driver", "estimate", "by"),
    [
        pytest.param("driver.longhorn.io", 5, ENGINE_HEAD, id="an engine has told"),
        pytest.param("ullage.io/hostpath", 5, MEASURED, id="files were looked at"),
        pytest.param("ullage.io/hostpath", 0, MEASURED, id="nothing is an amount"),
        pytest.param("csi.example.com", None, CAPACITY, id="a driver that does not tell"),
        pytest.param("driver.longhorn.io", None, CAPACITY, id="an engine that was never seen"),
    ],
)
def test_how_an_estimate_was_come_by(driver: str, estimate: int | None, by: str) -> None:
    assert estimated_by(driver, estimate) == by
