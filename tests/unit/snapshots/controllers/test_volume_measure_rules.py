"""When a volume is measured, and what is worth a write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import convert

from ullage.kube.builtin.core import PersistentVolume
from ullage.kube.kinds import Meta
from ullage.ledger.charging.methods import CAPACITY, MEASURED
from ullage.snapshots.controllers import volume_measure as rules
from ullage.snapshots.model import Snapshot, State
from ullage.snapshots.used import Used

NOW = datetime(2026, 1, 1, 10, tzinfo=UTC)
GIB, MIB, KIB = 1024**3, 1024**2, 1024


def known(size: int, *, hours: float = 0.0, by: str = MEASURED) -> Used:
    return Used(bytes=size, at=NOW - timedelta(hours=hours), by=by)


@pytest.mark.parametrize(
    ("used", "found", "cut_hours_ago", "news"),
    [
        pytest.param(None, 0, None, True, id="nothing was known"),
        pytest.param(known(GIB), GIB, None, False, id="nothing has changed"),
        pytest.param(known(GIB, hours=1000), GIB, None, False, id="nothing has changed for weeks: idle costs nothing"),
        pytest.param(known(GIB), GIB + GIB // 100, None, False, id="it has grown by one percent"),
        pytest.param(known(GIB), GIB + GIB // 100 + 1, None, True, id="by more than one percent"),
        pytest.param(known(GIB), GIB - GIB // 50, None, True, id="it has shrunk"),
        pytest.param(known(0), 64 * KIB, None, False, id="an empty one has got a few small files"),
        pytest.param(known(0), 64 * KIB + 1, None, True, id="an empty one has got something"),
        pytest.param(known(MIB), MIB + 60 * KIB, None, False, id="a small one has changed by a little"),
        pytest.param(known(GIB, by=CAPACITY), GIB, None, True, id="it was come by in another way"),
        pytest.param(known(GIB, hours=2), GIB, 1, True, id="a snapshot was taken, and the figure is old"),
        pytest.param(known(GIB, hours=0.5), GIB, 0.1, False, id="a snapshot was taken, and the figure is young"),
        pytest.param(known(GIB, hours=2), GIB, 3, False, id="the figure is from after the last snapshot"),
    ],
)
def test_what_is_written(used: Used | None, found: int, cut_hours_ago: float | None, news: bool) -> None:
    cut = None if cut_hours_ago is None else NOW - timedelta(hours=cut_hours_ago)
    assert rules.is_news(used, found, by=MEASURED, now=NOW, cut=cut) is news


@pytest.mark.parametrize(
    ("ref", "going", "measured"),
    [
        pytest.param({"namespace": "team", "name": "db", "uid": "u"}, False, True, id="a claim has it"),
        pytest.param(None, False, False, id="nobody has it"),
        pytest.param({"namespace": "team", "name": "db"}, False, False, id="it is kept for a claim that is not there yet"),
        pytest.param({"namespace": "team", "name": "db", "uid": "u"}, True, False, id="it is being deleted"),
    ],
)
def test_which_volumes_are_measured(ref: dict[str, str] | None, going: bool, measured: bool) -> None:
    meta = {"name": "pv", "deletionTimestamp": "2026-01-01T00:00:00Z" if going else None}
    volume = convert({"metadata": meta, "spec": {"claimRef": ref}}, PersistentVolume)
    assert rules.is_measured(volume) is measured


def test_the_last_cut_is_that_of_the_newest_snapshot_that_has_one() -> None:
    cuts = [None, NOW, NOW - timedelta(hours=1), None]
    found = [Snapshot(meta=Meta(name="s"), claim="db", state=State(cut=cut)) for cut in cuts]
    assert rules.last_cut(found) == NOW
    assert rules.last_cut([]) is None


def test_volumes_that_nobody_snapshots_are_measured_seldom_and_all_of_them_one_after_the_other() -> None:
    assert rules.time_between_measurements(300, has_snapshots=True) == 300
    assert rules.time_between_measurements(300, has_snapshots=False) == 3600
    parts = [rules.spread(f"uid-{number}", 100) for number in range(1000)]
    assert all(0 <= one < 100 for one in parts)
    assert [sum(int(one // 10) == part for one in parts) > 50 for part in range(10)] == [True] * 10
