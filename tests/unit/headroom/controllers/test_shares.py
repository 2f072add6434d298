"""From annotations of Namespaces to limits in ledgers, and from ledgers to `exceedsQuota`, as things change."""

from __future__ import annotations

import msgspec

from tests.unit.headroom.controllers.scene import TEAM, ShareScene, simulated
from ullage.headroom.accounts import MAINTENANCE, VMS
from ullage.headroom.namespaces import EXCEEDS
from ullage.headroom.shares import MAINTENANCE_AVAILABLE, MAINTENANCE_QUOTA, RESOURCE_QUOTA, VM_AVAILABLE
from ullage.kube.builtin.core import NAMESPACES
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE


def quota(**limit: str) -> dict[str, str]:
    return {RESOURCE_QUOTA: msgspec.json.encode({"limit": limit}).decode()}


def kept(**limit: int) -> dict[str, str]:
    return {MAINTENANCE_QUOTA: msgspec.json.encode({"limit": limit}).decode()}


BOTH = quota(limitsCpu="4000m", limitsMemory="5120Mi")
HALF = kept(limitsCpuPercent=50, limitsMemoryPercent=50)
HALVES = {VMS: {"cpu": "2", "memory": "2560Mi"}, MAINTENANCE: {"cpu": "2", "memory": "2560Mi"}}
FULL = {VMS: {"cpu": "2", "memory": "2444Mi"}}
OVER = {VMS: {"cpu": "3", "memory": "2561Mi"}}


# --- limits ----------------------------------------------------------------------------------------------------------


@simulated
async def test_a_ledger_has_the_shares_of_its_namespace_as_they_change(scene: ShareScene) -> None:
    async with scene.running():
        scene.namespace(BOTH | HALF)
        await scene.until(lambda: scene.limits() == HALVES)
        scene.annotate(kept(limitsCpuPercent=25))
        await scene.until(lambda: scene.limits() == {VMS: {"cpu": "3"}, MAINTENANCE: {"cpu": "1"}})
        scene.annotate(kept(limitsCpuPercent=100))
        await scene.until(lambda: scene.limits() == {VMS: {"cpu": "0"}, MAINTENANCE: {"cpu": "4"}})
        scene.annotate({MAINTENANCE_QUOTA: None})
        await scene.until(lambda: scene.limits() == {})


@simulated
async def test_a_namespace_that_keeps_nothing_has_no_ledger_and_is_not_written(scene: ShareScene) -> None:
    scene.namespace(BOTH)
    async with scene.running():
        await scene.quiet()
    assert scene.ledger() is None
    assert scene.api.patches == []


@simulated
async def test_what_no_webhook_has_written_is_written_once(scene: ShareScene) -> None:
    scene.namespace(BOTH | HALF)
    async with scene.running():
        await scene.until(lambda: scene.label() == "on")
        await scene.quiet()
        assert scene.annotations()[VM_AVAILABLE] == '{"limit":{"limitsCpu":2000,"limitsMemory":2684354560}}'
        assert scene.annotations()[MAINTENANCE_AVAILABLE] == scene.annotations()[VM_AVAILABLE]
        assert scene.api.patches.count(f"namespaces {TEAM}") == 1
        scene.annotate({MAINTENANCE_QUOTA: None})
        await scene.until(lambda: not scene.label())
        assert scene.annotations() == BOTH


@simulated
async def test_other_limits_of_the_ledger_stay_and_ours_come_back(scene: ShareScene) -> None:
    body = {"metadata": {"name": f"ns-{TEAM}", "namespace": LEDGER_NAMESPACE}}
    scene.api.put(LEDGERS, body | {"spec": {"change": 4, "limits": {"snapshots/namespace": {"storage": "1Gi"}}}})
    scene.namespace(BOTH | HALF)
    async with scene.running():
        await scene.until(lambda: scene.limits() == {"snapshots/namespace": {"storage": "1Gi"}, **HALVES})
        more = {"change": 99, "limits": {VMS: {"cpu": "999"}}}
        scene.api.edit(LEDGERS, f"ns-{TEAM}", LEDGER_NAMESPACE, merge={"spec": more})
        await scene.until(lambda: (scene.limits() or {})[VMS]["cpu"] == "2")


@simulated
async def test_what_cannot_be_read_changes_nothing_and_is_told(scene: ShareScene) -> None:
    scene.namespace(BOTH | HALF)
    async with scene.running():
        await scene.until(lambda: scene.limits() == HALVES)
        scene.annotate({MAINTENANCE_QUOTA: "{"})
        await scene.quiet()
        assert scene.limits() == HALVES
        assert scene.label() == "on"
    assert scene.told.reasons == ["InvalidQuota"]
    assert "metadata.annotations[harvesterhci.io/maintenanceQuota]: '{' is not JSON" in scene.told.events[0][2]


