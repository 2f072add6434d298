"""Schedules under a clock that is moved by hand: when they run, what they make, and what is said of it."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

import pytest

from tests.unit.policies.schedules.scene import NAMESPACE, Process, Scene, moment
from tests.unit.snapshots.memory_api import Json, MemoryApi
from ullage.clock import FakeClock
from ullage.errors import UllageError
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.indexer import Key
from ullage.kube.errors import ApiError, BadRequest, Forbidden, NotFound, Refused, TooManyRequests, Unavailable
from ullage.policies.cut_hooks.api import HOOKS
from ullage.policies.schedules.controllers.run_queue import KEPT, RunQueue
from ullage.policies.schedules.model import GROUP_LABEL, RUN_NOW, SCHEDULED_BY, SCHEDULED_FOR, snapshot_name
from ullage.snapshots.model import PROGRESS


@pytest.fixture(params=["ga", "prototype"])
def scene(request: pytest.FixtureRequest) -> Scene:
    made = Scene(dialect=request.param)
    made.claims("a", "b")
    return made


# --- what is made ----------------------------------------------------------------------------------------------------


async def test_a_run_takes_a_snapshot_of_every_claim_that_is_selected(scene: Scene) -> None:
    scene.claims("c", labels={"backup": "yes"})
    scene.schedule(claimSelector={"matchLabels": {"backup": "yes"}}, template={"labels": {"tier": "gold"}})
    scene.schedule("all", schedule="30 1 * * *")
    await scene.live("2026-01-01 02:00")
    made = {(one["metadata"]["annotations"][SCHEDULED_BY], scene.claim_of(one)) for one in scene.snapshots()}
    assert made == {("nightly", "c"), ("all", "a"), ("all", "b"), ("all", "c")}
    (one,) = [one for one in scene.snapshots() if one["metadata"]["annotations"][SCHEDULED_BY] == "nightly"]
    meta = one["metadata"]
    assert meta["labels"] == {"tier": "gold", GROUP_LABEL: "nightly"}
    assert meta["annotations"] == {SCHEDULED_BY: "nightly", SCHEDULED_FOR: "2026-01-01T02:00:00Z"}
    assert meta["name"] == snapshot_name("nightly", "c", "2026-01-01T02:00:00Z")
    status = scene.status()
    assert (status["lastScheduledTime"], status["lastRun"]) == ("2026-01-01T02:00:00Z", "2026-01-01T02:00:00Z")
    assert status["nextRun"] == "2026-01-02T02:00:00Z"
    assert (status["made"], status["kept"]) == (1, 1)
    assert "run" not in status
    assert scene.condition() == ("True", "RunComplete", "the run for 2026-01-01T02:00:00Z made 1 snapshot")


async def test_the_class_is_handed_on(scene: Scene) -> None:
    scene.schedule(snapshotClassName="fast")
    await scene.live("2026-01-01 02:00")
    field = "volumeSnapshotClassName" if scene.dialect == "ga" else "storageClassName"
    assert {one["spec"][field] for one in scene.snapshots()} == {"fast"}


async def test_hooks_are_handed_on(scene: Scene) -> None:
    scene.schedule(hooks={"preset": "fsfreeze"})
    await scene.live("2026-01-01 02:00")
    assert {one["metadata"]["annotations"][HOOKS] for one in scene.snapshots()} == {'{"preset":"fsfreeze"}'}


async def test_a_new_schedule_makes_up_for_nothing_from_before_it(scene: Scene) -> None:
    scene.schedule()
    await scene.live("2026-01-01 01:59")
    assert scene.snapshots() == []
    assert scene.status()["nextRun"] == "2026-01-01T02:00:00Z"


# --- times -----------------------------------------------------------------------------------------------------------

SPRING, AUTUMN = "2026-03-28 22:00", "2026-10-24 20:00"  # in Berlin clocks go forward on 03-29 01:00 UTC, back on 10-25 01:00


@pytest.mark.parametrize(
    ("start", "schedule", "until", "times"),
    [
        pytest.param(
            SPRING,
            "30 2 * * *",
            "2026-03-30 22:00",
            ["03-29 01:00", "03-30 00:30"],
            id="a time that does not exist runs as soon as the clocks have changed",
        ),
        pytest.param(
            SPRING,
            "15 * * * *",
            "2026-03-29 03:00",
            ["03-28 22:15", "03-28 23:15", "03-29 00:15", "03-29 01:15", "03-29 02:15"],
            id="every hour is every hour when clocks go forward",
        ),
        pytest.param(
            AUTUMN,
            "30 2 * * *",
            "2026-10-26 12:00",
            ["10-25 00:30", "10-26 01:30"],
            id="a time that exists twice runs the first time",
        ),
        pytest.param(
            AUTUMN,
            "30 * * * *",
            "2026-10-25 02:00",
            ["10-24 20:30", "10-24 21:30", "10-24 22:30", "10-24 23:30", "10-25 00:30", "10-25 01:30"],
            id="every hour is every hour when clocks go back",
        ),
    ],
)
async def test_clocks_that_change(start: str, schedule: str, until: str, times: list[str]) -> None:
    scene = Scene(start=start)
    scene.claims("a")
    scene.schedule(schedule=schedule, timeZone="Europe/Berlin")
    await scene.live(until)
    assert scene.times() == times
    assert scene.status()["made"] == len(times)


async def test_of_the_runs_that_were_missed_the_last_is_made_up_for(scene: Scene) -> None:
    scene.schedule(schedule="0 * * * *")
    await scene.live("2026-01-01 01:10")
    scene.clock.advance(5 * 3600)
    await scene.live()
    assert scene.times("a") == ["01-01 01:00", "01-01 06:00"]
    assert scene.status()["nextRun"] == "2026-01-01T07:00:00Z"


async def test_a_run_that_is_later_than_its_deadline_is_let_go(scene: Scene) -> None:
    scene.schedule(startingDeadlineSeconds=600)
    scene.clock.advance(2 * 3600 + 601)
    await scene.live()
    assert scene.snapshots() == []
    status = scene.status()
    assert (status["lastScheduledTime"], status["failed"]) == ("2026-01-01T02:00:00Z", 1)
    assert status["lastError"]["message"] == "the run for 2026-01-01T02:00:00Z was missed: it could not begin within 600 s"
    assert "RunMissed" in scene.told.reasons
    await scene.live("2026-01-02 02:00")
    assert scene.times("a") == ["01-02 02:00"]


async def test_a_run_within_its_deadline_is_made_up_for(scene: Scene) -> None:
    scene.schedule(startingDeadlineSeconds=600)
    scene.clock.advance(2 * 3600 + 599)
    await scene.live()
    assert scene.times("a") == ["01-01 02:00"]


async def test_while_suspended_nothing_is_taken_and_nothing_is_made_up_for(scene: Scene) -> None:
    scene.schedule(schedule="0 * * * *", retention={"count": 1})
    await scene.live("2026-01-01 01:00")
    scene.edit(suspend=True)
    await scene.live("2026-01-01 05:30")
    assert scene.times("a") == ["01-01 01:00"]
    assert scene.condition("Suspended")[:2] == ("True", "Suspended")
    assert "nextRun" not in scene.status()
    scene.edit(suspend=False)
    await scene.live("2026-01-01 05:50")
    assert scene.times("a") == ["01-01 01:00"]
    await scene.live("2026-01-01 06:00")
    assert scene.times("a") == ["01-01 06:00"]


async def test_a_run_that_is_under_way_ends_when_it_is_suspended(scene: Scene) -> None:
    scene.claims(*(f"c{number}" for number in range(10)))
    scene.plays = False
    scene.schedule(concurrencyLimit=2)
    await scene.live("2026-01-01 02:01")
    assert len(scene.snapshots()) == 2
    scene.edit(suspend=True)
    scene.plays = True
    await scene.live("2026-01-01 02:30")
    assert len(scene.snapshots()) == 2
    assert "run" not in scene.status()
    assert scene.status()["failed"] == 10
    assert "it was suspended; 10 claims of the run for 2026-01-01T02:00:00Z got no snapshot" in scene.condition()[2]
    scene.edit(suspend=False)
    await scene.live("2026-01-02 02:30")
    assert scene.status()["made"] == 2 + 12


async def test_a_clock_that_was_years_ahead_stops_nothing(scene: Scene) -> None:
    scene.schedule(schedule="0 * * * *")
    scene.schedule("resumed", schedule="0 * * * *", suspend=True)
    await scene.live("2026-01-01 01:30")
    scene.clock = FakeClock(moment("2030-01-01 00:10"))
    scene.edit("resumed", suspend=False)
    scene.schedule("new", schedule="0 * * * *")
    await scene.live("2030-01-01 00:20")
    assert scene.status()["lastScheduledTime"] == "2030-01-01T00:00:00Z"
    scene.clock = FakeClock(moment("2026-01-01 01:40"))
    await scene.live("2026-01-01 03:30")
    for name in ("nightly", "resumed", "new"):
        assert scene.status(name)["lastScheduledTime"] == "2026-01-01T03:00:00Z", name
    assert scene.status()["made"] == 2 * 4


async def test_a_clock_that_is_put_back_by_a_little_makes_no_run_again(scene: Scene) -> None:
    scene.schedule(schedule="0 * * * *")
    await scene.live("2026-01-01 02:00")
    scene.clock = FakeClock(moment("2026-01-01 01:59"))
    await scene.live("2026-01-01 02:30")
    assert scene.status()["made"] == 2 * 2


async def test_jitter_spreads_schedules_of_one_minute_and_is_the_same_for_everybody() -> None:
    started: list[dict[str, str]] = []
    for _ in range(2):
        scene = Scene()
        scene.claims("a")
        for number in range(8):
            scene.schedule(f"s{number}", jitterSeconds=600)
        await scene.live("2026-01-01 02:10")
        started.append({f"s{number}": scene.status(f"s{number}")["lastRun"] for number in range(8)})
    assert started[0] == started[1]
    assert len(set(started[0].values())) > 4
    assert all("2026-01-01T02:00:00Z" <= one <= "2026-01-01T02:10:00Z" for one in started[0].values())


async def test_jitter_is_at_most_half_the_way_to_the_next_run(scene: Scene) -> None:
    scene.schedule(schedule="*/10 * * * *", jitterSeconds=86400)
    await scene.live("2026-01-01 01:00")
    assert scene.status()["made"] >= 2 * 5


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_no_more_are_in_the_making_than_the_limit_says(scene: Scene) -> None:
    scene.plays = False
    scene.claims(*(f"c{number}" for number in range(7)))
    scene.schedule(concurrencyLimit=3)
    most = 0
    async with scene.process() as process:
        await process.live(moment("2026-01-01 02:00"))
        for _ in range(20):
            unready = [one for one in scene.snapshots() if not scene.is_ready(one)]
            most = max(most, len(unready))
            if unready:
                scene.say(unready[0]["metadata"]["name"], ready=True)
            await process.settle()
    assert most == 3
    assert scene.status()["made"] == 9
    assert scene.condition()[1] == "RunComplete"


async def test_the_limit_holds_while_the_cache_has_not_seen_what_was_made(scene: Scene, monkeypatch: Any) -> None:
    scene.plays = False
    scene.claims(*(f"c{number}" for number in range(30)))
    scene.schedule(concurrencyLimit=5)
    async with scene.process() as process:
        await process.current()
        scene.clock.advance(2 * 3600)
        monkeypatch.setattr(process.lookup.snapshots[scene.dialect], "by", lambda *_: [])
        monkeypatch.setattr(process.lookup.snapshots[scene.dialect], "get", lambda *_: None)
        for _ in range(5):
            await process.current()
            await process.runner.reconcile(_key())
    assert len(scene.snapshots()) == 5


async def test_one_that_reports_a_problem_holds_up_nobody(scene: Scene) -> None:
    scene.broken = {"a": "DriverRetrying: the array is busy"}
    scene.schedule(schedule="0 * * * *", concurrencyLimit=1)
    await scene.live("2026-01-01 03:00")
    assert scene.times("b") == ["01-01 01:00", "01-01 02:00", "01-01 03:00"]
    assert scene.times("a") == ["01-01 01:00"], "one in the making for each claim"
    assert scene.status()["lastError"]["message"] == "claim a: its last snapshot is not done yet"
    assert scene.condition()[:2] == ("False", "RunIncomplete")


async def test_those_that_hang_in_silence_hold_up_the_others_for_an_hour(scene: Scene) -> None:
    scene.claims(*(f"silent{number}" for number in range(10)), *(f"c{number}" for number in range(8)))
    scene.hangs = "silent"
    scene.schedule()
    await scene.live("2026-01-01 04:00")
    assert all(scene.times(f"c{number}") == ["01-01 02:00"] for number in range(8))
    assert "run" not in scene.status()
    await scene.live("2026-01-03 04:00")
    assert all(len(scene.times(f"c{number}")) == 3 for number in range(8))


async def test_one_that_tells_how_far_it_is_keeps_its_place_in_the_limit() -> None:
    scene = Scene(plays=False)
    scene.claims("a", "b")
    scene.schedule(concurrencyLimit=1)
    await scene.live("2026-01-01 02:00")
    [first] = [one["metadata"]["name"] for one in scene.snapshots()]
    scene.api.edit(scene.kind, first, NAMESPACE, merge={"metadata": {"annotations": {PROGRESS: "3 of 9 GiB"}}})
    await scene.live("2026-01-01 20:00")
    assert len(scene.snapshots()) == 1, "it is being copied, and that may take days"
    scene.api.edit(scene.kind, first, NAMESPACE, merge={"metadata": {"annotations": {PROGRESS: None}}})
    await scene.live("2026-01-01 20:10")
    assert len(scene.snapshots()) == 2


async def test_a_run_that_was_not_done_when_the_next_came_is_told_with_what_it_left_out(scene: Scene) -> None:
    scene.claims(*(f"c{number}" for number in range(10)))
    scene.hangs = "c"
    scene.schedule(schedule="*/30 * * * *", concurrencyLimit=2)
    await scene.live("2026-01-01 00:40")
    made, left = scene.status()["made"], 12 - scene.status()["made"]
    assert 2 <= made < 12
    async with scene.process() as process:
        await process.live(moment("2026-01-01 00:50"))
        await process.live(moment("2026-01-01 01:00"))
    text = f"the run for 2026-01-01T00:30:00Z was not done when the next one was due: {left} claims were left out"
    assert ("Warning", "RunIncomplete", text) in scene.told.events
    assert scene.condition() == ("False", "RunIncomplete", text)
    assert scene.status()["failed"] == left
    assert scene.status()["lastError"]["message"] == text


async def test_a_claim_whose_snapshot_never_gets_done_is_tried_again(scene: Scene) -> None:
    """What another snapshotter says has no reason: it may pass, or stay for ever."""
    scene.broken = {"a": ": the array has no such volume" if scene.dialect == "prototype" else "the array has no such volume"}
    scene.schedule(schedule="0 * * * *", retention={"failed": 1})
    await scene.live("2026-01-01 12:30")
    assert scene.times("a") == ["01-01 01:00"]
    scene.broken = {}
    scene.stays = scene.names("a")
    await scene.live("2026-01-01 16:30")
    assert scene.times("a") == ["01-01 01:00", "01-01 13:00", "01-01 14:00", "01-01 15:00", "01-01 16:00"]
    assert scene.status()["broken"] == 1
    assert scene.condition()[:2] == ("True", "RunComplete")


async def test_snapshots_that_never_get_done_do_not_pile_up(scene: Scene) -> None:
    scene.hangs = "a"
    scene.schedule(schedule="0 * * * *", retention={"count": 1, "failed": 2})
    await scene.live("2026-01-05 00:30")
    assert len(scene.times("a")) == 3, "two that were given up, and the last"
    assert scene.status()["broken"] == 2


async def test_a_claim_whose_snapshot_has_lost_its_record_gets_the_next_one(scene: Scene) -> None:
    scene.schedule(retention={"count": 3})
    await scene.live("2026-01-01 03:00")
    [lost] = scene.names("a")
    scene.stays = {lost}
    scene.say(lost, ready=False, problem="RecordMissing: snapcontent-1 is gone, and with it whatever it stood for")
    await scene.live("2026-01-03 03:00")
    assert scene.times("a") == ["01-01 02:00", "01-02 02:00", "01-03 02:00"]
    assert scene.condition()[:2] == ("True", "RunComplete")


async def test_claims_that_go_are_left_out(scene: Scene) -> None:
    scene.schedule()
    scene.api.edit(CLAIMS, "a", NAMESPACE, merge={"metadata": {"finalizers": ["x"]}})
    scene.api.remove(CLAIMS, "a", NAMESPACE)
    await scene.live("2026-01-01 02:00")
    assert scene.times("a") == []
    assert scene.times("b") == ["01-01 02:00"]


# --- refusals --------------------------------------------------------------------------------------------------------


def refusing(scene: Scene, error: Exception, *, only: str = "") -> None:
    def refuse(what: str) -> None:
        if what.startswith(f"create {scene.kind.name}") and only in what:
            raise error

    scene.api.refuse = refuse


async def test_what_a_quota_refuses_is_told_and_the_others_are_made(scene: Scene) -> None:
    refusing(scene, Forbidden("quota: snapshots of the namespace may take 10Gi", code=403), only="-a-")
    scene.schedule()
    await scene.live("2026-01-01 02:00")
    assert (scene.times("a"), scene.times("b")) == ([], ["01-01 02:00"])
    status = scene.status()
    assert (status["made"], status["failed"]) == (1, 1)
    assert status["lastError"] == {
        "time": "2026-01-01T02:00:00Z",
        "claim": "a",
        "message": "claim a: quota: snapshots of the namespace may take 10Gi",
    }
    assert scene.condition()[:2] == ("False", "RunIncomplete")
    assert ("Warning", "SnapshotRefused", "claim a: quota: snapshots of the namespace may take 10Gi") in scene.told.events
    scene.api.refuse = lambda what: None
    await scene.live("2026-01-02 02:00")
    assert "lastError" not in scene.status()
    assert scene.condition()[:2] == ("True", "RunComplete")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(BadRequest("admission webhook denied the request: no", code=400), id="a webhook that gives no code"),
        pytest.param(NotFound("no such kind", code=404), id="what is not served"),
        pytest.param(Refused("too large", code=413), id="any other refusal"),
    ],
)
async def test_whatever_is_refused_for_good_is_told_and_the_others_are_made(scene: Scene, error: ApiError) -> None:
    refusing(scene, error, only="-a-")
    scene.schedule()
    await scene.live("2026-01-01 02:00")
    assert (scene.times("a"), scene.times("b")) == ([], ["01-01 02:00"])
    assert scene.status()["lastError"]["message"] == f"claim a: {error.message}"
    assert scene.condition()[:2] == ("False", "RunIncomplete")
    assert "run" not in scene.status()


async def test_where_everything_is_refused_only_so_many_are_asked_for(scene: Scene) -> None:
    scene.claims(*(f"c{number}" for number in range(200)))
    asked: list[str] = []

    def refuse(what: str) -> None:
        if what.startswith(f"create {scene.kind.name}"):
            asked.append(what)
            raise Forbidden("no", code=403)

    scene.api.refuse = refuse
    scene.schedule()
    await scene.live("2026-01-01 02:00")
    assert len(asked) == 20
    assert scene.status()["failed"] == 202
    assert "run" not in scene.status()
    first = list(asked)
    await scene.live("2026-01-02 02:00")
    claims = [{one.split()[2].split("-")[1] for one in some} for some in (first, asked[20:])]
    assert claims[0] != claims[1], "another run has another order: nobody is refused for ever because of others"


async def test_a_server_that_asks_for_patience_is_asked_again(scene: Scene) -> None:
    refusing(scene, TooManyRequests("the webhook is busy", code=429, retry_after=5))
    scene.schedule(startingDeadlineSeconds=600)
    await scene.live("2026-01-01 02:01")
    assert scene.snapshots() == []
    assert scene.status()["lastError"]["message"].startswith("tried again: claim ")
    scene.api.refuse = lambda what: None
    await scene.live("2026-01-01 02:03")
    assert scene.times() == ["01-01 02:00", "01-01 02:00"]
    assert "lastError" not in scene.status()


async def test_all_reasons_are_told_and_a_limit_that_is_full_comes_first(scene: Scene) -> None:
    """`c` is asked last, by a process of its own: what was told of the others is not forgotten."""
    scene.claims("c", "d")
    answers = {
        "-a-": Forbidden("the limit of 2 snapshots is full", code=403),
        "-b-": Forbidden("the limit of 3 snapshots is full", code=403),
        "-c-": TooManyRequests("the volume is measured", code=429, retry_after=1),
    }

    def refuse(what: str) -> None:
        if what.startswith(f"create {scene.kind.name}"):
            for name, error in answers.items():
                if name in what:
                    raise error

    scene.api.refuse = refuse
    scene.schedule()
    await scene.live("2026-01-01 02:01")
    await scene.live("2026-01-01 02:02")
    error = scene.status()["lastError"]
    assert error["message"] in {
        f"claim {claim}: the limit of {limit} snapshots is full (and other claims);"
        " tried again: claim c: the volume is measured"
        for claim, limit in (("a", 2), ("b", 3))
    }
    assert error["claim"] in {"a", "b"}
    assert scene.times("d") == ["01-01 02:00"]
    scene.api.refuse = lambda what: None
    await scene.live("2026-01-01 02:03")
    assert "run" not in scene.status()
    assert "snapshots is full (and other claims)" in scene.condition()[2]


@pytest.mark.parametrize("stuck", [1, 7])
async def test_a_claim_that_has_to_wait_for_room_holds_up_no_other(scene: Scene, stuck: int) -> None:
    scene.claims(*(f"c{number}" for number in range(30)))
    names = tuple(f"-c{number}-" for number in range(stuck))

    def refuse(what: str) -> None:
        if what.startswith(f"create {scene.kind.name}") and any(name in what for name in names):
            raise TooManyRequests("the oldest is being deleted", code=429, retry_after=1)

    scene.api.refuse = refuse
    scene.schedule(concurrencyLimit=100)
    await scene.live("2026-01-01 02:01")
    assert len(scene.times()) == 32 - stuck
    assert (scene.status()["made"], scene.status()["run"]["made"]) == (32 - stuck, 32 - stuck)
    scene.api.refuse = lambda what: None
    await scene.live("2026-01-01 02:02")  # by a process that has just started: those who waited come, too
    assert len(scene.times()) == 32
    assert "run" not in scene.status()


@pytest.mark.parametrize("claims", [1, 6, 11, 40])
async def test_a_server_that_asks_for_patience_gets_it_however_often_the_schedule_is_looked_at(claims: int) -> None:
    """Our own writes wake us, too: each look would ask for others otherwise."""
    scene = Scene()
    scene.claims(*(f"c{number}" for number in range(claims)))
    asked: list[str] = []

    def refuse(what: str) -> None:
        if what.startswith(f"create {scene.kind.name}"):
            asked.append(what)
            raise TooManyRequests("the oldest is being deleted", code=429, retry_after=30)

    scene.api.refuse = refuse
    scene.schedule()
    async with scene.process() as process:
        await process.current()
        scene.clock.advance(2 * 3600)
        for _ in range(30):
            await process.current()
            answer = await process.runner.reconcile(_key())
        assert len(asked) == min(claims, 5)
        assert answer is not None
        assert answer.after == 30.0
        scene.clock.advance(29)
        await process.runner.reconcile(_key())
        assert len(asked) == min(claims, 5)
        scene.clock.advance(1)
        await process.current()
        await process.runner.reconcile(_key())
        assert len(asked) == 2 * min(claims, 5)
    message = scene.status()["lastError"]["message"]
    more = min(claims, 10) - 1
    assert message.startswith("tried again: claim c")
    assert message.endswith(f"; {more} more claims are asked to wait" if more else ": the oldest is being deleted")


async def test_one_claim_that_is_asked_to_wait_for_long_does_not_slow_the_others() -> None:
    scene = Scene()
    scene.claims(*(f"c{number}" for number in range(100)))
    refusing(scene, TooManyRequests("the oldest is being deleted", code=429, retry_after=60), only="-c7-")
    scene.schedule(concurrencyLimit=100)
    await scene.live("2026-01-01 02:00:10")
    assert len(scene.snapshots()) == 99


async def test_a_server_that_asks_for_patience_is_asked_until_the_deadline(scene: Scene) -> None:
    refusing(scene, TooManyRequests("the webhook is busy", code=429, retry_after=30))
    scene.schedule(startingDeadlineSeconds=120)
    await scene.live("2026-01-01 02:10")
    assert "run" not in scene.status()
    assert scene.status()["failed"] == 2
    assert "2 claims of the run for 2026-01-01T02:00:00Z got no snapshot" in scene.status()["lastError"]["message"]


async def test_what_a_run_did_not_reach_before_the_next_one_is_let_go(scene: Scene) -> None:
    refusing(scene, TooManyRequests("busy", code=429))
    scene.schedule(schedule="0 * * * *")
    await scene.live("2026-01-01 01:30")
    scene.api.refuse = lambda what: None
    scene.clock.advance(1800)
    await scene.live()
    assert scene.times("a") == ["01-01 02:00"]
    assert scene.status()["failed"] >= 1


async def test_a_schedule_that_cannot_be_says_so() -> None:
    scene = Scene()
    scene.claims("a")
    scene.schedule(timeZone="Mars/Phobos")
    await scene.live("2026-01-01 03:00")
    assert scene.snapshots() == []
    assert scene.condition() == (
        "False",
        "InvalidSchedule",
        "spec.timeZone 'Mars/Phobos': it is not in the IANA time zone database; write a name such as Europe/Berlin or UTC."
        " Edit the schedule",
    )
    scene.edit(timeZone="UTC")
    await scene.live("2026-01-01 03:01")
    assert scene.condition()[0] == "True"


# --- at once ---------------------------------------------------------------------------------------------------------


async def test_run_now_takes_snapshots_at_once_even_while_suspended(scene: Scene) -> None:
    scene.schedule(suspend=True)
    await scene.live()
    scene.edit(annotations={RUN_NOW: "2026-01-01T00:00:07Z"})
    await scene.live("2026-01-01 00:01")
    assert scene.times("a") == ["01-01 00:00"]
    assert scene.status()["lastRequest"] == "2026-01-01T00:00:07Z"
    await scene.live("2026-01-01 03:00")
    assert len(scene.snapshots()) == 2, "once, and suspended as before"


async def test_run_now_leaves_the_schedule_as_it_is(scene: Scene) -> None:
    scene.schedule()
    scene.edit(annotations={RUN_NOW: "2026-01-01T00:00:00Z"})
    await scene.live("2026-01-01 02:00")
    assert scene.times("a") == ["01-01 00:00", "01-01 02:00"]


@pytest.mark.parametrize("text", ["soon", "2026-01-01T05:00:00Z", "x" * 65, "x" * 300])
async def test_a_request_that_makes_no_sense_is_told(scene: Scene, text: str) -> None:
    scene.schedule()
    scene.edit(annotations={RUN_NOW: text})
    await scene.live("2026-01-01 00:10")
    assert scene.snapshots() == []
    assert "is not a time within an hour of now" in scene.status()["lastError"]["message"]
    assert len(scene.status()["lastRequest"]) <= 64
    told = len(scene.told.events)
    await scene.live("2026-01-01 02:00")
    assert scene.times() == ["01-01 02:00"] * 2, "it stops nothing"
    assert [one[1] for one in scene.told.events[told:]] == ["RunStarted", "RunComplete"], "it was told once"


async def test_a_request_with_more_digits_than_are_kept_runs_once(scene: Scene) -> None:
    scene.schedule()
    scene.edit(annotations={RUN_NOW: f"2026-01-01T00:00:00.{'0' * 60}Z"})
    await scene.live("2026-01-01 00:10")
    assert len(scene.snapshots()) == 2
    assert scene.status()["lastRequest"] == f"2026-01-01T00:00:00.{'0' * 44}"


# --- kills, and others -----------------------------------------------------------------------------------------------


async def test_a_kill_at_any_moment_makes_one_snapshot_of_each_claim(scene: Scene) -> None:
    scene.claims("c")
    for blows_at in range(1, 40):
        one = Scene(dialect=scene.dialect)
        one.claims("a", "b", "c")
        one.schedule(retention={"count": 1}, schedule="0 * * * *")
        await one.live("2026-01-01 00:59")
        one.clock.advance(60)
        killed = await one.live(blows_at=blows_at)
        await one.live("2026-01-01 01:30")
        assert sorted(map(one.claim_of, one.snapshots())) == ["a", "b", "c"], blows_at
        status = one.status()
        assert (status["made"], status.get("failed", 0), status["kept"]) == (3, 0, 3), blows_at
        if not killed:
            return
    raise AssertionError("the last try should have lived to its end")


async def test_two_controllers_make_one_snapshot_of_each_claim(scene: Scene) -> None:
    """Both at the same moment, and neither waits until it has seen what the other did."""
    claims = [f"c{number}" for number in range(60)]
    scene.claims(*claims)
    scene.schedule(schedule="0 * * * *", retention={"count": 2}, concurrencyLimit=100)
    yields = Yields(scene.api)
    async with scene.process() as one, scene.process() as other:
        for hour in range(1, 6):
            await asyncio.gather(one.current(), other.current())
            scene.clock.advance(3600 - scene.clock.now().timestamp() % 3600)
            with yields:
                await asyncio.gather(_looks(one, pause=1), _looks(other, pause=3))
            assert "run" not in scene.status(), "both came to the end"
            scene.play()
            scene.clock.advance(10)
            await _settle(one, other)
            assert scene.status()["made"] == hour * 62, "each was counted once"
        assert all(scene.times(claim) == ["01-01 04:00", "01-01 05:00"] for claim in ("a", "b", *claims))
    assert yields.met, "they were in the middle of it together"
    assert scene.status().get("failed", 0) == 0


async def _looks(process: Process, *, pause: int) -> None:
    """Looks at what the caches have by then; `pause` is how often others have their turn in between."""
    for _ in range(60):
        for reconcile in (process.runner.reconcile, process.retainer.reconcile):
            with contextlib.suppress(UllageError):
                await reconcile(_key())
            for _ in range(pause):
                await asyncio.sleep(0)


class Yields:
    """Within the block each write lets others go first, as the way to a server does."""

    def __init__(self, api: MemoryApi) -> None:
        self._api = api
        self._calls = {name: getattr(api, name) for name in ("create", "patch", "delete", "find")}
        self._under_way = 0
        self.met = False

    def __enter__(self) -> None:
        for name, call in self._calls.items():
            setattr(self._api, name, partial(self._slowly, call))

    def __exit__(self, *_: object) -> None:
        for name in self._calls:
            delattr(self._api, name)

    async def _slowly(self, call: Any, *given: Any, **named: Any) -> Any:
        self._under_way += 1
        self.met = self.met or self._under_way > 1
        try:
            await asyncio.sleep(0)
            return await call(*given, **named)
        finally:
            self._under_way -= 1


async def _settle(*processes: Process) -> None:
    for process in processes:
        await process.settle()


async def test_a_name_that_somebody_else_has_taken_is_told(scene: Scene) -> None:
    scene.schedule()
    name = snapshot_name("nightly", "a", "2026-01-01T02:00:00Z")
    spec: Json = {"source": {"persistentVolumeClaimName": "b"}} if scene.dialect == "ga" else {"persistentVolumeClaimName": "b"}
    scene.api.put(scene.kind, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    await scene.live("2026-01-01 02:00")
    assert scene.status()["lastError"]["message"] == (f"claim a: VolumeSnapshot {name} exists already, and no schedule made it")


async def test_what_was_made_before_the_server_failed_is_written_down(scene: Scene) -> None:
    failed: list[str] = []

    def refuse(what: str) -> None:
        if what.startswith(f"create {scene.kind.name}") and len(scene.snapshots()) == 1 and not failed:
            failed.append(what)
            raise Unavailable("no answer")

    scene.api.refuse = refuse
    scene.schedule()
    await scene.live("2026-01-01 02:01")
    assert failed
    assert scene.status()["made"] == 2
    assert scene.times() == ["01-01 02:00", "01-01 02:00"]


async def test_thousands_of_claims_are_gone_through_once() -> None:
    scene = Scene()
    for number in range(3000):
        scene.claims(f"claim-{number}")
    scene.schedule(concurrencyLimit=100)
    async with scene.process() as process:
        await process.current()
        chosen: list[int] = []
        choose = process.lookup.claims

        def counted(*given: Any) -> Any:
            found = choose(*given)
            chosen.append(len(found))
            return found

        object.__setattr__(process.runner, "_lookup", _Counting(process.lookup, counted))
        scene.clock.advance(2 * 3600)
        for _ in range(12):
            await process.current()
            await process.runner.reconcile(_key())
            scene.play()
    assert chosen == [3000]
    assert len(scene.snapshots()) == 12 * 20, "so many with one look"


async def test_of_very_many_claims_some_are_kept_and_all_get_a_snapshot() -> None:
    scene = Scene()
    scene.claims(*(f"claim-{number}" for number in range(1300)))
    refusing(scene, TooManyRequests("the oldest is being deleted", code=429, retry_after=1), only="-claim-7-")
    scene.schedule(concurrencyLimit=100)
    async with scene.process() as process:
        await process.current()
        scene.clock.advance(2 * 3600)
        most = 0
        for _ in range(90):
            await process.current()
            await process.runner.reconcile(_key())
            most = max(most, process.runner.places_kept)
            scene.play()
    assert most <= KEPT
    assert len(scene.snapshots()) == 1299
    assert scene.status()["run"]["made"] == 1299


def test_a_queue_of_claims_that_all_wait_stays_small() -> None:
    queue = RunQueue("mark", "")
    claims = [f"c{number}" for number in range(5 * KEPT)]
    seen: set[str] = set()
    now = 0.0
    for _ in range(len(claims)):
        if queue.needs_choice:
            queue.choose("t", claims)
        if (place := queue.first) is None:
            break
        seen.add(place)
        queue.wait(place, "busy", until=now + 60)
    assert len(seen) == KEPT
    assert queue.left == 5 * KEPT
    assert queue.waits_until == 60.0
    queue.release(60.0)
    for _ in range(KEPT):
        assert queue.first is not None
        queue.done()
    assert queue.needs_choice, "the next ones"
    queue.choose("t", claims)
    assert queue.left == 4 * KEPT
    assert queue.first is not None
    assert queue.first > max(seen)


async def test_what_a_look_reads_does_not_grow_with_what_reports_a_problem() -> None:
    scene = Scene()
    names = [f"c{number}" for number in range(300)]
    scene.claims(*names)
    scene.broken = dict.fromkeys(names, "ClaimNotBound: it has no volume yet")
    scene.schedule(concurrencyLimit=100)
    await scene.live("2026-01-01 02:30")
    assert len(scene.snapshots()) == 300
    async with scene.process() as process:
        await process.current()
        schedule = process.lookup.schedules.get(_key())
        assert schedule is not None
        assert process.lookup.holding(schedule) == []
        assert [one.claim for one in process.lookup.making(schedule, "c5")] == ["c5"]


class _Counting:
    def __init__(self, lookup: Any, claims: Any) -> None:
        self._lookup, self.claims = lookup, claims

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lookup, name)


def _key() -> Key:
    return Key(NAMESPACE, "nightly")


async def test_an_edit_between_a_snapshot_and_what_is_written_of_it_loses_no_count(scene: Scene) -> None:
    edited: list[str] = []

    def edits(what: str) -> None:
        if what.startswith("patch snapshotschedules") and scene.snapshots() and not edited:
            edited.append(what)
            scene.edit(annotations={"note": "somebody writes first"})

    scene.api.refuse = edits
    scene.schedule()
    await scene.live("2026-01-01 02:01")
    assert edited
    assert (scene.status()["made"], len(scene.snapshots())) == (2, 2)
    assert "run" not in scene.status()


async def test_edits_in_a_run_in_which_one_claim_waits_have_no_others_asked_for_again(scene: Scene) -> None:
    scene.claims(*(f"c{number}" for number in range(100)))
    asked: list[str] = []
    written: list[str] = []

    def edits(what: str) -> None:
        if what.startswith(f"create {scene.kind.name}"):
            asked.append(what)
            if len(asked) == 1 or what == asked[0]:
                raise TooManyRequests("the oldest is being deleted", code=429, retry_after=1)
        if what.startswith("patch snapshotschedules") and scene.snapshots():
            written.append(what)
            if len(written) % 2:
                scene.edit(annotations={"note": f"somebody writes first, {len(written)}"})

    scene.api.refuse = edits
    scene.schedule(concurrencyLimit=100)
    await scene.live("2026-01-01 02:00:30")
    others = [one for one in asked if one != asked[0]]
    assert len(set(others)) == 101
    assert len(others) <= 101 + 20 * 6, "only what was asked for since the last write that was done"
    assert scene.status()["made"] == 101
