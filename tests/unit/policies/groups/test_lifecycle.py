"""Groups from the request to the last trace of them: the real controllers on an API in memory, through every kill."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.policies.groups.cluster import CUT_AT, DRIVER, MIB, TEAM, GroupCluster, StampingApi
from ullage.errors import Impossible, NotNow, Uncertain
from ullage.kube.builtin import core
from ullage.kube.errors import TooManyRequests
from ullage.policies.groups.api import GROUP_CONTENTS, GROUPS
from ullage.policies.groups.model import MOST_MEMBERS, member_name
from ullage.snapshots.api.ga.types import CONTENTS, VOLUME_SNAPSHOTS
from ullage.snapshots.model import GROUP_HANDLE, IN_GROUP

roads = pytest.mark.parametrize("by_driver", [False, True], ids=["one by one", "in one call"])
policies = pytest.mark.parametrize("policy", ["Delete", "Retain"])


def made(*, by_driver: bool = False, **rest: Any) -> GroupCluster:
    cluster = GroupCluster(**rest)
    cluster.driver.groups = by_driver
    return cluster


# --- what comes of one -----------------------------------------------------------------------------------------------


@roads
def test_a_group_is_taken_and_goes_without_a_trace(by_driver: bool) -> None:
    async def main() -> None:
        cluster = made(by_driver=by_driver)
        cluster.ask()
        await cluster.live(cluster.ready)
        assert cluster.status() == {
            "boundVolumeGroupSnapshotContentName": "groupsnapcontent-uid-one",
            "creationTime": "2026-01-01T00:00:05Z",
            "readyToUse": True,
        }
        assert sorted(cluster.driver.cuts) == ["vol-data-0", "vol-data-1", "vol-data-2"]
        assert cluster.driver.asked == ([("vol-data-0", "vol-data-1", "vol-data-2")] if by_driver else [])
        assert cluster.told.reasons.count("GroupSnapshotReady") == 1
        await cluster.live(cluster.free)
        cluster.delete()
        await cluster.live(cluster.clean)

    in_virtual_time(main())


@roads
@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_members_are_what_the_peer_makes_in_the_newest_version_that_is_served(by_driver: bool, version: str) -> None:
    async def main() -> None:
        cluster = made(by_driver=by_driver)
        cluster.api.not_served = frozenset({"groupsnapshot.storage.k8s.io/v1"} if version != "v1" else {})
        cluster.ask()
        await cluster.live(cluster.ready)
        member = cluster.members()["data-0"]
        meta = member["metadata"]
        assert meta["name"] == member_name("uid-one", "vol-data-0")
        assert len(meta["name"]) == len("snapshot-") + 64
        (owner,) = meta["ownerReferences"]
        assert (owner["apiVersion"], owner["kind"], owner["name"], owner["uid"]) == (
            f"groupsnapshot.storage.k8s.io/{version}",
            "VolumeGroupSnapshot",
            "one",
            "uid-one",
        )
        assert IN_GROUP in meta["finalizers"]
        assert member["status"]["volumeGroupSnapshotName"] == "one"
        record = cluster.api.body(CONTENTS, member["status"]["boundVolumeSnapshotContentName"])
        assert record is not None
        assert record["spec"]["source"] == {"volumeHandle": "vol-data-0"}
        assert record["spec"]["deletionPolicy"] == "Delete"
        content = cluster.content()
        assert content is not None
        if by_driver:
            handle = content["status"]["volumeGroupSnapshotHandle"]
            assert record["status"]["volumeGroupSnapshotHandle"] == handle
            assert record["metadata"]["annotations"][GROUP_HANDLE] == handle
        infos = content["status"]["volumeSnapshotInfoList"]
        assert [one["volumeHandle"] for one in infos] == ["vol-data-0", "vol-data-1", "vol-data-2"]
        assert {one["snapshotHandle"] for one in infos} == set(cluster.driver.names)
        assert all(one["readyToUse"] and one["restoreSize"] == 4096 for one in infos)

    in_virtual_time(main())


@roads
def test_with_retain_the_data_stays_and_so_does_what_tells_of_it(by_driver: bool) -> None:
    async def main() -> None:
        cluster = made(by_driver=by_driver, policy="Retain")
        cluster.ask()
        await cluster.live(cluster.ready)
        cluster.delete()
        await cluster.live(cluster.gone)
        await cluster.stay()
        assert len(cluster.driver.names) == 3
        assert cluster.content() is not None
        assert [one["spec"]["deletionPolicy"] for one in cluster.records()] == ["Retain"] * 3

    in_virtual_time(main())


@roads
def test_a_member_that_is_deleted_alone_stays_with_its_data_until_its_group_goes(by_driver: bool) -> None:
    async def main() -> None:
        cluster = made(by_driver=by_driver)
        cluster.ask()
        await cluster.live(cluster.ready)
        name = cluster.members()["data-1"]["metadata"]["name"]
        cluster.api.remove(VOLUME_SNAPSHOTS, name, TEAM)
        await cluster.live(lambda: "delete the group" in str(cluster.members()["data-1"]["status"].get("error")))
        await cluster.stay()
        assert len(cluster.driver.names) == 3
        assert cluster.ready()
        cluster.delete()
        await cluster.live(cluster.clean)

    in_virtual_time(main())


def test_what_the_driver_has_stays_while_another_namespace_has_a_member_of_it() -> None:
    async def main() -> None:
        cluster = made(by_driver=True)
        cluster.ask()
        await cluster.live(cluster.ready)
        record = cluster.api.body(CONTENTS, cluster.members()["data-1"]["status"]["boundVolumeSnapshotContentName"])
        assert record is not None
        handle = record["status"]["snapshotHandle"]
        spec = {
            "driver": DRIVER,
            "deletionPolicy": "Delete",
            "source": {"snapshotHandle": handle},
            "volumeSnapshotRef": {"namespace": "others", "name": "given"},
        }
        cluster.api.put(CONTENTS, {"metadata": {"name": "given"}, "spec": spec})
        cluster.delete()
        await cluster.stay(120)
        assert "GroupSnapshotInUse" in cluster.told.reasons
        assert len(cluster.driver.names) == 3
        assert len(cluster.members()) == 3
        assert all("deletionTimestamp" in one["metadata"] for one in cluster.members().values()), "it can be given to nobody"
        cluster.api.remove(CONTENTS, "given")
        await cluster.live(cluster.clean)

    in_virtual_time(main())


@roads
def test_members_that_a_deletion_has_left_behind_keep_their_data_and_can_be_deleted(by_driver: bool) -> None:
    """As with `kubectl delete --cascade=orphan`. What a driver has cut in one call stays together."""

    async def main() -> None:
        cluster = made(by_driver=by_driver)
        cluster.ask()
        await cluster.live(cluster.ready)
        names = [one["metadata"]["name"] for one in cluster.members().values()]
        for name in names:
            cluster.api.edit(VOLUME_SNAPSHOTS, name, TEAM, merge={"metadata": {"ownerReferences": None}})
        cluster.delete()
        await cluster.stay(60)
        assert len(cluster.driver.names) == 3
        assert ("GroupSnapshotInUse" in cluster.told.reasons, cluster.group() is None) == (by_driver, not by_driver)
        for name in names:
            cluster.api.remove(VOLUME_SNAPSHOTS, name, TEAM)
        await cluster.live(cluster.gone)
        await cluster.live(lambda: not cluster.driver.names and not cluster.records())

    in_virtual_time(main())


def test_a_snapshot_that_was_never_a_member_goes_with_its_data_whatever_its_finalizers_say() -> None:
    async def main() -> None:
        cluster = made()
        cluster.ask()
        await cluster.live(cluster.ready)
        name = cluster.members()["data-0"]["metadata"]["name"]
        forged = {
            "metadata": {"ownerReferences": None, "labels": {"group": "one"}},
            "status": {"volumeGroupSnapshotName": None},
        }
        cluster.api.edit(VOLUME_SNAPSHOTS, name, TEAM, merge=forged)
        cluster.api.remove(VOLUME_SNAPSHOTS, name, TEAM)
        await cluster.live(lambda: "data-0" not in cluster.members())
        assert len(cluster.driver.names) == 2

    in_virtual_time(main())


# --- kills -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@roads
def test_a_process_may_die_before_and_after_every_effect(by_driver: bool) -> None:
    async def main(moment: int) -> bool:
        cluster = made(by_driver=by_driver, claims=("data-0", "data-1"))
        cluster.api.fuse.blows_at = moment
        cluster.ask()
        await cluster.live(cluster.ready)
        assert sorted(cluster.driver.cuts) == ["vol-data-0", "vol-data-1"], cluster.api.fuse.log
        await cluster.live(cluster.free)
        cluster.delete()
        await cluster.live(cluster.clean)
        return cluster.api.fuse.passed < moment

    moment = 1
    while not in_virtual_time(main(moment)):
        moment += 1
    assert moment > 60, "there were effects to die at"


@pytest.mark.slow
@roads
@policies
def test_a_process_may_die_at_any_moment_of_a_failure(by_driver: bool, policy: str) -> None:
    def refuse(volume: str) -> None:
        if volume == "vol-data-1":
            raise Impossible("the pool is gone")

    async def main(moment: int) -> bool:
        cluster = made(by_driver=by_driver, claims=("data-0", "data-1"), policy=policy)
        cluster.api.fuse.blows_at = moment
        cluster.driver.refuses = refuse
        cluster.driver.refuses_group = lambda: refuse("vol-data-1")
        cluster.ask()
        await cluster.live(cluster.empty)
        assert "the pool is gone" in cluster.error()
        cluster.delete()
        await cluster.live(cluster.clean)
        return cluster.api.fuse.passed < moment

    moment = 1
    while not in_virtual_time(main(moment)):
        moment += 3  # a third of them
    assert moment > 60, "there were effects to die at"


@pytest.mark.slow
@roads
@policies
def test_a_deletion_may_come_at_any_moment(by_driver: bool, policy: str) -> None:
    """Nothing is left then; or all of it, where it is to be retained and was complete."""

    async def main(moment: int) -> bool:
        cluster = made(by_driver=by_driver, claims=("data-0", "data-1"), policy=policy)
        fuse, before = cluster.api.fuse, cluster.api.fuse.before

        def delete_at(what: str) -> None:
            before(what)
            if len(fuse.log) == moment:
                cluster.delete()

        fuse.before = delete_at  # type: ignore[method-assign]
        cluster.ask()
        await cluster.live(lambda: cluster.group() is None or cluster.ready())
        if len(fuse.log) < moment:
            return True
        await cluster.live(lambda: cluster.clean() or (policy == "Retain" and cluster.retained()))
        return False

    moment = 1
    while not in_virtual_time(main(moment)):
        moment += 1
    assert moment > 20, "there were moments"


# --- all or nothing --------------------------------------------------------------------------------------------------


def test_nothing_is_cut_before_all_are_ready() -> None:
    async def main() -> None:
        cluster = made()

        async def estimate(volume: Any, *, owner: str = "") -> int | None:
            if volume.handle == "vol-data-2" and not done:
                raise NotNow("the array is busy")
            return MIB

        done: list[bool] = []
        cluster.driver.estimate = estimate  # type: ignore[method-assign]
        cluster.ask()
        await cluster.live(lambda: "the array is busy" in cluster.error())
        await cluster.stay(60)
        assert cluster.driver.cuts == []
        done.append(True)
        await cluster.live(cluster.ready)
        assert len(cluster.driver.cuts) == 3
        assert cluster.error() == ""

    in_virtual_time(main())


@roads
@policies
def test_where_one_fails_none_is_left_and_the_group_says_why(by_driver: bool, policy: str) -> None:
    async def main() -> None:
        cluster = made(by_driver=by_driver, policy=policy)

        def refuse(volume: str) -> None:
            if volume == "vol-data-1":
                raise Impossible("the pool is gone")

        cluster.driver.refuses = refuse
        cluster.driver.refuses_group = lambda: refuse("vol-data-1")
        cluster.ask()
        await cluster.live(cluster.empty)
        assert not cluster.ready()
        where = "" if by_driver else "claim data-1: "
        assert cluster.error() == (
            f"DriverError: {where}the pool is gone. None of its snapshots is kept; delete this group, and create another"
        )
        cluster.driver.refuses = lambda volume: None
        cluster.driver.refuses_group = lambda: None
        await cluster.stay(600)
        assert cluster.empty(), "it is not tried again"

    in_virtual_time(main())


def test_one_that_cannot_be_cut_for_an_hour_after_the_others_fails_the_group() -> None:
    async def main() -> None:
        cluster = made()
        began = cluster.clock.now()
        cluster.driver.moments = dict.fromkeys(["vol-data-0", "vol-data-2"], began)

        def away(volume: str) -> None:
            if volume == "vol-data-1":
                raise NotNow("UNAVAILABLE: its node is away")

        cluster.driver.refuses = away
        cluster.ask()
        await cluster.live(cluster.empty, seconds=8000)
        assert cluster.clock.now() - began > timedelta(minutes=59)
        assert cluster.error() == (
            "CutApart: claim data-1: others were cut an hour ago, and it still cannot be: UNAVAILABLE: its node is away. None "
            "of its snapshots is kept; delete this group, and create another"
        )

    in_virtual_time(main())


@pytest.mark.parametrize(("seconds", "told"), [(60, False), (61, True)])
def test_members_of_moments_that_are_far_apart_are_told_of(seconds: int, told: bool) -> None:
    async def main() -> None:
        cluster = made()
        cluster.driver.moments = {"vol-data-1": CUT_AT + timedelta(seconds=seconds)}
        cluster.ask()
        await cluster.live(cluster.ready)
        assert ("GroupSnapshotCutApart" in cluster.told.reasons) is told
        if told:
            assert "cut one after the other, within 61 s" in str(cluster.told.events)

    in_virtual_time(main())


def test_a_claim_that_is_deleted_midway_fails_the_group() -> None:
    async def main() -> None:
        cluster = made()
        cluster.api.refuse = lambda what: (
            cluster.api.remove(core.CLAIMS, "data-1", TEAM)
            if what.startswith(f"create {VOLUME_SNAPSHOTS.name}") and cluster.api.body(core.CLAIMS, "data-1", TEAM)
            else None
        )
        cluster.ask()
        await cluster.live(lambda: "None of its snapshots is kept" in cluster.error())
        await cluster.live(lambda: not cluster.members() and not cluster.records())
        assert cluster.driver.names == {}
        assert "claim data-1: claim team/data-1" in cluster.error()

    in_virtual_time(main())


def test_a_member_that_somebody_deletes_before_the_cut_fails_the_group() -> None:
    async def main() -> None:
        cluster = made()
        cluster.driver.sizes = {}

        async def estimate(volume: Any, *, owner: str = "") -> int | None:
            raise NotNow("not yet")

        cluster.driver.estimate = estimate  # type: ignore[method-assign]
        cluster.ask()
        await cluster.live(lambda: len(cluster.records()) == 3)
        cluster.api.remove(VOLUME_SNAPSHOTS, cluster.members()["data-1"]["metadata"]["name"], TEAM)
        await cluster.live(cluster.empty)
        assert "was deleted before the group was complete" in cluster.error()
        assert cluster.driver.cuts == []

    in_virtual_time(main())


def test_an_answer_that_was_lost_is_asked_for_again_and_makes_one_group() -> None:
    async def main() -> None:
        cluster = made(by_driver=True)
        failures = [Uncertain("no answer"), Uncertain("no answer")]

        def lose() -> None:
            if failures:
                raise failures.pop()

        cluster.driver.after_group = lose
        cluster.ask()
        await cluster.live(cluster.ready)
        assert len(cluster.driver.asked) == 3
        assert len(cluster.driver.group_names) == 1
        assert len(cluster.driver.cuts) == 3

    in_virtual_time(main())


def test_a_group_whose_answer_was_lost_is_not_left_behind() -> None:
    async def main() -> None:
        cluster = made(by_driver=True)

        def lose() -> None:
            raise Uncertain("no answer")

        cluster.driver.after_group = lose
        cluster.ask()
        await cluster.live(lambda: "no answer" in str(cluster.content()))
        assert len(cluster.driver.group_names) == 1
        cluster.driver.after_group = lambda: None
        cluster.delete()
        await cluster.live(cluster.clean)

    in_virtual_time(main())


@policies
def test_what_the_driver_has_cut_goes_when_a_member_is_deleted_before_all_are_stored(policy: str) -> None:
    async def main() -> None:
        cluster = made(by_driver=True, policy=policy)
        cluster.driver.ready = False
        cluster.ask()
        await cluster.live(lambda: len(cluster.driver.group_names) == 1 and "volumeSnapshotInfoList" in str(cluster.content()))
        cluster.api.remove(VOLUME_SNAPSHOTS, cluster.members()["data-1"]["metadata"]["name"], TEAM)
        await cluster.live(cluster.empty)
        assert "was deleted before the group was complete" in cluster.error()

    in_virtual_time(main())


# --- limits ----------------------------------------------------------------------------------------------------------


@roads
def test_every_member_is_paid_for_before_anything_is_cut(by_driver: bool) -> None:
    """The limit has room for two of three: by no road is it passed, and nothing is cut."""

    async def main() -> None:
        api = StampingApi(limit=2 * MIB)
        cluster = made(by_driver=by_driver, api=api)
        cluster.ask()
        await cluster.live(cluster.empty)
        assert cluster.driver.cuts == []
        assert cluster.driver.asked == []
        assert api.most <= api.limit
        assert "does not fit" in cluster.error()
        assert cluster.booked() == 0

    in_virtual_time(main())


@roads
def test_what_has_grown_since_it_was_admitted_is_booked_before_the_cut_or_nothing_is_cut(by_driver: bool) -> None:
    async def main() -> None:
        api = StampingApi(limit=5 * MIB)
        cluster = made(by_driver=by_driver, api=api)
        cluster.driver.sizes = {"vol-data-2": 4 * MIB}
        cluster.ask()
        await cluster.live(cluster.empty)
        assert cluster.driver.cuts == []
        assert api.most <= api.limit
        assert "SnapshotSpaceExceeded" in cluster.error()

    in_virtual_time(main())


def test_a_member_that_turns_out_larger_than_measured_is_paid_for() -> None:
    async def main() -> None:
        cluster = made(api=StampingApi(limit=5 * MIB))
        cluster.driver.taken = {"vol-data-2": 2 * MIB}
        cluster.ask()
        await cluster.live(cluster.ready)
        assert cluster.booked() == 4 * MIB

    in_virtual_time(main())


def test_where_a_cut_turns_out_too_large_all_members_fail_and_nothing_is_left() -> None:
    async def main() -> None:
        api = StampingApi(limit=5 * MIB)
        cluster = made(api=api)
        cluster.driver.taken = {"vol-data-2": 4 * MIB}
        cluster.ask()
        await cluster.live(cluster.empty)
        assert "SnapshotSpaceExceeded: claim data-2: a snapshot of the volume takes 4Mi by now" in cluster.error()
        assert cluster.driver.names == {}
        assert api.most <= api.limit
        assert cluster.booked() == 0

    in_virtual_time(main())


def test_a_member_that_is_admitted_later_is_waited_for_and_the_group_says_so() -> None:
    """A limit that deletes the oldest asks for patience until that is gone."""

    async def main() -> None:
        cluster = made()

        def refuse(what: str) -> None:
            if what.startswith(f"create {VOLUME_SNAPSHOTS.name}") and len(cluster.members()) == 2:
                raise TooManyRequests("the oldest is being deleted", code=429)

        cluster.api.refuse = refuse
        cluster.ask()
        await cluster.live(lambda: bool(cluster.error()))
        assert cluster.error().startswith("SnapshotDelayed: claim data-2: VolumeSnapshot snapshot-")
        assert cluster.error().endswith(" is not admitted yet: the oldest is being deleted")
        assert cluster.driver.cuts == []
        cluster.api.refuse = lambda what: None
        await cluster.live(cluster.ready)
        assert cluster.error() == ""

    in_virtual_time(main())


def test_members_pay_what_was_measured() -> None:
    async def main() -> None:
        api = StampingApi(limit=100 * MIB)
        cluster = made(by_driver=True, api=api)
        cluster.driver.sizes = {"vol-data-0": 2 * MIB, "vol-data-1": 3 * MIB, "vol-data-2": MIB // 2}
        cluster.ask()
        await cluster.live(cluster.ready)
        assert cluster.booked() == 5 * MIB + MIB // 2

    in_virtual_time(main())


@pytest.mark.parametrize("count", [MOST_MEMBERS, MOST_MEMBERS + 1], ids=["as many as may be", "one too many"])
def test_a_group_has_no_more_than_so_many_members(count: int) -> None:
    async def main() -> None:
        cluster = made(by_driver=True, claims=tuple(f"data-{number}" for number in range(count)))
        cluster.ask()
        if count > MOST_MEMBERS:
            await cluster.live(lambda: bool(cluster.error()))
            assert cluster.error() == (
                "TooManyMembers: spec.source.selector: it chooses 201 claims; a group has 200 at most. Choose fewer, and make "
                "several groups"
            )
            assert cluster.members() == {}
            assert cluster.content() is None
            return
        await cluster.live(cluster.ready)
        assert len(cluster.driver.asked[0]) == count

    in_virtual_time(main())


# --- who answers -----------------------------------------------------------------------------------------------------


def test_groups_of_drivers_that_are_not_ours_are_left_alone() -> None:
    async def main() -> None:
        cluster = made(drivers={"other.example.com": "here"}, alone=False)
        cluster.ask()
        await cluster.stay(120)
        assert cluster.status() == {}
        assert cluster.members() == {}

    in_virtual_time(main())


def test_a_group_that_is_there_already_is_bound_and_deleted() -> None:
    async def main() -> None:
        cluster = made(by_driver=True)
        cluster.driver.group_names["theirs"] = "before", (cluster.driver._cut("x", "vol-data-0"),)
        handles = {"volumeGroupSnapshotHandle": "theirs", "volumeSnapshotHandles": ["shot-0"]}
        spec = {
            "driver": DRIVER,
            "deletionPolicy": "Delete",
            "source": {"groupSnapshotHandles": handles},
            "volumeGroupSnapshotRef": {"namespace": TEAM, "name": "one"},
        }
        cluster.api.put(GROUP_CONTENTS, {"metadata": {"name": "imported"}, "spec": spec})
        meta = {"name": "one", "namespace": TEAM}
        cluster.api.put(GROUPS, {"metadata": meta, "spec": {"source": {"volumeGroupSnapshotContentName": "imported"}}})
        await cluster.live(cluster.ready)
        found = cluster.api.body(GROUP_CONTENTS, "imported")
        assert found is not None
        assert found["spec"]["volumeGroupSnapshotRef"]["uid"] == "uid-one"
        cluster.delete()
        await cluster.live(cluster.clean)

    in_virtual_time(main())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"selector": {"matchLabels": {"app": "none"}}}, "NoClaims: ", id="no claim has the labels"),
        pytest.param({"class_name": "other"}, "ClassNotFound: ", id="the class does not exist"),
        pytest.param({"class_name": ""}, "NoDefaultClass: ", id="there is no default class"),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}, "SelectorInvalid: ", id="no selector"
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(change: dict[str, Any], says: str) -> None:
    async def main() -> None:
        cluster = made()
        cluster.ask(**change)
        await cluster.live(lambda: bool(cluster.error()))
        assert cluster.error().startswith(says)
        assert cluster.content() is None
        assert cluster.members() == {}

    in_virtual_time(main())


def test_claims_of_two_drivers_are_no_group_and_one_that_is_not_bound_is_waited_for() -> None:
    async def main() -> None:
        cluster = made(claims=("data-0",))
        cluster.claim("late", bound=False)
        cluster.ask()
        await cluster.live(lambda: "claim team/late is Pending" in cluster.error())
        cluster.claim("late", driver="other.example.com")
        await cluster.live(lambda: cluster.error().startswith("SeveralDrivers: "))
        cluster.claim("late")
        await cluster.live(cluster.ready)
        assert sorted(cluster.driver.cuts) == ["vol-data-0", "vol-late"]
        await asyncio.sleep(0)

    in_virtual_time(main())
