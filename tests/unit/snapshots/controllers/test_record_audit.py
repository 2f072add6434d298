"""VolumeSnapshots whose snapshot in the engine goes, whatever took it away: they say so at once."""

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
NAME = "snapshot-uid-nightly"
SAID = "driver.longhorn.io does not have it any more, and nothing can be restored from it: delete it, and take another"
GOING = {"metadata": {"finalizers": None, "deletionTimestamp": "2026-01-01T00:05:00Z"}}


def is_lost(cluster: EngineCluster) -> bool:
    found = cluster.found()
    return found is not None and not found.state.ready and found.state.lost


def _prune(cluster: EngineCluster) -> None:
    cluster.delete(NAME)


def _delete_volume(cluster: EngineCluster) -> None:
    cluster.delete_volume()


def _forget(cluster: EngineCluster) -> None:
    cluster.forget(NAME)


def _forget_volume(cluster: EngineCluster) -> None:
    cluster.api.edit(VOLUMES, "vol", NS, merge=GOING)
    cluster.api.edit(ENGINE_SNAPSHOTS, NAME, NS, merge=GOING)  # as the garbage collector does


@both
@pytest.mark.parametrize(
    "takes_away",
    [
        pytest.param(_prune, id="pruned"),
        pytest.param(_delete_volume, id="gone with its volume"),
        pytest.param(_forget, id="taken away by force"),
        pytest.param(_forget_volume, id="gone with a volume that was taken away by force"),
    ],
)
async def test_a_volume_snapshot_says_at_once_that_it_is_lost(dialect: Dialect[Any, Any], takes_away: Any) -> None:
    cluster = EngineCluster(dialect=dialect, manages=False)
    async with cluster.running():
        cluster.take()
        await holds(cluster.is_taken)
        cut = cluster.found().state.cut
        takes_away(cluster)
        await holds(lambda: is_lost(cluster))
        found = cluster.found()
        assert found.state.problem is not None
        assert (found.state.problem.message, found.state.cut) == (SAID, cut)
        assert ("Warning", "SnapshotLost", SAID) in cluster.told.events
        assert cluster.record().lost
        assert not cluster.record().state.ready


@both
async def test_the_engine_lost_it(dialect: Dialect[Any, Any]) -> None:
    """Its object goes when two polls had no entry for it."""
    cluster = EngineCluster(dialect=dialect)
    async with cluster.running():
        cluster.take()
        await holds(cluster.is_taken)
        cluster.engines["vol"].empty()
        await holds(lambda: is_lost(cluster))
        await holds(lambda: cluster.holders() == ([], []))


@both
async def test_what_was_lost_while_nobody_looked_shows_when_somebody_does(dialect: Dialect[Any, Any]) -> None:
    cluster = EngineCluster(dialect=dialect)
    cluster.take()
    await cluster.live(cluster.is_taken)
    _forget(cluster)
    await cluster.live(lambda: is_lost(cluster))


async def test_no_other_snapshot_is_taken_in_its_place() -> None:
    cluster = EngineCluster(manages=False)
    async with cluster.running():
        cluster.take()
        await holds(cluster.is_taken)
        taken = list(cluster.engines["vol"].taken)
        cluster.engines["vol"].empty()
        await holds(lambda: is_lost(cluster))
        cluster.take("next")  # whatever the record's controller does about the lost one, it has done by then
        await holds(lambda: cluster.is_taken("next"))
        assert cluster.engines["vol"].taken == [*taken, "snapshot-uid-next"]
        assert is_lost(cluster)


async def test_the_same_snapshot_may_come_back_and_another_of_its_name_does_not_count() -> None:
    """An API server that was restored from a backup has it again; a person may take another under the old name."""
    cluster = EngineCluster(manages=False)
    cluster.take()
    await cluster.live(cluster.is_taken)
    body = cluster.body(ENGINE_SNAPSHOTS, NAME)
    assert body is not None
    cluster.pinned.clear()  # nobody looks at the engine any more, so what stands in the API stays
    cluster.attach()
    _forget(cluster)
    await cluster.live(lambda: is_lost(cluster))
    cluster.api.put(ENGINE_SNAPSHOTS, {**body, "status": {**body["status"], "creationTime": "2026-01-02T00:00:05Z"}})
    async with cluster.running():
        await holds(lambda: "snapcontent-uid-nightly" in cluster.added["record-audit"])
        await cluster.controllers["record-audit"].queue.drained()
        assert is_lost(cluster)
        _forget(cluster)
        cluster.api.put(ENGINE_SNAPSHOTS, body)
        await holds(cluster.is_taken)
        assert cluster.found().state.problem is None


async def test_a_volume_snapshot_that_is_deleted_is_not_lost() -> None:
    cluster = EngineCluster()
    async with cluster.running():
        cluster.take()
        await holds(cluster.is_taken)
        cluster.drop()
        await holds(lambda: cluster.found() is None)
        assert "SnapshotLost" not in cluster.told.reasons
