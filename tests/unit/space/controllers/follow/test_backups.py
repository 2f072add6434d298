"""A backup pays for its members as long as it is there, whatever becomes of their bytes; who is left behind pays himself."""

from __future__ import annotations

import pytest

from tests.unit.engines.world import holds
from tests.unit.snapshots import memory_api
from tests.unit.space.controllers.follow.cluster import TEAM, FollowCluster
from ullage.clock import SystemClock
from ullage.ledger.charging.release import pays
from ullage.ledger.charging.stamps import STAMP
from ullage.snapshots.api.ga.translation import GA
from ullage.times import timestamp
from ullage.vms.api.backups import VM_BACKUPS


@pytest.fixture(autouse=True)
def deleted_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_api, "DELETED", timestamp(SystemClock().now()))


async def backed_up() -> FollowCluster:
    """A snapshot that pays for itself, and after it one that a backup pays for."""
    cluster = FollowCluster()
    cluster.take("before")
    await cluster.live(lambda: cluster.is_taken("before") and cluster.exact())
    cluster.backup()
    cluster.take("member")
    cluster.own("member")
    await cluster.live(lambda: cluster.is_taken("member") and cluster.exact())
    assert cluster.paying() == {"VolumeSnapshot before": 1, "VirtualMachineBackup saved": 1}
    return cluster


async def test_what_is_merged_into_a_member_is_its_backups() -> None:
    cluster = await backed_up()
    cluster.drop("before")
    await cluster.live(lambda: cluster.found("before") is None and cluster.exact())
    assert cluster.paying() == {"VirtualMachineBackup saved": 2}
    assert cluster.seen == []


async def test_members_that_are_orphaned_are_booked_before_their_backup_pays_nothing() -> None:
    cluster = await backed_up()
    cluster.api.remove(VM_BACKUPS, "saved", TEAM)
    async with cluster.running():
        await cluster.quiet()
        assert cluster.paying()["VirtualMachineBackup saved"] == 1, "while they are its own"
        cluster.api.edit(GA.snapshots, "member", TEAM, merge={"metadata": {"ownerReferences": None}})
        await holds(lambda: cluster.paying() == {"VolumeSnapshot before": 1, "VolumeSnapshot member": 1})
    body = cluster.api.body(VM_BACKUPS, "saved", TEAM)
    assert body is not None
    assert body["metadata"]["annotations"][STAMP] == "{}", "so it may go"
    assert cluster.seen == []


async def test_a_backup_may_go_when_its_members_are_gone() -> None:
    cluster = await backed_up()
    cluster.api.remove(VM_BACKUPS, "saved", TEAM)
    cluster.drop("member")
    await cluster.live(lambda: cluster.found("member") is None and "VirtualMachineBackup saved" not in cluster.paying())
    assert cluster.paying() == {"VolumeSnapshot before": 1}
    assert cluster.seen == []


async def test_who_only_says_that_he_is_a_member_pays_himself() -> None:
    cluster = await backed_up()
    cluster.take("forged")
    cluster.own("forged", stamp=None)
    await cluster.live(lambda: cluster.is_taken("forged") and cluster.exact())
    cluster.own("before", stamp=None)
    async with cluster.running():
        await cluster.quiet()
    assert cluster.paying() == {"VolumeSnapshot before": 1, "VolumeSnapshot forged": 1, "VirtualMachineBackup saved": 1}


async def test_a_backup_that_is_being_made_keeps_what_was_booked() -> None:
    """Some of its members are not cut yet: what it takes is the business of whoever makes it."""
    cluster = FollowCluster()
    cluster.backup(amount=5 << 20)
    async with cluster.running():
        await cluster.quiet()
    assert cluster.paying() == {"VirtualMachineBackup saved": 5}


async def test_a_member_whose_backup_is_gone_pays() -> None:
    cluster = await backed_up()
    cluster.api.edit(VM_BACKUPS, "saved", TEAM, merge={"metadata": {"finalizers": None}})
    cluster.api.remove(VM_BACKUPS, "saved", TEAM)
    await cluster.live(cluster.exact)
    assert cluster.paying() == {"VolumeSnapshot before": 1, "VolumeSnapshot member": 1}
    assert pays(cluster.found("member").meta)
