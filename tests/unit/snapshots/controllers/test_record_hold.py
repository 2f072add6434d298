"""Holds on Snapshots and Volumes, from the moment a VolumeSnapshot is asked for until the last record is gone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.engines.world import NS, holds
from tests.unit.snapshots.engine_cluster import EngineCluster
from ullage.engines.api import ENGINE_SNAPSHOTS, VOLUMES
from ullage.snapshots.api.ga.translation import GA
from ullage.snapshots.api.prototype.translation import PROTOTYPE
from ullage.snapshots.model import Dialect

both = pytest.mark.parametrize("dialect", [GA, PROTOTYPE], ids=lambda one: str(one.name))
HELD = (["VolumeSnapshot team/nightly"], ["VolumeSnapshot team/nightly"])


@both
async def test_a_snapshot_and_its_volume_are_held_as_long_as_the_volume_snapshot_is_there(dialect: Dialect[Any, Any]) -> None:
    cluster = EngineCluster(dialect=dialect)
    async with cluster.running():
        cluster.take()
        await holds(cluster.is_taken)
        assert cluster.holders() == HELD
        record = cluster.record()
        kept = f"{dialect.records.kind}/{record.meta.name}"
        assert [(one.id, one.kept_by) for one in cluster.holds_on(VOLUMES, "vol")] == [(record.meta.uid, kept)]
        cluster.take("weekly")
        await holds(lambda: cluster.is_taken("weekly"))
        assert len(cluster.holds_on(VOLUMES, "vol")) == 2
        cluster.drop()
        await holds(lambda: cluster.holders()[1] == ["VolumeSnapshot team/weekly"])
        cluster.drop("weekly")
        await holds(lambda: cluster.holders()[1] == [])


async def test_the_volume_is_held_before_there_is_a_snapshot_in_it() -> None:
    """Once the record has a handle its claim is let go of: nothing but the hold keeps the volume from then on."""
    cluster = EngineCluster()
    cluster.take()
    await cluster.live(cluster.is_taken)
    log = cluster.api.fuse.log
    asked = log.index("create snapshots.longhorn.io snapshot-uid-nightly")
    assert "patch volumes.longhorn.io vol" in log[:asked], log
    body = cluster.body(ENGINE_SNAPSHOTS, "snapshot-uid-nightly")
    assert body is not None
    assert any(key.startswith("hold.ullage.io/") for key in body["metadata"]["annotations"])


async def test_a_retained_record_holds_after_its_volume_snapshot_is_gone() -> None:
    cluster = EngineCluster()
    cluster.snapshot_class("Retain")
    async with cluster.running():
        cluster.take()
        await holds(cluster.is_taken)
        cluster.drop()
        await holds(lambda: cluster.found() is None)
        assert cluster.holders() == HELD
        cluster.api.remove(GA.records, cluster.record().meta.name)
        await holds(lambda: cluster.holders() == ([], []))
        assert cluster.ready("snapshot-uid-nightly")


@pytest.mark.slow
@both
async def test_a_process_may_die_before_and_after_every_effect(dialect: Dialect[Any, Any]) -> None:
    moment = 0
    while True:
        moment += 1
        cluster = EngineCluster(dialect=dialect)
        cluster.api.fuse.blows_at = moment
        cluster.take()
        await cluster.live(lambda cluster=cluster: cluster.is_taken() and cluster.holders() == HELD)  # type: ignore[misc]
        cluster.drop()
        await cluster.live(lambda cluster=cluster: cluster.found() is None and not cluster.holders()[1])  # type: ignore[misc]
        if cluster.api.fuse.passed < moment:
            return


async def test_what_was_there_before_there_were_holds_gets_one_and_what_no_record_needs_loses_it() -> None:
    cluster = EngineCluster(manages=False)
    cluster.take()
    await cluster.live(cluster.is_taken)
    assert cluster.holders() == ([], [])
    stale = '{"kind":"VolumeSnapshot","namespace":"team","name":"old","keptBy":"VolumeSnapshotContent/snapcontent-old"}'
    kept = {"hold.ullage.io/uid-old": stale, "hold.ullage.io/audit": "until the lawyers are done"}
    cluster.api.edit(VOLUMES, "vol", NS, merge={"metadata": {"annotations": kept}})
    cluster.manages = True
    persons = "hold.ullage.io/audit: until the lawyers are done"
    await cluster.live(lambda: cluster.holders() == (HELD[0], [persons, *HELD[1]]))


async def test_a_volume_is_not_held_for_a_snapshot_that_is_lost() -> None:
    cluster = EngineCluster()
    async with cluster.running():
        cluster.take()
        await holds(cluster.is_taken)
        cluster.forget()
        await holds(lambda: cluster.holders() == ([], []))


async def test_snapshots_of_a_volume_that_went_all_the_same_are_let_go_of() -> None:
    """Whoever deletes them then, the garbage collector for one, is not one of ours."""
    cluster = EngineCluster()
    cluster.take()
    await cluster.live(cluster.is_taken)
    cluster.api.edit(VOLUMES, "vol", NS, merge={"metadata": {"finalizers": None, "deletionTimestamp": "2026-01-01T00:05:00Z"}})
    await cluster.live(lambda: cluster.holders() == ([], []))


async def test_a_hold_that_somebody_took_off_comes_back() -> None:
    cluster = EngineCluster()
    async with cluster.running():
        cluster.take()
        await holds(cluster.is_taken)
        for kind, name in ((VOLUMES, "vol"), (ENGINE_SNAPSHOTS, "snapshot-uid-nightly")):
            cluster.api.edit(kind, name, NS, merge={"metadata": {"annotations": None}})
        await holds(lambda: cluster.holders() == HELD)
