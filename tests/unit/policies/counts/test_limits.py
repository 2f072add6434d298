"""SnapshotLimits: how they come into the ledger, what their status says, and what several of them say together."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.policies.counts.scene import CountScene, counted
from tests.unit.space.scene import TEAM, made
from ullage.kube.cache.indexer import Key
from ullage.kube.objects import find_condition
from ullage.ledger.api import LEDGERS, NAMESPACE
from ullage.policies.counts.accounts import CountLimits, together
from ullage.policies.counts.api import READY, SNAPSHOT_LIMITS, WITHIN_LIMITS, SnapshotLimit, SnapshotLimitSpec
from ullage.policies.counts.slice import counts
from ullage.snapshots.api.ga.translation import GA

LEDGER_KEY = Key(NAMESPACE, f"ns-{TEAM}")


def limit(**spec: int | bool) -> SnapshotLimit:
    return SnapshotLimit(spec=SnapshotLimitSpec(**spec))  # type: ignore[arg-type]  # of both types


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        pytest.param([], CountLimits(), id="none says nothing"),
        pytest.param([limit(snapshots=0)], CountLimits(0), id="zero is a limit"),
        pytest.param([limit(snapshots=5), limit(snapshots=3)], CountLimits(3), id="the smaller one holds"),
        pytest.param([limit(snapshots=5), limit(snapshots_per_claim=2)], CountLimits(5, 2), id="of each the smallest"),
        pytest.param(
            [limit(snapshots=5, delete_oldest=True), limit(snapshots=9)], CountLimits(5), id="one that does not delete is heard"
        ),
        pytest.param([limit(snapshots=5, delete_oldest=True)], CountLimits(5, None, True), id="all that there are delete"),
    ],
)
def test_what_several_limits_say_together(limits: list[SnapshotLimit], said: CountLimits) -> None:
    assert together(limits) == said


def put(scene: CountScene, name: str = "limit", **spec: int) -> None:
    """Without its ledger: that is the controller's to make."""
    meta = {"name": name, "namespace": TEAM, "uid": f"uid-{name}", "generation": 1}
    scene.server.put(SNAPSHOT_LIMITS, made(SNAPSHOT_LIMITS, {"metadata": meta, "spec": spec}))


def status(scene: CountScene, name: str = "limit") -> SnapshotLimit:
    found = scene.server.get(SNAPSHOT_LIMITS, Key(TEAM, name))
    assert isinstance(found, SnapshotLimit)
    return found


@counted
async def test_the_first_limit_makes_the_ledger_and_the_last_one_leaves_it(scene: CountScene) -> None:
    scene.claim("disk", head=1)
    scene.snapshot("a")
    put(scene, snapshots=3, snapshotsPerClaim=2)
    async with scene.served(leader=True):
        await asyncio.sleep(1)
        ledger = scene.server.get(LEDGERS, LEDGER_KEY)
        assert ledger.spec.limits == {
            "snapshot-count/namespace": {"snapshots": "3"},
            "snapshot-count/claim/*": {"snapshots": "2"},
        }
        put(scene, "other", snapshots=1)
        await asyncio.sleep(1)
        assert scene.server.get(LEDGERS, LEDGER_KEY).spec.limits["snapshot-count/namespace"] == {"snapshots": "1"}
        for name in ("limit", "other"):
            scene.server.drop(SNAPSHOT_LIMITS, Key(TEAM, name))
        await asyncio.sleep(1)
        assert scene.server.get(LEDGERS, LEDGER_KEY).spec.limits == {}


@counted
async def test_limits_on_space_stay_as_they_are(scene: CountScene) -> None:
    scene.limits(all=100)
    put(scene, snapshots=3)
    async with scene.served(leader=True):
        await asyncio.sleep(1)
        assert set(scene.server.get(LEDGERS, LEDGER_KEY).spec.limits) == {"snapshots/namespace", "snapshot-count/namespace"}


@counted
async def test_a_status_has_the_count_the_fullest_claims_and_whether_it_is_exact(scene: CountScene) -> None:
    for claim in ("disk", "logs"):
        scene.claim(claim, head=1)
    for name, claim in (("a", "disk"), ("b", "disk"), ("c", "logs")):
        scene.snapshot(name, claim)
    put(scene, snapshots=3)
    async with scene.served(leader=True):
        await asyncio.sleep(5)
        early = find_condition(status(scene).status.conditions, READY)
        assert early is not None
        assert (early.status, early.reason) == ("False", "Counted")
        await asyncio.sleep(120)
        found = status(scene).status
        assert (found.used, found.limit, found.per_claim) == (3, 3, None)
        assert [(one.claim, one.used) for one in found.claims] == [("disk", 2), ("logs", 1)]
        ready, within = (find_condition(found.conditions, type) for type in (READY, WITHIN_LIMITS))
        assert ready is not None
        assert (ready.status, ready.message) == ("True", "in force: 3 snapshots in the namespace")
        assert within is not None
        assert (within.status, within.message) == ("True", "the namespace has 3 snapshots of 3")


@counted
async def test_a_limit_that_is_passed_says_so_with_numbers_until_it_is_kept_again(scene: CountScene) -> None:
    scene.claim("disk", head=1)
    for name in ("a", "b", "c"):
        scene.snapshot(name)
    put(scene, snapshots=2, snapshotsPerClaim=1)
    async with scene.served(leader=True):
        await asyncio.sleep(5)
        within = find_condition(status(scene).status.conditions, WITHIN_LIMITS)
        assert within is not None
        assert (within.status, within.reason) == ("False", "LimitPassed")
        assert within.message == (
            "namespace team has 3 snapshots, 1 more than 2; claim disk has 3 snapshots, more than 1; nothing is deleted for"
            " that, and no new one is admitted; see `kubectl get snapshotlimits -n team`"
        )
        for name in ("a", "b"):
            scene.remove(GA.snapshots, name)
        await asyncio.sleep(5)
        within = find_condition(status(scene).status.conditions, WITHIN_LIMITS)
        assert within is not None
        assert within.status == "True"


@counted
async def test_a_quiet_namespace_is_written_no_more(scene: CountScene) -> None:
    scene.snapshot("a")
    put(scene, snapshots=2)
    async with scene.served(leader=True):
        await asyncio.sleep(120)
        before = len(scene.server.calls)
        await asyncio.sleep(600)
        assert [call for call in scene.server.calls[before:] if not call.startswith("GET")] == []


def test_who_has_a_namespace_sees_its_limits_and_does_not_write_them() -> None:
    found = counts()
    assert {verb for one in found.grants for verb in one.verbs} == {"get", "list", "watch"}
    assert {role for one in found.grants for role in one.roles} == {"view"}
    assert [one.name for one in found.user_roles] == ["ullage-snapshotlimits-admin"]