@simulated
async def test_some_namespaces_are_never_limited(scene: ShareScene) -> None:
    for name in ("kube-system", "ullage-system"):
        scene.namespace(BOTH | HALF, name=name)
    scene.namespace(BOTH | HALF, deletionTimestamp="2026-05-01T12:00:00Z")
    async with scene.running():
        await scene.quiet()
    assert [scene.ledger(name) for name in ("kube-system", "ullage-system", TEAM)] == [None] * 3
    assert scene.api.patches == []


# --- exceedsQuota ----------------------------------------------------------------------------------------------------


@simulated
async def test_a_namespace_that_runs_more_than_its_share_says_so_until_it_does_not(scene: ShareScene) -> None:
    scene.namespace(BOTH | HALF)
    async with scene.running():
        await scene.until(lambda: scene.limits() == HALVES)
        scene.count(FULL)
        await scene.quiet()
        assert not scene.exceeded()
        scene.count(OVER)
        await scene.until(scene.exceeded)
        scene.count(FULL)
        await scene.until(lambda: not scene.exceeded())
        await scene.quiet()
    assert scene.told.events == [
        (
            "Warning",
            "QuotaExceeded",
            "What runs takes 3 cores of cpu, 1 core more than the share of 2 cores; 2.51Gi of memory, 1Mi more than the share"
            " of 2.5Gi. Nothing is stopped; until it fits, VMs are not created or changed but to stop or to shrink.",
        ),
        ("Normal", "WithinQuota", f"What runs in namespace {TEAM} fits its share again: VMs may be created and changed."),
    ]


@simulated
async def test_what_is_over_for_a_moment_is_not_said(scene: ShareScene) -> None:
    scene.namespace(BOTH | HALF)
    async with scene.running():
        await scene.until(lambda: scene.limits() == HALVES)
        for _ in range(5):
            scene.count(OVER)
            await scene.quiet(1.5)
            scene.count(FULL)
            await scene.quiet(0.5)
        await scene.quiet()
    assert EXCEEDS not in scene.annotations()
    assert scene.told.events == []


@simulated
async def test_what_is_counted_is_said_before_the_ledger_is_exact(scene: ShareScene) -> None:
    """What was admitted before the limit may still arrive; what is there is there."""
    scene.namespace(BOTH | HALF)
    async with scene.running():
        await scene.until(lambda: scene.limits() == HALVES)
        scene.count(OVER, exact=False)
        await scene.until(scene.exceeded)
        scene.count(FULL, exact=False)
        await scene.until(lambda: not scene.exceeded())


@simulated
async def test_a_ledger_that_is_not_counted_changes_nothing(scene: ShareScene) -> None:
    scene.namespace(BOTH | HALF)
    async with scene.running():
        await scene.until(lambda: scene.limits() == HALVES)
        scene.count(OVER, exact=False, needed={"others.example.com"})
        await scene.quiet()
        assert not scene.exceeded()


@simulated
async def test_too_many_migrations_are_not_what_it_is_about(scene: ShareScene) -> None:
    scene.namespace(BOTH | HALF)
    async with scene.running():
        await scene.until(lambda: scene.limits() == HALVES)
        scene.count({MAINTENANCE: {"cpu": "9"}})
        await scene.quiet()
    assert not scene.exceeded()


@simulated
async def test_what_somebody_wrote_while_no_webhook_was_there_is_put_right(scene: ShareScene) -> None:
    scene.namespace(BOTH | HALF | {EXCEEDS: "true"})
    async with scene.running():
        await scene.until(lambda: scene.limits() == HALVES)
        scene.count(FULL)
        await scene.until(lambda: EXCEEDS not in scene.annotations())


@simulated
async def test_a_ledger_that_is_written_all_the_time_is_read_once_a_second(
    scene: ShareScene,
) -> None:
    scene.namespace(BOTH | HALF)
    async with scene.running():
        await scene.until(lambda: scene.limits() == HALVES)
        await scene.quiet()
        scene.looks.clear()
        for number in range(1000):
            scene.count({VMS: {"cpu": "2", "memory": str(number + 1)}})
            await scene.quiet(0.01)
        await scene.quiet()
    assert 8 <= len(scene.looks) <= 13


@simulated
async def test_metrics_tell_which_namespaces_run_more_than_their_share(scene: ShareScene) -> None:
    scene.namespace(BOTH | HALF)
    scene.namespace(BOTH, name="other")
    async with scene.running():
        await scene.until(lambda: scene.limits() == HALVES)
        scene.count(OVER)
        await scene.until(scene.exceeded)
        await scene.quiet()
        assert scene.samples() == {
            ("ullage_headroom_namespaces", ""): 1,
            ("ullage_headroom_exceeded", TEAM): 1,
            ("ullage_headroom_exceeds_changes_total", "exceeded"): 1,
        }
        scene.api.remove(NAMESPACES, TEAM)
        await scene.quiet()
    assert ("ullage_headroom_exceeded", TEAM) not in scene.samples()
