"""`deleteOldest`: who does not fit waits until the oldest is really gone, and nothing goes that must not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.kube.virtual_time import START
from tests.unit.policies.counts.scene import CountScene, counted
from tests.unit.space.scene import TEAM, import_of, made, record_of, unsplit
from ullage.kube.builtin.core import CLAIMS
from ullage.kube.cache.indexer import Key
from ullage.kube.review import Decision
from ullage.policies.counts.accounts import NAMESPACE_CELL, claim_cell
from ullage.policies.counts.webhook.trial import MOST_OF_NAMESPACE
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import GUARD, READ_BY, Dialect
from ullage.times import timestamp

BOTH = pytest.mark.parametrize("dialect", [pytest.param(GA, id="GA"), pytest.param(PROTOTYPE, id="prototype")])
AnyDialect = Dialect[Any, Any]
OWNER = {"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "u"}


def full(scene: CountScene, *names: str, dialect: AnyDialect = GA, limit: int = 0) -> None:
    scene.claim("disk", head=1)
    for name in names:
        scene.snapshot(name, dialect=dialect)
    scene.limit(snapshots=limit or len(names), oldest=True)


@BOTH
@counted
async def test_a_new_one_is_told_to_wait_and_comes_when_the_oldest_is_really_gone(
    scene: CountScene, dialect: AnyDialect
) -> None:
    full(scene, "c", "b", "a", dialect=dialect)
    async with scene.served(leader=True):
        first = await scene.create("new", dialect=dialect)
        assert (first.code, first.retry_after) == (429, 1)
        assert unsplit(first.message) == (
            "does not fit: snapshot-count/namespace snapshots: asked 1, …, limit 3, over by 1. The oldest, c, is being deleted"
            " for it. Try again: this fits once that is really gone"
        )
        await asyncio.sleep(0.1)
        again = await scene.create("new", dialect=dialect)
        assert again.code == 429, "it is going, and counts"
        assert (await scene.insist("new", dialect=dialect)).allowed
        await asyncio.sleep(60)
    assert scene.server.deleted == ["c"]
    assert scene.names(dialect) == {"b", "a", "new"}
    assert not scene.book().waiting


@counted
async def test_the_oldest_is_that_of_both_apis(scene: CountScene) -> None:
    scene.claim("disk", head=1)
    scene.snapshot("old", dialect=PROTOTYPE)
    scene.snapshot("newer")
    scene.limit(snapshots=2, oldest=True)
    async with scene.served(leader=True):
        assert (await scene.insist("new")).allowed
    assert scene.names(PROTOTYPE) == set()


@counted
async def test_a_limit_on_a_claim_takes_nothing_from_other_claims(scene: CountScene) -> None:
    for claim in ("disk", "logs"):
        scene.claim(claim, head=1)
    scene.snapshot("oldest", "logs")
    scene.snapshot("disk-1", "disk")
    scene.snapshot("disk-2", "disk")
    scene.limit(per_claim=2, oldest=True)
    async with scene.served(leader=True):
        assert (await scene.insist("new", "disk")).allowed
    assert scene.server.deleted == ["disk-1"]


@counted
async def test_other_namespaces_lose_nothing(scene: CountScene) -> None:
    full(scene, "a")
    scene.snapshot("theirs", meta={"namespace": "other", "creationTimestamp": "2020-01-01T00:00:00Z"})
    async with scene.served(leader=True):
        assert (await scene.insist("new")).allowed
    assert scene.server.deleted == ["a"]


def restoring(scene: CountScene) -> None:
    scene.snapshot("a")
    filled_from(scene, "a")


def filled_from(scene: CountScene, snapshot: str) -> None:
    """A claim that has no volume yet, and is to have the data of a snapshot."""
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot}
    body = {"metadata": {"name": f"of-{snapshot}", "namespace": TEAM, "uid": f"r-{snapshot}"}, "spec": {"dataSource": source}}
    scene.server.put(CLAIMS, made(CLAIMS, body))


def held_by_finalizer(scene: CountScene, snapshot: str) -> None:
    scene.change(GA.snapshots, snapshot, metadata={"finalizers": ["example.com/reading"]})


def grouped(scene: CountScene) -> None:
    scene.snapshot("a")
    scene.change(GA.snapshots, "a", status={"readyToUse": True, "volumeGroupSnapshotName": "g"})


def shared(scene: CountScene) -> None:
    scene.snapshot("a")
    for uid in ("uid-a", "uid-other"):
        record = record_of(GA, uid, "a" if uid == "uid-a" else "other", cut=True)
        record["status"]["snapshotHandle"] = "snap://the/same"
        scene.store(GA.records, record)


def imported(scene: CountScene) -> None:
    body = import_of(GA, "a", "content")
    body["metadata"] |= {"namespace": TEAM, "uid": "uid-a", "creationTimestamp": "2020-01-01T00:00:00Z"}
    body["metadata"]["annotations"] = {"ullage.io/takes": "{}"}
    scene.store(GA.snapshots, {**body, "status": {"readyToUse": True}})


def troubled(scene: CountScene, message: str, **meta: str) -> None:
    """One that is not ready, and whose status says why."""
    scene.snapshot("a", ready=False, meta=meta)
    scene.change(GA.snapshots, "a", status={"readyToUse": False, "error": {"message": message, "time": timestamp(START)}})


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(lambda one: one.snapshot("a", protected="true"), "1 is protected by the annotation", id="protected"),
        pytest.param(restoring, "1 is in use: a claim is being filled from it", id="a claim is being filled from it"),
        pytest.param(
            lambda one: one.snapshot("a", meta={"annotations": {READ_BY: "back/uid"}}),
            "1 is in use: a claim is being filled from it",
            id="a restore in place reads it",
        ),
        pytest.param(lambda one: one.snapshot("a", meta={"ownerReferences": [OWNER]}), "1 is part of a group", id="owned"),
        pytest.param(grouped, "1 is part of a group", id="member of a group"),
        pytest.param(shared, "1 is the same data as another one", id="another record has its handle"),
        pytest.param(imported, "1 is imported by an administrator", id="imported"),
        pytest.param(lambda one: one.snapshot("a", ready=False), "1 is not finished yet", id="being taken"),
        pytest.param(
            lambda one: troubled(one, "DriverRetrying: it has begun and is not done yet"),
            "1 is not finished yet",
            id="its driver is asked again",
        ),
        pytest.param(
            lambda one: troubled(one, "NotAsked: no process has the driver"), "1 is not finished yet", id="its driver is away"
        ),
        pytest.param(
            lambda one: troubled(one, "ClaimNotBound: it is Pending"), "1 is not finished yet", id="its claim has no volume yet"
        ),
        pytest.param(
            lambda one: troubled(one, "Failed to create snapshot: DeadlineExceeded"),
            "1 is not finished yet",
            id="another snapshotter tries again",
        ),
        pytest.param(
            lambda one: one.snapshot("a", meta={"finalizers": ["example.com/reading"]}),
            "1 is held by somebody's finalizer",
            id="held by somebody",
        ),
    ],
)
@counted
async def test_what_is_never_deleted_refuses_the_new_one_with_why(scene: CountScene, make: Any, why: str) -> None:
    scene.claim("disk", head=1)
    make(scene)
    scene.limit(snapshots=1, oldest=True)
    async with scene.served(leader=True):
        refused = await scene.create("new")
        await asyncio.sleep(30)
    assert refused.code == 403
    assert "the oldest would be deleted for it, but too few may be" in refused.message
    assert why in refused.message
    assert (
        "Next: see what there is (kubectl get snapshotlimits,volumesnapshots -n team; ullage usage -n team)" in refused.message
    )
    assert not scene.server.deleted
    assert not scene.book().waiting


@pytest.mark.parametrize(
    ("message", "hours"),
    [
        pytest.param("DriverError: no", 0, id="its driver said no"),
        pytest.param("RecordMissing: snapcontent-a is gone, and with it whatever it stood for", 0, id="its record is gone"),
        pytest.param("DriverRetrying: it is not done yet", 25, id="a day of trying has led to nothing"),
        pytest.param("Failed to create snapshot: no such class", 25, id="a day of another's trying has led to nothing"),
    ],
)
@counted
async def test_one_that_has_failed_makes_room(scene: CountScene, message: str, hours: int) -> None:
    scene.claim("disk", head=1)
    troubled(scene, message, creationTimestamp=timestamp(START - timedelta(hours=hours)))
    scene.limit(snapshots=1, oldest=True)
    async with scene.served(leader=True):
        assert (await scene.insist("new")).allowed
    assert scene.server.deleted == ["a"]


@counted
async def test_an_older_one_that_is_kept_is_passed_over(scene: CountScene) -> None:
    scene.claim("disk", head=1)
    scene.snapshot("oldest", protected="true")
    scene.snapshot("older")
    scene.snapshot("failed", ready=False)
    scene.limit(snapshots=3, oldest=True)
    async with scene.served(leader=True):
        assert (await scene.insist("new")).allowed
    assert scene.server.deleted == ["older"]


@counted
async def test_our_guard_holds_nothing(scene: CountScene) -> None:
    full(scene, "a", "b")
    scene.change(GA.snapshots, "a", metadata={"finalizers": [*GA.finalizers, GUARD]})
    async with scene.served(leader=True):
        assert (await scene.insist("new")).allowed
    assert scene.server.deleted == ["a"]


@counted
async def test_one_that_is_protected_at_the_last_moment_stays(scene: CountScene) -> None:
    """The controller has not heard of it: it deletes on condition of what it looked at."""
    full(scene, "a", "b")
    marks = {"ullage.io/protected": "true", "ullage.io/takes": "{}"}

    def fault(moment: str) -> None:
        if moment == "before" and scene.server.calls[-1] == "DELETE volumesnapshots a":
            scene.server.fault = lambda moment: None
            scene.change(GA.snapshots, "a", metadata={"annotations": marks})

    scene.server.fault = fault
    async with scene.served(leader=True):
        assert (await scene.insist("new", tries=60)).allowed
    assert scene.server.deleted == ["b"]
    assert "a" in scene.names()


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"annotations": {"ullage.io/protected": "true", "ullage.io/takes": "{}"}}, id="protected"),
        pytest.param({"annotations": {READ_BY: "back/uid", "ullage.io/takes": "{}"}}, id="read by a restore in place"),
        pytest.param({"finalizers": ["example.com/reading"]}, id="held by somebody"),
        pytest.param({"ownerReferences": [OWNER]}, id="owned"),
        pytest.param({"uid": "uid-another"}, id="deleted and made again"),
    ],
)
@counted
async def test_one_that_changes_while_another_is_deleted_stays(scene: CountScene, metadata: dict[str, Any]) -> None:
    """Both were chosen. The controller's caches hear of it while it waits for the answer about the first one."""
    for claim, name in (("disk", "a"), ("logs", "b")):
        scene.claim(claim, head=1)
        scene.snapshot(name, claim)
    scene.limit(per_claim=1, oldest=True)

    def fault(moment: str) -> None:
        if moment == "after" and scene.server.calls[-1] == "DELETE volumesnapshots a":
            scene.server.fault = lambda moment: None
            scene.change(GA.snapshots, "b", metadata=metadata)

    scene.server.fault = fault
    async with scene.served():
        for name, claim in (("new", "disk"), ("newer", "logs")):
            assert (await scene.create(name, claim)).code == 429
            await asyncio.sleep(1)
        assert len(scene.book().waiting) == 2
        scene.server.answers = 0.05  # and so the watch is faster
        async with scene.leading():
            await asyncio.sleep(0.5)
            assert scene.server.deleted == ["a"], "nobody has looked again yet"
            assert [one for one in scene.server.calls if one.startswith("DELETE")][1:] == ["DELETE volumesnapshots b"]


