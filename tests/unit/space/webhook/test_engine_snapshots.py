"""Snapshots inside engines: charged to the namespace of the claim behind the volume, unless a VolumeSnapshot pays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.space.scene import (
    ENGINE_NS,
    LONGHORN_USER,
    OURS,
    PERSON,
    TEAM,
    Json,
    Scene,
    engine_snapshot,
    record_of,
    simulated,
    snapshot_of,
    unsplit,
)
from ullage.engines.api import ENGINE_SNAPSHOTS
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import Dialect

FREE = "{}"


def takes(scene: Scene, name: str) -> Any:
    return scene.takes(ENGINE_SNAPSHOTS, name, ENGINE_NS)


@simulated
async def test_the_namespace_and_the_virtual_machine_of_the_claim_pay_and_not_longhorns(scene: Scene) -> None:
    scene.limits(all=8192, db=4096)
    scene.claim("disk", head=4096)
    scene.vm("db", "disk")
    async with scene.served():
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("a", createSnapshot=True))).allowed
        refused = await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("b", createSnapshot=True))
    assert takes(scene, "a") == {"namespace": "4Ki", "vm/db": "4Ki"}
    assert scene.marks(ENGINE_SNAPSHOTS, "a", ENGINE_NS)["charged-namespace"] == TEAM
    assert refused.code == 403
    assert unsplit(refused.message) == (
        "does not fit: snapshots/vm/db storage: asked 4Ki, …, limit 4Ki, over by 4Ki. Next: delete snapshots that are not "
        "needed any more (kubectl get volumesnapshots.snapshot.storage.k8s.io -n team), or have the limit raised"
    )


@simulated
async def test_that_one_is_to_be_taken_need_not_be_said(scene: Scene) -> None:
    """Another hook says it, before ours or after: both phases read it alike."""
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("a"))).allowed
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("b"))).code == 403


@simulated
async def test_a_volume_that_nobody_claims_is_in_no_ledger(scene: Scene) -> None:
    async with scene.served():
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("a", "nobodys", createSnapshot=True))).allowed
    assert scene.marks(ENGINE_SNAPSHOTS, "a", ENGINE_NS) == {}


@simulated
async def test_a_volume_that_the_cache_has_not_heard_of_is_asked_for(scene: Scene) -> None:
    async with scene.served():
        scene.server.watch_lag = lambda: 60.0
        scene.claim("disk", capacity="5Mi")
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("a", createSnapshot=True))).allowed
    assert takes(scene, "a") == {"namespace": "5Mi"}


@pytest.mark.parametrize("user", [pytest.param(OURS, id="ours"), pytest.param(LONGHORN_USER, id="Longhorn's own")])
@simulated
async def test_what_the_engine_has_already_counts_and_is_never_refused(scene: Scene, user: str) -> None:
    scene.limits(all=10)
    scene.claim("disk", head=10)
    scene.engine("pv-disk", 10, entries={"rebuild": 4096})
    async with scene.served():
        body = engine_snapshot("rebuild", createSnapshot=False)
        assert (await scene.submit(ENGINE_SNAPSHOTS, body, user=user)).allowed
        assert takes(scene, "rebuild") == {"namespace": "4Ki"}
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("a", createSnapshot=True))).code == 403, "and it counts"


@simulated
async def test_what_the_engine_has_already_is_not_refused_for_the_number_of_limits_either(scene: Scene) -> None:
    names = [f"vm-{number:02d}" for number in range(17)]
    scene.limits(vms=dict.fromkeys(names, 10))
    scene.claim("disk", head=10)
    for name in names:
        scene.vm(name, "disk")
    async with scene.served():
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("new", createSnapshot=True))).code == 403
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("rebuild", createSnapshot=False), user=OURS)).allowed
    assert len(takes(scene, "rebuild")) == 17, "the namespace and 16 of them"


@pytest.mark.parametrize(
    ("user", "create"),
    [
        pytest.param(PERSON, False, id="a person who says that it is there already"),
        pytest.param("system:serviceaccount:team:longhorn-service-account", False, id="a namesake of Longhorn's account"),
        pytest.param(LONGHORN_USER, True, id="Longhorn, for a person"),
        pytest.param(LONGHORN_USER, None, id="Longhorn, which does not say that it is there"),
        pytest.param(OURS, True, id="ours, for a person"),
    ],
)
@simulated
async def test_what_is_still_to_be_taken_is_refused_whoever_asks(scene: Scene, user: str, create: bool | None) -> None:
    scene.limits(all=10)
    scene.claim("disk", head=4096)
    async with scene.served():
        said: Json = {} if create is None else {"createSnapshot": create}
        refused = await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("a", **said), user=user)
    assert refused.code == 403


@pytest.mark.parametrize("dialect", [pytest.param(GA, id="GA"), pytest.param(PROTOTYPE, id="prototype")])
@pytest.mark.parametrize("user", [pytest.param(OURS, id="ours"), pytest.param(LONGHORN_USER, id="Longhorn's own")])
@simulated
async def test_one_payer_for_a_cut(scene: Scene, dialect: Dialect[Any, Any], user: str) -> None:
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(dialect.snapshots, snapshot_of(dialect, "a", "disk"))).allowed
        uid = scene.body(dialect.snapshots, "a")["metadata"]["uid"]
        scene.store(dialect.records, record_of(dialect, uid, "a"))
        assert (
            await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot(f"snapshot-{uid}", createSnapshot=True), user=user)
        ).allowed
    assert takes(scene, f"snapshot-{uid}") == {}
    assert scene.marks(ENGINE_SNAPSHOTS, f"snapshot-{uid}", ENGINE_NS)["charged-namespace"] == TEAM


@pytest.mark.parametrize("case", ["no record", "the record of another volume", "nobody pays any more", "another's record"])
@simulated
async def test_a_name_alone_pays_for_nothing(scene: Scene, case: str) -> None:
    scene.limits(all=10)
    scene.claim("disk", head=4096)
    scene.claim("small", head=1)
    async with scene.served():
        assert (await scene.submit(GA.snapshots, snapshot_of(GA, "a", "small"))).allowed
        uid = scene.body(GA.snapshots, "a")["metadata"]["uid"]
        record = record_of(GA, uid, "a", volume="pv-small" if case == "the record of another volume" else "pv-disk")
        if case == "another's record":
            record["spec"]["volumeSnapshotRef"]["uid"] = "another"
        if case != "no record":
            scene.store(GA.records, record)
        if case == "nobody pays any more":
            scene.remove(GA.snapshots, "a")
        refused = await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot(f"snapshot-{uid}", createSnapshot=True))
    assert refused.code == 403


@simulated
async def test_a_record_that_pays_in_place_of_its_snapshot_pays_for_it(scene: Scene) -> None:
    scene.claim("disk", head=4096)
    async with scene.served():
        booked = {"takes": '{"snapshots/namespace":{"storage":"4Ki"}}', "charged_namespace": TEAM}
        scene.store(GA.records, record_of(GA, "u9", "gone", cut=True, **booked))
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("snapshot-u9", createSnapshot=False), user=OURS)).allowed
    assert takes(scene, "snapshot-u9") == {}


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"takes": FREE}, id="pays nothing"),
        pytest.param({"charged_namespace": "other"}, id="has another namespace pay"),
        pytest.param({"charged_namespace": None, "takes": None}, id="drops the marks"),
    ],
)
@simulated
async def test_edits_are_put_back(scene: Scene, forged: dict[str, str | None]) -> None:
    scene.claim("disk", head=4096)
    async with scene.served():
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("a", createSnapshot=True))).allowed
        before = scene.marks(ENGINE_SNAPSHOTS, "a", ENGINE_NS)
        assert (await scene.annotate(ENGINE_SNAPSHOTS, "a", ENGINE_NS, user=LONGHORN_USER, **forged)).allowed
    assert scene.marks(ENGINE_SNAPSHOTS, "a", ENGINE_NS) == before


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        pytest.param({}, False, id="before the cut: refused"),
        pytest.param({"creationTime": "2026-01-01T00:00:00Z"}, True, id="after it: booked"),
    ],
)
@simulated
async def test_a_raise_past_the_limit(scene: Scene, status: dict[str, Any], allowed: bool) -> None:
    scene.limits(all=4096)
    scene.claim("disk", head=4096)
    more = '{"snapshots/namespace":{"storage":"9000"}}'
    async with scene.served():
        assert (await scene.submit(ENGINE_SNAPSHOTS, engine_snapshot("a", createSnapshot=True))).allowed
        scene.change(ENGINE_SNAPSHOTS, "a", ENGINE_NS, status=status)
        assert (await scene.annotate(ENGINE_SNAPSHOTS, "a", ENGINE_NS, user=OURS, takes=more)).allowed is allowed
