"""Which snapshots of schedules are kept: by each rule and by all, and what no rule ever takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policies.schedules.scene import NAMESPACE, Scene, moment
from ullage.clock import FakeClock
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.indexer import Key
from ullage.kube.kinds import Meta
from ullage.ledger.charging.stamps import STAMP
from ullage.policies.schedules.api import SCHEDULES
from ullage.policies.schedules.controllers.retain_rules import judge
from ullage.policies.schedules.lookup import DIALECTS
from ullage.policies.schedules.model import (
    GROUP_LABEL,
    RUN_NOW,
    SCHEDULED_BY,
    SCHEDULED_FOR,
    SEEN,
    Scheduled,
    snapshot_name,
)
from ullage.policies.schedules.pace import Pace
from ullage.policies.schedules.retention import Limits
from ullage.snapshots.data_source import RESTORING
from ullage.snapshots.model import COPYING, GUARD, PROTECTED, READ_BY, Problem, Snapshot, State
from ullage.times import read_time, timestamp

DAY = timedelta(days=1)
NOW = datetime(2026, 2, 1, tzinfo=UTC)
HOURLY = {"schedule": "0 * * * *"}


@pytest.fixture(params=["ga", "prototype"])
def scene(request: pytest.FixtureRequest) -> Scene:
    made = Scene(dialect=request.param)
    made.claims("a", "b")
    return made


def one(day: float, *, claim: str = "a", size: int = 1, **changed: Any) -> Scheduled:
    """A good snapshot that was cut so many days ago, for a time so many days ago."""
    problem = changed.pop("problem", "")
    ready = changed.pop("ready", not problem)
    note = {PROTECTED: "true"} if changed.pop("protected", False) else {}
    note |= changed.pop("annotations", {})
    name = changed.pop("name", f"{claim}-{day}")
    planned = changed.pop("planned", day)
    state = State(
        ready=ready,
        cut=changed.pop("cut", NOW - day * DAY if ready else None),
        waiting=changed.pop("waiting", None),
        restore_size=size,
        problem=Problem(problem, "it went wrong") if problem else None,
    )
    meta = Meta(name=name, namespace=NAMESPACE, annotations=note, **changed)
    snapshot = Snapshot(meta=meta, claim=claim, state=state)
    return Scheduled(snapshot=snapshot, dialect="ga", group="g", schedule="s", time=NOW - planned * DAY)


def gone(*snapshots: Scheduled, used: tuple[str, ...] = (), **limits: Any) -> list[str]:
    verdict = judge(snapshots, Limits(**limits), now=NOW, in_use=lambda found: found.name in used)
    return [found.name for found in verdict.delete]


# --- the rules -------------------------------------------------------------------------------------------------------


def test_without_a_rule_everything_good_is_kept() -> None:
    assert gone(one(1), one(2), one(300)) == []


def test_by_count_the_newest_of_each_claim_are_kept_and_the_oldest_go_first() -> None:
    assert gone(one(1), one(4), one(2), one(3), one(9, claim="b"), count=2) == ["a-4", "a-3"]


def test_by_age() -> None:
    assert gone(one(1), one(7), one(8), one(9), age=7 * DAY) == ["a-9", "a-8"]


def test_by_size_the_oldest_of_all_claims_go_until_the_rest_fits() -> None:
    found = (one(1, size=4), one(2, size=4), one(3, size=4), one(4, size=4, claim="b"), one(2, size=4, claim="b"))
    assert gone(*found, total_size=12) == ["b-4", "a-3"]
    assert gone(*found, total_size=20) == []
    assert gone(*found, total_size=19) == ["b-4"]


def test_all_rules_apply_together() -> None:
    found = (one(1, size=5), one(2, size=5), one(3, size=5), one(4, size=5), one(30, size=5))
    assert gone(*found, count=4, age=10 * DAY, total_size=15) == ["a-30", "a-4"]


@pytest.mark.parametrize("limits", [{"count": 1}, {"age": DAY / 2}, {"total_size": 0}], ids=["count", "age", "size"])
def test_the_newest_good_one_of_each_claim_stays_whatever_the_rule(limits: dict[str, Any]) -> None:
    found = (one(9), one(10), one(20, claim="b"), one(1, problem="DriverError"), one(0, ready=False))
    assert gone(*found, **limits) == ["a-10"]


def test_the_newest_is_the_one_that_was_cut_last_whatever_time_it_was_for() -> None:
    """A request to run at once may be cut before the run of an earlier time, which has jitter."""
    late, asked = one(1, planned=3, name="late"), one(2, name="asked")
    assert gone(late, asked, count=1) == ["asked"]
    assert gone(late, asked, age=DAY / 2) == ["asked"]
    assert gone(late, asked, total_size=0) == ["asked"]
    assert gone(one(1), one(2), one(3, planned=-25000, name="forged"), count=2) == ["forged"]


def test_where_no_cut_is_told_the_creation_counts() -> None:
    def untold(name: str, created: str, planned: int) -> Scheduled:
        meta = Meta(name=name, namespace=NAMESPACE, creation_timestamp=created)
        snapshot = Snapshot(meta=meta, claim="a", state=State(ready=True))
        return Scheduled(snapshot=snapshot, dialect="ga", group="g", schedule="s", time=NOW - planned * DAY)

    assert gone(untold("x", "2026-01-30T00:00:00Z", 9), untold("y", "2026-01-29T00:00:00Z", 1), count=1) == ["y"]


def test_what_was_cut_in_a_time_that_has_not_come_is_left_alone_and_counts_for_nothing() -> None:
    """Some clock is wrong, and nobody knows which."""
    ahead = one(-2, name="ahead")
    assert gone(ahead, one(1), one(2), one(3), count=2) == ["a-3"]
    assert gone(ahead, one(1), one(2), total_size=1) == ["a-2"]
    verdict = judge((ahead, one(1)), Limits(count=1), now=NOW, in_use=lambda _: False)
    assert (verdict.kept, [found.name for found in verdict.ahead]) == (2, ["ahead"])
    little = one(-0.04, name="little")  # an hour is what clocks may differ
    assert gone(little, one(1), count=1) == ["a-1"]


def test_what_was_there_before_its_own_cut_is_older_than_what_came_after_it() -> None:
    seen = {SEEN: "2026-01-25T00:00:00Z"}
    ahead = one(0, name="ahead", annotations=seen)
    assert gone(ahead, one(1), one(2), count=2) == ["ahead"]
    assert gone(ahead, one(9), count=1) == ["a-9"]
    assert gone(ahead, one(1), age=3 * DAY) == [], (
        "its age counts from what its cut says: a clock that is wrong deletes nothing"
    )
    both = one(0.5, name="both", annotations=seen)
    assert gone(ahead, both, count=1) == ["both"]
    unread = one(0, name="unread", annotations={SEEN: "soon"})
    assert gone(unread, one(1), count=1) == ["a-1"]


def test_what_is_protected_stays_and_counts() -> None:
    assert gone(one(1), one(2, protected=True), one(3), count=2) == ["a-3"]
    assert gone(one(1), one(2), one(3, protected=True), count=1) == ["a-2"]
    assert gone(one(1, size=5), one(2, size=5, protected=True), total_size=1) == []


def test_what_is_in_use_stays() -> None:
    assert gone(one(1), one(2), one(3), used=("a-3",), count=1) == ["a-2"]


def test_what_goes_already_is_not_counted_and_not_deleted_again() -> None:
    assert gone(one(1), one(2, deletion_timestamp="2026-01-31T00:00:00Z"), one(3), count=2) == []


def test_failed_ones_are_kept_in_small_number() -> None:
    broken = [one(day, problem="DriverError", name=f"f{day}") for day in (1, 2, 3, 4)]
    assert gone(one(9), *broken, failed=2) == ["f4", "f3"]
    assert gone(*broken, failed=0) == ["f4", "f3", "f2", "f1"]


def test_one_that_lost_its_data_is_not_a_good_one() -> None:
    lost = one(1, problem="SnapshotLost", ready=True, name="lost")
    assert gone(lost, one(2), one(3), count=1, failed=0) == ["a-3", "lost"]


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param(one(0.49, ready=False), id="nothing is heard of it"),
        pytest.param(one(0.49, ready=False, problem="DriverRetrying"), id="it reports a problem"),
        pytest.param(one(0.49, ready=False, problem="ClaimNotBound"), id="it waits for its claim"),
        pytest.param(one(6.9, ready=False, cut=NOW), id="it is cut"),
        pytest.param(one(6.9, ready=False, waiting=Problem(COPYING, "3 of 9 GiB")), id="it tells how far it is"),
    ],
)
def test_one_in_the_making_is_left_alone(waiting: Scheduled) -> None:
    assert gone(one(1), waiting, count=1, age=DAY, failed=0) == []


@pytest.mark.parametrize(
    "stuck",
    [
        pytest.param(one(0.5, ready=False, name="stuck"), id="for half a day nothing was heard of it"),
        pytest.param(one(0.5, ready=False, problem="DriverRetrying", name="stuck"), id="it reports a problem for half a day"),
        pytest.param(one(7, ready=False, cut=NOW, name="stuck"), id="it was cut a week ago, and is not ready"),
    ],
)
def test_one_that_does_not_get_done_counts_as_failed(stuck: Scheduled) -> None:
    assert gone(one(1), stuck, failed=0) == ["stuck"]
    assert gone(one(1), stuck, failed=1) == []
    assert gone(one(1), stuck, used=("stuck",), failed=0) == []


def test_what_a_snapshot_takes_is_what_its_namespace_is_charged() -> None:
    stamped = one(2, size=100)
    stamp = {STAMP: '{"snapshots/namespace":{"storage":"7"},"snapshots/vm/x":{"storage":"5"}}'}
    meta = Meta(name="s", namespace=NAMESPACE, annotations=stamp)
    charged = Scheduled(
        snapshot=Snapshot(meta=meta, claim="a", state=stamped.snapshot.state), dialect="ga", group="g", schedule="s", time=NOW
    )
    assert (stamped.size, charged.size) == (100, 7)
    bad = Meta(name="s", namespace=NAMESPACE, annotations={STAMP: "{"})
    unread = Scheduled(
        snapshot=Snapshot(meta=bad, claim="a", state=State(restore_size=3)), dialect="ga", group="g", schedule="s", time=NOW
    )
    assert unread.size == 3


SNAPSHOTS = st.builds(
    one,
    st.integers(0, 60),
    planned=st.integers(-30, 60),
    claim=st.sampled_from("ab"),
    size=st.integers(0, 9),
    problem=st.sampled_from(["", "", "", "DriverError", "DriverRetrying"]),
    protected=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(SNAPSHOTS, max_size=30, unique_by=lambda found: found.name),
    st.one_of(st.none(), st.integers(1, 5)),
    st.one_of(st.none(), st.integers(1, 50)),
    st.one_of(st.none(), st.integers(0, 60)),
    st.sets(st.integers(0, 60)),
)
def test_whatever_is_there_and_whatever_the_rules(
    found: list[Scheduled], count: int | None, days: int | None, size: int | None, used: set[int]
) -> None:
    names = tuple(f"{claim}-{day}" for claim in "ab" for day in used)
    age = None if days is None else days * DAY
    dead = set(gone(*found, used=names, count=count, age=age, total_size=size, failed=1))
    for claim in "ab":
        good = sorted((x for x in found if x.good and x.claim == claim), key=lambda x: x.born)
        if good:
            assert good[-1].name not in dead
    assert not dead & {x.name for x in found if x.protected or (x.making and not x.given_up(NOW)) or x.name in names}
    left = [x for x in found if x.name not in dead]
    free = [x for x in left if x.good and not x.protected and x.name not in names]
    newest = {x.claim: x.name for x in sorted((x for x in left if x.good), key=lambda x: x.born)}
    free = [x for x in free if newest[x.claim] != x.name]
    assert age is None or all(NOW - x.born <= age for x in free)
    assert size is None or sum(x.size for x in left if x.good) <= size or not any(x.size for x in free)
    assert set(gone(*left, used=names, count=count, age=age, total_size=size, failed=1)) == set(), "it comes to rest"


# --- with the API ----------------------------------------------------------------------------------------------------


async def test_a_day_of_hours_keeps_three(scene: Scene) -> None:
    scene.schedule(**HOURLY, retention={"count": 3})
    await scene.live("2026-01-01 23:30")
    assert scene.times("a") == scene.times("b") == ["01-01 21:00", "01-01 22:00", "01-01 23:00"]
    status = scene.status()
    assert (status["made"], status["kept"]) == (46, 6)
    assert "SnapshotsDeleted" in scene.told.reasons


async def test_of_a_run_with_jitter_and_one_at_once_before_it_the_one_cut_last_stays(scene: Scene) -> None:
    scene.schedule(**HOURLY, jitterSeconds=3600, retention={"count": 1}, metadata={"uid": "u3"})
    await scene.live("2026-01-01 00:59")
    start = read_time(scene.status()["nextRun"])
    assert start is not None
    assert start > moment("2026-01-01 01:05"), "its jitter"
    asked = start - timedelta(seconds=120)
    await scene.live(f"{asked:%Y-%m-%d %H:%M:%S}")
    scene.edit(annotations={RUN_NOW: timestamp(asked)})
    await scene.live(f"{start + timedelta(seconds=300):%Y-%m-%d %H:%M:%S}")
    assert scene.status()["made"] == 4
    assert scene.times("a") == scene.times("b") == ["01-01 01:00"]


async def test_a_clock_that_was_ahead_for_a_while_has_no_later_snapshot_deleted(scene: Scene) -> None:
    scene.clock = FakeClock(moment("2026-01-12 01:00"))
    scene.schedule(retention={"count": 2})
    await scene.live("2026-01-12 03:00")
    assert scene.times("a") == ["01-12 02:00"]
    scene.clock = FakeClock(moment("2026-01-10 03:00"))
    await scene.live("2026-01-11 03:00")
    assert scene.times("a") == ["01-11 02:00", "01-12 02:00"]
    await scene.live("2026-01-12 03:00")
    assert scene.times("a") == ["01-11 02:00", "01-12 02:00"], "the run finds the name taken, and says so"
    error = scene.status()["lastError"]
    name = snapshot_name("nightly", error["claim"], "2026-01-12T02:00:00Z")
    assert error["message"] == (
        f"claim {error['claim']}: VolumeSnapshot {name} was there before that time came, when some clock was ahead;"
        " it has older data (and other claims)"
    )
    await scene.live("2026-01-13 03:00")
    assert scene.times("a") == ["01-11 02:00", "01-13 02:00"], "what was cut on the 10th was the oldest"


async def test_age_alone_deletes_when_nothing_else_happens(scene: Scene) -> None:
    scene.schedule("hourly", **HOURLY, retention={"age": "3h"})
    await scene.live("2026-01-01 04:00")
    scene.edit("hourly", schedule="0 0 1 1 *")
    await scene.live("2026-01-01 09:00")
    assert scene.times("a") == ["01-01 04:00"], "the newest stays"


async def test_size_is_for_all_claims_together(scene: Scene) -> None:
    scene.sizes = {"a": 3 << 30, "b": 1 << 30}
    scene.schedule(**HOURLY, retention={"totalSize": "8Gi"})
    await scene.live("2026-01-01 05:30")
    assert scene.times("a")[-1] == scene.times("b")[-1] == "01-01 05:00"
    assert 3 * len(scene.times("a")) + len(scene.times("b")) <= 8


async def test_a_schedule_that_was_created_anew_goes_on_with_what_is_there(scene: Scene) -> None:
    scene.schedule(**HOURLY, retention={"count": 2})
    await scene.live("2026-01-01 03:30")
    scene.api.remove(SCHEDULES, "nightly", NAMESPACE)
    scene.schedule(**HOURLY, retention={"count": 2}, metadata={"uid": "another"})
    await scene.live("2026-01-01 05:30")
    assert scene.times("a") == ["01-01 04:00", "01-01 05:00"]


async def test_a_schedule_under_another_name_takes_the_group_over(scene: Scene) -> None:
    scene.schedule(**HOURLY, retention={"count": 2})
    await scene.live("2026-01-01 03:30")
    scene.api.remove(SCHEDULES, "nightly", NAMESPACE)
    scene.schedule("renamed", **HOURLY, group="nightly", retention={"count": 2})
    await scene.live("2026-01-01 04:30")
    assert scene.times("a") == ["01-01 03:00", "01-01 04:00"]
    assert scene.status("renamed")["kept"] == 4


async def test_what_was_made_of_the_other_api_is_still_its_own(scene: Scene) -> None:
    scene.schedule(retention={"count": 3, "age": "7d"})
    await scene.live("2026-01-05 03:00")
    before, other = scene.kind, "prototype" if scene.dialect == "ga" else "ga"
    assert len(scene.times("a")) == 3
    scene.edit(dialect=other)
    scene.dialect = other
    await scene.live("2026-01-06 03:00")
    assert (len(scene.api.bodies(before)), len(scene.snapshots()), scene.status()["kept"]) == (4, 2, 6)
    await scene.live("2026-01-09 03:00")
    assert (scene.api.bodies(before), len(scene.snapshots()), scene.status()["kept"]) == ([], 6, 6)


async def test_one_that_is_being_restored_of_the_other_api_stays(scene: Scene) -> None:
    scene.schedule(**HOURLY, retention={"count": 1})
    await scene.live("2026-01-01 01:30")
    before, other = scene.kind, "prototype" if scene.dialect == "ga" else "ga"
    [first] = scene.names("a")
    ref = {"apiGroup": before.group, "kind": "VolumeSnapshot", "name": first}
    meta = {"name": "copy", "namespace": NAMESPACE, "finalizers": [RESTORING], "labels": {"no": "backup"}}
    scene.api.put(CLAIMS, {"metadata": meta, "spec": {"dataSourceRef": ref}, "status": {"phase": "Pending"}})
    scene.edit(dialect=other, claimSelector={"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]})
    scene.dialect = other
    await scene.live("2026-01-01 02:30")
    assert [found["metadata"]["name"] for found in scene.api.bodies(before)] == [first]


async def test_a_deleted_schedule_deletes_nothing(scene: Scene) -> None:
    scene.schedule(**HOURLY)
    await scene.live("2026-01-01 03:30")
    scene.api.remove(SCHEDULES, "nightly", NAMESPACE)
    await scene.live("2026-01-03 03:30")
    assert len(scene.times("a")) == 3
    assert all("ownerReferences" not in found["metadata"] for found in scene.snapshots())


async def test_snapshots_that_no_schedule_made_are_never_touched(scene: Scene) -> None:
    """By hand with the label, and a copy with all that is on one of ours: neither has the name that would follow."""
    scene.schedule(**HOURLY, retention={"count": 1, "age": "1h"})
    spec: Any = {"source": {"persistentVolumeClaimName": "a"}} if scene.dialect == "ga" else {"persistentVolumeClaimName": "a"}
    old = {SCHEDULED_BY: "nightly", SCHEDULED_FOR: "2025-01-01T00:00:00Z"}
    for name, notes in (("by-hand", {}), ("copy", old)):
        meta = {"name": name, "namespace": NAMESPACE, "labels": {GROUP_LABEL: "nightly"}, "annotations": notes}
        scene.api.put(scene.kind, {"metadata": meta, "spec": spec})
        scene.say(name, ready=True)
    await scene.live("2026-01-01 05:30")
    names = {found["metadata"]["name"] for found in scene.snapshots()}
    assert {"by-hand", "copy"} < names
    assert len(names) == 4


async def test_groups_and_namespaces_do_not_know_each_other(scene: Scene) -> None:
    scene.schedule(**HOURLY, retention={"count": 1})
    scene.schedule("keep", **HOURLY)
    await scene.live("2026-01-01 04:30")
    by = [found["metadata"]["annotations"][SCHEDULED_BY] for found in scene.snapshots()]
    assert (by.count("nightly"), by.count("keep")) == (2, 8)


async def test_one_that_a_claim_is_restored_from_stays_until_that_is_done(scene: Scene) -> None:
    scene.schedule(**HOURLY)
    await scene.live("2026-01-01 01:30")
    (first,) = [found["metadata"]["name"] for found in scene.snapshots() if scene.claim_of(found) == "a"]
    ref = {"apiGroup": scene.kind.group, "kind": "VolumeSnapshot", "name": first}
    meta = {"name": "copy", "namespace": NAMESPACE, "finalizers": [RESTORING], "labels": {"no": "backup"}}
    scene.api.put(CLAIMS, {"metadata": meta, "spec": {"dataSourceRef": ref}, "status": {"phase": "Pending"}})
    scene.edit(retention={"count": 1}, claimSelector={"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]})
    await scene.live("2026-01-01 03:30")
    assert scene.times("a") == ["01-01 01:00", "01-01 03:00"]
    done = {"metadata": {"finalizers": None}, "spec": {"volumeName": "pv-copy"}, "status": {"phase": "Bound"}}
    scene.api.edit(CLAIMS, "copy", NAMESPACE, merge=done)
    await scene.live("2026-01-01 03:50")
    assert scene.times("a") == ["01-01 03:00"]


async def test_one_that_a_restore_in_place_reads_stays_until_that_is_done(scene: Scene) -> None:
    scene.schedule(**HOURLY)
    await scene.live("2026-01-01 01:30")
    (first,) = [found["metadata"]["name"] for found in scene.snapshots() if scene.claim_of(found) == "a"]
    scene.api.edit(scene.kind, first, NAMESPACE, merge={"metadata": {"annotations": {READ_BY: "back/uid"}}})
    scene.edit(retention={"count": 1})
    await scene.live("2026-01-01 03:30")
    assert (scene.times("a"), scene.times("b")) == (["01-01 01:00", "01-01 03:00"], ["01-01 03:00"])
    scene.api.edit(scene.kind, first, NAMESPACE, merge={"metadata": {"annotations": {READ_BY: None}}})
    await scene.live("2026-01-01 03:50")
    assert scene.times("a") == ["01-01 03:00"]


async def test_one_that_somebody_holds_stays(scene: Scene) -> None:
    scene.schedule(**HOURLY)
    await scene.live("2026-01-01 01:30")
    for found in scene.snapshots():
        held = ["example.com/held"] if scene.claim_of(found) == "a" else [*DIALECTS[scene.dialect].finalizers, GUARD]
        scene.api.edit(scene.kind, found["metadata"]["name"], NAMESPACE, merge={"metadata": {"finalizers": held}})
    scene.edit(retention={"count": 1})
    await scene.live("2026-01-01 02:30")
    going = [found for found in scene.snapshots() if found["metadata"].get("deletionTimestamp")]
    assert [scene.claim_of(found) for found in going] == ["b"]


async def test_one_that_is_protected_at_the_last_moment_stays(scene: Scene) -> None:
    """Its deletion names the version that was judged."""
    scene.schedule(**HOURLY)
    await scene.live("2026-01-01 02:30")
    first = min(
        (found["metadata"] for found in scene.snapshots() if scene.claim_of(found) == "a"),
        key=lambda meta: meta["annotations"][SCHEDULED_FOR],
    )["name"]
    scene.edit(retention={"count": 1})

    def protects(what: str) -> None:
        if what == f"delete {scene.kind.name} {first}":
            scene.api.edit(scene.kind, first, NAMESPACE, merge={"metadata": {"annotations": {PROTECTED: "true"}}})

    scene.api.refuse = protects
    await scene.live("2026-01-01 02:50")
    assert scene.times("a") == ["01-01 01:00", "01-01 02:00"]
    assert scene.times("b") == ["01-01 02:00"]


async def test_while_suspended_nothing_is_deleted(scene: Scene) -> None:
    scene.schedule(**HOURLY)
    await scene.live("2026-01-01 03:30")
    scene.edit(suspend=True, retention={"count": 1})
    await scene.live("2026-01-02 03:30")
    assert len(scene.times("a")) == 3
    assert scene.status()["kept"] == 6
    scene.edit(suspend=False)
    await scene.live("2026-01-02 03:40")
    assert len(scene.times("a")) == 1


async def test_failed_snapshots_do_not_pile_up(scene: Scene) -> None:
    scene.broken = {"a": "DriverError: the array says no"}
    scene.schedule(**HOURLY, retention={"count": 2, "failed": 1})
    await scene.live("2026-01-01 06:30")
    assert scene.times("a") == ["01-01 06:00"]
    assert scene.times("b") == ["01-01 05:00", "01-01 06:00"]
    assert (scene.status()["kept"], scene.status()["broken"]) == (2, 1)


# --- pace ------------------------------------------------------------------------------------------------------------


def looks(pace: Pace, clock: FakeClock, key: Key, *, takes: float) -> float:
    """Waits for its turn and looks; how long it waited."""
    waited = 0.0
    while wait := pace.wait(key):
        waited += wait
        clock.advance(wait)
    began = clock.monotonic()
    clock.advance(takes)
    pace.looked(key, began)
    return waited


def test_the_schedules_of_a_namespace_take_turns_and_a_twentieth_of_the_time() -> None:
    clock = FakeClock()
    pace = Pace(clock)
    keys = [Key("big", f"s{number}") for number in range(10)]
    assert looks(pace, clock, keys[0], takes=1.0) == 0.0
    turns = sorted(round(pace.wait(key)) for key in keys[1:])
    assert turns == [19 + 20 * number for number in range(9)], "each has a turn of its own: they do not all wake at once"
    for key in keys[1:]:
        looks(pace, clock, key, takes=1.0)
    assert clock.monotonic() >= 9 * 20


def test_a_namespace_of_very_many_keeps_no_other_one_waiting_for_longer_than_a_look() -> None:
    clock = FakeClock()
    pace = Pace(clock)
    for number in range(1000):
        pace.wait(Key("big", f"s{number}"))
    looks(pace, clock, Key("big", "s0"), takes=1.0)
    waits = [pace.wait(Key("big", f"s{number}")) for number in range(1, 1000)]
    assert waits == [19.0 + 20 * number for number in range(999)], "though all of them had asked before"
    assert looks(pace, clock, Key("small", "s"), takes=0.001) == 4.0, "others have the rest of the process meanwhile"
    assert looks(pace, clock, Key("small", "t"), takes=0.001) < 0.1


def test_what_is_known_of_a_namespace_goes_with_its_schedules() -> None:
    clock = FakeClock()
    pace = Pace(clock)
    looks(pace, clock, Key("big", "s"), takes=1.0)
    clock.advance(30)
    pace.forget(Key("big", "s"))
    assert pace.namespaces == 0


async def test_many_deletions_are_made_a_batch_at_a_time(scene: Scene) -> None:
    for number in range(60):
        scene.claims(f"c{number}")
    scene.schedule(**HOURLY, retention={"count": 1}, concurrencyLimit=100)
    await scene.live("2026-01-01 01:30")
    assert len(scene.snapshots()) == 62
    await scene.live("2026-01-01 02:30")
    assert len(scene.snapshots()) == 62
    assert set(scene.times()) == {"01-01 02:00"}
