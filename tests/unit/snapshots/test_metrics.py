"""What the meters of snapshots show."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.unit.snapshots.objects import DELETED, snapshot
from ullage.clock import FakeClock
from ullage.snapshots.metrics import Metrics, state_of
from ullage.snapshots.model import Problem, Snapshot, State

START = datetime(2026, 1, 1, tzinfo=UTC)
CUT = State(record="r", cut=START + timedelta(seconds=2))
READY = replace(CUT, ready=True)


class Meters:
    def __init__(self) -> None:
        self.clock, self.registry = FakeClock(START), CollectorRegistry()
        self.metrics = Metrics(self.registry, clock=self.clock)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def meters() -> Meters:
    return Meters()


def test_the_three_times_of_a_snapshot(meters: Meters) -> None:
    meters.metrics.moved(snapshot(), CUT, driver="d")
    meters.clock.advance(9)
    meters.metrics.moved(snapshot(state=CUT), READY, driver="d")
    for name, seconds in (("requested_to_cut", 2.0), ("cut_to_uploaded", 7.0), ("requested_to_ready", 9.0)):
        assert meters.value(f"ullage_snapshot_{name}_seconds_count", driver="d") == 1
        assert meters.value(f"ullage_snapshot_{name}_seconds_sum", driver="d") == seconds


def test_a_state_that_is_written_again_is_not_counted_again(meters: Meters) -> None:
    meters.metrics.moved(snapshot(state=READY), READY, driver="d")
    assert meters.value("ullage_snapshot_requested_to_ready_seconds_count", driver="d") is None


def test_an_import_took_no_time(meters: Meters) -> None:
    meters.metrics.moved(snapshot(imported_record="by-hand"), READY, driver="d")
    assert meters.value("ullage_snapshot_requested_to_ready_seconds_count", driver="d") is None


def test_snapshots_are_counted_by_state(meters: Meters) -> None:
    one, other = snapshot(), snapshot(meta={"uid": "other"})
    meters.metrics.seen("ga", None, one)
    meters.metrics.seen("ga", None, other)
    meters.metrics.seen("ga", one, replace(one, state=READY))
    assert meters.value("ullage_snapshots", dialect="ga", state="ready") == 1
    assert meters.value("ullage_snapshots", dialect="ga", state="creating") == 1
    meters.metrics.seen("ga", other, None)
    assert meters.value("ullage_snapshots", dialect="ga", state="creating") is None


def test_the_oldest_that_is_not_ready_has_an_age(meters: Meters) -> None:
    assert meters.value("ullage_snapshot_oldest_unready_seconds") == 0
    meters.metrics.seen("ga", None, snapshot())
    meters.metrics.seen("ga", None, snapshot(meta={"uid": "old", "creation_timestamp": "2025-12-31T23:59:00Z"}, state=READY))
    meters.clock.advance(30)
    assert meters.value("ullage_snapshot_oldest_unready_seconds") == 30


def test_a_deletion_has_a_time_of_its_own(meters: Meters) -> None:
    going = snapshot(meta={"deletion_timestamp": "2026-01-01T00:00:05Z"})
    meters.metrics.seen("ga", None, going)
    meters.clock.advance(12)
    meters.metrics.seen("ga", going, None)
    meters.metrics.seen("ga", None, snapshot(meta={"uid": "lost"}))
    meters.metrics.seen("ga", snapshot(meta={"uid": "lost"}), None)  # nobody saw that it was asked for
    assert meters.value("ullage_snapshot_requested_to_deleted_seconds_count", dialect="ga") == 1
    assert meters.value("ullage_snapshot_requested_to_deleted_seconds_sum", dialect="ga") == 7


STATES: list[tuple[dict[str, Any], str]] = [
    ({}, "creating"),
    ({"state": CUT}, "uploading"),
    ({"state": READY}, "ready"),
    ({"state": State(problem=Problem("DriverError", "…"))}, "error"),
    ({"state": READY, "meta": {"deletion_timestamp": DELETED}}, "deleting"),
]


@pytest.mark.parametrize(("changed", "word"), STATES, ids=[word for _, word in STATES])
def test_one_word_for_a_state(changed: dict[str, Any], word: str) -> None:
    found: Snapshot = snapshot(**changed)
    assert state_of(found) == word
