"""Members as they are found in caches and in the API, and what is done with them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from tests.unit.snapshots.memory_api import Json, MemoryApi
from ullage.clock import FakeClock
from ullage.kube.cache.cache import Cache
from ullage.kube.client.client import Client
from ullage.kube.errors import Forbidden, TooManyRequests
from ullage.kube.kinds import OwnerReference
from ullage.snapshots.api.ga.types import CONTENTS, VOLUME_SNAPSHOTS
from ullage.snapshots.cut.members import (
    LATE_SECONDS,
    MemberReader,
    create_member,
    delete_member,
    find_member,
    tell_members,
)
from ullage.snapshots.cut.rules import Member, Whole, new_member
from ullage.snapshots.gate import FRESH
from ullage.snapshots.model import CUT, ESTIMATE, Problem

TEAM, OWNER = "team", "uid-one"
SET = Whole("set", parts="disks", awaited=frozenset())
REFERENCE = OwnerReference(api_version="v1", kind="Set", name="one", uid=OWNER, controller=True)


def planned(claim: str) -> Member:
    return Member(whole=SET, name=f"snap-{claim}", claim=claim, owner=OWNER)


def record_of(claim: str, *, at: str = "", uid: str = "") -> Json:
    """The record of a member's snapshot, measured at this moment."""
    name, note = f"snap-{claim}", f'{{"bytes":5,"at":"{at}"}}'
    return {
        "metadata": {"name": f"snapcontent-{uid or f'uid-{name}'}", "annotations": {ESTIMATE: note} if at else {}},
        "spec": {
            "driver": "csi.example.com",
            "deletionPolicy": "Delete",
            "source": {"volumeHandle": "vol"},
            "volumeSnapshotRef": {"namespace": TEAM, "name": name, "uid": f"uid-{name}"},
        },
    }


