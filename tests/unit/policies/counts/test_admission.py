"""Plain limits on the number of snapshots: what is admitted, and who tries to get round it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.policies.counts.scene import CountScene, counted
from tests.unit.space.scene import OURS, TEAM, backup_of, engine_snapshot, import_of, record_of, snapshot_of, unsplit
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.policies.counts.accounts import NAMESPACE_CELL, claim_cell, number_in
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import Dialect
from ullage.vms.api.backups import VM_BACKUPS

BOTH = pytest.mark.parametrize("dialect", [pytest.param(GA, id="GA"), pytest.param(PROTOTYPE, id="prototype")])
AnyDialect = Dialect[Any, Any]


@BOTH
@counted
async def test_as_many_as_the_limit_says_and_not_one_more(scene: CountScene, dialect: AnyDialect) -> None:
    scene.limit(snapshots=2)
    scene.claim("disk", head=1)
    async with scene.served():
        assert [(await scene.create(name, dialect=dialect)).code for name in ("a", "b", "c")] == [200, 200, 403]
        refused = await scene.create("d", dialect=dialect)
    assert unsplit(refused.message).startswith(
        "does not fit: snapshot-count/namespace snapshots: asked 1, …, limit 2, over by 1. Next: "
    )
    assert "-n team" in refused.message


@counted
async def test_the_other_api_is_no_way_round(scene: CountScene) -> None:
    scene.limit(snapshots=2, per_claim=2)
    scene.claim("disk", head=1)
    async with scene.served():
        assert (await scene.create("a")).allowed
        assert (await scene.create("a", dialect=PROTOTYPE)).allowed
        assert (await scene.create("b", dialect=PROTOTYPE)).code == 403
        assert (await scene.create("b")).code == 403


@counted
async def test_each_claim_has_a_limit_of_its_own_which_it_has_from_its_first_snapshot_on(scene: CountScene) -> None:
    scene.limit(per_claim=1)
    for claim in ("disk", "logs"):
        scene.claim(claim, head=1)
    async with scene.served():
        assert (await scene.create("a", "disk")).allowed
        assert (await scene.create("b", "logs")).allowed
        refused = await scene.create("c", "logs")
    assert "snapshot-count/claim/logs snapshots: asked 1" in refused.message


@counted
async def test_the_claim_is_told_first_and_then_the_namespace(scene: CountScene) -> None:
    scene.limit(snapshots=0, per_claim=0)
    scene.claim("disk", head=1)
    async with scene.served():
        refused = await scene.create("a")
    assert refused.message.startswith(
        "does not fit: snapshot-count/claim/disk snapshots: asked 1, used 0, reserved 0, limit 0, over by 1; "
        "snapshot-count/namespace snapshots: asked 1"
    )


@counted
async def test_what_goes_counts_until_it_is_gone(scene: CountScene) -> None:
    scene.limit(snapshots=1)
    scene.claim("disk", head=1)
    scene.snapshot("old")
    async with scene.served():
        await scene.server.delete(GA.snapshots, "old", TEAM)
        assert (await scene.create("new")).code == 403
        await asyncio.sleep(1)
        assert (await scene.create("new")).allowed


@counted
async def test_of_many_at_once_exactly_those_come_that_fit(scene: CountScene) -> None:
    scene.limit(snapshots=7, per_claim=5)
    for claim in ("disk", "logs"):
        scene.claim(claim, head=1)
    async with scene.served(replicas=2):
        answers = await asyncio.gather(*(scene.create(f"s-{n}", ("disk", "logs")[n % 2]) for n in range(60)))
    assert sum(one.allowed for one in answers) == 7
    assert {one.code for one in answers} == {200, 403}


@counted
async def test_a_create_that_its_space_refuses_takes_no_place(scene: CountScene) -> None:
    scene.limits(all=10)
    scene.limit(snapshots=1)
    scene.claim("large", head=11)
    scene.claim("small", head=1)
    async with scene.served():
        assert (await scene.create("a", "large")).code == 403
        assert (await scene.create("b", "small")).allowed


@counted
async def test_marks_that_a_tenant_forges_do_not_make_a_snapshot_count_less(scene: CountScene) -> None:
    scene.limit(snapshots=0)
    scene.claim("disk", head=1)
    forged = snapshot_of(GA, "a", "disk", takes="{}", charged_namespace="other", protected="true", cut="hold")
    forged["metadata"]["ownerReferences"] = [
        {"apiVersion": VM_BACKUPS.api_version, "kind": VM_BACKUPS.kind, "name": "b", "uid": "u", "controller": True}
    ]
    async with scene.served():
        assert (await scene.submit(GA.snapshots, forged)).code == 403


@counted
async def test_members_of_a_backup_count_although_the_backup_pays_for_their_space(scene: CountScene) -> None:
    scene.limits(all=1000)
    scene.limit(snapshots=1)
    scene.claim("disk", head=1)
    scene.vm("db", "disk")
    async with scene.served():
        assert (await scene.submit(VM_BACKUPS, backup_of("b", "db"))).allowed
        uid = scene.body(VM_BACKUPS, "b")["metadata"]["uid"]
        owner = {"apiVersion": VM_BACKUPS.api_version, "kind": VM_BACKUPS.kind, "name": "b", "uid": uid, "controller": True}
        member = snapshot_of(GA, "m", "disk")
        member["metadata"]["ownerReferences"] = [owner]
        assert (await scene.submit(GA.snapshots, member, user=OURS)).allowed
        assert scene.takes(GA.snapshots, "m") == {}
        member["metadata"]["name"] = "n"
        assert (await scene.submit(GA.snapshots, member, user=OURS)).code == 403


@BOTH
@counted
async def test_imported_ones_count_for_the_namespace_and_for_no_claim(scene: CountScene, dialect: AnyDialect) -> None:
    scene.limit(snapshots=1, per_claim=0)
    async with scene.served():
        assert (await scene.submit(dialect.snapshots, import_of(dialect, "a", "content"))).allowed
        assert (await scene.submit(dialect.snapshots, import_of(dialect, "b", "content"))).code == 403


@counted
async def test_engine_snapshots_count_that_somebody_asked_for_and_nobody_else_stands_for(scene: CountScene) -> None:
    scene.limit(snapshots=1)
    scene.claim("disk", head=1)
    async with scene.served():
        # One that a rebuild has made, and Longhorn shows.
        body = engine_snapshot("system", createSnapshot=False)
        assert (await scene.submit(ENGINE_SNAPSHOTS, body, user=OURS)).allowed
        assert (await scene.create("a")).allowed
        uid = scene.body(GA.snapshots, "a")["metadata"]["uid"]
        scene.store(GA.records, record_of(GA, uid, "a"))
        behind = engine_snapshot(f"snapshot-{uid}", createSnapshot=True)
        assert (await scene.submit(ENGINE_SNAPSHOTS, behind, user=OURS)).allowed, "the VolumeSnapshot counts"
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("mine", createSnapshot=True))).code == 403
        scene.remove(ENGINE_SNAPSHOTS, f"snapshot-{uid}", "longhorn-system")
        scene.remove(GA.snapshots, "a")
        await asyncio.sleep(1)
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("mine", createSnapshot=True))).allowed
        assert (await scene.create("b")).code == 403


@counted
async def test_claims_of_names_that_cannot_be_are_counted_under_short_ones(scene: CountScene) -> None:
    scene.limit(per_claim=1)
    long = "a" * 250
    async with scene.served():
        for name, claim in (("a", long), ("b", "A/../*"), ("c", "*")):
            assert (await scene.create(name, claim)).allowed
            assert (await scene.create(f"{name}-2", claim)).code == 403
            assert len(claim_cell(claim).account) < 100
        assert (await scene.create("d", "a" * 249)).allowed, "another claim"


@counted
async def test_a_limit_below_what_is_there_takes_nothing_away_and_admits_nothing(scene: CountScene) -> None:
    scene.claim("disk", head=1)
    for name in ("a", "b", "c"):
        scene.snapshot(name)
    scene.limit(snapshots=2)
    async with scene.served(leader=True):
        await asyncio.sleep(2)
        assert (await scene.create("d")).code == 403
        assert number_in(scene.book(), NAMESPACE_CELL) == 3
        assert (await scene.annotate(GA.snapshots, "a", protected="true")).allowed, "what is there may be changed"
    assert scene.names() == {"a", "b", "c"}
    assert not scene.server.deleted


@counted
async def test_a_backup_whose_members_would_not_all_fit_is_refused_before_the_first_is_made(scene: CountScene) -> None:
    for claim in ("disk", "logs"):
        scene.claim(claim, head=1)
    scene.vm("db", "disk", "logs")
    scene.snapshot("old", protected="true")
    scene.limit(snapshots=2)
    async with scene.served():
        refused = await scene.submit(VM_BACKUPS, backup_of("b", "db"))
        assert refused.code == 403
        assert "snapshot-count/namespace snapshots: asked 2" in refused.message
        assert "it is made of that many snapshots" in refused.message
        scene.limit(snapshots=2, oldest=True)
        await asyncio.sleep(1)
        refused = await scene.submit(VM_BACKUPS, backup_of("b", "db"))
        assert (refused.code, "1 is protected" in refused.message) == (403, True)
        scene.change(GA.snapshots, "old", metadata={"annotations": {"ullage.io/takes": "{}"}})
        await asyncio.sleep(2)
        assert (await scene.submit(VM_BACKUPS, backup_of("b", "db"))).allowed, "the oldest makes room for them"
    assert not scene.server.deleted, "when they come"
