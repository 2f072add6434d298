"""What is charged follows what is there, whatever happens to snapshots: with the real controllers, cut off anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.engines.world import MIB, holds
from tests.unit.snapshots import memory_api
from tests.unit.snapshots.engine_cluster import EngineCluster
from tests.unit.space.controllers.follow.cluster import TEAM, FollowCluster
from ullage.clock import SystemClock
from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUMES
from ullage.ledger.charging.stamps import ESTIMATED_BY, STAMP
from ullage.snapshots.slice import DIALECTS
from ullage.times import timestamp
from ullage.vms.api.machines import VIRTUAL_MACHINES

both = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: str(one.name))


@pytest.fixture(autouse=True)
def deleted_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_api, "DELETED", timestamp(SystemClock().now()))


@both
async def test_a_purge_moves_bytes_into_the_child_and_usage_follows(dialect: Any) -> None:
    cluster = FollowCluster(dialect=dialect)
    for name in ("a", "b"):
        cluster.take(name)
        await cluster.live(lambda name=name: cluster.is_taken(name) and cluster.exact())  # type: ignore[misc]
    assert cluster.paying() == {"VolumeSnapshot a": 1, "VolumeSnapshot b": 1}
    cluster.drop("a")
    await cluster.live(lambda: cluster.found("a") is None and cluster.exact())
    assert cluster.paying() == {"VolumeSnapshot b": 2}
    assert cluster.found("b").meta.annotations[ESTIMATED_BY] == "engine-size"
    assert cluster.seen == []


@pytest.mark.slow
@both
async def test_a_process_may_die_before_and_after_every_effect(dialect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every effect of taking two, one of them as a person does in Longhorn, and of deleting both."""
    moment = 0
    while True:
        moment += 1
        monkeypatch.setattr(memory_api, "DELETED", timestamp(SystemClock().now()))
        cluster = FollowCluster(dialect=dialect)
        cluster.api.fuse.blows_at = moment
        cluster.take("a")
        await cluster.live(lambda cluster=cluster: cluster.is_taken("a"))  # type: ignore[misc]
        cluster.ask("b")
        await cluster.live(lambda cluster=cluster: cluster.ready("b"))  # type: ignore[misc]
        cluster.take("c")
        await cluster.live(lambda cluster=cluster: cluster.is_taken("c") and cluster.exact())  # type: ignore[misc]
        cluster.drop("a")
        cluster.delete("b")
        await cluster.live(
            lambda cluster=cluster: cluster.found("a") is None and cluster.gone("b") and cluster.exact()  # type: ignore[misc]
        )
        assert cluster.paying() == {"VolumeSnapshot c": 3}, cluster.api.fuse.log
        assert cluster.seen == [], cluster.api.fuse.log
        if cluster.api.fuse.passed < moment:
            return


async def test_a_record_that_is_retained_pays_in_the_place_of_its_snapshot() -> None:
    cluster = FollowCluster()
    cluster.snapshot_class("Retain")
    cluster.take("a")
    await cluster.live(lambda: cluster.is_taken("a") and cluster.exact())
    cluster.drop("a")
    await cluster.live(lambda: cluster.found("a") is None)
    assert cluster.paying() == {"VolumeSnapshotContent snapcontent-uid-a": 1}
    assert cluster.seen == []


async def test_what_the_system_has_taken_counts_as_soon_as_it_is_shown() -> None:
    cluster = FollowCluster()
    async with cluster.running():
        cluster.engines["vol"].take("rebuild", user=False, size=0)
        await holds(lambda: "Snapshot rebuild" in cluster.payers())
        cluster.ask("mine")
        await holds(lambda: cluster.ready("mine") and cluster.exact())
        cluster.delete("mine")
        cluster.engines["vol"].take("later", user=False, size=0)
        await holds(lambda: cluster.gone("mine") and cluster.exact())
    assert cluster.paying() == {"Snapshot later": 1}
    assert cluster.seen == []


async def test_what_was_there_before_is_stamped() -> None:
    cluster = FollowCluster(stamped=False)
    cluster.vm("db", "db")
    engine = cluster.engines["vol"]
    engine.take("old")
    engine.take("gone")
    engine.entries["gone"] = replace(engine.entries["gone"], removed=True)
    cluster.take("nightly")
    both = {"VolumeSnapshot nightly": 2, "Snapshot old": 1}  # with what is removed, and was not merged yet
    await cluster.live(lambda: cluster.is_taken("nightly") and cluster.paying() == both)
    assert "Snapshot gone" in cluster.payers()
    assert cluster.booked("db") == 3 * MIB


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"db": ["db"]}, {"web": ["db"]}, id="a disk that is plugged into another VM"),
        pytest.param({"db": ["db"]}, {"db": []}, id="a disk that is unplugged"),
        pytest.param({}, {"db": ["db"]}, id="a disk that is plugged in"),
        pytest.param({"db": ["db"]}, {"db": ["db"], "web": ["db"]}, id="a disk that two VMs share"),
    ],
)
async def test_the_accounts_of_vms_follow_the_disks_that_they_have(
    before: dict[str, list[str]], after: dict[str, list[str]]
) -> None:
    cluster = FollowCluster(machines=tuple(before))
    for name, claims in before.items():
        cluster.vm(name, *claims)
    cluster.take("a")
    cluster.ask("b")
    async with cluster.running():
        await holds(lambda: cluster.is_taken("a") and cluster.ready("b") and cluster.exact())
        for name in before.keys() - after.keys():
            cluster.vm(name)
        for name, claims in after.items():
            cluster.vm(name, *claims)
        wanted = {vm: 2 * MIB if "db" in after.get(vm, []) else 0 for vm in ("db", "web")}
        await holds(lambda: {vm: cluster.booked(vm) for vm in wanted} == wanted)
    assert cluster.exact()
    assert cluster.seen == []