class World:
    """An API with members in it, and a process that has caches of it."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.client = cast(Client, self.api)
        self.clock = FakeClock()
        self.snapshots = Cache(self.api, VOLUME_SNAPSHOTS)
        self.records = Cache(self.api, CONTENTS)
        self.reader = MemberReader(self.client, self.snapshots, self.records, clock=self.clock)

    async def make(self, *claims: str) -> None:
        for claim in claims:
            body = new_member(planned(claim), TEAM, owner=REFERENCE)
            assert await create_member(self.client, body, label="disk") is None

    def measure(self, claim: str, at: str) -> None:
        self.api.put(CONTENTS, record_of(claim, at=at))

    @contextlib.asynccontextmanager
    async def caches(self) -> AsyncIterator[None]:
        running = [asyncio.create_task(one.run()) for one in (self.snapshots, self.records)]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def read(self, *claims: str, settled: bool = False) -> list[Member]:
        await self.snapshots.reached(self.api.version)
        await self.records.reached(self.api.version)
        return await self.reader.read(OWNER, [planned(one) for one in claims], TEAM, settled=settled)

    async def fresh(self, *claims: str) -> list[bool]:
        return [one.fresh for one in await self.read(*claims)]


@pytest.fixture
def world() -> World:
    return World()


# --- what is found ---------------------------------------------------------------------------------------------------


async def test_a_member_has_its_snapshot_its_record_and_what_was_measured(world: World) -> None:
    await world.make("a")
    world.measure("a", "2026-01-01T00:00:05.000000Z")
    async with world.caches():
        (one,) = await world.read("a")
    assert one.mine
    assert one.seen is not None
    assert one.seen.metadata.uid == "uid-snap-a"
    assert one.record is not None
    assert one.estimate is not None
    assert (one.estimate.bytes, one.fresh) == (5, True)


@pytest.mark.parametrize(
    ("settled", "found"),
    [
        pytest.param(False, False, id="one that was not made yet is not asked for"),
        pytest.param(True, True, id="one that was there is asked for"),
    ],
)
async def test_what_a_cache_lacks(world: World, settled: bool, found: bool) -> None:
    async with world.caches():
        await world.read()
        await world.make("a")  # and the cache has not seen it
        (one,) = await world.reader.read(OWNER, [planned("a")], TEAM, settled=settled)
    assert (one.snapshot is not None) is found


async def test_what_looks_like_another_s_is_asked_for_once_more(world: World) -> None:
    stray = {"metadata": {"name": "snap-a", "namespace": TEAM}, "spec": {"source": {"persistentVolumeClaimName": "a"}}}
    world.api.put(VOLUME_SNAPSHOTS, stray)
    async with world.caches():
        await world.read()
        world.api.remove(VOLUME_SNAPSHOTS, "snap-a", TEAM)
        await world.make("a")  # and the cache has the stray one
        (one,) = await world.reader.read(OWNER, [planned("a")], TEAM, settled=False)
    assert one.mine


async def test_a_record_is_found_by_the_uid_and_not_by_what_the_status_names(world: World) -> None:
    await world.make("a")
    world.api.put(CONTENTS, record_of("a", at="2026-01-01T00:00:05.000000Z", uid="of-another"))
    named = {"status": {"boundVolumeSnapshotContentName": "snapcontent-of-another"}}
    world.api.edit(VOLUME_SNAPSHOTS, "snap-a", TEAM, merge=named)
    async with world.caches():
        (one,) = await world.read("a")
    assert (one.record, one.estimate) == (None, None)


# --- how old an estimate is ------------------------------------------------------------------------------------------


async def test_an_estimate_is_as_old_as_our_own_clock_says(world: World) -> None:
    await world.make("a")
    world.measure("a", "2001-01-01T00:00:00.000000Z")  # the clock of the worker is off
    async with world.caches():
        assert await world.fresh("a") == [True]
        world.clock.advance(FRESH.total_seconds() - 1)
        assert await world.fresh("a") == [True]
        world.clock.advance(1)
        assert await world.fresh("a") == [False]
        world.measure("a", "2001-01-01T00:00:20.000000Z")
        assert await world.fresh("a") == [True], "it was measured again"


async def test_a_record_that_is_gone_is_forgotten(world: World) -> None:
    await world.make("a")
    world.measure("a", "2026-01-01T00:00:05.000000Z")
    async with world.caches():
        assert await world.fresh("a") == [True]
        world.clock.advance(60)
        world.api.remove(CONTENTS, "snapcontent-uid-snap-a")
        await world.records.reached(world.api.version)
        world.measure("a", "2026-01-01T00:00:05.000000Z")
        assert await world.fresh("a") == [True], "one of the same name and moment was first seen now"


async def test_after_two_minutes_estimates_that_are_never_new_together_will_do(world: World) -> None:
    await world.make("a", "b")
    world.measure("a", "2026-01-01T00:00:05.000000Z")
    async with world.caches():
        await world.fresh("a", "b")
        world.clock.advance(LATE_SECONDS + 1)
        assert await world.fresh("a", "b") == [False, False], "one was never measured"
        world.measure("b", "2026-01-01T00:02:10.000000Z")
        assert await world.fresh("a", "b") == [False, True]
        world.clock.advance(LATE_SECONDS)
        assert await world.fresh("a", "b") == [False, False]
        world.clock.advance(1)
        assert await world.fresh("a", "b") == [True, True]
        world.reader.forget(OWNER)
        assert await world.fresh("a", "b") == [False, False], "it is waited for anew"


async def test_the_two_minutes_begin_anew_when_one_has_no_estimate(world: World) -> None:
    await world.make("a", "b")
    for claim in "ab":
        world.measure(claim, "2026-01-01T00:00:05.000000Z")
    async with world.caches():
        await world.fresh("a", "b")
        world.clock.advance(LATE_SECONDS)
        world.api.remove(CONTENTS, "snapcontent-uid-snap-b")
        assert await world.fresh("a", "b") == [False, False]
        world.measure("b", "2026-01-01T00:02:05.000000Z")
        await world.fresh("a", "b")
        world.clock.advance(LATE_SECONDS)
        assert await world.fresh("a", "b") == [False, False]


@pytest.mark.parametrize(
    ("cut", "fresh"),
    [
        pytest.param("a", [True, True], id="one that is cut needs no estimate"),
        pytest.param("ab", [False, False], id="where all are cut nothing is waited for"),
    ],
)
async def test_estimates_of_members_that_are_cut_count_for_nothing(world: World, cut: str, fresh: list[bool]) -> None:
    await world.make("a", "b")
    world.measure("b", "2026-01-01T00:00:05.000000Z")
    for claim in cut:
        world.api.edit(VOLUME_SNAPSHOTS, f"snap-{claim}", TEAM, merge={"status": {"creationTime": "2026-01-01T00:00:09Z"}})
    async with world.caches():
        await world.fresh("a", "b")
        world.clock.advance(LATE_SECONDS + 1)
        assert await world.fresh("a", "b") == fresh


# --- what is done ----------------------------------------------------------------------------------------------------


def refusing(error: Exception) -> Any:
    def refuse(what: str) -> None:
        raise error

    return refuse


async def test_a_member_that_is_refused_is_told_in_the_server_s_words(world: World) -> None:
    world.api.refuse = refusing(Forbidden("exceeded quota", code=403))
    body = new_member(planned("a"), TEAM, owner=REFERENCE)
    assert await create_member(world.client, body, label="disk a") == Problem(
        "SnapshotRefused", "disk a: VolumeSnapshot snap-a was refused: exceeded quota"
    )


async def test_a_server_that_is_busy_refuses_nothing(world: World) -> None:
    world.api.refuse = refusing(TooManyRequests("later", code=429))
    with pytest.raises(TooManyRequests):
        await create_member(world.client, new_member(planned("a"), TEAM, owner=REFERENCE), label="disk a")


async def test_a_member_is_made_once(world: World) -> None:
    await world.make("a")
    before = world.api.version
    await world.make("a")
    assert world.api.version == before


async def test_all_are_told_about_their_own_estimates_and_one_that_is_gone_stops_none(world: World) -> None:
    await world.make("a", "b", "c")
    for second, claim in enumerate("abc"):
        world.measure(claim, f"2026-01-01T00:00:0{second}.000000Z")
    async with world.caches():
        members = await world.read("a", "b", "c")
    world.api.remove(VOLUME_SNAPSHOTS, "snap-a", TEAM)
    world.api.remove(VOLUME_SNAPSHOTS, "snap-b", TEAM)
    other = {"metadata": {"name": "snap-b", "namespace": TEAM, "uid": "later"}, "spec": {"source": {}}}
    world.api.put(VOLUME_SNAPSHOTS, other)
    await tell_members(world.client, members)
    words = {one["metadata"]["uid"]: one["metadata"].get("annotations", {}) for one in world.api.bodies(VOLUME_SNAPSHOTS)}
    assert words == {"later": {}, "uid-snap-c": {CUT: "go@2026-01-01T00:00:02.000000Z"}}


async def test_one_that_was_not_measured_is_not_told(world: World) -> None:
    await world.make("a")
    async with world.caches():
        before = world.api.version
        await tell_members(world.client, [*await world.read("a"), planned("b")])
    assert world.api.version == before


async def test_what_is_deleted_is_the_member_and_not_another_one_of_its_name(world: World) -> None:
    await world.make("a")
    found = await find_member(world.client, "snap-a", TEAM, owner=OWNER)
    assert found is not None
    assert await find_member(world.client, "snap-a", TEAM, owner="uid-two") is None
    other = {"metadata": {"name": "snap-a", "namespace": TEAM, "uid": "later"}, "spec": {"source": {}}}
    world.api.put(VOLUME_SNAPSHOTS, other)
    assert await delete_member(world.client, found) is False
    assert world.api.body(VOLUME_SNAPSHOTS, "snap-a", TEAM) is not None


async def test_a_member_that_is_there_is_deleted_once(world: World) -> None:
    await world.make("a")
    found = await find_member(world.client, "snap-a", TEAM, owner=OWNER)
    assert found is not None
    assert await delete_member(world.client, found) is True
    assert world.api.body(VOLUME_SNAPSHOTS, "snap-a", TEAM) is None
    assert await find_member(world.client, "snap-a", TEAM, owner=OWNER) is None
    assert await delete_member(world.client, found) is False