@counted
async def test_what_would_come_to_nothing_deletes_nothing(scene: CountScene) -> None:
    scene.limits(all=100)
    full(scene, "a")
    scene.claim("large", head=101)
    ending = {"metadata": {"name": "going", "namespace": TEAM, "uid": "g", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    scene.server.put(CLAIMS, made(CLAIMS, ending))
    async with scene.served(leader=True):
        missing = await scene.create("one", "missing")
        going = await scene.create("two", "going")
        imported = await scene.submit(GA.snapshots, import_of(GA, "three", "missing"))
        large = await scene.create("four", "large")
        dry = await scene.dry_run("five")
        await asyncio.sleep(30)
    assert {one.code for one in (missing, going, imported, large, dry)} == {403}
    assert "claim missing is not there, so nothing is deleted for a snapshot of it" in missing.message
    assert "claim going is being deleted" in going.message
    assert "VolumeSnapshotContent missing is not there" in imported.message
    assert "snapshots/namespace storage" in large.message
    assert "this is a dry run; otherwise the oldest, a, would be deleted" in dry.message
    assert not scene.server.deleted


@counted
async def test_without_it_nothing_is_deleted_and_one_limit_that_does_not_say_so_is_enough(scene: CountScene) -> None:
    full(scene, "a")
    scene.limit(name="second", per_claim=5)
    async with scene.served(leader=True):
        assert (await scene.create("new")).code == 403
        await asyncio.sleep(30)
    assert not scene.server.deleted


@counted
async def test_who_does_not_ask_any_more_is_forgotten(scene: CountScene) -> None:
    """Nobody leads when it is asked for; the leader comes a minute later. It waits itself, since it has just seen it."""
    full(scene, "a", "b")
    async with scene.served(leader=True):
        assert (await scene.create("new")).code == 429
        await asyncio.sleep(60)
        assert scene.server.deleted == ["a"], "it was asked for once, and one made room for it"
        assert not scene.book().waiting
        await asyncio.sleep(600)
    assert scene.server.deleted == ["a"]


@counted
async def test_nothing_is_deleted_for_one_who_has_been_silent_for_a_while(scene: CountScene) -> None:
    full(scene, "a")
    async with scene.served():
        assert (await scene.create("new")).code == 429
    scene.change(GA.snapshots, "a", metadata={"annotations": {"ullage.io/protected": "true", "ullage.io/takes": "{}"}})
    async with scene.served(leader=True):
        await asyncio.sleep(17)
        assert scene.book().waiting, "nobody has taken it off yet"
        scene.change(GA.snapshots, "a", metadata={"annotations": {"ullage.io/takes": "{}"}})
        await asyncio.sleep(60)
    assert not scene.server.deleted


@counted
async def test_many_tries_of_one_name_have_one_deleted(scene: CountScene) -> None:
    full(scene, "a", "b", "c", "d")
    scene.server.goes = 20
    async with scene.served(replicas=2, leader=True):
        answers = await asyncio.gather(*(scene.create("new") for _ in range(50)))
        assert {one.code for one in answers} == {429}
        assert (await scene.insist("new", tries=60)).allowed
        await asyncio.sleep(60)
    assert scene.server.deleted == ["a"]


@counted
async def test_of_those_who_wait_together_no_more_are_served_than_there_may_be(scene: CountScene) -> None:
    full(scene, "a", "b", "c")
    scene.snapshot("kept", protected="true")
    scene.limit(snapshots=4, oldest=True)
    scene.server.goes = 5
    async with scene.served(replicas=2, leader=True):
        answers = await asyncio.gather(*(scene.create(f"new-{n}") for n in range(30)))
        assert {one.code for one in answers} == {429}
        await asyncio.sleep(3)
        assert scene.server.deleted == ["a"], "the next goes once the first of them is there"
        await asyncio.sleep(60)
    assert scene.server.deleted == ["a"]


@counted
async def test_the_limit_holds_at_every_instant_of_a_storm_and_nothing_that_is_kept_goes(scene: CountScene) -> None:
    scene.claim("disk", head=1)
    for n in range(6):
        scene.snapshot(f"old-{n}", protected="true" if n % 3 == 0 else "false")
    scene.limit(snapshots=8, oldest=True)

    def check() -> None:
        there = scene.names() | scene.names(PROTOTYPE)
        assert len(scene.server.all(GA.snapshots)) + len(scene.server.all(PROTOTYPE.snapshots)) <= 8
        assert {"old-0", "old-3"} <= there

    async with scene.served(replicas=2, leader=True):
        with scene.never(check):
            dialects = (GA, PROTOTYPE)
            answers = await asyncio.gather(*(scene.insist(f"s-{n}", dialect=dialects[n % 2], tries=100) for n in range(40)))
            await asyncio.sleep(60)
    assert all(one.allowed for one in answers), {one.message for one in answers}
    assert len(scene.names() | scene.names(PROTOTYPE)) == 8
    assert len(scene.server.deleted) == 6 + 40 - 8, "no more than it took"


@counted
async def test_a_loop_of_creates_and_deletes_gains_nothing(scene: CountScene) -> None:
    full(scene, "a", "b", limit=2)
    async with scene.served(leader=True):
        for n in range(5):
            assert (await scene.insist(f"n-{n}")).allowed
            await scene.server.delete(GA.snapshots, f"n-{n}", TEAM)
        await asyncio.sleep(60)
    assert len(scene.names()) <= 2
    assert "b" in scene.names()


@pytest.mark.parametrize("moment", ["before", "after"])
@counted
async def test_a_leader_that_is_killed_around_a_deletion_deletes_no_more(scene: CountScene, moment: str) -> None:
    full(scene, "a", "b", "c")
    killed: list[str] = []

    def fault(now: str) -> None:
        if now == moment and scene.server.calls[-1].startswith("DELETE") and not killed:
            killed.append(now)
            raise ConnectionError("killed")

    scene.server.fault = fault
    async with scene.served(replicas=2):
        for _ in range(3):  # one leader after the other, each with caches of its own
            async with scene.leading():
                await scene.create("new")
                await asyncio.sleep(0.7)
        async with scene.leading():
            assert (await scene.insist("new")).allowed
            await asyncio.sleep(30)
    assert killed == [moment]
    assert scene.server.deleted == ["a"]


@counted
async def test_a_leader_whose_caches_are_behind_does_not_make_up_twice_for_what_has_gone(scene: CountScene) -> None:
    full(scene, "a", "b", "c", "d")
    scene.server.goes = 0.01
    scene.server.watch_lag = lambda: 0.8
    async with scene.served(replicas=2, leader=True):
        for n in range(3):
            assert (await scene.insist(f"n-{n}", tries=60)).allowed
        await asyncio.sleep(60)
    assert scene.server.deleted == ["a", "b", "c"]


@counted
async def test_events_say_what_went_and_for_whom(scene: CountScene) -> None:
    from ullage.kube.builtin.events import EVENTS

    full(scene, "a")
    async with scene.served(leader=True):
        assert (await scene.insist("new")).allowed
        await asyncio.sleep(10)
    notes = {(one.regarding.kind, one.note) for one in scene.server.all(EVENTS)}
    assert ("VolumeSnapshot", "The oldest that may be deleted: it makes room for new, which would not fit.") in notes
    assert ("SnapshotLimit", "Deleted VolumeSnapshot a, the oldest that may be, to make room for new.") in notes


@counted
async def test_a_claim_that_is_not_among_the_oldest_of_its_namespace_is_looked_at_all_the_same(
    scene: CountScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, few are looked at: of the claim, of the namespace, and of those that go."""
    monkeypatch.setattr("ullage.policies.counts.candidates.MOST_LOOKED", 3)
    for claim in ("disk", "logs"):
        scene.claim(claim, head=1)
    for n in range(8):
        scene.snapshot(f"logs-{n}", "logs")
    scene.snapshot("mine", "disk")
    scene.limit(snapshots=100, per_claim=1, oldest=True)
    async with scene.served(leader=True):
        assert (await scene.insist("new", "disk")).allowed
    assert scene.server.deleted == ["mine"]


@counted
async def test_of_many_claims_fewer_of_each_are_looked_at(scene: CountScene) -> None:
    """What is looked at is bounded in all; not so what is going, which would be made up for once more."""
    claims = [f"disk-{n}" for n in range(100)]
    for claim in claims:
        for n in range(25):
            times = {"creationTimestamp": timestamp(START + timedelta(seconds=n))}
            gone = {"deletionTimestamp": timestamp(START)} if n > 21 else {}
            scene.snapshot(f"{claim}-{n:02}", claim, meta=times | gone)
    async with scene.looking() as candidates:
        few = candidates.of(TEAM, [claim_cell(claim) for claim in claims[:2]])
        many = candidates.of(TEAM, [claim_cell(claim) for claim in claims])
        everything = candidates.of(TEAM, [*(claim_cell(claim) for claim in claims), NAMESPACE_CELL])
    going = {one.name for one in many if one.going}
    assert len(going) == 300
    assert {one.name for one in few} - going == {f"{claim}-{n:02}" for claim in claims[:2] for n in range(22)}
    assert {one.name for one in many} - going == {f"{claim}-{n:02}" for claim in claims for n in range(20)}
    assert len(everything) == len(many), "the oldest of the namespace are among them"


@counted
async def test_where_the_others_are_being_taken_right_now_it_is_asked_for_patience(scene: CountScene) -> None:
    scene.claim("disk", head=1)
    now = timestamp(START + timedelta(seconds=1000))
    scene.snapshot("young", ready=False, meta={"creationTimestamp": now})
    scene.limit(snapshots=1, oldest=True)
    async with scene.served(leader=True):
        first = await scene.create("new")
        assert (first.code, first.retry_after) == (429, 2)
        assert "1 is not finished yet. Try again: that changes in a moment" in first.message
        await asyncio.sleep(5)
        assert not scene.server.deleted
        scene.change(GA.snapshots, "young", status={"readyToUse": True})
        assert (await scene.insist("new")).allowed
    assert scene.server.deleted == ["young"]


@counted
async def test_where_others_were_admitted_right_now_it_is_asked_for_patience(scene: CountScene) -> None:
    """No cache has seen the one that came before it; it may go as soon as one has."""
    scene.claim("disk", head=1)
    scene.snapshot("kept", protected="true")
    scene.limit(snapshots=2, oldest=True)
    scene.server.watch_lag = lambda: 0.5
    async with scene.served(leader=True):
        await asyncio.sleep(2)
        assert (await scene.create("one")).allowed
        second = await scene.create("two")
        assert (second.code, second.retry_after) == (429, 2)
        assert "used 1, reserved 1, limit 2, over by 1. Held for requests that were not seen yet" in second.message
        assert "; nothing is deleted for what is held for other requests" in second.message
        assert "Try again: that changes in a moment" in second.message
        assert (await scene.insist("two")).allowed
        scene.change(GA.snapshots, "two", metadata={"annotations": {"ullage.io/protected": "true", "ullage.io/takes": "{}"}})
        await asyncio.sleep(5)
        assert (await scene.create("three")).code == 403, "nothing else is on its way"
    assert scene.server.deleted == ["one"]


# --- what does not go ------------------------------------------------------------------------------------------------

HOLDS = pytest.mark.parametrize(
    "hold",
    [
        pytest.param(filled_from, id="a claim that nobody consumes is to be filled from it"),
        pytest.param(held_by_finalizer, id="somebody's finalizer"),
        pytest.param(lambda scene, snapshot: None, id="nobody knows what"),
    ],
)


def at_most(scene: CountScene, number: int) -> Any:
    def check() -> None:
        assert len(scene.server.all(GA.snapshots)) <= number

    return scene.never(check)


@HOLDS
@counted
async def test_one_that_is_deleted_and_does_not_go_makes_room_for_five_minutes_only(scene: CountScene, hold: Any) -> None:
    full(scene, "a", "b", "c")
    hold(scene, "b")
    scene.server.stays = {"b"}
    async with scene.served(leader=True):
        with at_most(scene, 3):
            await scene.server.delete(GA.snapshots, "b", TEAM)
            await asyncio.sleep(290)
            waits = await scene.insist("new", tries=5)
            assert (waits.code, scene.server.deleted) == (429, ["b"])
            assert "b is being deleted already. Try again" in waits.message
            assert (await scene.insist("new")).allowed
            await asyncio.sleep(60)
    assert scene.server.deleted == ["b", "a"]
    assert scene.names() == {"b", "c", "new"}


@counted
async def test_what_does_not_go_for_a_reason_of_its_own_keeps_no_others(scene: CountScene) -> None:
    full(scene, "a", "b", "c", "d")
    scene.server.stays = {"a", "b", "c"}
    filled_from(scene, "a")
    for name in ("b", "c"):
        held_by_finalizer(scene, name)
        scene.change(GA.snapshots, name, metadata={"annotations": {"ullage.io/protected": "true", "ullage.io/takes": "{}"}})
    async with scene.served(leader=True):
        for name in ("a", "b", "c"):
            await scene.server.delete(GA.snapshots, name, TEAM)
        await asyncio.sleep(301)
        assert (await scene.insist("new")).allowed
        refused = await scene.create("newer", "disk")
        assert refused.code == 429, "the new one may go for it"
    assert scene.server.deleted == ["a", "b", "c", "d"]


@counted
async def test_where_two_do_not_go_no_more_are_deleted_in_vain(scene: CountScene) -> None:
    """Their storage system may be away: then nothing else would go either, and all of them would be lost in an hour."""
    full(scene, "a", "b", "c", "d")
    scene.server.stays = {"a", "b", "c", "d"}
    async with scene.served(leader=True):
        for _ in range(6):
            last = await scene.insist("new", tries=4)
            await asyncio.sleep(296)
        assert scene.server.deleted == ["a", "b"]
        assert last.code == 403
        assert "of those that are there, 2 are being deleted, and not gone after 5 minutes, 2 are left alone" in last.message
        assert "2 are left alone, since others that were deleted do not go. Next: see what there is" in last.message
        scene.server.gone(GA.snapshots, Key(TEAM, "a"))
        await asyncio.sleep(1)
        assert (await scene.insist("new")).allowed, "it is back"


@counted
async def test_nothing_is_deleted_for_requests_that_nothing_comes_of(scene: CountScene) -> None:
    """Two are there of four that may be, and three more are admitted here and refused by another webhook: there is room for
    a good one when what was held for those is free, and both old ones are there still."""
    full(scene, "a", "b", limit=4)
    scene.vetoes = True
    async with scene.served(leader=True):
        vetoed = [await scene.create(f"vetoed-{n}") for n in range(3)]
        assert [one.code for one in vetoed] == [403, 403, 429]
        assert "nothing is deleted for what is held for other requests" in vetoed[-1].message
        held = await scene.create("good")
        assert held.code == 429
        scene.vetoes = False
        assert (await scene.insist("good", tries=200)).allowed
        await asyncio.sleep(60)
    assert scene.server.deleted == []


@counted
async def test_nothing_goes_for_requests_that_another_webhook_refuses(scene: CountScene) -> None:
    """Four are there of four that may be. Each request is tried as a dry run before anything is deleted for it."""
    full(scene, "a", "b", "c", "d")
    scene.vetoes = True
    async with scene.served(leader=True):
        for turn in range(60):
            refused = await scene.create(f"vetoed-{turn // 3}")
            assert refused.code == 403
            assert "it would be refused all the same: vetoed by another webhook" in refused.message
            await asyncio.sleep(1)
        assert (scene.server.deleted, dict(scene.book().waiting)) == ([], {})
        scene.vetoes = False
        assert (await scene.insist("good", tries=200)).allowed
    assert scene.server.deleted == ["a"]
    assert scene.server.tried.count("good") == 1, "one trial serves the tries of some seconds"


@counted
async def test_one_goes_for_all_requests_that_nothing_comes_of(scene: CountScene) -> None:
    """Another webhook refuses whatever is admitted, under one name after the other, and lets dry runs pass."""
    full(scene, "a", "b", "c", "d")
    scene.vetoes = True
    scene.server.trial = passes
    async with scene.served(leader=True):
        for turn in range(120):
            await scene.create(f"vetoed-{turn // 3}")
            await asyncio.sleep(1)
        assert scene.server.deleted == ["a"]
        scene.vetoes = False
        assert (await scene.insist("good", tries=200)).allowed
    assert scene.server.deleted == ["a"]


async def passes(kind: Any, body: Any) -> Decision:
    return Decision.allow()


async def hangs(kind: Any, body: Any) -> Decision:
    await asyncio.sleep(3600)
    return Decision.allow()


async def asks_for_patience(kind: Any, body: Any) -> Decision:
    return Decision.again("not now")


@pytest.mark.parametrize(
    ("trial", "why"),
    [
        pytest.param(hangs, "the API server gave no answer to a dry run within 3.0 s", id="no answer"),
        pytest.param(asks_for_patience, "not now", id="it asks for patience"),
    ],
)
@counted
async def test_nothing_goes_while_it_is_not_known_whether_a_request_would_be_admitted(
    scene: CountScene, trial: Any, why: str
) -> None:
    full(scene, "a", "b")
    scene.server.trial = trial
    async with scene.served(leader=True):
        told = await scene.create("new")
        assert (told.code, told.retry_after) == (429, 2)
        assert why in told.message
        assert not scene.book().waiting
    assert scene.server.deleted == []


@counted
async def test_only_so_many_are_tried_at_a_time(scene: CountScene) -> None:
    """Those beyond are told to try again, and hold no place while they wait."""
    full(scene, "a", "b")
    scene.server.trial = hangs
    async with scene.served(leader=True):
        told = await asyncio.gather(*(scene.create(f"new-{number}") for number in range(MOST_OF_NAMESPACE + 5)))
    assert sum("others are tried just now" in one.message for one in told) == 5
    assert len(scene.server.tried) == MOST_OF_NAMESPACE


@counted
async def test_of_claims_with_limits_of_their_own_each_is_made_room_for(scene: CountScene) -> None:
    """Who waits for one limit, and asks no more, keeps none waiting for another."""
    for claim in ("disk", "logs"):
        scene.claim(claim, head=1)
        scene.snapshot(f"old-{claim}", claim)
    scene.limit(per_claim=1, oldest=True)
    async with scene.served(leader=True):
        assert (await scene.create("new-disk", "disk")).code == 429
        assert (await scene.insist("new-logs", "logs", tries=8)).allowed
    assert sorted(scene.server.deleted) == ["old-disk", "old-logs"]