async def test_a_vm_that_is_gone_takes_nothing() -> None:
    cluster = FollowCluster(machines=("db",))
    cluster.vm("db", "db")
    cluster.take("a")
    async with cluster.running():
        await holds(lambda: cluster.is_taken("a") and cluster.booked("db") == MIB)
        cluster.api.remove(VIRTUAL_MACHINES, "db", TEAM)
        await holds(lambda: cluster.booked("db") == 0)
    assert cluster.booked() == MIB


async def test_a_detached_volume_keeps_the_sizes_that_were_last_seen() -> None:
    cluster = FollowCluster()
    cluster.ask("a")
    async with cluster.running():
        await holds(lambda: cluster.ready("a") and cluster.exact())
        cluster.pinned.clear()
        cluster.attach()
        await holds(lambda: not cluster.engines["vol"].running)
        cluster.vm("db", "db")
        await holds(lambda: cluster.booked("db") == MIB)
    assert cluster.paying() == {"Snapshot a": 1}


async def test_snapshots_go_with_their_volume() -> None:
    cluster = FollowCluster()
    cluster.ask("a")
    async with cluster.running():
        await holds(lambda: cluster.ready("a") and cluster.exact())
        cluster.delete_volume()
        cluster.delete("a")
        await holds(lambda: cluster.body(ENGINE_SNAPSHOTS, "a") is None and cluster.body(VOLUMES, "vol") is None)


async def test_a_person_cannot_make_his_snapshot_small() -> None:
    """By writing a status, which says nothing: sizes come from the engine, and that it is cut from the record."""
    cluster = FollowCluster()
    cluster.take("a")
    async with cluster.running():
        await holds(lambda: cluster.is_taken("a") and cluster.exact())
        cluster.api.edit(cluster.dialect.snapshots, "a", TEAM, merge={"status": {"restoreSize": "0", "creationTime": None}})
        await holds(lambda: cluster.is_taken("a"))
    assert cluster.paying() == {"VolumeSnapshot a": 1}


async def test_nothing_is_written_when_nothing_happens() -> None:
    cluster = FollowCluster()
    cluster.take("a")
    cluster.ask("b")
    async with cluster.running():
        await holds(lambda: cluster.is_taken("a") and cluster.ready("b") and cluster.exact())
        await cluster.quiet()
        seen = cluster.api.version
        await cluster.quiet()
        assert cluster.api.version == seen


async def test_an_object_goes_although_nobody_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the slice was taken out: it has waited for long enough."""
    monkeypatch.setattr(memory_api, "DELETED", "2026-01-01T00:00:00Z")
    cluster = FollowCluster()
    monkeypatch.setattr(FollowCluster, "_controllers", EngineCluster._controllers)
    cluster.take("a")
    await cluster.live(lambda: cluster.is_taken("a"))
    cluster.engines["vol"].take("next")
    cluster.drop("a")
    await cluster.live(lambda: cluster.found("a") is None)
    assert STAMP not in str(cluster.api.bodies(cluster.dialect.snapshots))


async def test_a_record_that_goes_leaves_what_it_paid_for_to_the_snapshot_in_the_engine() -> None:
    cluster = FollowCluster()
    cluster.snapshot_class("Retain")
    cluster.take("a")
    await cluster.live(lambda: cluster.is_taken("a") and cluster.exact())
    cluster.drop("a")
    await cluster.live(lambda: cluster.found("a") is None)
    cluster.api.remove(cluster.dialect.records, "snapcontent-uid-a")
    await cluster.live(lambda: cluster.record("a") is None and cluster.paying() == {"Snapshot snapshot-uid-a": 1})
    cluster.engines["vol"].take("next", size=0)
    cluster.delete("snapshot-uid-a")
    await cluster.live(lambda: cluster.gone("snapshot-uid-a") and cluster.exact())
    assert cluster.paying() == {"Snapshot next": 1}
    assert cluster.seen == []


async def test_a_retained_record_that_is_deleted_with_its_data_frees_them() -> None:
    cluster = FollowCluster()
    cluster.snapshot_class("Retain")
    cluster.take("a")
    await cluster.live(lambda: cluster.is_taken("a") and cluster.exact())
    cluster.drop("a")
    await cluster.live(lambda: cluster.found("a") is None)
    cluster.api.edit(cluster.dialect.records, "snapcontent-uid-a", merge={"spec": {"deletionPolicy": "Delete"}})
    cluster.engines["vol"].take("next", size=0)
    cluster.api.remove(cluster.dialect.records, "snapcontent-uid-a")
    await cluster.live(lambda: cluster.record("a") is None and cluster.gone("snapshot-uid-a") and cluster.exact())
    assert cluster.paying() == {"Snapshot next": 1}
    assert cluster.seen == []
